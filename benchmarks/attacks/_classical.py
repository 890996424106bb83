"""Classical problems with known optima: Hock and Schittkowski (1981), and minimax problems as in Lukšan and Vlček (2000).

The objective is the largest of some smooth pieces. Gradients are complex-step derivatives, exact up to rounding.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Optional, Tuple

import numpy as np
from scipy.optimize import NonlinearConstraint, minimize

from ._run import Truth, attempt

#: Several smooth functions of a point, as a list or an array; complex arguments are allowed.
Vector = Callable[[np.ndarray], Any]


@dataclass(frozen=True)
class Classical:
    """``min max(pieces)`` subject to ``inequalities <= 0``, ``equalities = 0`` and bounds."""

    name: str
    start: Tuple[float, ...]
    optimum: float
    pieces: Vector
    inequalities: Optional[Vector] = None
    equalities: Optional[Vector] = None
    bounds: Optional[Tuple[Tuple[Optional[float], Optional[float]], ...]] = None
    convex: bool = True

    def fun(self, x: np.ndarray) -> float:
        return float(np.max(self.pieces(x)))

    def jac(self, x: np.ndarray) -> np.ndarray:
        return derivative(self.pieces, x)[int(np.argmax(self.pieces(x)))]

    def violation(self, x: np.ndarray) -> float:
        """Return the largest violation of a constraint or bound."""
        parts = [-np.inf]
        if self.inequalities is not None:
            parts.append(float(np.max(self.inequalities(x))))
        if self.equalities is not None:
            parts.append(float(np.max(np.abs(self.equalities(x)))))
        for value, (low, high) in zip(x, self.bounds or ()):
            parts += [-np.inf if low is None else low - value, -np.inf if high is None else value - high]
        return max(parts)

    def truth(self) -> Truth:
        """Return the truth about the problem; for one that is not convex, about the solution nearby."""
        unit = max(1.0, abs(self.optimum))
        best = (lambda _: self.optimum) if self.convex else (lambda x: improved(self, x))
        return Truth(self.violation, True, self.fun, best, unit)


def derivative(function: Vector, x: np.ndarray) -> np.ndarray:
    """Return the Jacobian by complex steps."""
    step = 1e-30
    rows = [np.asarray(function(x + 1j * step * unit)).imag / step for unit in np.eye(len(x))]
    return np.array(rows).T


def improved(problem: Classical, x: np.ndarray) -> float:
    """Return the smallest objective of a feasible point that SLSQP finds from x, in epigraph form; at most that of x itself."""
    found = slsqp(problem, x)
    if found is None or problem.violation(found) > 1e-7:
        return problem.fun(x)
    return min(problem.fun(found), problem.fun(x))


def slsqp(problem: Classical, x: np.ndarray) -> Optional[np.ndarray]:
    """Minimise a further variable t subject to ``pieces <= t`` with scipy's SLSQP; None if it fails."""
    n = len(x)
    start = np.append(x, problem.fun(x))
    slopes = lambda z: np.hstack([-derivative(problem.pieces, z[:n]), np.ones((len(problem.pieces(z[:n])), 1))])
    constraints = [{"type": "ineq", "fun": lambda z: z[n] - np.asarray(problem.pieces(z[:n])), "jac": slopes}]
    wide = lambda function, sign: lambda z: np.pad(sign * derivative(function, z[:n]), ((0, 0), (0, 1)))
    if problem.inequalities is not None:
        g = problem.inequalities
        constraints.append({"type": "ineq", "fun": lambda z: -np.asarray(g(z[:n])), "jac": wide(g, -1.0)})
    if problem.equalities is not None:
        h = problem.equalities
        constraints.append({"type": "eq", "fun": lambda z: np.asarray(h(z[:n])), "jac": wide(h, 1.0)})
    bounds = None if problem.bounds is None else [*problem.bounds, (None, None)]
    options = {"maxiter": 500, "ftol": 1e-12}
    gradient = np.append(np.zeros(n), 1.0)
    found = attempt(
        minimize,
        lambda z: z[n],
        start,
        jac=lambda z: gradient,
        constraints=constraints,
        bounds=bounds,
        method="SLSQP",
        options=options,
    )
    return None if isinstance(found, Exception) else found.x[:n]


def scaled(problem: Classical, f: float = 1.0, g: float = 1.0, x: float = 1.0) -> dict:
    """Return the arguments of ``thalweg.minimize`` with objective, constraints and variables in other units.

    The variables of the scaled problem are `x` times the original ones.
    """
    constraints = []
    if problem.inequalities is not None:
        inner = problem.inequalities
        fun = lambda y: g * np.asarray(inner(y / x))
        constraints.append(NonlinearConstraint(fun, -np.inf, 0.0, jac=lambda y: (g / x) * derivative(inner, y / x)))
    if problem.equalities is not None:
        equal = problem.equalities
        same = lambda y: g * np.asarray(equal(y / x))
        constraints.append(NonlinearConstraint(same, 0.0, 0.0, jac=lambda y: (g / x) * derivative(equal, y / x)))
    bounds = None
    if problem.bounds is not None:
        bounds = [tuple(None if side is None else x * side for side in pair) for pair in problem.bounds]
    return {
        "fun": lambda y: f * problem.fun(y / x),
        "x0": x * np.array(problem.start),
        "jac": lambda y: (f / x) * problem.jac(y / x),
        "constraints": constraints,
        "bounds": bounds,
    }


def in_original_units(truth: Truth, x: float) -> Truth:
    """Return the truth as a function of the scaled variables."""
    back = lambda function: None if function is None else (lambda y: function(np.asarray(y) / x))
    violation = lambda y: truth.violation(np.asarray(y) / x)
    return Truth(violation, truth.exists, back(truth.objective), back(truth.optimum), truth.unit)


def _hs43(x: np.ndarray) -> np.ndarray:
    return x[0] ** 2 + x[1] ** 2 + 2 * x[2] ** 2 + x[3] ** 2 - 5 * x[0] - 5 * x[1] - 21 * x[2] + 7 * x[3]


def _hs43_constraints(x: np.ndarray) -> list:
    a, b, c, d = x
    return [
        a**2 + b**2 + c**2 + d**2 + a - b + c - d - 8,
        a**2 + 2 * b**2 + c**2 + 2 * d**2 - a - d - 10,
        2 * a**2 + b**2 + c**2 + 2 * a - b - d - 5,
    ]


def _hs76(x: np.ndarray) -> list:
    a, b, c, d = x
    return [a**2 + 0.5 * b**2 + c**2 + 0.5 * d**2 - a * c + c * d - a - 3 * b + c - d]


def _hs100(x: np.ndarray) -> np.ndarray:
    a, b, c, d, e, f, g = x
    near = (a - 10) ** 2 + 5 * (b - 12) ** 2 + c**4 + 3 * (d - 11) ** 2
    return near + 10 * e**6 + 7 * f**2 + g**4 - 4 * f * g - 10 * f - 8 * g


def _hs100_constraints(x: np.ndarray) -> list:
    a, b, c, d, e, f, g = x
    return [
        2 * a**2 + 3 * b**4 + c + 4 * d**2 + 5 * e - 127,
        7 * a + 3 * b + 10 * c**2 + d - e - 282,
        23 * a + b**2 + 6 * f**2 - 8 * g - 196,
        4 * a**2 + b**2 - 3 * a * b + 2 * c**2 + 5 * f - 11 * g,
    ]


def _hs113(x: np.ndarray) -> np.ndarray:
    a, b, c, d, e, f, g, h, i, j = x
    first = a**2 + b**2 + a * b - 14 * a - 16 * b + (c - 10) ** 2 + 4 * (d - 5) ** 2 + (e - 3) ** 2
    return first + 2 * (f - 1) ** 2 + 5 * g**2 + 7 * (h - 11) ** 2 + 2 * (i - 10) ** 2 + (j - 7) ** 2 + 45


def _hs113_constraints(x: np.ndarray) -> list:
    a, b, c, d, e, f, g, h, i, j = x
    return [
        4 * a + 5 * b - 3 * g + 9 * h - 105,
        10 * a - 8 * b - 17 * g + 2 * h,
        -8 * a + 2 * b + 5 * i - 2 * j - 12,
        3 * (a - 2) ** 2 + 4 * (b - 3) ** 2 + 2 * c**2 - 7 * d - 120,
        5 * a**2 + 8 * b + (c - 6) ** 2 - 2 * d - 40,
        a**2 + 2 * (b - 2) ** 2 - 2 * a * b + 14 * e - 6 * f,
        0.5 * (a - 8) ** 2 + 2 * (b - 4) ** 2 + 3 * e**2 - f - 30,
        -3 * a + 6 * b + 12 * (i - 8) ** 2 - 7 * j,
    ]


def _penalised(fun: Vector, constraints: Vector) -> Vector:
    """Return the pieces ``f`` and ``f + 10 g_j`` of the exact penalty form."""
    return lambda x: [fun(x), *(fun(x) + 10 * g for g in constraints(x))]


def _ql(x: np.ndarray) -> list:
    square = x[0] ** 2 + x[1] ** 2
    return [square, square + 10 * (-4 * x[0] - x[1] + 4), square + 10 * (-x[0] - 2 * x[1] + 6)]


def _mifflin2(x: np.ndarray) -> list:
    ring = x[0] ** 2 + x[1] ** 2 - 1
    return [-x[0] + 2 * ring + 1.75 * ring, -x[0] + 2 * ring - 1.75 * ring]


def _crescent(x: np.ndarray) -> list:
    ring = x[0] ** 2 + (x[1] - 1) ** 2
    return [ring + x[1] - 1, -ring + x[1] + 1]


def _cb(first: int, second: int) -> Vector:
    """Return the pieces of CB2 and CB3, which differ in two exponents."""
    return lambda x: [x[0] ** first + x[1] ** second, (2 - x[0]) ** 2 + (2 - x[1]) ** 2, 2 * np.exp(x[1] - x[0])]


_SHOR = np.array(
    [
        [0, 0, 0, 0, 0], [2, 1, 1, 1, 3], [1, 2, 1, 1, 2], [1, 4, 1, 2, 2], [3, 2, 1, 0, 1],
        [0, 2, 1, 0, 1], [1, 1, 1, 1, 1], [1, 0, 1, 2, 1], [0, 0, 2, 1, 0], [1, 1, 2, 0, 0],
    ]
)  # fmt: skip
_SHOR_WEIGHTS = np.array([1, 5, 10, 2, 4, 3, 1.7, 2.5, 6, 3.5])
_HILBERT = 1.0 / (1.0 + np.add.outer(np.arange(10), np.arange(10)))

_HS100_START = (1.0, 2.0, 0.0, 4.0, 0.0, 1.0, 1.0)
_HS113_START = (2.0, 3.0, 5.0, 5.0, 1.0, 2.0, 7.0, 3.0, 6.0, 10.0)

INEQUALITIES = (
    Classical(
        "HS12",
        (0.0, 0.0),
        -30.0,
        lambda x: [0.5 * x[0] ** 2 + x[1] ** 2 - x[0] * x[1] - 7 * x[0] - 7 * x[1]],
        lambda x: [4 * x[0] ** 2 + x[1] ** 2 - 25],
    ),
    Classical(
        "HS29",
        (1.0, 1.0, 1.0),
        -16 * np.sqrt(2),
        lambda x: [-x[0] * x[1] * x[2]],
        lambda x: [x[0] ** 2 + 2 * x[1] ** 2 + 4 * x[2] ** 2 - 48],
        convex=False,
    ),
    Classical(
        "HS34",
        (0.0, 1.05, 2.9),
        -float(np.log(np.log(10))),
        lambda x: [-x[0]],
        lambda x: [np.exp(x[0]) - x[1], np.exp(x[1]) - x[2]],
        bounds=((0.0, 100.0), (0.0, 100.0), (0.0, 10.0)),
    ),
    Classical("HS43", (0.0,) * 4, -44.0, lambda x: [_hs43(x)], _hs43_constraints),
    Classical(
        "HS76",
        (0.5,) * 4,
        -103 / 22,
        _hs76,
        lambda x: [x[0] + 2 * x[1] + x[2] + x[3] - 5, 3 * x[0] + x[1] + 2 * x[2] - x[3] - 4, 1.5 - x[1] - 4 * x[2]],
        bounds=((0.0, None),) * 4,
    ),
    Classical("HS100", _HS100_START, 680.6300573, lambda x: [_hs100(x)], _hs100_constraints, convex=False),
    Classical("HS113", _HS113_START, 24.3062091, lambda x: [_hs113(x)], _hs113_constraints, convex=False),
    Classical("Rosen-Suzuki", (0.0,) * 4, -44.0, _penalised(_hs43, _hs43_constraints)),
    Classical("Wong 1", _HS100_START, 680.6300573, _penalised(_hs100, _hs100_constraints), convex=False),
    Classical("Wong 2", _HS113_START, 24.3062091, _penalised(_hs113, _hs113_constraints), convex=False),
    Classical("CB2", (1.0, -0.1), 1.9522245, _cb(2, 4)),
    Classical("CB3", (2.0, 2.0), 2.0, _cb(4, 2)),
    Classical("LQ", (-0.5, -0.5), -np.sqrt(2), lambda x: [-x[0] - x[1], -x[0] - x[1] + x[0] ** 2 + x[1] ** 2 - 1]),
    Classical("Maxq", tuple(float(i if i < 10 else -i) for i in range(1, 21)), 0.0, lambda x: x**2),
    Classical("Mxhilb", (1.0,) * 10, 0.0, lambda x: np.concatenate([_HILBERT @ x, -(_HILBERT @ x)])),
    Classical("Crescent", (-1.5, 2.0), 0.0, _crescent, convex=False),
    Classical("Dem", (1.0, 1.0), -3.0, lambda x: [5 * x[0] + x[1], -5 * x[0] + x[1], x[0] ** 2 + x[1] ** 2 + 4 * x[1]]),
    Classical("QL", (-1.0, 5.0), 7.2, _ql),
    Classical("Mifflin 1", (0.8, 0.6), -1.0, lambda x: [-x[0], -x[0] + 20 * (x[0] ** 2 + x[1] ** 2 - 1)]),
    Classical("Mifflin 2", (-1.0, -1.0), -1.0, _mifflin2, convex=False),
    Classical(
        "Polak 1",
        (50.0, 0.05),
        float(np.e),
        lambda x: [np.exp(1e-3 * x[0] ** 2 + (x[1] - 1) ** 2), np.exp(1e-3 * x[0] ** 2 + (x[1] + 1) ** 2)],
    ),
    Classical("Shor", (0.0, 0.0, 0.0, 0.0, 1.0), 22.600162, lambda x: _SHOR_WEIGHTS * ((x - _SHOR) ** 2).sum(axis=1)),
)

EQUALITIES = (
    Classical("HS6", (-1.2, 1.0), 0.0, lambda x: [(1 - x[0]) ** 2], equalities=lambda x: [10 * (x[1] - x[0] ** 2)], convex=False),
    Classical(
        "HS7",
        (2.0, 2.0),
        -np.sqrt(3),
        lambda x: [np.log(1 + x[0] ** 2) - x[1]],
        equalities=lambda x: [(1 + x[0] ** 2) ** 2 + x[1] ** 2 - 4],
        convex=False,
    ),
    Classical(
        "HS26",
        (-2.6, 2.0, 2.0),
        0.0,
        lambda x: [(x[0] - x[1]) ** 2 + (x[1] - x[2]) ** 4],
        equalities=lambda x: [(1 + x[1] ** 2) * x[0] + x[2] ** 4 - 3],
        convex=False,
    ),
    Classical(
        "HS27",
        (2.0, 2.0, 2.0),
        0.04,
        lambda x: [0.01 * (x[0] - 1) ** 2 + (x[1] - x[0] ** 2) ** 2],
        equalities=lambda x: [x[0] + x[2] ** 2 + 1],
        convex=False,
    ),
    Classical(
        "HS39",
        (2.0,) * 4,
        -1.0,
        lambda x: [-x[0]],
        equalities=lambda x: [x[1] - x[0] ** 3 - x[2] ** 2, x[0] ** 2 - x[1] - x[3] ** 2],
        convex=False,
    ),
    Classical(
        "HS40",
        (0.8,) * 4,
        -0.25,
        lambda x: [-x[0] * x[1] * x[2] * x[3]],
        equalities=lambda x: [x[0] ** 3 + x[1] ** 2 - 1, x[0] ** 2 * x[3] - x[2], x[3] ** 2 - x[1]],
        convex=False,
    ),
    Classical(
        "HS71",
        (1.0, 5.0, 5.0, 1.0),
        17.0140173,
        lambda x: [x[0] * x[3] * (x[0] + x[1] + x[2]) + x[2]],
        lambda x: [25 - x[0] * x[1] * x[2] * x[3]],
        lambda x: [(x**2).sum() - 40],
        bounds=((1.0, 5.0),) * 4,
        convex=False,
    ),
    Classical(
        "HS78",
        (-2.0, 1.5, 2.0, -1.0, -1.0),
        -2.91970041,
        lambda x: [x[0] * x[1] * x[2] * x[3] * x[4]],
        equalities=lambda x: [(x**2).sum() - 10, x[1] * x[2] - 5 * x[3] * x[4], x[0] ** 3 + x[1] ** 3 + 1],
        convex=False,
    ),
)
