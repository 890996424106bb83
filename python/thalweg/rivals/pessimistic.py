"""The toy problem of AdaProx's paper: somebody answers within what is best for them, and may choose what is worst for us.

Minimised over x is the largest ``-x y`` over all y that minimise ``(|y| - |x|)_+^3``, which are those with ``|y| <= |x|``,
subject to ``x^2 + y^2 <= 1``. What an x is worth at the worst y has a closed form, by which every answer is judged.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence

import numpy as np

from thalweg.rivals._contest import TOLERANCE, Answer, Clock, Column, Contestant, Goal, Job, Row, by_name
from thalweg.rivals._words import listed, times

#: An answer is right if its x is worth at most this, and is worth what its tool says up to this.
RIGHT = 0.02
#: Where x begins.
START = 0.3
#: First answers of the inner problem, for who begins somewhere.
ANSWERS = (0.5, -0.5, 0.0)

#: Settings for the toy; without them short runs choose some, at many times the cost.
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
    """At most 0 inside."""
    return float(x[0] ** 2 + y[0] ** 2) - 1.0


def disc_jac(x: np.ndarray, y: np.ndarray) -> tuple:
    return 2.0 * x.reshape(1, 1), 2.0 * y.reshape(1, 1)


def worst(x: float) -> float:
    """What x is worth at the worst answer.

    >>> worst(0.0), round(worst(0.5**0.5), 12), worst(1.0)
    (0.0, 0.5, 0.0)
    """
    return abs(x) * min(abs(x), float(np.sqrt(max(1.0 - x * x, 0.0))))


class Pessimistic(Job):
    """The true value is 0, at x = 0. An optimist believes in -1/2, where the worst answer costs 1/2."""

    key = "pessimistic"
    title = "A pessimistic bilevel problem"
    columns = (
        Column("x", "x"),
        Column("said", "value, as it says"),
        Column("worst", "value at the worst answer"),
        Column("off", "off by"),
        Column("violation", "violation", ".0e"),
    )
    cap = (300.0, 15.0)
    advice = (
        "An inner problem with one solution for each x: nested optimisation is right, and libraries for bilevel problems with "
        "unique answers are faster. One outer variable and functions that cost nothing: brute force. `thalweg.bilevel` is for "
        "inner problems with many solutions of which nobody promises the kind one."
    )

    def problem(self) -> str:
        return (
            "`min_x max_y -x y` over those y that minimise `(|y| - |x|)_+^3`, subject to `x^2 + y^2 <= 1`, from "
            f"x = {START:g}. Every y with `|y| <= |x|` is an inner solution. The value is 0, at x = 0. An x is worth "
            "`|x| min(|x|, sqrt(1 - x^2))` at the worst answer, in closed form; off is how far what a tool says lies from what "
            f"its x is worth. An answer is called right if both are within {RIGHT:g} of 0."
        )

    def contestants(self) -> List[Contestant]:
        nested = [Contestant(f"nested scipy argmin, inner start {y:g}", by_nesting, {"answer": y}, "scipy") for y in ANSWERS]
        return [
            Contestant(OURS, by_thalweg, {"options": SETTINGS}, ours=True),
            *([] if self.size.quick else [Contestant(f"{OURS}, settings by short runs", by_thalweg, ours=True)]),
            *nested,
            Contestant("scipy SLSQP on both levels at once", by_optimism, {}, "scipy"),
            Contestant(BRUTE, by_force, {}, "scipy"),
        ]

    def measure(self, contestant: Contestant, point: Any) -> Dict[str, Optional[float]]:
        x, y, said = (float(value) for value in point)
        value = worst(x)
        # Of the outer constraint at its own pair, and of x beyond what any answer can mend.
        over = max(disc(np.array([x]), np.array([y])), abs(x) - 1.0, 0.0)
        return {"x": x, "said": said, "worst": value, "off": value - said, "violation": over if over > TOLERANCE else 0.0}

    def shortfall(self, row: Row) -> str:
        value, off = row["worst"], row["off"]
        if value is None or off is None or right(row):
            return ""
        return f"wrong by {value - min(row['said'] or 0.0, 0.0):.2f}" if off > RIGHT else f"{value:.2f} above the value"

    def shows(self, rows: Sequence[Row]) -> List[str]:
        ran = [row for row in rows if row.ran]
        ours = by_name(rows, OURS)
        others = [row for row in ran if not row.ours]
        text = ""
        if ours is not None:
            text += (
                f"`{OURS}` ends at x = {ours['x']:.3f}, worth {ours['worst']:.4f} at the worst answer, in {ours.seconds:.2f} "
                f"seconds: {'right' if right(ours) else 'wrong'}."
            )
        chosen = by_name(rows, f"{OURS}, settings by short runs")
        if chosen is not None:
            text += " With settings that it chooses itself it is "
            text += f"{'right' if right(chosen) else 'wrong'}, in {chosen.seconds:.1f} seconds."
        wrong = [row for row in others if not right(row)]
        if wrong:
            words = listed(f"{row.name} says {row['said']:.3f} where the worst answer costs {row['worst']:.3f}" for row in wrong)
            text += f" Wrong are {len(wrong)} of {len(others)} other ways: {words}."
        nested = [row["worst"] or 0.0 for row in others if row.name.startswith("nested")]
        if len(nested) > 1 and max(nested) - min(nested) > RIGHT:
            text += f" What nesting gives depends on where its inner solver begins: worth {min(nested):.3f} to {max(nested):.3f}."
        correct = [row for row in others if right(row)]
        for row in correct:
            text += f" Right is {row.name}"
            if ours is not None and row.name == BRUTE and row.seconds and ours.seconds:
                slow = row.seconds >= ours.seconds
                more, less = (row.seconds, ours.seconds) if slow else (ours.seconds, row.seconds)
                text += f", in {row.seconds:.2f} seconds, {times(more, less)} times as {'slow' if slow else 'fast'}"
            text += "."
        return [text.strip() or "Nothing ran."]

    def goals(self, rows: Sequence[Row]) -> List[Goal]:
        words = "The pessimistic toy right where others are wrong"
        ours = by_name(rows, OURS)
        others = [row for row in rows if row.ran and not row.ours]
        if ours is None or not others:
            return [Goal(words, None, "no rows to compare")]
        wrong = [row for row in others if not right(row)]
        because = f"worth {ours['worst']:.4f}, as it says up to {abs(ours['off'] or 0.0):.4f}; "
        because += f"{len(wrong)} of {len(others)} others are wrong"
        return [Goal(words, right(ours) and bool(wrong), because)]


def right(row: Row) -> bool:
    """Its x is worth the value, and it says so."""
    value, off = row["worst"], row["off"]
    return value is not None and off is not None and row.kept and value <= RIGHT and abs(off) <= RIGHT


# The tools. An answer is x, the y beside it, and the value that the tool has for it.


def by_thalweg(job: Pessimistic, clock: Clock, options: Optional[dict] = None) -> Answer:
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


def by_nesting(job: Pessimistic, clock: Clock, answer: float) -> Answer:
    """For each x whatever inner solution a solver finds, as if it were the only one."""
    from scipy.optimize import minimize

    def reply(x: np.ndarray) -> np.ndarray:
        return minimize(lambda y: inner(x, y), np.array([answer]), method="BFGS").x

    with clock:
        found = minimize(
            lambda x: outer(x, reply(x)),
            np.array([START]),
            method="COBYLA",
            constraints=[{"type": "ineq", "fun": lambda x: -disc(x, reply(x))}],
            options={"rhobeg": 0.1, "tol": 1e-6},
        )
    return Answer((found.x[0], reply(found.x)[0], found.fun), bool(found.success), str(found.message))


def by_optimism(job: Pessimistic, clock: Clock) -> Answer:
    """One problem in x and y, with "y is an inner solution" as a constraint: the solver chooses the kind answer."""
    from scipy.optimize import minimize

    kept = [
        {"type": "ineq", "fun": lambda z: -disc(z[:1], z[1:])},
        {"type": "ineq", "fun": lambda z: TOLERANCE - inner(z[:1], z[1:])},
    ]
    with clock:
        found = minimize(lambda z: outer(z[:1], z[1:]), np.array([START, START]), method="SLSQP", constraints=kept)
    return Answer((found.x[0], found.x[1], found.fun), bool(found.success), str(found.message))


def by_force(job: Pessimistic, clock: Clock) -> Answer:
    """For each x the worst inner solution, from several starts; over x differential evolution, which asks for many."""
    from scipy.optimize import differential_evolution, minimize

    def attack(x: np.ndarray) -> tuple:
        kept = [
            {"type": "ineq", "fun": lambda y: -disc(x, y)},
            {"type": "ineq", "fun": lambda y: TOLERANCE**1.5 - inner(x, y)},
        ]
        found = [minimize(lambda y: -outer(x, y), np.array([y]), method="SLSQP", constraints=kept) for y in (0.5, -0.5)]
        held = [f for f in found if disc(x, f.x) <= TOLERANCE and inner(x, f.x) <= TOLERANCE]
        best = min(held or found, key=lambda f: f.fun)
        return -best.fun, best.x[0]

    few = {"maxiter": 4, "popsize": 8} if job.size.quick else {}
    with clock:
        found = differential_evolution(lambda x: attack(x)[0], [(-1.0, 1.0)], seed=0, **few)
    value, y = attack(found.x)
    return Answer((found.x[0], y, value), bool(found.success), str(found.message))
