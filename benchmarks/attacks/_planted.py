"""Random problems with a planted proximal point.

Choose the proximal point z, a subgradient v of the objective there and multipliers of the constraints. The optimality conditions
of the proximal subproblem then give the point x whose proximal point is z, for convex and for weakly convex functions: with the
coefficient c of the objective and the constants r_j of the constraints,

    x = z + (v + sum_j m_j slope_j) / (c + sum_j m_j r_j).

The subproblem is convex, so these conditions are sufficient, and the distance between x and z is the truth about the certificate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, List, Tuple

import numpy as np
from scipy.optimize import LinearConstraint, NonlinearConstraint

#: Objective at a point, a subgradient there, and the weak-convexity constant.
Function = Tuple[Callable[[np.ndarray], float], Callable[[np.ndarray], np.ndarray], float]


@dataclass
class Planted:
    """Arguments of ``thalweg.certify`` and the distance that it has to bound."""

    fun: Callable[[np.ndarray], float]
    jac: Callable[[np.ndarray], np.ndarray]
    x: np.ndarray
    constraints: list
    rho: Tuple[float, float]
    mu: float
    distance: float
    #: Sum of the multipliers, which bounds the effect of a relaxation of the constraints.
    multipliers: float

    def arguments(self) -> dict:
        """Return the keyword arguments of ``thalweg.certify`` other than the target and the point."""
        return {"jac": self.jac, "constraints": self.constraints, "rho": self.rho, "mu": self.mu}

    def accuracy(self, relaxed: float) -> float:
        """Return the largest difference between the planted distance and that of the relaxed subproblem, with rounding.

        The optimum of the subproblem decreases by at most the relaxation times the multipliers, and strong convexity turns that
        into a distance.
        """
        moved = np.sqrt(2.0 * max(relaxed, 0.0) * self.multipliers / self.mu)
        return float(moved + 1e-12 * (1.0 + self.distance) + 1e-13 * np.abs(self.x).max())


def quadratic(rng: np.random.Generator, z: np.ndarray) -> Tuple[Function, np.ndarray]:
    """Return a convex quadratic and its gradient at z."""
    n = len(z)
    root = rng.normal(size=(n, n)) / np.sqrt(n)
    q, linear = root @ root.T, rng.normal(size=n)
    return (lambda y: 0.5 * y @ q @ y + linear @ y, lambda y: q @ y + linear, 0.0), q @ z + linear


def indefinite(rng: np.random.Generator, z: np.ndarray) -> Tuple[Function, np.ndarray]:
    """Return a quadratic with negative curvature and its gradient at z."""
    n = len(z)
    q = rng.normal(size=(n, n))
    q = q + q.T
    rho = max(0.0, -float(np.linalg.eigvalsh(q)[0])) * (1.0 + 1e-12)
    return (lambda y: 0.5 * y @ q @ y, lambda y: q @ y, rho), q @ z


def pieces(rng: np.random.Generator, z: np.ndarray) -> Tuple[Function, np.ndarray]:
    """Return a maximum of affine functions with several active at z, and one of its subgradients there."""
    n = len(z)
    active, total = int(rng.integers(1, n + 2)), 3 * n + 3
    slopes = rng.normal(size=(total, n))
    values = np.where(np.arange(total) < active, 0.0, -rng.uniform(0.1, 2.0, size=total))
    offsets = values - slopes @ z
    share = rng.dirichlet(np.ones(active))
    fun = lambda y: float((slopes @ y + offsets).max())
    return (fun, lambda y: slopes[int((slopes @ y + offsets).argmax())], 0.0), share @ slopes[:active]


def absolute(rng: np.random.Generator, z: np.ndarray) -> Tuple[Function, np.ndarray]:
    """Return a weighted l1 distance with kinks at some entries of z, and one of its subgradients there."""
    n = len(z)
    kink = rng.random(n) < 0.5
    centre, weight = np.where(kink, z, z + rng.normal(size=n)), rng.uniform(0.5, 2.0, size=n)
    inside = np.where(kink, rng.uniform(-1.0, 1.0, size=n), np.sign(z - centre))
    return (lambda y: float(weight @ np.abs(y - centre)), lambda y: weight * np.sign(y - centre), 0.0), weight * inside


def logistic(rng: np.random.Generator, z: np.ndarray) -> Tuple[Function, np.ndarray]:
    """Return a logistic loss and its gradient at z."""
    rows = rng.normal(size=(20, len(z)))
    fun = lambda y: float(np.logaddexp(0.0, -rows @ y).mean())
    jac = lambda y: -(rows / (1.0 + np.exp(np.clip(rows @ y, -700, 700)))[:, None]).mean(axis=0)
    return (fun, jac, 0.0), jac(z)


def folded(rng: np.random.Generator, z: np.ndarray) -> Tuple[Function, np.ndarray]:
    """Return a sum of ``|y^2 - t^2|``, weakly convex with constant 2, with kinks at some entries of z."""
    n = len(z)
    kink = rng.random(n) < 0.5
    level = np.where(kink, z * z, rng.uniform(0.5, 2.0, size=n))
    sign = np.where(kink, rng.uniform(-1.0, 1.0, size=n), np.sign(z * z - level))
    return (lambda y: float(np.abs(y * y - level).sum()), lambda y: 2.0 * y * np.sign(y * y - level), 2.0), 2.0 * z * sign


def waves(rng: np.random.Generator, z: np.ndarray) -> Tuple[Function, np.ndarray]:
    """Return a sum of cosines, weakly convex with the largest amplitude times the squared frequency."""
    n = len(z)
    height, often, shift = rng.uniform(0.2, 1.0, size=n), rng.uniform(0.5, 2.0, size=n), rng.uniform(0, 6, size=n)
    fun = lambda y: float(height @ np.cos(often * y + shift))
    jac = lambda y: -height * often * np.sin(often * y + shift)
    return (fun, jac, float((height * often**2).max())), jac(z)


CONVEX = (quadratic, pieces, absolute, logistic)
WEAKLY_CONVEX = (indefinite, folded, waves)


def plant(
    rng: np.random.Generator,
    kind: Callable[[np.random.Generator, np.ndarray], Tuple[Function, np.ndarray]],
    *,
    size: int,
    constrained: bool = False,
    distance: float = 1.0,
    constant: float = 0.0,
) -> Planted:
    """Return a problem at a point whose proximal point lies at the given distance.

    `constant` is added to the objective; it changes nothing in exact arithmetic.
    """
    z = rng.normal(size=size)
    (fun, jac, rho_f), v = kind(rng, z)
    mu = float(rng.choice([0.5, 1.0, 3.0]))
    directions, multipliers, curvatures, rho_g = _active(rng, z) if constrained else ([], np.zeros(0), [], 0.0)
    coefficient = rho_f + mu + rho_g * multipliers.sum()
    pull = sum((m * d for m, d in zip(multipliers, directions)), np.zeros(size))
    # A linear term moves the point to the requested distance.
    wanted = rng.normal(size=size)
    wanted *= coefficient * distance / np.linalg.norm(wanted)
    tilt = wanted - pull - v
    x = z + wanted / coefficient
    far = float(np.linalg.norm(x - z))
    objective = lambda y: fun(y) + float(tilt @ y) + constant
    slope = lambda y: jac(y) + tilt
    constraints = [_constraint(z, d, b, rho_g, far) for d, b in zip(directions, curvatures)]
    total = float(multipliers.sum())
    return Planted(objective, slope, x, constraints, (rho_f, rho_g), mu, far, total)


def _active(rng: np.random.Generator, z: np.ndarray) -> Tuple[List[np.ndarray], np.ndarray, List[float], float]:
    """Return slopes, multipliers and curvatures of active constraints, and their weak-convexity constant."""
    count = int(rng.integers(1, 3))
    directions = [d / np.linalg.norm(d) for d in rng.normal(size=(count, len(z)))]
    form = rng.choice(["linear", "convex", "weakly convex"])
    curvature = {"linear": 0.0, "convex": 1.0, "weakly convex": -1.0}[str(form)]
    return directions, rng.uniform(0.1, 1.5, size=count), [curvature] * count, max(0.0, -curvature)


def _constraint(z: np.ndarray, slope: np.ndarray, curvature: float, rho: float, far: float) -> object:
    """Return ``slope (y - z) + curvature / 2 ||y - z||^2 - rho / 2 far^2 <= 0``, which is active at z in the subproblem."""
    if curvature == 0.0:
        return LinearConstraint(slope[None, :], -np.inf, float(slope @ z))
    fun = lambda y: slope @ (y - z) + 0.5 * curvature * (y - z) @ (y - z) - 0.5 * rho * far**2
    return NonlinearConstraint(fun, -np.inf, 0.0, jac=lambda y: slope + curvature * (y - z))
