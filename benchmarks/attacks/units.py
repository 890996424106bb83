"""Units: the same problem with objective, constraints or variables multiplied by a number has the same answer."""

from __future__ import annotations

from typing import Iterator

import numpy as np
import thalweg
from scipy.optimize import LinearConstraint

from ._classical import INEQUALITIES, in_original_units, scaled
from ._judge import Row, feasible, no_claim
from ._run import Truth, attempt, certificate, claims, minimize

SCALES = (1e-6, 1e-4, 1e4, 1e6)
#: Iterations of scaled problems; most need less than 400 in natural units.
LIMIT = 2000


def units(seed: int, quick: bool) -> Iterator[Row]:
    """Scale quadratics and classical problems, and state constraints in very small units."""
    yield from _small_constraints()
    for draw in range(3 if quick else 20):
        for scale in (1e-6, 1.0, 1e6) if quick else (1e-6, 1e-4, 1e-2, 1.0, 1e2, 1e4, 1e6):
            yield from _quadratic(seed, draw, scale)
    for problem in INEQUALITIES[::4] if quick else INEQUALITIES:
        truth = problem.truth()
        yield from minimize(problem.name, truth, **scaled(problem))
        for scale in (1e-6, 1e6) if quick else SCALES:
            yield from minimize(f"{problem.name}, f times {scale:g}", truth, maxiter=LIMIT, **scaled(problem, f=scale))
            if problem.inequalities is not None:
                yield from minimize(f"{problem.name}, g times {scale:g}", truth, maxiter=LIMIT, **scaled(problem, g=scale))
            yield from minimize(
                f"{problem.name}, x times {scale:g}", in_original_units(truth, scale), maxiter=LIMIT, **scaled(problem, x=scale)
            )


def _small_constraints() -> Iterator[Row]:
    """Check points that violate a constraint by many of its units, or by one."""
    cases = (
        ("x <= 1e-9 at 9e-7", 9e-7, LinearConstraint([[1.0]], -np.inf, 1e-9), lambda x: (x[0] - 1e-9) / 1e-9),
        ("1e-8 (x - 1) >= 0 at 0", 0.0, LinearConstraint([[1e-8]], 1e-8, np.inf), lambda x: 1.0 - x[0]),
    )
    for name, point, constraint, violation in cases:
        fun, jac = lambda x: float((x[0] - 3.0) ** 2), lambda x: [2.0 * (x[0] - 3.0)]
        if point == 0.0:
            fun, jac = lambda x: float(0.5 * x[0] ** 2), lambda x: [x[0]]
        found = attempt(thalweg.certify, fun, [point], jac=jac, constraints=constraint, rho=0.0)
        if isinstance(found, Exception):
            yield no_claim(f"{name}, certified", "feasible", found)
        elif found.feasible:
            yield feasible(f"{name}, certified", violation(np.array([point])), repr(found))
        else:
            yield no_claim(f"{name}, certified", "feasible", repr(found))
        yield from minimize(f"{name}, minimised", Truth(violation), fun, [point], jac=jac, constraints=constraint)


def _quadratic(seed: int, draw: int, scale: float) -> Iterator[Row]:
    """Minimise a random strongly convex quadratic times a number; unit of the objective is its decrease from the start."""
    rng = np.random.default_rng([seed, draw])
    n = int(rng.integers(1, 11))
    root = rng.normal(size=(n, n)) / np.sqrt(n)
    q = root @ root.T + 0.3 * np.eye(n)
    solution, start = rng.normal(size=n), 3.0 * rng.normal(size=n)
    value = lambda x: float(0.5 * (x - solution) @ q @ (x - solution))
    truth = Truth(lambda x: -np.inf, True, value, lambda _: 0.0, value(start))
    name = f"quadratic times {scale:g} (seed {seed}, draw {draw})"
    result = attempt(thalweg.minimize, lambda x: scale * value(x), start, jac=lambda x: scale * q @ (x - solution), rho=0.0)
    if isinstance(result, Exception):
        yield no_claim(name, "optimal", result)
        return
    yield from claims(name, truth, result)

    def distance(found: thalweg.Certificate) -> float:
        # The proximal point solves (scale q + c I) (z - x) = -scale q (x - solution).
        coefficient = found.rho_f + found.mu
        return float(np.linalg.norm(np.linalg.solve(scale * q + coefficient * np.eye(n), scale * q @ (result.x - solution))))

    yield certificate(name, result.certificate, distance, lambda _: 1e-13 + 1e-14 * float(np.abs(result.x).max()))
