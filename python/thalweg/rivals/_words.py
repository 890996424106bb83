"""Small pieces of prose that several jobs make from their numbers. No number is computed here that is not given."""

from __future__ import annotations

from typing import Iterable, Tuple

#: What the codes of nlopt mean.
_NLOPT = {1: "success", 2: "stopval reached", 3: "ftol reached", 4: "xtol reached", 5: "maxeval reached", 6: "maxtime reached"}


def listed(names: Iterable[str]) -> str:
    """Names with commas and an "and".

    >>> listed(["a", "b", "c"]), listed(["a"]), listed([])
    ('a, b and c', 'a', '')
    """
    kept = list(names)
    return f"{', '.join(kept[:-1])} and {kept[-1]}" if len(kept) > 1 else "".join(kept)


def share(value: float) -> str:
    """A small share.

    >>> share(0.0123), share(1e-7)
    ('1.23%', 'less than 0.005%')
    """
    return f"{value:.2%}" if abs(value) >= 5e-5 else "less than 0.005%"


def times(more: float, less: float) -> str:
    """How often the one goes into the other.

    >>> times(25.0, 0.5), times(3.0, 2.0)
    ('50', '1.5')
    """
    ratio = more / less
    return f"{ratio:.0f}" if ratio >= 10.0 else f"{ratio:.1f}"


def nlopt_word(code: int) -> Tuple[bool, str]:
    """Whether nlopt claims success, and what it says.

    >>> nlopt_word(4), nlopt_word(6), nlopt_word(-1)
    ((True, 'xtol reached'), (False, 'maxtime reached'), (False, 'code -1'))
    """
    return 0 < code < 5, _NLOPT.get(code, f"code {code}")
