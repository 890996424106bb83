"""``thalweg.blackbox.minimize``: known solutions, many constraints, number of evaluations, and errors."""

import os
import pickle
import re
import signal
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, OptimizeResult, linprog
from scipy.optimize import minimize as scipy_minimize

import thalweg
from thalweg import blackbox
from thalweg.blackbox import BlackBoxResult, minimize

MANY = 100_000


def half_planes(m):
    """Normals of m half-planes around the unit disc."""
    angle = np.arange(m) * (2 * np.pi / m)
    return np.cos(angle), np.sin(angle)


def away(X):
    """The squared distance from (2, 0), of a point or of each row, by products: numpy's powers of numbers and of arrays differ
    in their last bit."""
    a, b = np.moveaxis(np.asarray(X) - [2.0, 0.0], -1, 0)
    return a * a + b * b


class Disc:
    """The disc as m half-planes, which records its evaluations."""

    def __init__(self, m):
        self.m, (self.cos, self.sin) = m, half_planes(m)
        self.asked = []

    def __call__(self, X, which):
        assert X.dtype == np.float64 and which.dtype == np.int64
        self.asked.append((X.shape, len(which)))
        return X[..., :1] * self.cos[which] + X[..., 1:] * self.sin[which] - 1.0


def solve(m=50, **given):
    disc = given.pop("constraints", None) or Disc(m)
    given = {"constraints": disc, "n_constraints": m, "method": "dszog", "options": {"maxiter": 200}, **given}
    return minimize(given.pop("fun", away), given.pop("x0", [0.0, 0.5]), **given)


TUNED = {"beta": 100.0, "margin": 0.02, "eta_w": {"rule": "decay", "c": 0.01, "p": 0.7, "after": 1000}}


def test_a_disc_of_a_hundred_thousand_half_planes():
    disc = Disc(MANY)
    points = []

    def fun(X):
        points.append(len(X))
        return away(X)

    result = solve(MANY, fun=fun, constraints=disc, vectorized=True, options={"maxiter": 4000, **TUNED})
    assert isinstance(result, OptimizeResult) and isinstance(result, BlackBoxResult)
    assert (
        result.success and result.status == 1 and result.message == "feasible; ran the planned iterations, no stopping criterion"
    )
    # The nearest point of the disc to (2, 0) is (1, 0), at the distance 1.
    np.testing.assert_allclose(result.x, [1.0, 0.0], atol=0.03)
    assert result.fun == pytest.approx(1.0, abs=0.06)
    assert result.maxcv == 0.0 and result.violated == 0.0
    assert result.nit == 4000 and result.nfev == sum(points) and result.ncev == sum(k[0] * n for k, n in disc.asked)
    # An iteration evaluates at most 128 constraints at 11 points and 128 at one. All are evaluated for the first weights, for
    # measurements (start, iterates, result) and once for the zeroth-order check, which adds 32 pairs of points.
    sizes = [(k[0], n) for k, n in disc.asked]
    assert sizes.count((1, MANY)) == len(result.history) + 4 and sizes.count((1, 128)) == 4001
    wide = [n for k, n in sizes if k == 11]
    assert len(wide) == 4001 and max(wide) <= 128
    assert len([k for k, _ in sizes if k == 2]) == 32 and len(sizes) == len(result.history) + 4 + 2 * 4001 + 32
    assert result.ncev < 0.02 * MANY * 4000
    assert len(result.worst) == 10 and all(isinstance(j, int) for j, _ in result.worst)
    values = np.array([value for _, value in result.worst])
    assert np.all(np.diff(values) <= 0)
    every = disc(result.x, np.arange(MANY))
    np.testing.assert_array_equal(np.sort(every)[::-1][:10], values)
    assert every[result.worst[0][0]] == values[0]
    assert result.history.constraints.shape == (len(result.history), 0) and np.all(np.isfinite(result.history.maxcv))
    assert result.zeroth_order["gradient"]["error"] >= 0.0
    assert result.best_feasible.fun <= result.fun
    assert len(pickle.dumps(result)) < 50_000


def automatic(m=50, **given):
    given = {"constraints": Disc(m), "n_constraints": m, **given}
    return minimize(given.pop("fun", away), given.pop("x0", [0.0, 0.5]), **given)


@pytest.mark.parametrize("unit, cost, row", [(1.0, 1.0, 1.0), (1e3, 1e-3, 1e3), (1e-3, 1e3, 1e-3)])
def test_nothing_has_to_be_set(unit, cost, row):
    disc = Disc(5000)
    result = automatic(
        5000,
        fun=lambda X: cost * away(X / unit),
        constraints=lambda X, which: row * disc(X / unit, which),
        x0=[0.0, 0.5 * unit],
        vectorized=True,
    )
    assert result.success and result.status == 0 and result.message == "feasible; the solver finished"
    np.testing.assert_allclose(result.x / unit, [1.0, 0.0], atol=0.01)
    assert result.fun == pytest.approx(cost, rel=0.02) and result.nfev < 200 and result.method == "trust-region"
    assert re.search(r"the objective was evaluated \d+ times, of at most 1,200", " ".join(result.notes))


def test_an_answer_is_never_worse_than_a_feasible_start():
    rng = np.random.default_rng(0)
    # Noise as large as the objective. A difference of two means of 16 values has the standard error 0.35.
    for start in ([0.9, 0.0], [0.0, 0.5]):
        result = automatic(fun=lambda x: away(x) + rng.standard_normal(), x0=start, max_evaluations=300)
        assert result.maxcv <= 1e-6 and away(result.x) <= away(np.array(start)) + 1.0
    flat = automatic(fun=lambda x: 1.0)
    assert flat.success and flat.fun == 1.0


@pytest.mark.parametrize("limit", [1, 8, 15])
def test_a_limit_of_evaluations(limit):
    calls = []
    result = automatic(fun=lambda x: (calls.append(1), away(x))[1], max_evaluations=limit, options={"record": {"at": []}})
    # The start and the result are measured, and the zeroth-order check uses 32 pairs of points.
    assert len(calls) == result.nfev <= limit + 2 + 64
    assert result.status == 6 and not result.success and "stopped at the limit of evaluations" in result.message


def test_workers_do_not_change_the_result():
    plain = automatic(fun=away, constraints=Disc(50))
    with ThreadPoolExecutor(3) as pool:
        threads = automatic(workers=pool.map)
    processes = automatic(workers=2)
    for other in (threads, processes, automatic(workers=1)):
        assert np.array_equal(other.x, plain.x) and other.nfev == plain.nfev and other.ncev == plain.ncev


def test_fraction_of_violated_constraints():
    result = solve(1000, options={"maxiter": 1}, x0=[3.0, 0.0])
    assert not result.success and result.status == 1 and result.message.startswith("not feasible; ")
    every = Disc(1000)(result.x, np.arange(1000))
    assert result.violated == np.mean(every > 1e-6) > 0.3
    assert result.maxcv == every.max()
    assert solve(1000, options={"maxiter": 1}, x0=[3.0, 0.0], feasibility=5.0).success


@pytest.mark.parametrize("samples", [None, 40])
def test_vectorized_calls_give_the_same_bits(samples):
    weights = 1.0 + np.arange(40.0)

    def fun(X, rows=slice(None)):
        # Sums of whole numbers are exact in any order.
        return away(X) * weights[rows].mean()

    runs = []
    for vectorized in (True, False):
        given = {"options": {"maxiter": 300, "m1": 7}, "n_samples": samples, "seed": 5}
        runs.append(solve(500, fun=fun, vectorized=vectorized, **given))
    one, other = runs
    assert np.array_equal(one.x, other.x) and one.fun == other.fun and one.worst == other.worst
    assert np.array_equal(one.history.fun, other.history.fun) and np.array_equal(one.history.maxcv, other.history.maxcv)
    assert (one.nfev, one.ncev) == (other.nfev, other.ncev) and one.zeroth_order == other.zeroth_order


def test_one_call_for_all_perturbed_points():
    disc, shapes = Disc(30), []

    def fun(X):
        shapes.append(X.shape)
        return away(X)

    result = solve(30, fun=fun, constraints=disc, vectorized=True, options={"maxiter": 10, "directions": 4, "record": {"at": []}})
    # The estimate before the first step and one after each of ten steps, at the point and four others; the start and the result
    # are measured, and the zeroth-order check uses 32 pairs of points.
    assert shapes.count((5, 2)) == 11 and shapes.count((1, 2)) == 2 and shapes.count((2, 2)) == 32 and len(shapes) == 45
    assert result.nfev == 5 * 11 + 2 + 64
    assert [shape for shape, _ in disc.asked].count((5, 2)) == 11


def test_steps_equal_those_of_thalweg_minimize():
    disc = Disc(20)
    options = {"maxiter": 100, "m2": 5, "m3": 7, "beta": 10.0, "record": {"every": 10}}
    ours = solve(20, constraints=disc, options=options, seed=3)
    theirs = thalweg.minimize(
        away,
        [0.0, 0.5],
        constraints=[{"type": "ineq", "fun": lambda x, j=j: -disc(x, np.array([j]))[0]} for j in range(20)],
        method="dszog",
        options=options,
        seed=3,
    )
    rows = LinearConstraint(np.stack(half_planes(20), axis=1), -np.inf, 1.0)
    linear = solve(20, constraints=rows, n_constraints=None, options=options, seed=3)
    linear_theirs = thalweg.minimize(away, [0.0, 0.5], constraints=rows, method="dszog", options=options, seed=3)
    for a, b in ((ours, theirs), (linear, linear_theirs)):
        assert np.array_equal(a.history.fun, b.history.fun) and np.array_equal(a.history.norm, b.history.norm)
        assert np.array_equal(a.history.constraints, b.history.constraints) and a.history.constraints.shape == (11, 20)
    assert list(ours.history.nit) == list(range(0, 101, 10))


@pytest.fixture(scope="module")
def programme():
    """A linear programme with one-sided, two-sided and free rows, and its solution by scipy."""
    rng = np.random.default_rng(0)
    A, cost = rng.normal(size=(40, 3)), np.array([1.0, -2.0, 0.5])
    low, high = np.full(40, -np.inf), np.ones(40)
    low[::4] = -0.5
    high[1::5], low[1::5] = np.inf, -1.0
    low[7], high[7] = -np.inf, np.inf
    upper, lower = np.isfinite(high), np.isfinite(low)
    solved = linprog(cost, np.vstack([A[upper], -A[lower]]), np.concatenate([high[upper], -low[lower]]), bounds=(-2.0, 2.0))
    assert solved.success
    return A, low, high, cost, solved


@pytest.mark.parametrize("form", [np.array, sparse.csr_matrix, sparse.coo_array])
@pytest.mark.parametrize("method", ["zopsgd", "zoscgd", "acczomda", "accszofw"])
def test_projecting_methods_agree_with_linprog(programme, method, form):
    A, low, high, cost, solved = programme
    # The last two minimise linear functions only up to a fiftieth of the size of the box.
    options, near = {
        "zopsgd": ({"maxiter": 500, "eta": {"rule": "inv-sqrt", "c": 0.1}}, 0.01),
        "acczomda": ({"maxiter": 1000, "gamma": 0.1}, 0.01),
        "zoscgd": ({"maxiter": 1000}, 0.1),
        "accszofw": ({"maxiter": 1000}, 0.1),
    }[method]
    rows = LinearConstraint(form(A), low, high)
    box = Bounds(-2.0 * np.ones(3), 2.0 * np.ones(3))
    result = minimize(
        lambda X: X @ cost, np.zeros(3), constraints=rows, vectorized=True, bounds=box, method=method, options=options
    )
    assert result.success, result.message
    np.testing.assert_allclose(result.fun, solved.fun, atol=near)
    assert np.all(A @ result.x <= high + 1e-6) and np.all(A @ result.x >= low - 1e-6)
    # The free row is no constraint, and the others keep their indices.
    assert result.history.constraints.shape[1] == 39 and "g[39]" in result.history.names and "g[7]" not in result.history.names
    j, value = result.worst[0]
    assert value == pytest.approx(max(A[j] @ result.x - high[j], low[j] - A[j] @ result.x), abs=1e-12)


@pytest.mark.parametrize("bounds", [None, [(0.0, None)] * 3, thalweg.Ball(0.25, [0.3, 0.3, 0.0]), thalweg.Simplex(0.6)])
def test_repair_is_a_projection(programme, bounds):
    A, low, high, _, _ = programme
    rows, goal = LinearConstraint(A, low, high), np.array([2.0, 1.0, -1.0])

    def fun(x):
        return ((x - goal) ** 2).sum()

    options = {"maxiter": 1000, "beta": 100.0, "eta_w": {"rule": "decay", "c": 0.01, "p": 0.7, "after": 300}}
    raw, repaired = (
        minimize(fun, [0.1, 0.1, 0.1], constraints=rows, bounds=bounds, method="dszog", options=options, repair=repair)
        for repair in (False, True)
    )
    assert not raw.success and raw.maxcv > 1e-3
    assert repaired.success and repaired.maxcv <= 1e-6 and repaired.nit == raw.nit
    note = next(note for note in repaired.notes if "projected onto the constraints" in note)
    assert note.kind == "repaired" and note.data["violated"] >= 1
    free = np.isfinite(low) | np.isfinite(high)
    known = [LinearConstraint(A[free], low[free], high[free])]
    if isinstance(bounds, thalweg.Ball):
        known.append({"type": "ineq", "fun": lambda x: 0.0625 - ((x - [0.3, 0.3, 0.0]) ** 2).sum()})
    elif isinstance(bounds, thalweg.Simplex):
        known += [LinearConstraint(np.ones((1, 3)), 0.6, 0.6), LinearConstraint(np.eye(3), 0.0, np.inf)]
    elif bounds:
        known.append(LinearConstraint(np.eye(3), 0.0, np.inf))
    # The repaired point is the projection of the other, and near the minimiser.
    nearest = scipy_minimize(lambda x: ((x - raw.x) ** 2).sum(), [0.3, 0.3, 0.3], constraints=known, method="SLSQP", tol=1e-14)
    np.testing.assert_allclose(repaired.x, nearest.x, atol=1e-5)
    best = scipy_minimize(fun, [0.3, 0.3, 0.3], constraints=known, method="SLSQP", tol=1e-12)
    assert repaired.fun == pytest.approx(best.fun, abs=0.05)


def test_projection_onto_a_polygon_and_a_line():
    rows = LinearConstraint(np.stack(half_planes(64), axis=1), -np.inf, 1.0)
    result = minimize(away, [0.0, 0.5], constraints=rows, method="zopsgd", options={"maxiter": 300, "eta": 0.05})
    assert result.success
    np.testing.assert_allclose(result.x, [1.0, 0.0], atol=0.03)
    equal = LinearConstraint(np.ones((1, 2)), 1.0, 1.0)
    line = minimize(lambda x: (x**2).sum(), [3.0, 0.0], constraints=equal, method="zopsgd", options={"maxiter": 1000})
    assert line.success
    np.testing.assert_allclose(line.x, [0.5, 0.5], atol=1e-2)


def test_without_constraints():
    for method in blackbox.METHODS:
        result = minimize(away, [0.0, 0.5], bounds=[(-1.0, 1.0)] * 2, method=method, options={"maxiter": 1000})
        assert result.success and result.worst == [] and result.violated == 0.0 and result.ncev == 0 and result.maxcv == 0.0
        assert result.fun < away([0.0, 0.5]) - 1.0, method


def test_samples_are_drawn():
    seen = []

    def fun(x, rows):
        assert rows.dtype == np.int64
        seen.append(tuple(rows))
        return away(x) + np.mean(rows)

    result = solve(fun=fun, n_samples=100, options={"maxiter": 20, "m1": 5})
    drawn = {rows for rows in seen if len(rows) == 5}
    assert {len(rows) for rows in seen} == {5, 100} and len(drawn) > 15 and result.nfev == len(seen)
    assert result.fun == away(result.x) + 49.5

    def change(x, rows):
        rows[0] = 7
        return 0.0

    with pytest.raises(ValueError, match="read-only"):
        solve(fun=change, n_samples=100)


def test_seeds():
    first, again, other = (solve(seed=seed) for seed in (1, 1, 2))
    assert np.array_equal(first.x, again.x) and not np.array_equal(first.x, other.x)
    assert (first.seed, other.seed, solve().seed) == (1, 2, 0)


def test_names():
    asked = []

    def name(j):
        asked.append(j)
        return f"side {j}"

    result = solve(5000, names=name)
    assert result.worst[0][0] == f"side {int(np.argmax(Disc(5000)(result.x, np.arange(5000))))}"
    assert len(asked) < 500
    listed = solve(50, names=[f"side {j}" for j in range(50)])
    assert listed.worst == [(f"side {j}", value) for j, value in solve(50).worst]
    assert listed.history.names[49] == "side 49" and solve(50).history.names[49] == "g[49]"
    with pytest.raises(ValueError, match="names must have 50 entries, one for each constraint, got 3"):
        solve(50, names=["a", "b", "c"])
    with pytest.raises(TypeError, match="names must be a sequence of names or a function of the index, got str"):
        solve(50, names="abc")
    with pytest.raises(ZeroDivisionError):
        solve(50, names=lambda j: 1 / 0)


@pytest.mark.parametrize("vectorized", [True, False])
@pytest.mark.parametrize("names, called", [(None, r"g\[17\]"), (lambda j: f"side {j}", "side 17")])
def test_nan_constraint_is_named(vectorized, names, called):
    disc, calls = Disc(50), []

    def constraints(X, which):
        values = disc(X, which)
        calls.append(1)
        if len(calls) > 60:
            values[..., which == 17] = np.nan
        return values

    result = solve(constraints=constraints, names=names, vectorized=vectorized)
    assert not result.success and result.status == 5 and np.all(np.isfinite(result.x))
    assert re.search(f"constraint '{called}' is NaN; expected a finite number", result.message)
    assert any("the last one before the failure" in note for note in result.notes) and result.zeroth_order is None
    with pytest.raises(ValueError, match=f"the start cannot be used: constraint '{called}' is NaN"):
        solve(
            constraints=lambda X, which: np.where(which == 17, np.nan, -1.0) + 0.0 * X[..., :1],
            names=names,
            vectorized=vectorized,
        )


def test_nan_objective_stops_at_the_last_finite_point():
    calls = []

    def fun(x):
        calls.append(1)
        return np.inf if len(calls) > 100 else away(x)

    result = solve(fun=fun)
    assert result.status == 5 and "the objective is inf" in result.message and np.all(np.isfinite(result.x))


@pytest.mark.parametrize("where", ["fun", "constraints", "callback"])
def test_exceptions_are_raised_unchanged_with_the_result(where):
    class Mine(Exception):
        pass

    raised, calls, disc = Mine("the simulator is gone"), [], Disc(50)

    def fail(*_):
        calls.append(1)
        if len(calls) == 4:
            raise raised

    given = {
        "fun": {"fun": lambda X: (fail(), away(X))[1]},
        "constraints": {"constraints": lambda X, which: (fail(), disc(X, which))[1]},
        "callback": {"callback": fail},
    }[where]
    with pytest.raises(Mine) as caught:
        solve(vectorized=True, **given)
    assert caught.value is raised and caught.value.args == ("the simulator is gone",)
    assert np.all(np.isfinite(caught.value.result.x)) and caught.value.result.status in (4, 5)


def test_callback_gets_recorded_iterates_and_stops():
    seen = []

    def callback(intermediate):
        seen.append((intermediate.nit, intermediate.fun, intermediate.maxcv))
        assert intermediate.x.shape == (2,)
        if intermediate.nit == 50:
            raise StopIteration

    result = solve(callback=callback)
    assert [s[0] for s in seen] == [0, 1, 2, 5, 10, 20, 50] and seen[0][1] == away([0.0, 0.5])
    assert result.status == 3 and result.message.endswith("stopped by the callback") and result.nit <= 51
    seen.clear()
    solve(callback=callback, options={"maxiter": 10, "record": {"every": 5}})
    assert [s[0] for s in seen] == [0, 5, 10]


def test_ctrl_c_returns_the_result_so_far():
    calls = []

    def fun(x):
        calls.append(1)
        if len(calls) == 50:
            os.kill(os.getpid(), signal.SIGINT)
        return away(x)

    result = solve(fun=fun, options={"maxiter": 10**9})
    assert result.status == 4 and "interrupted" in result.message and np.all(np.isfinite(result.x))
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_ctrl_c_stops_a_repair():
    # Contradicting rows: there is no projection, which takes long to detect.
    rows = LinearConstraint(np.tile([[1.0, 0.0], [-1.0, 0.0]], (1000, 1)), -np.inf, -1.0)

    def callback(intermediate):
        if intermediate.nit == 3:
            # Processor time, so that other load on the machine does not move the signal to before the repair.
            signal.setitimer(signal.ITIMER_VIRTUAL, 0.2)

    before = signal.signal(signal.SIGVTALRM, lambda *_: os.kill(os.getpid(), signal.SIGINT))
    try:
        options = {"maxiter": 3}
        result = minimize(away, [0.0, 0.0], constraints=rows, method="dszog", repair=True, callback=callback, options=options)
    finally:
        signal.signal(signal.SIGVTALRM, before)
    assert not result.success and result.violated == 1.0
    assert "the point could not be projected onto the constraints: interrupted" in result.notes


def test_arrays_passed_to_functions_are_not_shared():
    disc = Disc(50)

    def fun(X):
        value = away(X)
        X[:] = 99.0
        return value

    def constraints(X, which):
        values = disc(X, which)
        X[:] = -99.0
        if len(which) < 50:
            which[:] = 0
        return values

    spoilt = solve(fun=fun, constraints=constraints, options={"maxiter": 50, "m3": 10})
    assert np.array_equal(spoilt.x, solve(options={"maxiter": 50, "m3": 10}).x)


def test_arrays_of_every_kind_give_the_same_numbers():
    disc, plain = Disc(50), solve(vectorized=True).x
    kinds = {
        "list": lambda v: v.tolist(),
        "strided": lambda v: np.repeat(v, 2, axis=-1)[..., ::2],
        "fortran": np.asfortranarray,
        "whole": lambda v: v.astype(object),
    }
    for name, kind in kinds.items():
        given = {"fun": lambda X, kind=kind: kind(away(X)), "constraints": lambda X, which, kind=kind: kind(disc(X, which))}
        assert np.array_equal(solve(vectorized=True, **given).x, plain), name


SHAPES = [
    (True, {"fun": lambda X: 1.0}, r"fun returned shape \(\); expected \(1,\), one value for each point"),
    (True, {"fun": lambda X: np.zeros((len(X), 1))}, r"fun returned shape \(1, 1\); expected \(1,\), one value for each point"),
    (True, {"fun": lambda X: np.zeros(1)}, r"fun returned shape \(1,\); expected \(11,\), one value for each point"),
    (True, {"fun": lambda X: None}, "fun returned a NoneType; expected an array of numbers"),
    (True, {"fun": lambda X: "no"}, "fun returned a str; expected an array of numbers"),
    (
        True,
        {"constraints": lambda X, which: np.zeros((len(X), 4))},
        r"constraints returned shape \(1, 4\); expected \(1, 50\), one column for each index asked",
    ),
    (
        True,
        {"constraints": lambda X, which: np.zeros((3, len(which)))},
        r"constraints returned shape \(3, 50\); expected \(1, 50\), one row for each point",
    ),
    (
        True,
        {"constraints": lambda X, which: np.zeros(len(which))},
        r"constraints returned shape \(50,\); expected \(1, 50\), one row for each point and one column for each index asked",
    ),
    (
        False,
        {"constraints": lambda x, which: np.zeros(4)},
        r"constraints returned shape \(4,\); expected \(50,\), one value for each index asked",
    ),
    (False, {"constraints": lambda x, which: [[1.0], [1.0, 2.0]]}, "constraints returned a list; expected an array of numbers"),
    (False, {"constraints": lambda x, which: None}, "constraints returned a NoneType; expected an array of numbers"),
    (False, {"fun": lambda x: x}, "fun returned 2 numbers; expected one"),
    (False, {"fun": lambda x: "no"}, "fun returned a str; expected a number"),
]


@pytest.mark.parametrize("vectorized, given, sentence", SHAPES)
def test_shapes_are_checked(vectorized, given, sentence):
    with pytest.raises((ValueError, TypeError), match=sentence):
        solve(vectorized=vectorized, **given)


ROWS = LinearConstraint([[1.0, 1.0]], -np.inf, 1.0)


@pytest.mark.parametrize(
    "given, sentence",
    [
        ({"fun": 3}, "fun must be a function of x, got int"),
        ({"x0": "here"}, "x0 must be a vector of numbers, got str"),
        ({"n_constraints": None}, "n_constraints is required if constraints is a function"),
        ({"n_constraints": 0}, "n_constraints must be a positive integer, got 0"),
        ({"n_constraints": 2.5}, r"n_constraints must be a positive integer, got 2\.5"),
        ({"constraints": [ROWS]}, "constraints must be a function of x and indices or one LinearConstraint, got list"),
        (
            {"constraints": ROWS, "n_constraints": 2},
            "n_constraints must be 1, the number of rows of the LinearConstraint, or None, got 2",
        ),
        (
            {"constraints": LinearConstraint(np.ones((1, 3)), -np.inf, 1.0), "n_constraints": None},
            r"the matrix of the LinearConstraint must have 2 columns, one for each variable, got shape \(1, 3\)",
        ),
        (
            {"constraints": LinearConstraint([[1.0, 0.0]], 2.0, 1.0), "n_constraints": None},
            "lb of row 1 of the LinearConstraint must be at most ub, got lb = 2 and ub = 1",
        ),
        (
            {"constraints": LinearConstraint([[0.0, 0.0]], 1.0, 2.0), "n_constraints": None},
            "must be 0 between them, because the row is 0 and no point has another value, got 1 to 2",
        ),
        (
            {"constraints": LinearConstraint([[1.0, 0.0]], np.inf, np.inf), "n_constraints": None},
            "lb of row 1 of the LinearConstraint must be a finite number or -inf, got inf",
        ),
        (
            {"constraints": LinearConstraint([[1.0, 0.0]], np.nan, 1.0), "n_constraints": None},
            "lb of row 1 of the LinearConstraint must be a finite number or -inf, got nan",
        ),
        (
            {"method": "zopsgd"},
            "zopsgd projects onto the constraints; use a LinearConstraint in place of a function, or method='auto'",
        ),
        ({"method": "AccSZOFW"}, "accszofw projects onto the constraints"),
        (
            {"repair": True},
            "repair projects onto the constraints; use a LinearConstraint in place of a function, or repair=False",
        ),
        (
            {"method": "zoscgd", "constraints": ROWS, "n_constraints": None},
            "zoscgd minimises linear functions over the feasible points.*expected a bounded domain",
        ),
        ({"method": "ssg"}, "method must be one of auto, trust-region, dszog, zopsgd, zoscgd, acczomda, accszofw, got 'ssg'"),
        ({"method": 3}, "method must be one of auto, trust-region, dszog, zopsgd, zoscgd, acczomda, accszofw, got int"),
        ({"options": {"betta": 1.0}}, "unknown key 'betta'; did you mean 'beta'"),
        ({"options": {"beta": -1.0}}, "beta must be a finite number larger than 0, got -1"),
        ({"options": {"certificate": {}}}, "unknown key 'certificate'"),
        ({"options": 3}, "options must be a dict, got int"),
        ({"bounds": [(0, 1)]}, r"bounds must have 2 pairs \(low, high\), one for each variable, got 1 entries"),
        ({"seed": -1}, r"seed must be an integer from 0 to 2\^63 - 1, got -1"),
        ({"feasibility": -1.0}, "feasibility must be a finite number of at least 0, got -1"),
        ({"max_evaluations": 10}, "max_evaluations is a limit of 'trust-region'; with method='dszog' set options"),
        ({"method": "auto", "max_evaluations": 0, "options": {}}, "max_evaluations must be a positive integer, got 0"),
        ({"method": "auto", "options": {"beta": 1.0}}, "unknown key 'beta'"),
        ({"method": "auto", "options": {"tolerance": 2.0}}, "tolerance must be a number between 0 and 1, got 2"),
        ({"vectorized": True, "workers": 2}, "workers evaluate points one by one; expected vectorized=False, or workers=None"),
        ({"workers": 0}, "workers must be a positive integer, got 0"),
        ({"n_samples": 0}, "n_samples must be a positive integer, got 0"),
    ],
)
def test_invalid_arguments(given, sentence):
    with pytest.raises((ValueError, TypeError), match=sentence) as caught:
        solve(**given)
    assert "\n" not in str(caught.value)


def test_n_constraints_without_constraints():
    with pytest.raises(
        ValueError, match="n_constraints = 5 is given without constraints; set constraints to a function of x and indices"
    ):
        minimize(away, [0.0, 0.0], n_constraints=5)


def test_results_pickle_and_render(capsys):
    pytest.importorskip("matplotlib").use("Agg")
    result = solve(500, names=lambda j: f"<b>{j}</b>", verbose=1)
    assert np.array_equal(pickle.loads(pickle.dumps(result)).x, result.x)
    page = result._repr_html_()
    assert "ran the planned iterations" in page and "&lt;b&gt;" in page and "<b>" not in page and "ncev" in page
    axes = result.plot()
    assert [a.get_ylabel() for a in axes] == ["objective", "largest constraint (satisfied if at most 0)"]
    assert np.array_equal(axes[1].lines[-1].get_ydata(), result.history.maxcv)
    assert "maxcv" in result.history.to_frame() and result.history.to_frame().shape[1] == 8
    few = solve(3).plot()
    assert few[1].get_ylabel() == "constraints (satisfied if at most 0)" and len(few[1].lines) == 4
    assert not hasattr(minimize(away, [0.0, 0.5], method="dszog", options={"maxiter": 5}).plot(), "__len__")
    assert thalweg.blackbox is blackbox
