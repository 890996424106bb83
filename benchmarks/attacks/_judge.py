"""Rows of the attack: one claim compared with the truth, or the absence of a claim.

The functions here call no solver. A truth is computed independently of Thalweg, and every function takes the error that the truth
itself may have, so that rounding in the truth is never counted as a wrong claim.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import comb
from typing import Optional

import numpy as np

RIGHT, WRONG, NONE = "right", "wrong", "no claim"

#: Largest violation of a satisfied constraint, in units of the constraint. Ten times the default feasibility tolerance.
VIOLATION = 1e-5
#: Largest distance of an objective from the optimum, in units of the objective. The solver stops at a subgradient of norm 1e-4,
#: and the distances to the solutions are of order 10.
OBJECTIVE = 1e-3
#: A statement about a probability is wrong if so many failures have a probability below this under the statement.
SIGNIFICANCE = 1e-4


@dataclass(frozen=True)
class Row:
    """One claim and its verdict."""

    #: Name of the problem, with the seed and number of the draw if it is random.
    problem: str
    #: Kind of the claim: "interval", "feasible", "optimal", "infeasible", "reference value" or "probability".
    kind: str
    claimed: str
    truth: str
    verdict: str
    #: Error divided by the allowed error; above 1 if the claim is wrong.
    excess: float = 0.0


def no_claim(problem: str, kind: str, reason: object) -> Row:
    """Return a row for an abstention: an error, a refused certificate or a result that claims nothing."""
    return Row(problem, kind, f"no claim: {reason}", "", NONE)


def interval(problem: str, lower: float, upper: float, truth: float, accuracy: float, kind: str = "interval") -> Row:
    """Judge the claim that a number lies between `lower` and `upper`.

    `accuracy` is the largest error of `truth`.
    """
    claimed, text = f"between {lower:.9g} and {upper:.9g}", f"{truth:.9g}"
    if not (np.isfinite(lower) and np.isfinite(upper)):
        return no_claim(problem, kind, claimed)
    miss = max(lower - truth, truth - upper)
    if miss <= accuracy:
        return Row(problem, kind, claimed, text, RIGHT)
    # The length of the interval is how precise the claim pretends to be.
    return Row(problem, kind, claimed, text, WRONG, 1.0 + miss / max(accuracy, 0.5 * (upper - lower), 1e-300))


def optimal(problem: str, value: float, optimum: float, unit: float, claimed: str = "optimal") -> Row:
    """Judge the claim that `value`, the objective at a feasible point, is the smallest possible.

    `unit` is one natural unit of the objective. A value below `optimum` is right: the truth may be a local optimum.
    """
    excess = (value - optimum) / (OBJECTIVE * unit)
    verdict = RIGHT if excess <= 1.0 else WRONG
    return Row(problem, "optimal", f"{claimed}, objective {value:.9g}", f"{optimum:.9g}", verdict, max(excess, 0.0))


def feasible(problem: str, violation: float, claimed: str = "feasible") -> Row:
    """Judge the claim that a point is feasible; `violation` is in units of the constraint that is violated most."""
    excess = violation / VIOLATION
    verdict = RIGHT if excess <= 1.0 else WRONG
    return Row(problem, "feasible", claimed, f"violated by {max(violation, 0.0):.3g} units", verdict, max(excess, 0.0))


def infeasible(problem: str, exists: Optional[bool], claimed: str) -> Row:
    """Judge the claim that there is no feasible point; `exists` tells whether one is known."""
    if exists is None:
        return no_claim(problem, "infeasible", f"{claimed} (the truth is unknown)")
    text = "a feasible point is known" if exists else "there is none"
    return Row(problem, "infeasible", claimed, text, WRONG if exists else RIGHT, np.inf if exists else 0.0)


def probability(problem: str, failures: int, draws: int, allowed: float, claimed: str) -> Row:
    """Judge the claim that something fails with a probability of at most `allowed`, from independent draws."""
    tail = sum(comb(draws, k) * allowed**k * (1.0 - allowed) ** (draws - k) for k in range(failures, draws + 1))
    verdict = RIGHT if tail >= SIGNIFICANCE else WRONG
    return Row(
        problem, "probability", claimed, f"failed in {failures} of {draws} draws", verdict, SIGNIFICANCE / max(tail, 1e-300)
    )
