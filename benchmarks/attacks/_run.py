"""Calls of Thalweg that return either a result or the reason why there is none, and the claims of a result."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Callable, Iterator, Optional

import numpy as np
import thalweg

from ._judge import WRONG, Row, feasible, infeasible, interval, no_claim, optimal
from ._planted import Planted


@dataclass
class Truth:
    """What is known about a problem, in natural units: objective and constraints are of order 1."""

    #: Largest constraint violation of a point, at most 0 if it is feasible.
    violation: Callable[[np.ndarray], float]
    #: Whether a feasible point exists; None if that is unknown.
    exists: Optional[bool] = True
    #: Objective of a point.
    objective: Optional[Callable[[np.ndarray], float]] = None
    #: Smallest objective over the feasible points; for a problem that is not convex, over those around the given point.
    optimum: Optional[Callable[[np.ndarray], float]] = None
    #: One natural unit of the objective.
    unit: float = 1.0


def attempt(call: Callable, *args: Any, **options: Any) -> Any:
    """Call a function without warnings and return its result, or the exception that it raised."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return call(*args, **options)
        except Exception as error:  # an error is an abstention, whatever its type
            return error


def minimize(name: str, truth: Truth, *args: Any, maxiter: Optional[int] = None, **options: Any) -> Iterator[Row]:
    """Run ``thalweg.minimize`` and judge what the result claims.

    `maxiter` saves time: a result at this limit is not blamed for its objective.
    """
    if maxiter is not None:
        options["options"] = {"maxiter": maxiter}
    result = attempt(thalweg.minimize, *args, **options)
    if isinstance(result, Exception):
        yield no_claim(name, "optimal", result)
    else:
        yield from claims(name, truth, result, limited=maxiter is not None)


def claims(name: str, truth: Truth, result: Any, limited: bool = False) -> Iterator[Row]:
    """Judge the verdict of a result: feasible, optimal or infeasible.

    A success at the default limit counts as a claim of optimality, because callers look at ``success``. With `limited` the
    limit is that of the attack, and a result that stopped at it claims feasibility only.
    """
    message = str(result.message)
    if message.startswith("infeasible"):
        yield infeasible(name, truth.exists, message)
        return
    if not (result.success or message.startswith("feasible")):
        yield no_claim(name, "optimal", message)
        return
    violation = truth.violation(result.x)
    if violation > -np.inf:  # there are constraints
        said = feasible(name, violation, message)
        yield said
        if said.verdict == WRONG:
            return  # the objective of an infeasible point says nothing more
    if limited and result.status == 1:
        yield no_claim(name, "optimal", message)
    elif result.success and truth.objective is not None and truth.optimum is not None:
        value = truth.objective(result.x)
        yield optimal(name, value, min(truth.optimum(result.x), value), truth.unit, message)


def certificate(name: str, found: Any, truth: Callable[[Any], float], accuracy: Callable[[Any], float]) -> Row:
    """Judge the interval of a certificate. An estimated one is marked as no proof and claims nothing.

    `truth` and `accuracy` take the certificate, because the distance depends on its proximal coefficient and its relaxation.
    """
    if found is None:
        return no_claim(name, "interval", "no certificate")
    if isinstance(found, Exception):
        return no_claim(name, "interval", found)
    if found.estimated:
        return no_claim(name, "interval", "the constants are estimated")
    return interval(name, found.lower, found.upper, truth(found), accuracy(found))


def planted(name: str, problem: Planted, **changed: Any) -> Row:
    """Certify the point of a planted problem, with some arguments changed, and judge the interval."""
    found = attempt(thalweg.certify, problem.fun, problem.x, **{**problem.arguments(), **changed})
    return certificate(name, found, lambda _: problem.distance, lambda claimed: problem.accuracy(claimed.relaxed))
