"""Rounding in certificates: constants added to the objective, and least squares with large targets."""

from __future__ import annotations

from fractions import Fraction
from typing import Iterator, List, Tuple

import numpy as np
import thalweg

from ._judge import Row
from ._planted import CONVEX, WEAKLY_CONVEX, plant
from ._run import attempt, certificate, planted

#: Added to the objective, which changes nothing in exact arithmetic.
CONSTANTS = (0.0, 1e3, 1e6, 1e9)


def rounding(seed: int, quick: bool) -> Iterator[Row]:
    """Certify points close to their proximal points, where the objective has few digits left."""
    yield _parabola()
    for draw in range(4 if quick else 25):
        yield _least_squares(seed, draw)
    kinds = (*CONVEX, *WEAKLY_CONVEX)
    for draw in range(10 if quick else 150):
        rng = np.random.default_rng([seed, draw])
        kind = kinds[draw % len(kinds)]
        distance = float(rng.choice([1e-6, 1e-5, 1e-4, 1e-2, 1.0]))
        size, constrained = int(rng.integers(1, 6)), bool(rng.random() < 0.3)
        for constant in CONSTANTS:
            # The same problem with every constant.
            problem = plant(
                np.random.default_rng([seed, draw, 1]),
                kind,
                size=size,
                constrained=constrained,
                distance=distance,
                constant=constant,
            )
            name = f"{kind.__name__} plus {constant:g}, {distance:g} from its proximal point (seed {seed}, draw {draw})"
            yield planted(name, problem)


def _parabola() -> Row:
    """Certify ``1e6 + x^2 / 2`` at 1e-5; with mu = 1 the proximal point is x / 2."""
    found = attempt(thalweg.certify, lambda x: 1e6 + 0.5 * x[0] ** 2, [1e-5], jac=lambda x: [x[0]], rho=0.0, mu=1.0)
    return certificate("1e6 + x^2 / 2 at 1e-5", found, lambda _: 5e-6, lambda _: 1e-18)


def _least_squares(seed: int, draw: int) -> Row:
    """Certify a rounded solution of least squares with targets of 2e5; the truth is computed in fractions."""
    rng = np.random.default_rng([seed, 4, draw])
    n, rows = int(rng.integers(1, 4)), 12
    matrix = rng.normal(size=(rows, n))
    targets = 2e5 * (1.0 + 0.1 * rng.normal(size=rows))
    solution = np.linalg.lstsq(matrix, targets, rcond=None)[0]
    x = solution + 10.0 ** rng.uniform(-6, -2) * rng.normal(size=n)
    mu = 1.0
    found = attempt(
        thalweg.certify,
        lambda y: 0.5 * float(((matrix @ y - targets) ** 2).mean()),
        x,
        jac=lambda y: (matrix @ y - targets) @ matrix / rows,
        rho=0.0,
        mu=mu,
    )
    move = _proximal_move(matrix, targets, x, mu)
    truth = float(sum(m * m for m in move)) ** 0.5
    name = f"least squares with targets of 2e5, {truth:.1e} from its proximal point (seed {seed}, draw {draw})"
    # The gradient itself, a mean of products with targets of 2e5, is rounded at 1e-10.
    return certificate(name, found, lambda _: truth, lambda _: 1e-9)


def _proximal_move(matrix: np.ndarray, targets: np.ndarray, x: np.ndarray, mu: float) -> List[Fraction]:
    """Return the exact vector from x to the proximal point: ``(A'A / rows + mu I) d = A'(b - A x) / rows``."""
    a = [[Fraction(value) for value in row] for row in matrix.tolist()]
    point, count = [Fraction(value) for value in x.tolist()], len(a)
    left = [Fraction(b) - sum(v * p for v, p in zip(row, point)) for row, b in zip(a, targets.tolist())]
    n = len(point)
    system = [
        [sum((row[i] * row[j] for row in a), Fraction(0)) / count + Fraction(mu if i == j else 0) for j in range(n)]
        for i in range(n)
    ]
    return solve_exactly(system, [sum((row[i] * r for row, r in zip(a, left)), Fraction(0)) / count for i in range(n)])


def solve_exactly(system: List[List[Fraction]], right: List[Fraction]) -> List[Fraction]:
    """Solve a positive definite linear system by elimination in fractions."""
    rows: List[Tuple[List[Fraction], Fraction]] = [(list(row), b) for row, b in zip(system, right)]
    n = len(rows)
    for i in range(n):
        pivot, b = rows[i]
        for k in range(n):
            if k != i:
                other, c = rows[k]
                factor = other[i] / pivot[i]
                rows[k] = ([o - factor * p for o, p in zip(other, pivot)], c - factor * b)
    return [b / row[i] for i, (row, b) in enumerate(rows)]
