"""Bounds and pairs: infinite sides that no point satisfies, and constraints that contradict each other in small units."""

from __future__ import annotations

from typing import Any, Dict, Iterator

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, NonlinearConstraint
from thalweg import blackbox

from ._judge import Row, no_claim
from ._run import Truth, attempt, claims, minimize

#: Nothing is feasible, and every point violates the constraints by at least one unit.
_NOTHING = Truth(lambda x: 1.0, exists=False)


def bounds(seed: int, quick: bool) -> Iterator[Row]:
    """State constraints without any feasible point."""
    square: Dict[str, Any] = {"fun": lambda x: float(x @ x), "jac": lambda x: 2.0 * x}
    for side in (np.inf, -np.inf):
        for start in (0.0, 1.0):
            yield from _infinite(side, start, square)
    for unit in (1e-7, 1.0) if quick else (1e-9, 1e-8, 1e-7, 1e-6, 1e-4, 1.0, 1e4):
        pair = [LinearConstraint([[unit]], unit, np.inf), LinearConstraint([[-unit]], unit, np.inf)]
        for start in (0.0, 0.5):
            for rho in (None, 0.0):
                name = f"{unit:g} x >= {unit:g} and -{unit:g} x >= {unit:g} from {start}, rho={rho}"
                yield from minimize(name, _NOTHING, x0=[start], constraints=pair, rho=rho, **square)
    for draw in range(3 if quick else 30):
        yield from _pair(seed, draw, square)


def _infinite(side: float, start: float, square: dict) -> Iterator[Row]:
    """State ``side <= A x <= side`` with an infinite side in every form."""
    row = np.array([[1.0, 2.0]])
    forms = {
        "LinearConstraint": LinearConstraint(row, side, side),
        "NonlinearConstraint": NonlinearConstraint(lambda x: row @ x, side, side, jac=lambda x: row),
        "one of two rows": LinearConstraint([[1.0, 2.0], [1.0, 0.0]], [-np.inf, side], [4.0, side]),
    }
    for form, constraint in forms.items():
        yield from minimize(
            f"{form} with both sides {side} from {start}", _NOTHING, x0=[start, start], constraints=constraint, **square
        )
    box = Bounds([side, -1.0], [side, 1.0])
    yield from minimize(f"Bounds with both sides {side} from {start}", _NOTHING, x0=[start, start], bounds=box, **square)
    name = f"blackbox with both sides {side} from {start}"
    found = attempt(
        blackbox.minimize,
        square["fun"],
        [start, start],
        constraints=LinearConstraint(row, side, side),
        method="dszog",
        options={"maxiter": 50},
    )
    if isinstance(found, Exception):
        yield no_claim(name, "feasible", found)
    else:
        yield from claims(name, _NOTHING, found)


def _pair(seed: int, draw: int, square: dict) -> Iterator[Row]:
    """Draw two half-spaces or two discs that are at least one natural unit apart, in random units."""
    rng = np.random.default_rng([seed, draw])
    n = int(rng.integers(1, 5))
    unit = 10.0 ** rng.uniform(-9, 3)
    normal = rng.normal(size=n)
    normal /= np.linalg.norm(normal)
    if draw % 2 == 0:
        violation = lambda x: float(max(1.0 - normal @ x, normal @ x + 1.0))
        constraint: list = [
            LinearConstraint(unit * normal[None, :], unit, np.inf),
            LinearConstraint(unit * normal[None, :], -np.inf, -unit),
        ]
    else:
        centres = np.array([2.0 * normal, -2.0 * normal])
        both = lambda x: ((x - centres) ** 2).sum(axis=1) - 1.0
        violation = lambda x: float(both(x).max())
        jac = lambda x: 2.0 * unit * (x - centres)
        constraint = [NonlinearConstraint(lambda x: unit * both(x), -np.inf, 0.0, jac=jac)]
    shape = "half-spaces" if draw % 2 == 0 else "discs"
    name = f"disjoint {shape} in units of {unit:.1e} (seed {seed}, draw {draw})"
    yield from minimize(
        name,
        Truth(violation, exists=False),
        x0=rng.normal(size=n),
        constraints=constraint,
        rho=(None, 0.0)[draw % 3 == 0],
        **square,
    )
