"""Feasible problems that are called infeasible, and infeasible ones that are called feasible."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, Callable, Iterator, Optional

import numpy as np
from scipy.optimize import LinearConstraint, NonlinearConstraint, linprog
from thalweg import certify, check
from thalweg.learn import fit, hinge, l2, logistic

from ._judge import WRONG, Row, feasible, infeasible, no_claim
from ._run import Truth, attempt, minimize

#: Iterations of random problems.
LIMIT = 1000


def infeasibility(seed: int, quick: bool) -> Iterator[Row]:
    """Plant feasible points, or contradictions, in random units."""
    draws = 4 if quick else 30
    for draw in range(draws):
        yield from _separable(seed, draw)
    for demand in (1.0, 1e3, 1e6):
        yield from _demand(demand)
    for draw in range(draws):
        yield from _linear_program(seed, draw)
        yield from _discs(seed, draw)
        yield from _contradiction(seed, draw)


def _radius(name: str, fun: Callable, start: np.ndarray, planted: Optional[np.ndarray], **given: Any) -> Iterator[Row]:
    """Certify the start: the radius without feasible points excludes the planted one, and the checker confirms it."""
    proof = attempt(certify, fun, start, rho=0.0, record=True, **given)
    if isinstance(proof, Exception) or proof.infeasible_radius is None:
        yield no_claim(name, "infeasible", proof)
        return
    claimed = f"no feasible point within {proof.infeasible_radius:.3g}"
    with tempfile.TemporaryDirectory() as directory:
        proof.save(Path(directory) / "certificate.json")
        verdict = check(Path(directory) / "certificate.json")
    if not verdict.confirmed:
        yield Row(name, "infeasible", claimed, verdict.sentence, WRONG, np.inf)
        return
    exists = planted is not None and float(np.linalg.norm(planted - start)) <= proof.infeasible_radius
    yield infeasible(name, exists, claimed)


def _separable(seed: int, draw: int) -> Iterator[Row]:
    """Rows that some weights separate have a hinge loss of 0 in every unit; the norm of the weights is not bounded."""
    rng = np.random.default_rng([seed, draw])
    unit = 1e-3 if draw == 0 else 10.0 ** rng.uniform(-4, 2)
    weights = rng.normal(size=3)
    rows = rng.normal(size=(20, 3))
    margin = rows @ weights
    rows, margin = rows[np.abs(margin) > 0.2], margin[np.abs(margin) > 0.2]
    labels = np.sign(margin)
    if len(labels) < 4 or abs(labels.sum()) == len(labels):
        return
    objective = l2() if draw % 2 == 0 else logistic() + 1e-3 * l2()
    name = f"separable rows times {unit:.1e}, hinge <= 0.5 (seed {seed}, draw {draw})"
    model = attempt(fit, objective, hinge() <= 0.5, X=unit * rows, y=labels)
    if isinstance(model, Exception):
        yield no_claim(name, "infeasible", model)
        return
    loss = float(np.maximum(0.0, 1.0 - labels * (unit * rows @ model.coef + model.intercept)).mean())
    if model.message.startswith("infeasible"):
        yield infeasible(name, True, model.message)
    elif model.success:
        yield feasible(name, loss - 0.5, model.message)
    else:
        yield no_claim(name, "infeasible", model.message)


def _demand(demand: float) -> Iterator[Row]:
    """Meet a demand at least cost: the variables are of the size of the demand."""
    cost = np.array([50.0, 70.0])
    violation = lambda x: float(max((demand - x.sum()) / demand, (-x / demand).max()))
    truth = Truth(violation, True, lambda x: float(cost @ x) / demand, lambda _: 50.0, 50.0)
    for rho in (None, 0.0):
        yield from minimize(
            f"50 x1 + 70 x2 with x1 + x2 >= {demand:g}, rho={rho}",
            truth,
            lambda x: float(cost @ x),
            [0.0, 0.0],
            jac=lambda x: cost,
            bounds=[(0.0, None)] * 2,
            constraints=LinearConstraint([[1.0, 1.0]], demand, np.inf),
            rho=rho,
        )


def _linear_program(seed: int, draw: int) -> Iterator[Row]:
    """Draw a linear program with a known interior point, with rows and columns in random units, and solve it with HiGHS."""
    rng = np.random.default_rng([seed, 1, draw])
    n, m = int(rng.integers(2, 6)), int(rng.integers(2, 8))
    inside = rng.uniform(-2.0, 2.0, size=n)
    rows = rng.normal(size=(m, n))
    limit = rows @ inside + rng.uniform(0.05, 1.0, size=m)
    cost = rng.normal(size=n)
    solved = linprog(cost, A_ub=rows, b_ub=limit, bounds=[(-5.0, 5.0)] * n, method="highs")
    columns = 10.0 ** rng.uniform(-3, 3, size=n)
    units = 10.0 ** rng.uniform(-5, 5, size=m)
    violation = lambda x: float(max((rows @ (x / columns) - limit).max(), (np.abs(x / columns) - 5.0).max()))
    truth = Truth(violation, True, lambda x: float(cost @ (x / columns)), lambda _: float(solved.fun), max(1.0, abs(solved.fun)))
    name, fun = f"linear program in random units (seed {seed}, draw {draw})", lambda x: cost @ (x / columns)
    given: dict = {
        "jac": lambda x: cost / columns,
        "bounds": [(-5.0 * c, 5.0 * c) for c in columns],
        "constraints": LinearConstraint(units[:, None] * rows / columns, -np.inf, units * limit),
    }
    yield from minimize(name, truth, fun, np.zeros(n), rho=(None, 0.0)[draw % 2], maxiter=LIMIT, **given)
    yield from _radius(f"certificate of a {name}", fun, columns * rng.uniform(-5.0, 5.0, size=n), inside * columns, **given)


def _discs(seed: int, draw: int) -> Iterator[Row]:
    """Minimise a distance over discs that share a known point, far from the start and in random units."""
    rng = np.random.default_rng([seed, 2, draw])
    n, m = int(rng.integers(1, 5)), int(rng.integers(1, 5))
    size = 10.0 ** rng.uniform(-4, 5)
    inside = rng.normal(size=n)
    centres = inside + rng.normal(size=(m, n))
    radii = np.linalg.norm(centres - inside, axis=1) + rng.uniform(0.05, 0.5, size=m)
    unit = 10.0 ** rng.uniform(-4, 4)
    fun = lambda x: unit * (((x / size - centres) ** 2).sum(axis=1) - radii**2)
    jac = lambda x: unit * 2.0 * (x / size - centres) / size
    truth = Truth(lambda x: float((fun(x) / unit).max()))
    name, start = f"discs of size {size:.1e} in units of {unit:.1e} (seed {seed}, draw {draw})", size * 10.0 * rng.normal(size=n)
    total = lambda x: float(np.abs(x / size).sum())
    given: dict = {"jac": lambda x: np.sign(x) / size, "constraints": NonlinearConstraint(fun, -np.inf, 0.0, jac=jac)}
    yield from minimize(name, truth, total, start, rho=(None, 0.0)[draw % 2], maxiter=LIMIT, **given)
    yield from _radius(f"certificate of {name}", total, start, size * inside, **given)


def _contradiction(seed: int, draw: int) -> Iterator[Row]:
    """Draw constraints of which two contradict each other by one natural unit."""
    rng = np.random.default_rng([seed, 3, draw])
    n = int(rng.integers(1, 5))
    row = rng.normal(size=n)
    row /= np.linalg.norm(row)
    level = rng.normal()
    units = 10.0 ** rng.uniform(-8, 4, size=2)
    violation = lambda x: float(max(level + 0.5 - row @ x, row @ x - level + 0.5))
    name = f"contradiction in units of {units[0]:.1e} and {units[1]:.1e} (seed {seed}, draw {draw})"
    fun, start = lambda x: float(x @ x), rng.normal(size=n)
    given: dict = {
        "jac": lambda x: 2.0 * x,
        "constraints": [
            LinearConstraint(units[0] * row[None, :], units[0] * (level + 0.5), np.inf),
            LinearConstraint(units[1] * row[None, :], -np.inf, units[1] * (level - 0.5)),
        ],
    }
    yield from minimize(name, Truth(violation, exists=False), fun, start, rho=(None, 0.0)[draw % 2], maxiter=LIMIT, **given)
    yield from _radius(f"certificate of a {name}", fun, start, None, **given)
