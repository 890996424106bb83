"""The attack on Thalweg's claims: families of problems whose truth is computed independently.

Each module has one family, a function of a random seed that yields rows; ``FAMILIES`` has them by name.
"""

from __future__ import annotations

from typing import Callable, Dict, Iterator

from ._judge import Row
from .bounds import bounds
from .derivatives import derivatives
from .equalities import equalities
from .infeasibility import infeasibility
from .ordinary import ordinary
from .reference_values import reference_values
from .rounding import rounding
from .units import units

#: Families by name: functions of the random seed and of whether the run is quick.
FAMILIES: Dict[str, Callable[[int, bool], Iterator[Row]]] = {
    "reference-values": reference_values,
    "infeasibility": infeasibility,
    "rounding": rounding,
    "units": units,
    "bounds": bounds,
    "derivatives": derivatives,
    "equalities": equalities,
    "ordinary": ordinary,
}
