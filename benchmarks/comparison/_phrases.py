"""Formatting of numbers and names in the sentences of several tasks."""

from __future__ import annotations

from typing import Iterable, Tuple

#: Meaning of nlopt's positive return codes.
_NLOPT = {1: "success", 2: "stopval reached", 3: "ftol reached", 4: "xtol reached", 5: "maxeval reached", 6: "maxtime reached"}


def listed(names: Iterable[str]) -> str:
    """Join names with commas and "and".

    >>> listed(["a", "b", "c"]), listed(["a"]), listed([])
    ('a, b and c', 'a', '')
    """
    items = list(names)
    return f"{', '.join(items[:-1])} and {items[-1]}" if len(items) > 1 else "".join(items)


def share(value: float) -> str:
    """Format a small fraction as a percentage.

    >>> share(0.0123), share(1e-7)
    ('1.23%', 'less than 0.005%')
    """
    return f"{value:.2%}" if abs(value) >= 5e-5 else "less than 0.005%"


def times(more: float, less: float) -> str:
    """Format the ratio of two numbers.

    >>> times(25.0, 0.5), times(3.0, 2.0)
    ('50', '1.5')
    """
    ratio = more / less
    return f"{ratio:.0f}" if ratio >= 10.0 else f"{ratio:.1f}"


def nlopt_status(code: int) -> Tuple[bool, str]:
    """Return whether nlopt claims success, and its status in words.

    >>> nlopt_status(4), nlopt_status(6), nlopt_status(-1)
    ((True, 'xtol reached'), (False, 'maxtime reached'), (False, 'code -1'))
    """
    return 0 < code < 5, _NLOPT.get(code, f"code {code}")
