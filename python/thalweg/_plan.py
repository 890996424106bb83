"""``thalweg.plan`` and ``thalweg.complexity``: parameters that the theorems prescribe, and how the work of the methods grows."""

from __future__ import annotations

import html
from typing import Any, Dict, List, Optional, Tuple

from thalweg import _core
from thalweg._frames import frame_or_rows
from thalweg._terms import _number

_METHODS = _core.solvers("plan")


class Plan(Dict[str, Any]):
    """The parameters of one theorem for given constants: a dictionary by their names, which are attributes too.

    Attributes
    ----------
    title : str
        Where the parameters come from and what they are for.
    rows : list of tuple
        What, symbol in the paper, value: as a person reads them.
    guarantee : str
        What is proved for these parameters.
    """

    def __init__(self, parameters: Dict[str, Any], title: str, rows: List[Tuple[str, str, str]], guarantee: str, text: str):
        super().__init__(parameters)
        # Past the rule that attributes are parameters.
        self.__dict__.update(title=title, rows=rows, guarantee=guarantee, _text=text)

    title: str
    rows: List[Tuple[str, str, str]]
    guarantee: str
    _text: str

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"the plan has no '{name}': there are {', '.join(self)}") from None

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(
            f"{name} = {value!r}: a plan is what a theorem says and cannot be changed; dict(plan) is a copy that can"
        )

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
    """The parameters that theorems prescribe for a problem with known constants.

    The numbers are worst cases: they say what is proved, not what works well.

    Parameters
    ----------
    method : str
        One of ``thalweg.solvers("plan")``; by default 'ssg'.
    eps : float
        Target accuracy.
    theorem : str, optional
        Such as '4.2-I' (ssg) or '3.7' (threes-econ); all that the constants allow if absent.
    inner : str, optional
        The solver of the subproblems, of ipp ('ssg', 'conex') or adaprox ('sg', 'pd'); all that the constants allow if absent.
    as_printed : bool
        Use what the paper prints, not what its proof needs: the exponent in Theorem 5.2 I (ssg), the number of subproblems in
        Theorem 6 (adaprox).
    strict : bool
        Use the constants of the proof, not those of the theorem, which hold up to a factor (dszog).
    **constants
        What is known of the problem, such as ``lipschitz``, ``diameter``, ``rho``, ``rho_hat`` and ``slater``. A name that the
        method does not know is refused with those that it knows.

    Returns
    -------
    list of Plan
        One for each theorem that the constants allow.

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
        raise TypeError(f"eps = {eps!r}: wanted a number")
    for key, text in (("method", method), ("theorem", theorem), ("inner", inner)):
        if not isinstance(text, str) and (text is not None or key == "method"):
            raise TypeError(f"{key} = {text!r}: wanted text")
    known = {}
    for key, value in constants.items():
        if value is None:
            continue
        number = _number(value)
        if number is None:
            raise TypeError(f"{key} = {value!r}: wanted a number")
        known[key] = number
    found = _core.plans(method, accuracy, theorem, inner, bool(as_printed), bool(strict), known)
    plans = []
    for parameters, title, rows, guarantee, aligned in found:
        plans.append(Plan(parameters, title, [(what, symbol, value) for what, symbol, value in rows], guarantee, aligned))
    return plans


def complexity(method: Optional[str] = None) -> Any:
    """How the work of the methods grows as the accuracy is raised, for one method or for all.

    Parameters
    ----------
    method : str, optional
        One of ``thalweg.solvers("plan")``; all if absent.

    Returns
    -------
    DataFrame, or list of dict without pandas
        For each setting the orders of the subgradients and values that are asked for.

    Examples
    --------
    >>> import thalweg
    >>> table = thalweg.complexity("ssg")
    >>> sorted(set(table["method"]))
    ['ssg']
    """
    if method is not None and not isinstance(method, str):
        raise TypeError(f"method = {method!r}: wanted text")
    return frame_or_rows(_core.complexity(method))
