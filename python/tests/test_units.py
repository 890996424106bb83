"""The examples of the documentation in other units: objective, constraints or variables times 1e-6 to 1e6."""

import numpy as np
import pytest
from scipy.optimize import NonlinearConstraint

import thalweg

SCALES = [1e-6, 1e6]


def _deviations(rows, columns, seed=0):
    rng = np.random.default_rng(seed)
    a = rng.normal(size=(rows, columns))
    return a, a @ rng.normal(size=columns) + rng.standard_t(2, size=rows)


A, B = _deviations(200, 5)
STATION, WELL, HOMES = np.array([0.0, 0.0]), np.array([3.0, 2.0]), np.array([[4.0, 3.0], [5.0, 1.0], [2.0, 4.0]])


def _mean_distance(x):
    return np.linalg.norm(x - HOMES, axis=1).mean()


def _mean_distance_slope(x):
    away = x - HOMES
    return (away / np.maximum(np.linalg.norm(away, axis=1), 1e-300)[:, None]).mean(axis=0)


#: Objective, its subgradient, a convex constraint (value and subgradient, at most 0), radius of a ball, start, weak-convexity
#: constant of the objective.
EXAMPLES = {
    "readme": (
        lambda x: np.abs(x - 2).sum(),
        lambda x: np.sign(x - 2),
        (lambda x: x @ x - 1.0, lambda x: 2.0 * x),
        None,
        [0.0, 0.0],
        0.0,
    ),
    "absolute deviations in a ball": (
        lambda x: np.abs(A @ x - B).mean(),
        lambda x: np.sign(A @ x - B) @ A / 200,
        None,
        1.0,
        np.zeros(5),
        0.0,
    ),
    "squares in a ball": (
        lambda x: ((A @ x - B) ** 2).mean(),
        lambda x: 2 * (A @ x - B) @ A / 200,
        None,
        1.0,
        np.zeros(5),
        0.0,
    ),
    "absolute deviations with small weights": (
        lambda x: np.abs(A @ x - B).mean(),
        lambda x: np.sign(A @ x - B) @ A / 200,
        (lambda x: np.abs(x).sum() - 2.0, np.sign),
        None,
        np.zeros(5),
        0.0,
    ),
    "capped |x^2 - 1|": (
        lambda x: abs(x[0] ** 2 - 1),
        lambda x: 2 * x * np.sign(x**2 - 1),
        (lambda x: x[0] - 0.5, lambda x: np.ones(1)),
        None,
        [0.25],
        2.0,
    ),
    "two wells, from the right": (
        lambda x: (x[0] ** 2 - 1) ** 2 + x[0] / 3,
        lambda x: 4 * x * (x**2 - 1) + 1 / 3,
        None,
        None,
        [1.5],
        4.0,
    ),
    "two wells, from the left": (
        lambda x: (x[0] ** 2 - 1) ** 2 + x[0] / 3,
        lambda x: 4 * x * (x**2 - 1) + 1 / 3,
        None,
        None,
        [-1.5],
        4.0,
    ),
    "near homes and a station": (
        _mean_distance,
        _mean_distance_slope,
        (lambda x: ((x - STATION) ** 2).sum() - 9.0, lambda x: 2 * (x - STATION)),
        None,
        [0.5, 0.5],
        0.0,
    ),
    "an impossible constraint": (
        lambda x: np.abs(x - 2).sum(),
        lambda x: np.sign(x - 2),
        (lambda x: np.abs(x).sum() + 1.0, np.sign),
        None,
        [0.5, 0.5],
        0.0,
    ),
}


def _solve(name, f, g, x):
    """Solve an example whose variables are `x` times the usual ones. Returns the result and its point in usual units."""
    fun, jac, constraint, radius, start, rho = EXAMPLES[name]
    constraints = ()
    if constraint is not None:
        value, slope = constraint
        constraints = NonlinearConstraint(lambda y: g * value(y / x), -np.inf, 0.0, jac=lambda y: g / x * slope(y / x))
    result = thalweg.minimize(
        lambda y: f * fun(y / x),
        x * np.asarray(start),
        jac=lambda y: f / x * jac(y / x),
        constraints=constraints,
        bounds=None if radius is None else thalweg.Ball(radius * x),
        rho=(rho * f / x**2, 0.0),
    )
    return result, result.x / x


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_answer_and_the_verdict_do_not_depend_on_the_units(name):
    fun, constraint, start = EXAMPLES[name][0], EXAMPLES[name][2], np.asarray(EXAMPLES[name][4])
    usual, point = _solve(name, 1.0, 1.0, 1.0)
    assert usual.success == (name != "an impossible constraint"), usual.message
    for f, g, x in [t for s in SCALES for t in ((s, 1.0, 1.0), (1.0, s, 1.0), (1.0, 1.0, s))]:
        if g != 1.0 and constraint is None:
            continue
        result, there = _solve(name, f, g, x)
        say = f"f times {f:g}, g times {g:g}, x times {x:g}: {result.message}"
        assert (result.success, result.status) == (usual.success, usual.status), say
        assert result.message.split(";")[0] == usual.message.split(";")[0], say
        if usual.success:
            # An objective that is flat at its minimum allows other points with the same value.
            scale = max(1.0, abs(fun(start)))
            assert abs(fun(there) - fun(point)) <= 2e-4 * scale, say
        else:
            assert constraint is not None and constraint[0](there) > 0.5, say
