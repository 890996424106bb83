"""Terms of a model's scores as objects with ``+``, ``*`` and ``<=``."""

from __future__ import annotations

import numbers
from typing import Any, Iterable, Optional, Tuple, Union

import numpy as np

from thalweg import _core


def _number(value: Any) -> Optional[float]:
    """Return a number as float, or None."""
    if isinstance(value, (numbers.Real, np.integer, np.floating)) and not isinstance(value, (bool, np.bool_)):
        return float(value)
    return None


def _literal(value: float) -> str:
    """Format a number so that the library reads back the same bits."""
    return repr(float(value))


class Term:
    """Sum of multiples of terms, such as ``hinge() + 0.02 * scad()``.

    Terms are made by the functions of :mod:`thalweg.learn`, or from text with :func:`thalweg.learn.term`.
    """

    # Without this numpy would treat a term as a number in 0.02 * term with a numpy float.
    __array_ufunc__ = None

    def __init__(self, pieces: Iterable[Tuple[float, str]], groups: Iterable[Any] = ()):
        self._pieces = tuple(pieces)
        # Groups of the rows, for terms that compare them; empty if they are given to the fit.
        self._groups = tuple(groups)

    def __add__(self, other: Any) -> Term:
        if isinstance(other, Term):
            return Term(self._pieces + other._pieces, self._groups + other._groups)
        if _number(other) == 0.0:
            return self  # so that sum() works
        return NotImplemented

    __radd__ = __add__

    def __mul__(self, factor: Any) -> Term:
        number = _number(factor)
        if number is None:
            return NotImplemented
        if not (number > 0 and np.isfinite(number)):
            raise ValueError(f"the factor of a term must be positive, got {factor} * {self}")
        return Term([(number * own, call) for own, call in self._pieces], self._groups)

    __rmul__ = __mul__

    def __truediv__(self, divisor: Any) -> Term:
        number = _number(divisor)
        return NotImplemented if number is None else self * (1.0 / number)

    def __neg__(self) -> Term:
        raise TypeError(f"terms can only be added and multiplied by positive numbers, got -({self})")

    def __sub__(self, other: Any) -> Term:
        raise TypeError(f"terms can only be added and multiplied by positive numbers, got ({self}) - …")

    def __le__(self, bound: Any) -> Constraint:
        if isinstance(bound, Bound):
            return Constraint(self, bound)
        number = _number(bound)
        if number is None:
            raise TypeError(
                f"the bound of {self} must be a number, or one with best(…) such as 1.001 * best(hinge()), got {bound!r}"
            )
        return Constraint(self, Bound(None, number))

    def __ge__(self, bound: Any) -> Constraint:
        raise TypeError(f"constraints must be written with <=, got {self} >= {bound!r}")

    def __lt__(self, bound: Any) -> Constraint:
        raise TypeError(f"constraints must be written with <=, got {self} < {bound!r}")

    def __gt__(self, bound: Any) -> Constraint:
        raise TypeError(f"constraints must be written with <=, got {self} > {bound!r}")

    def __str__(self) -> str:
        return " + ".join(call if factor == 1.0 else f"{_literal(factor)} * {call}" for factor, call in self._pieces)

    def __repr__(self) -> str:
        return f"<{self}>"


class Bound:
    """Number plus an optional multiple of the smallest value of a term, such as ``1.001 * best(hinge()) + 0.01``."""

    __array_ufunc__ = None

    def __init__(self, best: Optional[Tuple[float, Term]], plus: float):
        self._best, self._plus = best, plus

    def __mul__(self, factor: Any) -> Bound:
        number = _number(factor)
        if number is None:
            return NotImplemented
        return Bound(self._best and (self._best[0] * number, self._best[1]), self._plus * number)

    __rmul__ = __mul__

    def __add__(self, other: Any) -> Bound:
        number = _number(other)
        return NotImplemented if number is None else Bound(self._best, self._plus + number)

    __radd__ = __add__

    def __str__(self) -> str:
        if self._best is None:
            return _literal(self._plus)
        factor, term = self._best
        text = f"best({term})" if factor == 1.0 else f"{_literal(factor)} * best({term})"
        return text if self._plus == 0.0 else f"{text} + {_literal(self._plus)}"

    __repr__ = __str__


class Constraint:
    """Constraint ``term <= bound``."""

    def __init__(self, term: Term, bound: Bound):
        self._term, self._bound = term, bound

    @property
    def _groups(self) -> tuple:
        return self._term._groups + (self._bound._best[1]._groups if self._bound._best else ())

    def __bool__(self) -> bool:
        raise TypeError(f"the constraint '{self}' has no truth value; write one comparison at a time")

    def __str__(self) -> str:
        return f"{self._term} <= {self._bound}"

    def __repr__(self) -> str:
        return f"<{self}>"


def _call(name: str, sensitive: Any = None, *, of: Optional[str] = None, **arguments: Any) -> Term:
    """Build a term of the library; `of` is the loss in its arguments, if it has one."""
    given = {key: value for key, value in arguments.items() if value is not None}
    if isinstance(given.get("compare"), str):
        given["compare"] = given["compare"].replace("_", "-")  # fairlearn writes between_groups and to_overall
    inside = [] if of is None else [of]
    inside += [f'{key} = "{v}"' if isinstance(v, str) else f"{key} = {_literal(v)}" for key, v in given.items()]
    return Term([(1.0, f"{name}({', '.join(inside)})" if inside else name)], () if sensitive is None else (sensitive,))


def one_loss(given: Union[Term, str], what: str = "loss") -> str:
    """Return the text of a term that must be a single loss, neither a sum nor a multiple."""
    term = as_term(given, what)
    text = str(term)
    if len(term._pieces) != 1 or " + " in text or " * " in text:
        raise ValueError(f"{what} must be a single loss such as 'logistic', got {text!r}")
    return text


def as_term(given: Union[Term, str], what: str = "objective") -> Term:
    """Convert a term or its text to a term."""
    if isinstance(given, Term):
        return given
    if isinstance(given, str):
        return Term([(1.0, _core.check_expression(given))])
    raise TypeError(f"the {what} must be a term such as hinge() or text such as 'hinge', got {type(given).__name__}")


#: Losses of single rows.
_LOSSES = ("hinge", "logistic", "welsch", "truncated_logistic")


def weigh_classes(term: Term, negative: float, positive: float) -> Term:
    """Divide each loss over all rows into its means over the negative and the positive rows, with these factors."""
    pieces: list = []
    found = False
    for factor, text in term._pieces:
        # A term from text may be a sum; it is split where the grammar splits it.
        for own, call in _core.split_expression(text):
            name, _, rest = call.partition("(")
            if name not in _LOSSES or "on = " in rest:
                pieces.append((factor * own, call))
                continue
            found = True
            inside = rest[:-1] + ", " if rest else ""
            for share, label in ((negative, "negatives"), (positive, "positives")):
                if share > 0:
                    pieces.append((factor * own * share, f'{name}({inside}on = "{label}")'))
    if not found:
        raise ValueError(f"class_weight needs an objective with a loss over all rows, such as 'logistic', got '{term}'")
    return Term(pieces, term._groups)


def with_negatives(term: Term, share: float) -> Term:
    """Add to each loss on the positive rows `share` times the same loss on the negative rows."""
    pieces = list(term._pieces)
    for factor, text in term._pieces:
        for own, call in _core.split_expression(text):
            if call.partition("(")[0] in _LOSSES and 'on = "positives"' in call:
                pieces.append((share * factor * own, call.replace('on = "positives"', 'on = "negatives"')))
    return Term(pieces, term._groups)


def as_constraints(given: Any) -> list:
    """Return the text and the groups of each constraint."""
    if isinstance(given, (Constraint, str)):
        given = [given]
    texts: list = []
    for one in given if given is not None else ():
        if isinstance(one, str):
            texts.append((_core.check_constraint(one), ()))
        elif isinstance(one, Constraint):
            texts.append((str(one), one._groups))
        else:
            kind = type(one).__name__
            raise TypeError(f"a constraint must be one such as demographic_parity() <= 0.02 or text, got {kind}")
    return texts
