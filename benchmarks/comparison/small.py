"""Least absolute deviations in an l1 ball with callbacks: small, deterministic and non-smooth.

The problem is equivalent to a linear program, which gives the optimum against which every entry is measured.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence

import numpy as np

from comparison._phrases import listed, nlopt_status, share
from comparison._runner import Answer, Clock, Column, Entry, Goal, Row, Size, Task, by_name

#: Relative distance from the optimum that counts as near.
NEAR = 1e-3


class Small(Task):
    """The mean of ``|a_i . x - b_i|`` subject to ``||x||_1 <= radius``, from 0."""

    key = "small"
    title = "A small non-smooth problem with callbacks"
    columns = (
        Column("objective", "objective"),
        Column("above", "above the optimum", ".2%"),
        Column("violation", "violation", ".0e"),
        Column("calls", "objective calls", ",.0f"),
    )
    time_limits = (60.0, 5.0)
    advice = (
        "For smooth functions of few variables with exact values, use scipy's SLSQP. For a problem that can be written as a "
        "linear or quadratic program, use a solver for those. `thalweg.minimize` is for the rest: non-smooth functions, means "
        "over samples, constraints that are neither smooth nor convex, and points that need a certificate."
    )

    def __init__(self, size: Size) -> None:
        super().__init__(size)
        self.n, self.d, self.radius = (100, 10, 4.0) if size.quick else (500, 50, 20.0)
        rng = np.random.default_rng(0)
        self.A = rng.normal(size=(self.n, self.d))
        self.b = self.A @ rng.normal(size=self.d) + 0.1 * rng.standard_t(2, size=self.n)

    def problem(self) -> str:
        return (
            f"Least absolute deviations, the mean of `|a_i . x - b_i|` over {self.n} rows in {self.d} variables, subject to "
            f"`||x||_1 <= {self.radius:g}`, from 0. Objective and constraint are numpy functions with subgradients, where the "
            "method accepts them. All entries use default settings, nlopt with a relative tolerance of 1e-8."
        )

    def fun(self, x: np.ndarray) -> float:
        return float(np.abs(self.A @ x - self.b).mean())

    def jac(self, x: np.ndarray) -> np.ndarray:
        return (np.sign(self.A @ x - self.b) @ self.A) / self.n

    def entries(self) -> List[Entry]:
        scipy = [
            Entry(f"scipy {method}", by_scipy, {"method": method}, "scipy") for method in ("SLSQP", "trust-constr", "COBYLA")
        ]
        nlopt = [Entry(f"nlopt {name}", by_nlopt, {"name": name}, "nlopt") for name in ("MMA", "CCSAQ", "SLSQP")]
        return [
            Entry("scipy linprog, as a linear program", by_linprog, {}, "scipy", structure="the problem as a linear program"),
            Entry("thalweg.minimize", by_thalweg, {"rho": None}, ours=True),
            Entry("thalweg.minimize, rho=0, with certificate", by_thalweg, {"rho": 0.0}, ours=True),
            *scipy,
            *nlopt,
        ]

    def measure(self, entry: Entry, point: Any) -> Dict[str, Optional[float]]:
        x, calls = point
        over = max(float(np.abs(x).sum()) - self.radius, 0.0)
        return {"objective": self.fun(x), "violation": over, "calls": calls, "above": None}

    def compare_rows(self, rows: Sequence[Row]) -> None:
        best = by_name(rows, "scipy linprog, as a linear program")
        for row in rows:
            if row.ran and best is not None:
                row.numbers["above"] = (row["objective"] or 0.0) / (best["objective"] or 1.0) - 1.0

    def shortfall(self, row: Row) -> str:
        above = row["above"]
        return f"{above:.1%} above the optimum" if above is not None and above > 10 * NEAR else ""

    def findings(self, rows: Sequence[Row]) -> List[str]:
        ours = by_name(rows, "thalweg.minimize")
        if ours is None or ours["above"] is None:
            return ["`thalweg.minimize` or the linear program has no result; nothing is compared."]
        others = [row for row in rows if row.ran and not row.ours and not row.structure and not row.baseline]
        near = [row for row in others if row.feasible and (row["above"] or 0.0) <= NEAR]
        text = (
            f"`thalweg.minimize` ends at {'a ' if ours.feasible else 'an in'}feasible point {share(ours['above'])} above the "
            f"optimum in {ours.seconds:.2f} seconds. Of {len(others)} other methods {len(near)} "
            f"{'comes' if len(near) == 1 else 'come'} within {NEAR:.1%} of it at a feasible point"
        )
        text += f" ({listed(f'{row.name} in {row.seconds:.2f} s' for row in near)})." if near else "."
        untrue = [row.name for row in others if row.false_success]
        short = [row for row in others if row.claimed and row.feasible and self.shortfall(row)]
        if untrue:
            text += f" {listed(untrue)} {'claims' if len(untrue) == 1 else 'claim'} success at an infeasible point."
        if short:
            words = listed(f"{row.name} {self.shortfall(row)}" for row in short)
            text += f" Claiming success far from the optimum: {words}."
        missed = [row.name for row in others if not row.feasible]
        if missed:
            text += f" Infeasible: {listed(missed)}."
        faster = [row for row in near if (row.seconds or 0.0) < (ours.seconds or 0.0)]
        if faster:
            text += f" Faster and as accurate: {listed(row.name for row in faster)}."
        return [text]

    def goals(self, rows: Sequence[Row]) -> List[Goal]:
        ours = by_name(rows, "thalweg.minimize")
        if ours is None or ours["above"] is None:
            return []
        return [
            Goal(
                f"Within {NEAR:.1%} of the optimum of the small problem, at a feasible point, with callbacks",
                ours.feasible and ours["above"] <= NEAR,
                f"{share(ours['above'])} above the optimum in {ours.seconds:.2f} seconds",
            )
        ]


# Entries. Each calls its library as a user would.


class _Counted:
    """Objective that counts its calls."""

    def __init__(self, task: Small) -> None:
        self.task, self.calls = task, 0

    def __call__(self, x: np.ndarray) -> float:
        self.calls += 1
        return self.task.fun(x)


def _ball(task: Small) -> Any:
    from scipy.optimize import NonlinearConstraint

    return NonlinearConstraint(lambda x: np.abs(x).sum(), -np.inf, task.radius, jac=np.sign)


def by_thalweg(task: Small, clock: Clock, rho: Optional[float]) -> Answer:
    import thalweg

    fun = _Counted(task)
    with clock:
        result = thalweg.minimize(fun, np.zeros(task.d), jac=task.jac, constraints=_ball(task), rho=rho)
    message = result.message
    if result.certificate is not None:
        message += f"; proximal point within {result.certificate.upper:.0e}"
    return Answer((result.x, fun.calls), bool(result.success), message)


def by_scipy(task: Small, clock: Clock, method: str) -> Answer:
    from scipy.optimize import minimize

    fun = _Counted(task)
    slopes = {} if method == "COBYLA" else {"jac": task.jac}
    with clock:
        result = minimize(fun, np.zeros(task.d), constraints=_ball(task), method=method, **slopes)
    return Answer((result.x, fun.calls), bool(result.success), str(result.message))


def by_linprog(task: Small, clock: Clock) -> Answer:
    from scipy.optimize import linprog
    from scipy.sparse import bmat, eye

    n, d = task.n, task.d
    # x = p - q with p, q >= 0, and e >= |A x - b|.
    rows = bmat(
        [
            [task.A, -task.A, -eye(n)],
            [-task.A, task.A, -eye(n)],
            [np.ones((1, d)), np.ones((1, d)), None],
        ],
        format="csr",
    )
    with clock:
        result = linprog(np.r_[np.zeros(2 * d), np.full(n, 1.0 / n)], rows, np.r_[task.b, -task.b, task.radius])
    return Answer((result.x[:d] - result.x[d : 2 * d], None), bool(result.success), str(result.message))


def by_nlopt(task: Small, clock: Clock, name: str) -> Answer:
    import nlopt

    fun = _Counted(task)

    def objective(x: np.ndarray, slope: np.ndarray) -> float:
        if slope.size:
            slope[:] = task.jac(x)
        return fun(x)

    def ball(x: np.ndarray, slope: np.ndarray) -> float:
        if slope.size:
            slope[:] = np.sign(x)
        return float(np.abs(x).sum()) - task.radius

    tool = nlopt.opt(getattr(nlopt, f"LD_{name}"), task.d)
    tool.set_min_objective(objective)
    tool.add_inequality_constraint(ball, 1e-8)
    tool.set_xtol_rel(1e-8)
    tool.set_maxtime(clock.limit)
    with clock:
        x = tool.optimize(np.zeros(task.d))
    return Answer((x, fun.calls), *nlopt_status(tool.last_optimize_result()))
