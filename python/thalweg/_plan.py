"""``thalweg.plan`` and ``thalweg.complexity``: parameters prescribed by theorems, and complexity of the methods."""

from __future__ import annotations

import html
from typing import Any, Dict, List, Optional, Tuple

from thalweg import _core
from thalweg._frames import frame_or_rows
from thalweg._terms import _number

_METHODS = _core.solvers("plan")


class Plan(Dict[str, Any]):
    """Parameters prescribed by a theorem: a dictionary whose keys are attributes too.

    Attributes
    ----------
    title : str
        Theorem and setting.
    rows : list of tuple
        Description, symbol in the paper and value of each parameter, as text.
    guarantee : str
        Guarantee for these parameters.
    """

    def __init__(self, parameters: Dict[str, Any], title: str, rows: List[Tuple[str, str, str]], guarantee: str, text: str):
        super().__init__(parameters)
        # Bypasses `__setattr__`, which makes plans immutable.
        self.__dict__.update(title=title, rows=rows, guarantee=guarantee, _text=text)

    title: str
    rows: List[Tuple[str, str, str]]
    guarantee: str
    _text: str

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"the plan has no '{name}'; it has {', '.join(self)}") from None

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"cannot set {name}: a plan is immutable; dict(plan) is a copy that can be changed")

    def __dir__(self) -> List[str]:
        return [*super().__dir__(), *self]

    def __reduce__(self) -> Any:
        return Plan, (dict(self), self.title, self.rows, self.guarantee, self._text)

    def __repr__(self) -> str:
        return f"{self.title}\n{self._text}{self.guarantee}"

    def _repr_html_(self) -> str:
        cells = lambda row: "".join(f"<td style='text-align:left'>{html.escape(cell)}</td>" for cell in row)
        body = "".join(f"<tr>{cells(row)}</tr>" for row in self.rows)
        title, guarantee = html.escape(self.title), html.escape(self.guarantee)
        return f"<table><caption>{title}</caption><tbody>{body}</tbody></table><p>{guarantee}</p>"


def plan(
    method: str = _METHODS[0],
    *,
    eps: float,
    theorem: Optional[str] = None,
    inner: Optional[str] = None,
    as_printed: bool = False,
    strict: bool = False,
    **constants: float,
) -> List[Plan]:
    """Return the parameters that theorems prescribe for a problem with known constants.

    They are worst-case parameters: they carry guarantees but are rarely efficient in practice.

    Parameters
    ----------
    method : str
        Method; one of ``thalweg.solvers("plan")``.
    eps : float
        Target accuracy.
    theorem : str, optional
        Theorem, such as '4.2-I' (ssg) or '3.7' (threes-econ); by default all that the constants allow.
    inner : str, optional
        Solver of the subproblems of ipp ('ssg', 'conex') or adaprox ('sg', 'pd'); by default all that the constants allow.
    as_printed : bool
        Whether to use the printed parameters where the proof needs others: the exponent in Theorem 5.2 I (ssg), the number of
        subproblems in Theorem 6 (adaprox).
    strict : bool
        Whether to use the constants of the proof in place of those of the theorem, which hold up to a factor (dszog).
    **constants
        Known constants of the problem, such as ``lipschitz``, ``diameter``, ``rho``, ``rho_hat`` and ``slater``. An unknown name
        raises an error that lists the known ones.

    Returns
    -------
    list of Plan
        One plan for each theorem that the constants allow.

    Examples
    --------
    >>> import thalweg
    >>> plans = thalweg.plan(theorem="4.2-I", eps=0.1, lipschitz=1, diameter=1, rho=1, rho_hat=2, slater=1)
    >>> plans[0]
    Theorem 4.2-I: exact subgradients, constant steps
    iterations                            T      1000000
    first iteration that may be returned  S      0
    returned iterate is drawn from               the feasible iterations from S on
    tolerance                             tol_t  0.0025
    step                                  eta_t  0.001
    bound on the multipliers              Lam    3
    The returned point is in expectation over its draw within 0.1 of the solution of its proximal subproblem, and its
    constraint value is in expectation at most 0.0025.
    >>> plans[0].iterations, plans[0]["multiplier_bound"]
    (1000000.0, 3.0)
    """
    accuracy = _number(eps)
    if accuracy is None:
        raise TypeError(f"eps must be a number, got {eps!r}")
    for key, text in (("method", method), ("theorem", theorem), ("inner", inner)):
        if not isinstance(text, str) and (text is not None or key == "method"):
            raise TypeError(f"{key} must be a string, got {text!r}")
    known = {}
    for key, value in constants.items():
        if value is None:
            continue
        number = _number(value)
        if number is None:
            raise TypeError(f"{key} must be a number, got {value!r}")
        known[key] = number
    found = _core.plans(method, accuracy, theorem, inner, bool(as_printed), bool(strict), known)
    plans = []
    for parameters, title, rows, guarantee, aligned in found:
        plans.append(Plan(parameters, title, [(what, symbol, value) for what, symbol, value in rows], guarantee, aligned))
    return plans


def complexity(method: Optional[str] = None) -> Any:
    """Return the complexity of the methods as a function of the target accuracy.

    Parameters
    ----------
    method : str, optional
        Method, one of ``thalweg.solvers("plan")``; all by default.

    Returns
    -------
    DataFrame, or list of dict without pandas
        Order of the number of subgradients and values in each setting.

    Examples
    --------
    >>> import thalweg
    >>> table = thalweg.complexity("ssg")
    >>> sorted(set(table["method"]))
    ['ssg']
    """
    if method is not None and not isinstance(method, str):
        raise TypeError(f"method must be a string, got {method!r}")
    return frame_or_rows(_core.complexity(method))
