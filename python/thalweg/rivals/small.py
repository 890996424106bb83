"""Least absolute deviations in an l1 ball by callbacks: small, deterministic, not smooth.

It is a linear program in disguise, which gives the true optimum to measure everybody against.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence

import numpy as np

from thalweg.rivals._contest import Answer, Clock, Column, Contestant, Goal, Job, Row, Size, by_name
from thalweg.rivals._words import listed, nlopt_word, share

#: "Near the optimum": within this share of it.
NEAR = 1e-3


class Small(Job):
    """The mean of ``|a_i . x - b_i|`` subject to ``||x||_1 <= radius``, from 0."""

    key = "small"
    title = "A small non-smooth problem by callbacks"
    columns = (
        Column("objective", "objective"),
        Column("above", "above the optimum", ".2%"),
        Column("violation", "violation", ".0e"),
        Column("calls", "calls of the objective", ",.0f"),
    )
    cap = (60.0, 5.0)
    advice = (
        "Functions that are smooth, few variables, exact values: take scipy's SLSQP. A problem that can be written as a linear "
        "or quadratic program: take a solver for those. `thalweg.minimize` is for what remains: kinks, means over samples, "
        "constraints that are neither smooth nor convex, and a point whose quality somebody has to vouch for."
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
            f"`||x||_1 <= {self.radius:g}`, from 0. Objective and constraint are numpy functions with subgradients; who knows no "
            "subgradients gets none. All have the settings that they come with, nlopt a relative tolerance of 1e-8."
        )

    def fun(self, x: np.ndarray) -> float:
        return float(np.abs(self.A @ x - self.b).mean())

    def jac(self, x: np.ndarray) -> np.ndarray:
        return (np.sign(self.A @ x - self.b) @ self.A) / self.n

    def contestants(self) -> List[Contestant]:
        scipy = [
            Contestant(f"scipy {method}", by_scipy, {"method": method}, "scipy") for method in ("SLSQP", "trust-constr", "COBYLA")
        ]
        nlopt = [Contestant(f"nlopt {name}", by_nlopt, {"name": name}, "nlopt") for name in ("MMA", "CCSAQ", "SLSQP")]
        return [
            Contestant(
                "scipy linprog, as a linear program", by_linprog, {}, "scipy", knows="the problem as rows of a linear program"
            ),
            Contestant("thalweg.minimize", by_thalweg, {"rho": None}, ours=True),
            Contestant("thalweg.minimize, rho=0, with certificate", by_thalweg, {"rho": 0.0}, ours=True),
            *scipy,
            *nlopt,
        ]

    def measure(self, contestant: Contestant, point: Any) -> Dict[str, Optional[float]]:
        x, calls = point
        over = max(float(np.abs(x).sum()) - self.radius, 0.0)
        return {"objective": self.fun(x), "violation": over, "calls": calls, "above": None}

    def settle(self, rows: Sequence[Row]) -> None:
        best = by_name(rows, "scipy linprog, as a linear program")
        for row in rows:
            if row.ran and best is not None:
                row.numbers["above"] = (row["objective"] or 0.0) / (best["objective"] or 1.0) - 1.0

    def shortfall(self, row: Row) -> str:
        above = row["above"]
        return f"{above:.1%} above the optimum" if above is not None and above > 10 * NEAR else ""

    def shows(self, rows: Sequence[Row]) -> List[str]:
        ours = by_name(rows, "thalweg.minimize")
        if ours is None or ours["above"] is None:
            return ["Thalweg or the linear program has no row here: nothing is compared."]
        others = [row for row in rows if row.ran and not row.ours and not row.knows and not row.mark]
        near = [row for row in others if row.kept and (row["above"] or 0.0) <= NEAR]
        text = (
            f"`thalweg.minimize` ends {share(ours['above'])} above the true optimum in {ours.seconds:.2f} seconds, "
            f"{'feasible' if ours.kept else 'not feasible'}. Of {len(others)} other methods {len(near)} "
            f"{'comes' if len(near) == 1 else 'come'} within {NEAR:.1%} of it and keep the constraint"
        )
        text += f" ({listed(f'{row.name} in {row.seconds:.2f} s' for row in near)})." if near else "."
        untrue = [row.name for row in others if row.untrue]
        short = [row for row in others if row.claimed and row.kept and self.shortfall(row)]
        if untrue:
            text += f" Success outside the ball is claimed by {listed(untrue)}."
        if short:
            text += f" Success is claimed by {listed(f'{row.name}, {self.shortfall(row)}' for row in short)}."
        missed = [row.name for row in others if not row.kept]
        if missed:
            text += f" Not feasible: {listed(missed)}."
        faster = [row for row in near if (row.seconds or 0.0) < (ours.seconds or 0.0)]
        if faster:
            text += f" Faster than ours, and as good: {listed(row.name for row in faster)}."
        return [text]

    def goals(self, rows: Sequence[Row]) -> List[Goal]:
        ours = by_name(rows, "thalweg.minimize")
        if ours is None or ours["above"] is None:
            return []
        return [
            Goal(
                f"The optimum of the small problem within {NEAR:.1%}, feasible, by callbacks",
                ours.kept and ours["above"] <= NEAR,
                f"{share(ours['above'])} above it in {ours.seconds:.2f} seconds",
            )
        ]


# The tools. Each is told what a user of it would write.


class _Counted:
    """The objective, with the number of its calls."""

    def __init__(self, job: Small) -> None:
        self.job, self.calls = job, 0

    def __call__(self, x: np.ndarray) -> float:
        self.calls += 1
        return self.job.fun(x)


def _ball(job: Small) -> Any:
    from scipy.optimize import NonlinearConstraint

    return NonlinearConstraint(lambda x: np.abs(x).sum(), -np.inf, job.radius, jac=np.sign)


def by_thalweg(job: Small, clock: Clock, rho: Optional[float]) -> Answer:
    import thalweg

    fun = _Counted(job)
    with clock:
        result = thalweg.minimize(fun, np.zeros(job.d), jac=job.jac, constraints=_ball(job), rho=rho)
    says = result.message
    if result.certificate is not None:
        says += f", its proximal point within {result.certificate.upper:.0e}"
    return Answer((result.x, fun.calls), bool(result.success), says)


def by_scipy(job: Small, clock: Clock, method: str) -> Answer:
    from scipy.optimize import minimize

    fun = _Counted(job)
    slopes = {} if method == "COBYLA" else {"jac": job.jac}
    with clock:
        result = minimize(fun, np.zeros(job.d), constraints=_ball(job), method=method, **slopes)
    return Answer((result.x, fun.calls), bool(result.success), str(result.message))


def by_linprog(job: Small, clock: Clock) -> Answer:
    from scipy.optimize import linprog
    from scipy.sparse import bmat, eye

    n, d = job.n, job.d
    # x = p - q with p, q >= 0, and e >= |A x - b|.
    rows = bmat(
        [
            [job.A, -job.A, -eye(n)],
            [-job.A, job.A, -eye(n)],
            [np.ones((1, d)), np.ones((1, d)), None],
        ],
        format="csr",
    )
    with clock:
        result = linprog(np.r_[np.zeros(2 * d), np.full(n, 1.0 / n)], rows, np.r_[job.b, -job.b, job.radius])
    return Answer((result.x[:d] - result.x[d : 2 * d], None), bool(result.success), str(result.message))


def by_nlopt(job: Small, clock: Clock, name: str) -> Answer:
    import nlopt

    fun = _Counted(job)

    def objective(x: np.ndarray, slope: np.ndarray) -> float:
        if slope.size:
            slope[:] = job.jac(x)
        return fun(x)

    def ball(x: np.ndarray, slope: np.ndarray) -> float:
        if slope.size:
            slope[:] = np.sign(x)
        return float(np.abs(x).sum()) - job.radius

    tool = nlopt.opt(getattr(nlopt, f"LD_{name}"), job.d)
    tool.set_min_objective(objective)
    tool.add_inequality_constraint(ball, 1e-8)
    tool.set_xtol_rel(1e-8)
    tool.set_maxtime(clock.cap)
    with clock:
        x = tool.optimize(np.zeros(job.d))
    return Answer((x, fun.calls), *nlopt_word(tool.last_optimize_result()))
