"""Wrong gradients and wrong constants: a proof from wrong data has to be refused if the error is visible in the values.

Every error here is gross: at the points that a certificate visits, gradient or constant contradict the values of the function.
"""

from __future__ import annotations

from typing import Callable, Dict, Iterator

import numpy as np
import thalweg

from ._judge import WRONG, Row, no_claim
from ._planted import CONVEX, plant
from ._run import Truth, attempt, certificate, claims, planted

Gradient = Callable[[np.ndarray], np.ndarray]


def derivatives(seed: int, quick: bool) -> Iterator[Row]:
    """Give wrong gradients and too small constants, and judge the intervals by the right functions."""
    yield from _zero_gradient()
    for draw in range(4 if quick else 40):
        yield from _wrong_gradients(seed, draw)
    for name, (fun, jac, needed) in _FUNCTIONS.items():
        for point in (0.3, 0.9) if quick else (-1.4, -0.6, 0.1, 0.3, 0.9, 1.7):
            for share in (0.0,) if quick else (0.0, 0.1, 0.5):
                yield _small_constant(name, fun, jac, needed * share, point)


def _zero_gradient() -> Iterator[Row]:
    """Claim a zero gradient of ``x^2 + x`` at 0.5; with mu = 1 the proximal point is -1/6."""
    fun, zero = lambda x: float(x[0] ** 2 + x[0]), lambda x: [0.0]
    found = attempt(thalweg.certify, fun, [0.5], jac=zero, rho=0.0, mu=1.0)
    yield certificate("x^2 + x at 0.5 with gradient 0", found, lambda _: 2.0 / 3.0, lambda _: 1e-12)
    result = attempt(thalweg.minimize, fun, [0.5], jac=zero, rho=0.0)
    name = "x^2 + x minimised with gradient 0"
    truth = Truth(lambda x: -np.inf, True, fun, lambda _: -0.25)
    if isinstance(result, Exception):
        yield no_claim(name, "optimal", result)
    else:
        yield from claims(name, truth, result)


def _wrong_gradients(seed: int, draw: int) -> Iterator[Row]:
    """Certify a point half a unit from its proximal point with gradients that are wrong in different ways."""
    rng = np.random.default_rng([seed, draw])
    kind = CONVEX[draw % len(CONVEX)]
    problem = plant(rng, kind, size=int(rng.integers(1, 6)), distance=0.5)
    right, entry = problem.jac, int(rng.integers(len(problem.x)))
    unit = np.eye(len(problem.x))[entry]
    wrong: Dict[str, Gradient] = {
        "zero": lambda x: np.zeros(len(x)),
        "of the wrong sign": lambda x: -right(x),
        "with one entry wrong": lambda x: right(x) - 2.0 * right(x)[entry] * unit,
        "twice too large": lambda x: 2.0 * right(x),
        "twice too small": lambda x: 0.5 * right(x),
        "1000 times too small": lambda x: 1e-3 * right(x),
        "of another point": lambda x: right(x + 1.0),
    }
    here = right(problem.x)
    for error, jac in wrong.items():
        if np.linalg.norm(jac(problem.x) - here) < 0.1 * np.linalg.norm(here):
            continue  # nearly right at this point
        name = f"{kind.__name__} with a gradient {error} (seed {seed}, draw {draw})"
        yield planted(name, problem, jac=jac)


def _small_constant(name: str, fun: Callable, jac: Callable, rho: float, point: float) -> Row:
    """Certify with a constant below the one that the function needs. The truth minimises the stated subproblem on a fine grid."""
    name = f"{name} at {point:g} with rho={rho:g}"
    found = attempt(thalweg.certify, lambda x: float(fun(x[0])), [point], jac=lambda x: [float(jac(x[0]))], rho=rho, mu=1.0)

    def distance(claimed: thalweg.Certificate) -> float:
        grid = point + np.linspace(-6.0, 6.0, 1_200_001)
        values = fun(grid) + 0.5 * (claimed.rho_f + claimed.mu) * (grid - point) ** 2
        return float(abs(grid[int(values.argmin())] - point))

    judged = certificate(name, found, distance, lambda _: 1e-4)
    if judged.verdict == WRONG and not visible(fun, jac, rho, point, max(distance(found), found.upper)):
        return no_claim(name, "interval", "the constant is wrong only far from the point")
    return judged


def visible(fun: Callable, jac: Callable, rho: float, point: float, radius: float) -> bool:
    """Return whether two of 17 points within the radius contradict a weak-convexity constant."""
    points = point + np.linspace(-radius, radius, 17)
    step = points[None, :] - points[:, None]
    linear = fun(points)[:, None] + jac(points)[:, None] * step - 0.5 * rho * step**2
    return bool((linear > fun(points)[None, :] + 1e-6).any())


#: Function, derivative, and the weak-convexity constant that it needs.
_FUNCTIONS = {
    "|x^2 - 1|": (lambda x: np.abs(x * x - 1.0), lambda x: 2.0 * x * np.sign(x * x - 1.0), 2.0),
    "(x^2 - 1)^2": (lambda x: (x * x - 1.0) ** 2, lambda x: 4.0 * x * (x * x - 1.0), 4.0),
    "sin 3x": (lambda x: np.sin(3.0 * x), lambda x: 3.0 * np.cos(3.0 * x), 9.0),
    "log(0.1 + x^2)": (lambda x: np.log(0.1 + x * x), lambda x: 2.0 * x / (0.1 + x * x), 2.5),
    "exp(-2 x^2)": (lambda x: np.exp(-2.0 * x * x), lambda x: -4.0 * x * np.exp(-2.0 * x * x), 4.0),
    "x^2 - 3 |x - 1/2|": (lambda x: x * x - 3.0 * np.abs(x - 0.5), lambda x: 2.0 * x - 3.0 * np.sign(x - 0.5), 1e3),
}
