"""Toy pessimistic bilevel problem of the AdaProx paper: the follower has many optimal responses and may pick the worst for us.

Minimise over x the largest ``-x y`` over all y that minimise ``(|y| - |x|)_+^3``, which are those with ``|y| <= |x|``, subject to
``x^2 + y^2 <= 1``. The pessimistic value at x has a closed form, by which every answer is judged.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence

import numpy as np

from comparison._phrases import listed, times
from comparison._runner import TOLERANCE, Answer, Clock, Column, Entry, Goal, Row, Task, by_name

#: An answer is correct if the pessimistic value at its x and the error of the value it reports are at most this.
ACCURACY = 0.02
#: Starting point of x.
START = 0.3
#: Starting points of the inner solver in nested optimisation.
INNER_STARTS = (0.5, -0.5, 0.0)

#: Settings for this problem. Without them pilot runs choose some, at many times the cost.
SETTINGS = {"outer": 60, "inner_iterations": 200, "beta": 0.05, "sigma": 20.0, "inner": {"name": "sg", "eps": 0.02}}

OURS = "thalweg.bilevel.minimize_pessimistic"
BRUTE = "brute force, differential evolution over SLSQP"


def outer(x: np.ndarray, y: np.ndarray) -> float:
    return -float(x[0] * y[0])


def outer_grad(x: np.ndarray, y: np.ndarray) -> tuple:
    return -np.asarray(y, dtype=float), -np.asarray(x, dtype=float)


def inner(x: np.ndarray, y: np.ndarray) -> float:
    return max(abs(float(y[0])) - abs(float(x[0])), 0.0) ** 3


def inner_grad(x: np.ndarray, y: np.ndarray) -> tuple:
    beyond = 3.0 * max(abs(float(y[0])) - abs(float(x[0])), 0.0) ** 2
    return -beyond * np.sign(x), beyond * np.sign(y)


def disc(x: np.ndarray, y: np.ndarray) -> float:
    """Return the outer constraint, at most 0 inside the disc."""
    return float(x[0] ** 2 + y[0] ** 2) - 1.0


def disc_jac(x: np.ndarray, y: np.ndarray) -> tuple:
    return 2.0 * x.reshape(1, 1), 2.0 * y.reshape(1, 1)


def worst(x: float) -> float:
    """Return the pessimistic value at x.

    >>> worst(0.0), round(worst(0.5**0.5), 12), worst(1.0)
    (0.0, 0.5, 0.0)
    """
    return abs(x) * min(abs(x), float(np.sqrt(max(1.0 - x * x, 0.0))))


class Pessimistic(Task):
    """The optimal value is 0, at x = 0. The optimistic value is -1/2, at a point whose pessimistic value is 1/2."""

    key = "pessimistic"
    title = "A pessimistic bilevel problem"
    columns = (
        Column("x", "x"),
        Column("reported", "reported value"),
        Column("worst", "pessimistic value"),
        Column("error", "error"),
        Column("violation", "violation", ".0e"),
    )
    time_limits = (300.0, 15.0)
    advice = (
        "For an inner problem with a unique solution for each x, use nested optimisation or a library for such bilevel problems, "
        "which is faster. For one outer variable and cheap functions, use brute force. `thalweg.bilevel` is for inner problems "
        "with many solutions where the follower may not choose the favourable one."
    )

    def problem(self) -> str:
        return (
            "`min_x max_y -x y` over those y that minimise `(|y| - |x|)_+^3`, subject to `x^2 + y^2 <= 1`, from "
            f"x = {START:g}. Every y with `|y| <= |x|` is an inner solution. The optimal value is 0, at x = 0. The "
            "pessimistic value at x is `|x| min(|x|, sqrt(1 - x^2))`; the error is this value minus the "
            f"reported one. An answer is correct if the value and the error are within {ACCURACY:g} of 0."
        )

    def entries(self) -> List[Entry]:
        nested = [
            Entry(f"nested scipy argmin, inner start {y:g}", nested_argmin, {"inner_start": y}, "scipy") for y in INNER_STARTS
        ]
        return [
            Entry(OURS, by_thalweg, {"options": SETTINGS}, ours=True),
            *([] if self.size.quick else [Entry(f"{OURS}, settings by pilot runs", by_thalweg, ours=True)]),
            *nested,
            Entry("scipy SLSQP on both levels at once", optimistic, {}, "scipy"),
            Entry(BRUTE, brute_force, {}, "scipy"),
        ]

    def measure(self, entry: Entry, point: Any) -> Dict[str, Optional[float]]:
        x, y, reported = (float(value) for value in point)
        value = worst(x)
        # Violation of the outer constraint at the pair, or of x alone where no y is feasible.
        over = max(disc(np.array([x]), np.array([y])), abs(x) - 1.0, 0.0)
        return {
            "x": x,
            "reported": reported,
            "worst": value,
            "error": value - reported,
            "violation": over if over > TOLERANCE else 0.0,
        }

    def shortfall(self, row: Row) -> str:
        value, error = row["worst"], row["error"]
        if value is None or error is None or correct(row):
            return ""
        return f"error {value - min(row['reported'] or 0.0, 0.0):.2f}" if error > ACCURACY else f"{value:.2f} above the optimum"

    def findings(self, rows: Sequence[Row]) -> List[str]:
        ran = [row for row in rows if row.ran]
        ours = by_name(rows, OURS)
        others = [row for row in ran if not row.ours]
        text = ""
        if ours is not None:
            text += (
                f"`{OURS}` is {'correct' if correct(ours) else 'wrong'}: it ends at x = {ours['x']:.3f}, with pessimistic value "
                f"{ours['worst']:.4f}, in {ours.seconds:.2f} seconds."
            )
        chosen = by_name(rows, f"{OURS}, settings by pilot runs")
        if chosen is not None:
            text += " With settings chosen by pilot runs it is "
            text += f"{'correct' if correct(chosen) else 'wrong'}, in {chosen.seconds:.1f} seconds."
        wrong = [row for row in others if not correct(row)]
        if wrong:
            words = listed(f"{row.name} reports {row['reported']:.3f} for a value of {row['worst']:.3f}" for row in wrong)
            text += f" {len(wrong)} of {len(others)} other methods are wrong: {words}."
        nested = [row["worst"] or 0.0 for row in others if row.name.startswith("nested")]
        if len(nested) > 1 and max(nested) - min(nested) > ACCURACY:
            text += (
                f" The result of nesting depends on the inner starting point: values from {min(nested):.3f} to {max(nested):.3f}."
            )
        for row in (row for row in others if correct(row)):
            text += f" {row.name[:1].upper()}{row.name[1:]} is correct"
            if ours is not None and row.name == BRUTE and row.seconds and ours.seconds:
                slow = row.seconds >= ours.seconds
                more, less = (row.seconds, ours.seconds) if slow else (ours.seconds, row.seconds)
                text += f", in {row.seconds:.2f} seconds, {times(more, less)} times as {'slow' if slow else 'fast'}"
            text += "."
        return [text.strip() or "No entry has a result."]

    def goals(self, rows: Sequence[Row]) -> List[Goal]:
        statement = "Correct on the pessimistic toy problem where others are wrong"
        ours = by_name(rows, OURS)
        others = [row for row in rows if row.ran and not row.ours]
        if ours is None or not others:
            return [Goal(statement, None, "no results to compare")]
        wrong = [row for row in others if not correct(row)]
        evidence = f"pessimistic value {ours['worst']:.4f}, reported with an error of {abs(ours['error'] or 0.0):.4f}; "
        evidence += f"{len(wrong)} of {len(others)} others are wrong"
        return [Goal(statement, correct(ours) and bool(wrong), evidence)]


def correct(row: Row) -> bool:
    """Return whether the answer is optimal and its reported value is accurate."""
    value, error = row["worst"], row["error"]
    return value is not None and error is not None and row.feasible and value <= ACCURACY and abs(error) <= ACCURACY


# Entries. A point is x, the y found with it, and the value that the entry reports.


def by_thalweg(task: Pessimistic, clock: Clock, options: Optional[dict] = None) -> Answer:
    from thalweg.bilevel import minimize_pessimistic

    with clock:
        result = minimize_pessimistic(
            outer,
            inner,
            [START],
            outer_bounds=[(-1.0, 1.0)],
            inner_bounds=[(-2.0, 2.0)],
            constraints=disc,
            outer_grad=outer_grad,
            inner_grad=inner_grad,
            constraints_jac=disc_jac,
            options=options,
        )
    return Answer((result.x[0], result.worst.y[0], result.worst.value), bool(result.success), result.message)


def nested_argmin(task: Pessimistic, clock: Clock, inner_start: float) -> Answer:
    """Nested optimisation: use the inner solution that a solver finds, as if it were unique."""
    from scipy.optimize import minimize

    def response(x: np.ndarray) -> np.ndarray:
        return minimize(lambda y: inner(x, y), np.array([inner_start]), method="BFGS").x

    with clock:
        found = minimize(
            lambda x: outer(x, response(x)),
            np.array([START]),
            method="COBYLA",
            constraints=[{"type": "ineq", "fun": lambda x: -disc(x, response(x))}],
            options={"rhobeg": 0.1, "tol": 1e-6},
        )
    return Answer((found.x[0], response(found.x)[0], found.fun), bool(found.success), str(found.message))


def optimistic(task: Pessimistic, clock: Clock) -> Answer:
    """Optimistic form: one problem in x and y with inner optimality of y as a constraint."""
    from scipy.optimize import minimize

    constraints = [
        {"type": "ineq", "fun": lambda z: -disc(z[:1], z[1:])},
        {"type": "ineq", "fun": lambda z: TOLERANCE - inner(z[:1], z[1:])},
    ]
    with clock:
        found = minimize(lambda z: outer(z[:1], z[1:]), np.array([START, START]), method="SLSQP", constraints=constraints)
    return Answer((found.x[0], found.x[1], found.fun), bool(found.success), str(found.message))


def brute_force(task: Pessimistic, clock: Clock) -> Answer:
    """Brute force: maximise over the inner solutions of each x, and minimise over x by differential evolution."""
    from scipy.optimize import differential_evolution, minimize

    def worst_response(x: np.ndarray) -> tuple:
        constraints = [
            {"type": "ineq", "fun": lambda y: -disc(x, y)},
            {"type": "ineq", "fun": lambda y: TOLERANCE**1.5 - inner(x, y)},
        ]
        found = [minimize(lambda y: -outer(x, y), np.array([y]), method="SLSQP", constraints=constraints) for y in (0.5, -0.5)]
        feasible = [f for f in found if disc(x, f.x) <= TOLERANCE and inner(x, f.x) <= TOLERANCE]
        best = min(feasible or found, key=lambda f: f.fun)
        return -best.fun, best.x[0]

    few = {"maxiter": 4, "popsize": 8} if task.size.quick else {}
    with clock:
        found = differential_evolution(lambda x: worst_response(x)[0], [(-1.0, 1.0)], seed=0, **few)
    value, y = worst_response(found.x)
    return Answer((found.x[0], y, value), bool(found.success), str(found.message))
