"""``thalweg.minimize``: known solutions, scipy's conventions, and errors."""

import os
import pickle
import signal
import threading
import warnings

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, NonlinearConstraint, OptimizeResult, linprog
from scipy.optimize import minimize as scipy_minimize

import thalweg
from thalweg import minimize


def distance(x):
    return np.abs(x - 2.0).sum()


def distance_slope(x):
    return np.sign(x - 2.0)


DISC = NonlinearConstraint(lambda x: x @ x, -np.inf, 1.0, jac=lambda x: 2 * x)
CAP = [(None, 0.6), (None, None)]


def solve(**given):
    given = {"jac": distance_slope, "constraints": DISC, "bounds": CAP, **given}
    return minimize(given.pop("fun", distance), given.pop("x0", [0.0, 0.0]), **given)


def test_known_answer_and_every_field():
    result = solve(rho=0.0)
    assert isinstance(result, OptimizeResult)
    assert result.success and result.status == 0 and result.message == "feasible; the solver finished"
    np.testing.assert_allclose(result.x, [0.6, 0.8], atol=1e-6)
    assert result.fun == pytest.approx(2.6, abs=1e-6)
    assert 0 <= result.maxcv <= 1e-6
    assert result.nit >= 1 and result.nfev >= result.njev >= 1
    np.testing.assert_allclose(result.constr[0], [1.0], atol=1e-6)
    # At (0.6, 0.8) the second entry of -sign + multiplier * 2 x is 0.
    np.testing.assert_allclose(result.multipliers[0], [0.625], atol=1e-4)
    assert result.certificate.certified and result.certificate.upper < 1e-3 and not result.certificate.estimated
    assert result.best_feasible.fun <= result.fun + 1e-12
    assert list(result.violations) == ["constraint 1"]
    assert result.history.nit[0] == 0 and np.all(np.diff(result.history.nit) > 0)
    assert result.history.constraints.shape == (len(result.history), 1)


@pytest.mark.parametrize("method", ["bundle", "ssg", "auto"])
def test_methods_agree(method):
    options = {"ssg": {"eta": 1e-3, "maxiter": 20_000, "output": "best-feasible"}}.get(method)
    result = solve(method=method, options=options, rho=0.0)
    assert result.success
    np.testing.assert_allclose(result.x, [0.6, 0.8], atol=5e-3)


def test_auto_notes_how_to_repeat_the_run():
    chosen = solve(rho=0.0)
    assert 'to repeat: method="bundle"' in chosen.notes
    # For many variables the solver is "ssg", and pilot runs find its step size.
    many = lambda **given: minimize(lambda x: np.abs(x).mean(), np.ones(200_001), jac=lambda x: np.sign(x) / len(x), **given)
    chosen = many(options={"maxiter": 20})
    (repeat,) = [note for note in chosen.notes if note.startswith("to repeat: ")]
    arguments = eval(f"dict({repeat[len('to repeat: ') :]})")
    assert arguments["method"] == "ssg" and arguments["options"]["infeasible_step"] == "polyak"
    arguments["options"]["maxiter"] = 20
    again = many(**arguments)
    np.testing.assert_array_equal(again.x, chosen.x)


def test_value_and_gradient_together():
    result = solve(fun=lambda x: (distance(x), distance_slope(x)), jac=True)
    np.testing.assert_allclose(result.x, [0.6, 0.8], atol=1e-5)
    assert result.nfev == result.njev


def test_old_dicts_have_scipys_signs():
    disc = {"type": "ineq", "fun": lambda x: 1.0 - x @ x, "jac": lambda x: -2 * x}
    ours = solve(constraints=[disc])
    theirs = scipy_minimize(lambda x: ((x - 2) ** 2).sum(), [0.0, 0.0], jac=lambda x: 2 * (x - 2), constraints=[disc], bounds=CAP)
    np.testing.assert_allclose(ours.x, theirs.x, atol=1e-4)
    np.testing.assert_allclose(ours.constr[0], [0.0], atol=1e-6)
    # The lower side holds it back.
    assert ours.multipliers[0][0] == pytest.approx(-0.625, abs=1e-3)


def test_arguments_of_functions():
    result = minimize(
        lambda x, a, b: abs(x[0] - a) + b,
        [0.0],
        (3.0, 1.0),
        jac=lambda x, a, b: np.sign(x - a),
        constraints={"type": "ineq", "fun": lambda x, c: c - x, "jac": lambda x, c: [[-1.0]], "args": (2.0,)},
    )
    assert result.x[0] == pytest.approx(2.0, abs=1e-5) and result.fun == pytest.approx(2.0, abs=1e-5)


@pytest.mark.parametrize("form", [np.array, sparse.csr_matrix, sparse.coo_array])
def test_linear_constraints(form):
    # max x + 2y under x + y <= 1, y - x <= 0.5, -1 <= x: the vertex (0.25, 0.75).
    rows = LinearConstraint(form([[1.0, 1.0], [-1.0, 1.0]]), [-np.inf, -np.inf], [1.0, 0.5])
    result = minimize(lambda x: -x[0] - 2 * x[1], [0.0, 0.0], jac=lambda x: [-1.0, -2.0], constraints=rows, rho=0.0)
    np.testing.assert_allclose(result.x, [0.25, 0.75], atol=1e-6)
    np.testing.assert_allclose(result.constr[0], [1.0, 0.5], atol=1e-6)
    np.testing.assert_allclose(result.multipliers[0], [1.5, 0.5], atol=1e-4)
    assert result.certificate.certified


def test_two_sides_and_vectors():
    box = NonlinearConstraint(
        lambda x: np.array([x[0], x[0] * x[1]]), [-1.0, -np.inf], [1.0, 2.0], jac=lambda x: [[1.0, 0.0], [x[1], x[0]]]
    )
    result = minimize(
        lambda x: -x[0] - x[1], [0.1, 0.1], jac=lambda x: [-1.0, -1.0], constraints=[box], bounds=Bounds([0, 0], [9, 9])
    )
    assert result.success
    assert set(result.violations) == {"constraint 1[0] <= ub", "constraint 1[0] >= lb", "constraint 1[1]"}
    assert result.x[0] * result.x[1] <= 2.0 + 1e-6 and result.x[0] <= 1.0 + 1e-6


@pytest.mark.parametrize("method", ["auto", "bundle"])
@pytest.mark.parametrize("unit", [1e-8, 1e-4, 1.0, 1e6])
def test_an_equality_is_satisfied_in_its_own_units(unit, method):
    forms = [
        LinearConstraint([[unit]], unit, unit),
        NonlinearConstraint(lambda x: unit * (x[0] - 1.0), 0.0, 0.0, jac=lambda x: [[unit]]),
    ]
    for form in forms:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = minimize(lambda x: x @ x, [0.0], jac=lambda x: 2 * x, constraints=form, rho=0.0, method=method)
            assert result.success and abs(result.x[0] - 1.0) < 1e-5, (unit, method, result.x)
            # 0 is not feasible, however small the unit is.
            found = thalweg.certify(lambda x: x @ x, [0.0], jac=lambda x: 2 * x, constraints=form, rho=0.0)
            assert not found.feasible, found


def test_an_equality_is_two_inequalities_with_a_warning():
    line = NonlinearConstraint(lambda x: x[0] + x[1], 1.0, 1.0, jac=lambda x: [1.0, 1.0])
    with pytest.warns(UserWarning, match="the equality constraint 1 becomes two inequalities with tolerance 1e-05") as caught:
        result = minimize(lambda x: x @ x, [3.0, 0.0], jac=lambda x: 2 * x, constraints=line, eq_tol=1e-5, method="bundle")
    assert [warning.filename for warning in caught] == [__file__]
    assert result.success
    np.testing.assert_allclose(result.x, [0.5, 0.5], atol=1e-3)
    assert abs(result.constr[0][0] - 1.0) <= 1e-5 + 2e-6


def test_tolerances():
    line = NonlinearConstraint(lambda x: x[0] + x[1], 1.0, 1.0, jac=lambda x: [1.0, 1.0])
    for method in ("auto", "bundle"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore" if method == "bundle" else "error")
            wide = minimize(
                lambda x: x @ x, [3.0, 0.0], jac=lambda x: 2 * x, constraints=line, eq_tol=0.1, rho=(0.0, 0.0), method=method
            )
        np.testing.assert_allclose(wide.x, [0.45, 0.45], atol=1e-4)
    # Violated by a tenth of its unit, the change of the constraint over the norm of the point.
    cap = NonlinearConstraint(lambda x: x[0], -np.inf, 0.9, jac=lambda x: [1.0])
    for scale in (1e-6, 1.0, 1e6):
        scaled = NonlinearConstraint(
            lambda x, scale=scale: scale * cap.fun(x), -np.inf, 0.9 * scale, jac=lambda x, scale=scale: [scale]
        )
        for feasibility in (0.05, 0.2):
            start = minimize(
                lambda x: x @ x,
                [1.0],
                jac=lambda x: 2 * x,
                constraints=scaled,
                method="ssg",
                options={"maxiter": 0},
                feasibility=feasibility,
            )
            assert start.success == (feasibility > 0.1)


def test_certificates_reject_bad_points():
    known = {"jac": distance_slope, "constraints": DISC, "bounds": CAP, "rho": 0.0}
    good, bad, outside = (thalweg.certify(distance, x, **known) for x in ([0.6, 0.8], [0.0, 0.0], [0.6, 0.9]))
    assert good.certified and good.upper < 1e-3
    assert bad.feasible and bad.lower > 0.1
    assert (
        not outside.feasible
        and outside.maxcv == pytest.approx(0.17)
        and outside.worst == "constraint 1"
        and not outside.certified
    )
    with pytest.raises(ValueError, match="outside the domain"):
        thalweg.certify(distance, [0.7, 0.0], **known)
    with pytest.raises(
        ValueError, match=r"rho is required: a weak-convexity constant \(0 for convex functions\), or 'estimate' to estimate it"
    ):
        thalweg.certify(distance, [0.0, 0.0], jac=distance_slope)
    with pytest.raises(TypeError, match="certify needs a point"):
        thalweg.certify(distance)
    with pytest.raises(ZeroDivisionError):
        thalweg.certify(lambda x: 1 / 0, [0.0], jac=np.sign, rho=0.0)


def test_simple_sets():
    centre = np.array([1.0, 2.0, 3.0])
    ball = minimize(lambda x: np.abs(x).sum(), np.zeros(3), jac=np.sign, bounds=thalweg.Ball(1.0, centre), rho=0.0)
    assert np.linalg.norm(ball.x - centre) <= 1.0 + 1e-9
    simplex = minimize(lambda x: x @ [3.0, 1.0, 2.0], [1, 0, 0], jac=lambda x: [3.0, 1.0, 2.0], bounds=thalweg.Simplex(), rho=0.0)
    np.testing.assert_allclose(simplex.x, [0.0, 1.0, 0.0], atol=1e-6)


def test_success_is_never_claimed_for_an_infeasible_point():
    never = NonlinearConstraint(lambda x: x @ x, -np.inf, -1.0, jac=lambda x: 2 * x)
    result = solve(constraints=never, rho=0.0)
    assert not result.success and result.status == 2 and result.maxcv == pytest.approx(1.0, abs=1e-3)
    assert "cannot be satisfied" in result.message
    cut = solve(
        constraints=NonlinearConstraint(lambda x: 100.0 - x @ x, -np.inf, 0.0, jac=lambda x: -2 * x),
        bounds=None,
        method="ssg",
        options={"eta": 1e-6, "maxiter": 3},
    )
    assert not cut.success and cut.status == 1 and cut.maxcv > 1


def test_certificate_files_are_written_whole(tmp_path):
    found = thalweg.certify(distance, [0.0, 0.0], jac=distance_slope, rho=0.0, record=True)
    file = tmp_path / "certificate.json"
    file.write_text("old")
    file.chmod(0o600)
    (tmp_path / "link.json").symlink_to(file)
    found.save(tmp_path / "link.json")
    assert thalweg.check(file) and (tmp_path / "link.json").is_symlink()
    assert os.name != "posix" or file.stat().st_mode & 0o777 == 0o600
    with pytest.raises(OSError, match="there is no such file"):
        found.save(tmp_path / "none" / "certificate.json")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["certificate.json", "link.json"]


def test_certificates_need_a_constant():
    free = solve()
    assert free.certificate is None and "no weak-convexity constant was given" in free.certificate_refused
    claimed = solve(rho=(0.0, 0.0))
    assert claimed.certificate.source == "claimed"
    # |x^2 - 1| needs 2: a smaller claim is contradicted by the points that are visited.
    kink = lambda x: (abs(x[0] ** 2 - 1), [2 * x[0] * np.sign(x[0] ** 2 - 1)])
    false = minimize(kink, [0.3], jac=True, rho=0.1)
    assert false.certificate is None or not false.success


def test_estimated_constants_are_marked():
    kink = lambda x: (abs(x[0] ** 2 - 1), [2 * x[0] * np.sign(x[0] ** 2 - 1)])
    found = minimize(kink, [0.3], jac=True, rho="estimate")
    assert found.x[0] == pytest.approx(1.0, abs=1e-4)
    assert found.certificate.estimated and not found.certificate.certified and "not proved" in repr(found.certificate)


def test_rosenbrock_in_a_disc_without_constants():
    from scipy.optimize import rosen, rosen_der

    disc = NonlinearConstraint(lambda x: x @ x, -np.inf, 1.5, jac=lambda x: 2 * x)
    ours = minimize(rosen, [-1.0, 0.5], jac=rosen_der, constraints=disc)
    theirs = scipy_minimize(rosen, [-1.0, 0.5], jac=rosen_der, constraints=disc, method="SLSQP")
    assert ours.success and ours.fun <= theirs.fun + 1e-4


def test_samples():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(500, 3)), rng.normal(size=500)
    seen = []

    def fun(x, rows):
        seen.append(len(rows))
        return np.abs(a[rows] @ x - b[rows]).mean()

    def jac(x, rows):
        return (np.sign(a[rows] @ x - b[rows]) @ a[rows]) / len(rows)

    options = {"eta": 0.02, "batch_f": 25, "maxiter": 3000, "record": {"at": []}, "output": "average"}
    drawn = minimize(fun, np.zeros(3), jac=jac, n_samples=500, method="ssg", options=options, seed=3)
    assert 25 in seen and set(seen) <= {25, 500}
    whole = minimize(fun, np.zeros(3), jac=jac, n_samples=500)
    assert drawn.fun <= whole.fun + 0.01
    again = minimize(fun, np.zeros(3), jac=jac, n_samples=500, method="ssg", options=options, seed=3)
    other = minimize(fun, np.zeros(3), jac=jac, n_samples=500, method="ssg", options=options, seed=4)
    assert np.array_equal(drawn.x, again.x) and not np.array_equal(drawn.x, other.x)


def test_the_list_of_all_rows_cannot_be_changed():
    def fun(x, rows):
        rows[0] = 7
        return 0.0

    with pytest.raises(ValueError, match="read-only"):
        minimize(fun, [0.0], jac=lambda x, rows: [0.0], n_samples=3)


def test_callback_gets_one_object_and_stops():
    seen = []

    def callback(intermediate):
        seen.append((intermediate.nit, intermediate.fun, intermediate.x.copy(), intermediate.maxcv))
        if len(seen) == 4:
            raise StopIteration

    result = solve(method="ssg", options={"eta": 0.1}, callback=callback)
    assert [s[0] for s in seen] == [0, 1, 2, 3]
    assert result.status == 3 and result.message.endswith("stopped by the callback")
    assert seen[0][1] == 4.0
    assert np.isfinite(result.fun)


def test_exceptions_are_raised_unchanged_with_the_result():
    class Mine(Exception):
        pass

    raised = Mine("the simulator is gone")
    calls = []

    def fun(x):
        calls.append(1)
        if len(calls) == 5:
            raise raised
        return distance(x)

    with pytest.raises(Mine) as caught:
        solve(fun=fun, method="ssg", options={"eta": 0.1})
    assert caught.value is raised and caught.value.args == ("the simulator is gone",)
    assert caught.value.result.status == 5 and np.all(np.isfinite(caught.value.result.x))
    assert "fun" in [frame.name for frame in __import__("traceback").extract_tb(caught.value.__traceback__)]
    with pytest.raises(Mine) as caught:
        solve(callback=lambda _: (_ for _ in ()).throw(raised))
    assert caught.value is raised
    for where in ({"jac": lambda x: 1 / 0}, {"fun": lambda x: 1 / 0}):
        with pytest.raises(ZeroDivisionError):
            solve(**where)


def test_nan_stops_the_run_at_the_last_finite_point():
    calls = []

    def fun(x):
        calls.append(1)
        return np.nan if len(calls) > 6 else distance(x)

    result = solve(fun=fun, method="ssg", options={"eta": 0.1})
    assert not result.success and result.status == 5
    assert "NaN" in result.message and np.all(np.isfinite(result.x))
    with pytest.raises(ValueError, match="the start cannot be used: the objective is NaN"):
        solve(fun=lambda x: float("nan"))
    with pytest.raises(ValueError, match="entry 2 of the start is NaN"):
        solve(x0=[0.0, np.nan])


@pytest.mark.parametrize(
    "given, sentence",
    [
        ({"jac": lambda x: [1.0]}, "jac returned 1 numbers; expected 2"),
        ({"jac": lambda x: "no"}, "jac returned a str; expected an array of numbers"),
        ({"fun": lambda x: "no"}, "fun returned a str; expected a number"),
        ({"fun": lambda x: x}, "fun returned 2 numbers; expected one"),
        ({"fun": lambda x: 1.0, "jac": True}, "fun returned a float; expected a pair"),
        (
            {"jac": "4-point"},
            "jac must be a function, True, or one of 2-point, 3-point, cs for finite differences, got '4-point'",
        ),
        ({"jac": 3}, "jac must be a function, True, or one of 2-point, 3-point, cs, got int"),
        ({"fun": 3}, "fun must be a function of x, got int"),
        ({"x0": [[0.0, 0.0], [0.0, 0.0]]}, r"x0 must be a vector, got shape \(2, 2\)"),
        ({"x0": "here"}, "x0 must be a vector of numbers, got str"),
        (
            {"constraints": [3]},
            r"constraint 1 must be a NonlinearConstraint, a LinearConstraint or a dict as in scipy\.optimize, got int",
        ),
        (
            {"constraints": [{"type": "less", "fun": distance}]},
            r"the type of constraint 1 must be 'ineq' \(fun\(x\) >= 0\) or 'eq' \(fun\(x\) = 0\), got 'less'",
        ),
        (
            {"constraints": [{"type": "ineq"}]},
            r"constraint 1 must have type, a function fun, and optionally jac, args, name, got \['type'\]",
        ),
        (
            {"constraints": NonlinearConstraint(lambda x: x @ x, 2.0, 1.0, jac=lambda x: 2 * x)},
            "lb of row 1 of constraint 1 must be at most ub, got lb = 2 and ub = 1",
        ),
        (
            {"constraints": NonlinearConstraint(lambda x: x @ x, -np.inf, np.nan, jac=lambda x: 2 * x)},
            "ub of row 1 of constraint 1 must be a finite number or inf, got nan",
        ),
        (
            {"constraints": {"type": "ineq", "fun": lambda x: x @ x, "jac": "4-point"}},
            "jac of constraint 1 must be a function or one of 2-point, 3-point, cs for finite differences, got '4-point'",
        ),
        (
            {"constraints": NonlinearConstraint(lambda x: x @ x, [0, 0, 0], 1.0, jac=lambda x: 2 * x)},
            r"lb of constraint 1 must be a number or 1 numbers, got shape \(3,\)",
        ),
        (
            {"constraints": NonlinearConstraint(lambda x: x @ x, -np.inf, 1.0, jac=lambda x: np.zeros((2, 2)))},
            "an array of 2 x 2; expected 1 x 2",
        ),
        (
            {"constraints": NonlinearConstraint(lambda x: np.eye(2), -np.inf, 1.0, jac=lambda x: x)},
            r"constraint 1 must return a number or a vector, got an array of shape \(2, 2\)",
        ),
        (
            {"constraints": LinearConstraint(np.ones((1, 3)), 0, 1)},
            r"the matrix of constraint 1 must have 2 columns, one for each variable, got shape \(1, 3\)",
        ),
        ({"bounds": [(0, 1)]}, r"bounds must have 2 pairs \(low, high\), one for each variable, got 1 entries"),
        ({"bounds": [(1, 0), (0, 1)]}, "lb of variable 1 of bounds must be at most ub, got lb = 1 and ub = 0"),
        ({"bounds": thalweg.Ball(-1.0)}, "radius"),
        ({"bounds": thalweg.Ball(1.0, [0.0])}, "the center of the ball must have 2 entries, one for each variable, got 1"),
        ({"method": "newton"}, "unknown solver 'newton'"),
        ({"method": 3}, f"method must be one of auto, {', '.join(thalweg.solvers('minimize'))}, got int"),
        ({"method": "ssg", "options": {"etta": 1.0}}, "unknown key 'etta'; did you mean 'eta'"),
        ({"method": "ssg", "options": {"eta": -1.0}}, "eta"),
        ({"options": {"eta": 1.0}}, "no setting, because the solver is chosen"),
        ({"options": {"maxiter": -1}}, "iterations"),
        ({"options": {"maxiter": 1.5}}, "iterations"),
        ({"options": {"budget": {"hours": 1}}}, "unknown key 'hours'"),
        ({"options": 3}, "options must be a dict, got int"),
        ({"seed": -1}, r"seed must be an integer from 0 to 2\^63 - 1, got -1"),
        ({"seed": "x"}, r"seed must be an integer from 0 to 2\^63 - 1, got 'x'"),
        ({"rho": -1.0}, r"rho must be a non-negative number, a pair \(objective, constraints\) or 'estimate', got -1\.0"),
        ({"rho": "often"}, r"rho must be a non-negative number, a pair \(objective, constraints\) or 'estimate', got 'often'"),
        ({"feasibility": -1.0}, "feasibility must be a finite number of at least 0, got -1"),
        ({"eq_tol": 0.0}, r"eq_tol must be positive and finite, got 0\.0"),
        ({"n_samples": 0}, "n_samples must be a positive integer, got 0"),
        ({"n_samples": 2.5}, r"n_samples must be a positive integer, got 2\.5"),
    ],
)
def test_invalid_arguments(given, sentence):
    with pytest.raises((ValueError, TypeError), match=sentence) as caught:
        solve(**given)
    assert "\n" not in str(caught.value)


def test_arrays_of_every_kind_give_the_same_numbers():
    plain = solve()
    kinds = {
        "float32": lambda v: np.asarray(v, dtype=np.float32),
        "strided": lambda v: np.repeat(np.asarray(v), 2)[::2],
        "list": lambda v: list(map(float, v)),
        "read-only": lambda v: _locked(v),
        "row": lambda v: np.asarray(v)[None, :],
    }
    for name, kind in kinds.items():
        disc = NonlinearConstraint(lambda x: x @ x, -np.inf, 1.0, jac=lambda x, kind=kind: kind(2 * x))
        result = solve(
            x0=kind([0.0, 0.0]) if name != "row" else [0.0, 0.0],
            jac=lambda x, kind=kind: kind(distance_slope(x)),
            constraints=disc,
        )
        if name == "float32":
            np.testing.assert_allclose(result.x, plain.x, atol=1e-5)
        else:
            assert np.array_equal(result.x, plain.x), name
    whole = minimize(lambda x: np.float32(abs(x[0])), np.array([3]), jac=lambda x: np.sign(x).astype(int))
    assert whole.x[0] == pytest.approx(0.0, abs=1e-6)


def _locked(values):
    array = np.array(values, dtype=float)
    array.setflags(write=False)
    return array


def test_arrays_passed_to_functions_are_not_shared():
    kept, x0 = [], np.zeros(2)

    def fun(x):
        kept.append(x)
        copy = x.copy()
        x[:] = 99.0
        return distance(copy)

    def jac(x):
        slope = distance_slope(x)
        x[:] = -99.0
        return slope

    result = solve(fun=fun, jac=jac, x0=x0)
    assert np.array_equal(result.x, solve(x0=np.zeros(2)).x) and np.array_equal(x0, [0.0, 0.0])
    assert all(np.all(x == 99.0) for x in kept), "what a function keeps is its own"


def test_ctrl_c_returns_the_result_so_far():
    calls = []

    def fun(x):
        calls.append(1)
        if len(calls) == 50:
            os.kill(os.getpid(), signal.SIGINT)
        return distance(x)

    before = signal.getsignal(signal.SIGINT)
    result = solve(fun=fun, method="ssg", options={"eta": 1e-4, "maxiter": 10**9})
    assert result.status == 4 and "interrupted" in result.message
    assert np.all(np.isfinite(result.x)) and signal.getsignal(signal.SIGINT) is before


def test_a_second_ctrl_c_is_an_exception():
    def fun(x):
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
        return distance(x)

    with pytest.raises(KeyboardInterrupt):
        solve(fun=fun)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_other_threads_may_minimise():
    results = []
    threads = [threading.Thread(target=lambda: results.append(solve().x)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 4 and all(np.array_equal(x, results[0]) for x in results)


def test_a_function_may_minimise():
    inner = lambda a: minimize(lambda y: abs(y[0] - a), [0.0], jac=lambda y: np.sign(y - a), rho=0.0).x[0]
    result = minimize(lambda x: abs(inner(x[0]) - 1.0), [0.0], jac=lambda x: [np.sign(x[0] - 1.0)], rho=0.0)
    assert result.x[0] == pytest.approx(1.0, abs=1e-4)


NOTHING = "a finite number or -inf, got inf"
EVERYTHING = "a finite number or inf, got -inf"


@pytest.mark.parametrize(
    "low, high, sentence",
    [
        ([0.0, np.inf], [1.0, np.inf], f"lb of row 2 of constraint 2 must be {NOTHING}"),
        (-np.inf, [1.0, -np.inf], f"ub of row 2 of constraint 2 must be {EVERYTHING}"),
        (-np.inf, -np.inf, f"ub of row 1 of constraint 2 must be {EVERYTHING}"),
        (np.inf, np.inf, f"lb of row 1 of constraint 2 must be {NOTHING}"),
        ([0.0, np.nan], 1.0, "lb of row 2 of constraint 2 must be a finite number or -inf, got nan"),
        ([0.0, 2.0], 1.0, "lb of row 2 of constraint 2 must be at most ub, got lb = 2 and ub = 1"),
    ],
)
@pytest.mark.parametrize("certified", [False, True])
def test_impossible_sides_are_rejected(low, high, sentence, certified):
    both = NonlinearConstraint(lambda x: x, low, high, jac=lambda x: np.eye(2)), LinearConstraint(np.eye(2), low, high)
    for constraint in both:
        with pytest.raises(ValueError) as caught:
            if certified:
                thalweg.certify(distance, [0.0, 0.0], jac=distance_slope, constraints=[DISC, constraint], rho=0.0)
            else:
                solve(constraints=[DISC, constraint])
        assert str(caught.value) == sentence


@pytest.mark.parametrize(
    "low, high, sentence",
    [
        ([0.0, np.inf], [1.0, np.inf], f"lb of variable 2 of bounds must be {NOTHING}"),
        ([0.0, -np.inf], [1.0, -np.inf], f"ub of variable 2 of bounds must be {EVERYTHING}"),
        ([np.nan, 0.0], [1.0, 1.0], "lb of variable 1 of bounds must be a finite number or -inf, got nan"),
        ([0.0, 3.0], [1.0, 2.0], "lb of variable 2 of bounds must be at most ub, got lb = 3 and ub = 2"),
    ],
)
def test_impossible_bounds_are_rejected(low, high, sentence):
    for bounds in (Bounds(low, high), list(zip(low, high))):
        for call in (solve, lambda **given: thalweg.blackbox.minimize(distance, [0.0, 0.0], **given)):
            with pytest.raises(ValueError) as caught:
                call(bounds=bounds)
            assert str(caught.value) == sentence


def test_dicts_have_no_sides_to_get_wrong():
    with pytest.raises(ValueError, match=r"got \['fun', 'lb', 'type'\]"):
        solve(constraints={"type": "ineq", "fun": lambda x: x, "lb": np.inf})
    with pytest.raises(ValueError, match="eq_tol must be positive and finite, got inf"):
        solve(constraints={"type": "eq", "fun": lambda x: x[0]}, eq_tol=np.inf)


@pytest.mark.parametrize("scheme", [None, "2-point", "3-point", "cs"])
def test_finite_differences(scheme):
    plain = NonlinearConstraint(lambda x: x @ x, -np.inf, 1.0)
    calls = []

    def fun(x):
        calls.append(1)
        return ((x - 2) ** 2).sum()

    result = minimize(fun, [0.0, 0.0], jac=scheme, constraints=plain)
    assert result.success
    np.testing.assert_allclose(result.x, [np.sqrt(0.5)] * 2, atol=1e-4)
    (note,) = [note for note in result.notes if note.kind == "finite-difference-gradients"]
    assert note.data == {"scheme": scheme or "3-point", "functions": ["fun", "constraint 1"]}
    assert "finite differences" in note and "not proved" in note
    assert result.nfev == len(calls) and result.njev < result.nfev


def test_no_finite_differences_if_they_are_not_needed():
    given = solve()
    assert not [note for note in given.notes if note.kind == "finite-difference-gradients"]
    # A gradient of the objective alone: only the constraint is differenced.
    partly = solve(constraints=NonlinearConstraint(lambda x: x @ x, -np.inf, 1.0))
    (note,) = [note for note in partly.notes if note.kind == "finite-difference-gradients"]
    assert note.data["functions"] == ["constraint 1"]
    np.testing.assert_allclose(partly.x, [0.6, 0.8], atol=1e-5)
    black_box = solve(jac=None, method="dszog", options={"maxiter": 5})
    assert black_box.njev == 0 and not [note for note in black_box.notes if "finite differences" in note]


@pytest.mark.parametrize("scheme", [None, "2-point", "3-point"])
def test_finite_differences_stay_within_the_bounds(scheme):
    low, high = np.array([0.0, -1.0, 1e-9, 0.5]), np.array([1.0, 1.0, 2e-9, 0.5])
    seen = []

    def fun(x):
        seen.append(x.copy())
        return np.sqrt(x[0]) - x[1] + x[2] + x[3] if np.all((low <= x) & (x <= high)) else np.nan

    near = NonlinearConstraint(lambda x: seen.append(x.copy()) or x[0] + x[1], -np.inf, 1.5)
    # The start is outside, and the solution is at a vertex.
    result = minimize(fun, [2.0, 2.0, 2.0, 2.0], jac=scheme, constraints=near, bounds=Bounds(low, high))
    assert np.all(np.isfinite(result.x)) and len(seen) > 20
    assert np.all((low <= np.array(seen)) & (np.array(seen) <= high))


def test_finite_differences_of_samples_and_vectors():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(50, 3)), rng.normal(size=50)
    fun = lambda x, rows: ((a[rows] @ x - b[rows]) ** 2).mean()
    box = NonlinearConstraint(lambda x, rows: x[:2], -0.1, 0.1)
    plain = minimize(fun, np.zeros(3), n_samples=50, constraints=box)
    exact = minimize(
        fun,
        np.zeros(3),
        jac=lambda x, rows: 2 * a[rows].T @ (a[rows] @ x - b[rows]) / len(rows),
        n_samples=50,
        constraints=NonlinearConstraint(box.fun, -0.1, 0.1, jac=lambda x, rows: np.eye(2, 3)),
    )
    assert plain.success and exact.success
    np.testing.assert_allclose(plain.x, exact.x, atol=1e-4)


def test_certificates_by_finite_differences_are_not_proved():
    smooth = lambda x: ((x - 2) ** 2).sum()
    disc = NonlinearConstraint(lambda x: x @ x, -np.inf, 1.0)
    result = minimize(smooth, [0.0, 0.0], constraints=disc, rho=0.0)
    found = thalweg.certify(smooth, result.x, constraints=disc, rho=0.0)
    for certificate in (result.certificate, found):
        assert certificate.differences and not certificate.certified
        assert "from finite differences, not proved" in repr(certificate)
    exact = solve(rho=0.0).certificate
    assert exact.certified and "proved if the gradients are right and the given constants hold" in repr(exact)


def hs6(**given):
    """Problem 6 of Hock and Schittkowski: minimum 0 at (1, 1)."""
    curve = NonlinearConstraint(lambda x: 10 * (x[1] - x[0] ** 2), 0.0, 0.0, jac=lambda x: [-20 * x[0], 10.0])
    return minimize(lambda x: (1 - x[0]) ** 2, [-1.2, 1.0], jac=lambda x: [2 * (x[0] - 1), 0.0], constraints=curve, **given)


def hs71(**given):
    """Problem 71 of Hock and Schittkowski: minimum 17.0140."""
    product = NonlinearConstraint(lambda x: np.prod(x), 25.0, np.inf, jac=lambda x: np.prod(x) / x)
    sphere = NonlinearConstraint(lambda x: x @ x, 40.0, 40.0, jac=lambda x: 2 * x)
    return minimize(
        lambda x: x[0] * x[3] * x[:3].sum() + x[2],
        [1.0, 5.0, 5.0, 1.0],
        jac=lambda x: x[3] * np.array([x[0], x[0], x[0], 0]) + np.array([x[3] * x[:3].sum(), 0, 1, x[0] * x[:3].sum()]),
        constraints=[product, sphere],
        bounds=[(1, 5)] * 4,
        **given,
    )


@pytest.mark.parametrize("run, minimum", [(hs6, 0.0), (hs71, 17.0140173)])
@pytest.mark.filterwarnings("ignore:the equality")
def test_no_success_away_from_the_optimum(run, minimum):
    for given in ({}, {"rho": "estimate"}, {"method": "bundle", "options": {"maxiter": 1000}}):
        result = run(**given)
        assert not result.success or result.fun == pytest.approx(minimum, abs=1e-3), given
    for method in ("bundle", "auto"):
        short = run(method=method, options={"maxiter": 20 if method == "bundle" else 2})
        assert not short.success and short.status == 6
        ends = [f"{state}, not finished: stopped at the iteration limit" for state in ("feasible", "not feasible")]
        assert short.message in ends
        noted = [note for note in short.notes if note.kind == "equalities-unfinished"]
        assert len(noted) == (method == "bundle")
        assert all('method="sqp"' in note for note in noted)


#: Problems of Hock and Schittkowski with equality constraints: minimum, start, objective, equalities.
EQUALITIES = {
    "6": (0.0, [-1.2, 1.0], lambda x: (1 - x[0]) ** 2, lambda x: [10 * (x[1] - x[0] ** 2)]),
    "7": (-np.sqrt(3), [2.0, 2.0], lambda x: np.log(1 + x[0] ** 2) - x[1], lambda x: [(1 + x[0] ** 2) ** 2 + x[1] ** 2 - 4]),
    "26": (
        0.0,
        [-2.6, 2.0, 2.0],
        lambda x: (x[0] - x[1]) ** 2 + (x[1] - x[2]) ** 4,
        lambda x: [(1 + x[1] ** 2) * x[0] + x[2] ** 4 - 3],
    ),
    "27": (
        0.04,
        [2.0, 2.0, 2.0],
        lambda x: 0.01 * (x[0] - 1) ** 2 + (x[1] - x[0] ** 2) ** 2,
        lambda x: [x[0] + x[2] ** 2 + 1],
    ),
    "39": (-1.0, [2.0] * 4, lambda x: -x[0], lambda x: [x[1] - x[0] ** 3 - x[2] ** 2, x[0] ** 2 - x[1] - x[3] ** 2]),
    "40": (
        -0.25,
        [0.8] * 4,
        lambda x: -x[0] * x[1] * x[2] * x[3],
        lambda x: [x[0] ** 3 + x[1] ** 2 - 1, x[0] ** 2 * x[3] - x[2], x[3] ** 2 - x[1]],
    ),
    "78": (
        -2.91970041,
        [-2.0, 1.5, 2.0, -1.0, -1.0],
        lambda x: x[0] * x[1] * x[2] * x[3] * x[4],
        lambda x: [sum(v**2 for v in x) - 10, x[1] * x[2] - 5 * x[3] * x[4], x[0] ** 3 + x[1] ** 3 + 1],
    ),
}


def complex_steps(function):
    """Return the derivative of a function of complex arguments, exact up to rounding."""

    def derivative(x):
        columns = [np.asarray(function(x + 1e-30j * unit)).imag / 1e-30 for unit in np.eye(len(x))]
        return np.array(columns).T

    return derivative


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("derivatives", [True, False])
@pytest.mark.parametrize("number", EQUALITIES)
def test_equalities_are_solved_in_a_few_calls(number, derivatives, scale):
    minimum, start, function, equalities = EQUALITIES[number]
    fun = lambda x: scale * function(x)
    jac = complex_steps(fun) if derivatives else None
    constraint = {"type": "eq", "fun": equalities}
    if derivatives:
        constraint["jac"] = complex_steps(equalities)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = minimize(fun, start, jac=jac, constraints=constraint)
    assert result.success and result.status == 0 and result.method == "sqp", result.message
    assert result.fun == pytest.approx(scale * minimum, abs=2e-5 * scale)
    assert np.abs(result.constr[0]).max() <= 1e-4
    assert result.nfev < (100 if derivatives else 800)
    assert any(note.startswith("the problem has") for note in result.notes)
    assert "chose sqp: equality constraints need smooth functions" in result.notes
    assert 'to repeat: method="sqp"' in result.notes


def test_hs71_with_bounds_by_both_kinds_of_gradients():
    result = hs71()
    assert result.success and result.method == "sqp" and result.nfev < 50
    np.testing.assert_allclose(result.x, [1.0, 4.743, 3.82115, 1.37941], atol=1e-4)
    product = {"type": "ineq", "fun": lambda x: np.prod(x) - 25.0}
    sphere = {"type": "eq", "fun": lambda x: x @ x - 40.0}
    fun = lambda x: x[0] * x[3] * x[:3].sum() + x[2]
    without = minimize(fun, [1.0, 5.0, 5.0, 1.0], constraints=[product, sphere], bounds=[(1, 5)] * 4)
    assert without.success and without.fun == pytest.approx(17.0140173, abs=1e-4) and without.nfev < 300


def test_sqp_by_name_takes_bounds_and_inequalities():
    smooth = {"fun": lambda x: ((x - 2) ** 2).sum(), "jac": lambda x: 2 * (x - 2)}
    result = solve(**smooth, method="sqp", rho=0.0)
    assert result.success and result.method == "sqp"
    np.testing.assert_allclose(result.x, [0.6, 0.8], atol=1e-6)
    # At (0.6, 0.8) the second entry of 2 (x - 2) + multiplier * 2 x is 0.
    np.testing.assert_allclose(result.multipliers[0], [1.5], atol=1e-5)
    assert result.certificate.certified and result.certificate.upper < 1e-3
    with pytest.raises(ValueError, match="sqp takes the whole space or a box as domain"):
        solve(**smooth, method="sqp", bounds=thalweg.Ball(1.0))


def test_kinks_are_left_to_the_bundle():
    # The sum of absolute deviations of 15 random rows on a plane; linear programming finds the minimum.
    rng = np.random.default_rng([5, 0])
    A, b = rng.normal(size=(15, 5)), rng.normal(size=15)
    plane = LinearConstraint(np.ones((1, 5)), 1.0, 1.0)
    cost = np.r_[np.zeros(5), np.ones(15)]
    sides = np.block([[A, -np.eye(15)], [-A, -np.eye(15)]])
    best = linprog(cost, sides, np.r_[b, -b], np.r_[np.ones(5), np.zeros(15)][None], [1.0], [(None, None)] * 5 + [(0, None)] * 15)
    fun = lambda x: np.abs(A @ x - b).sum()
    given = {"jac": lambda x: np.sign(A @ x - b) @ A, "constraints": plane}
    seen = []
    result = minimize(fun, np.zeros(5), callback=lambda found: seen.append((found.nit, found.seconds)), **given)
    (note,) = [note for note in result.notes if note.kind == "continued"]
    assert "sqp ended without convergence" in note and "bundle continued" in note
    assert result.success and result.fun == pytest.approx(best.fun, abs=1e-4) and result.method == "bundle"
    assert [nit for nit, _ in seen] == sorted(nit for nit, _ in seen) and seen[-1][0] <= result.nit
    assert list(result.history.nit) == [nit for nit, _ in seen] and np.all(np.diff(result.history.seconds) >= 0)
    # By name there is no second method, and a stall is no success.
    alone = minimize(fun, np.zeros(5), method="sqp", **given)
    assert not alone.success and alone.status == 6 and "the line search stalled before convergence" in alone.message
    # Both share one budget.
    for limit in (5, alone.nit + 20):
        short = minimize(fun, np.zeros(5), options={"maxiter": limit}, **given)
        assert short.nit == limit and short.status == 6
    # A limit that leaves nothing ends the run.
    assert minimize(fun, np.zeros(5), options={"maxiter": alone.nit}, **given).method == "sqp"


def test_the_default_for_equalities_is_limited():
    small = lambda n, **given: minimize(
        lambda x: x @ x, np.ones(n), jac=lambda x: 2 * x, constraints=LinearConstraint(np.ones((1, n)), 1.0, 1.0), **given
    )
    assert small(200).method == "sqp"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert small(201, options={"maxiter": 3}).method == "bundle"
        assert small(2, bounds=thalweg.Ball(3.0), options={"maxiter": 3}).method == "bundle"
        assert small(2, method="bundle", options={"maxiter": 3}).method == "bundle"
    free = minimize(lambda x: x @ x, [1.0], jac=lambda x: 2 * x)
    assert free.method == "bundle"


def test_conflicting_equalities_are_no_success():
    sides = [{"type": "eq", "fun": lambda x, b=b: x[0] + x[1] - b, "jac": lambda x, b=b: [1.0, 1.0]} for b in (0.0, 1.0)]
    proved = minimize(lambda x: x @ x, [0.3, 0.1], jac=lambda x: 2 * x, constraints=sides, rho=0.0)
    assert not proved.success and proved.status == 2 and proved.message.startswith("infeasible")
    # Without constants nothing is proved by multipliers; the bundle estimates them.
    found = minimize(lambda x: x @ x, [0.3, 0.1], jac=lambda x: 2 * x, constraints=sides, options={"maxiter": 300})
    assert not found.success and found.status in (2, 6)


def test_a_solver_without_a_stopping_criterion_says_so():
    result = solve(method="ssg", options={"eta": 0.01, "maxiter": 3000, "output": "best-feasible"})
    assert result.success and result.status == 1
    assert result.message == "feasible; ran the planned iterations, no stopping criterion"
    assert not [note for note in result.notes if note.kind == "equalities-unfinished"]
    reached = solve(method="bundle", options={"stop": {"objective": 3.0}})
    assert reached.success and reached.status == 0 and reached.message == "feasible; reached the target objective"


def test_results_pickle_and_render():
    pytest.importorskip("matplotlib").use("Agg")
    result = solve(rho=0.0)
    again = pickle.loads(pickle.dumps(result))
    assert np.array_equal(again.x, result.x) and again.certificate.upper == result.certificate.upper
    page = result._repr_html_()
    assert "feasible; the solver finished" in page and "<script" not in page
    axes = result.plot()
    assert [a.get_ylabel() for a in axes] == ["objective", "constraint 1 (satisfied if at most 0)"]
    with pytest.raises(ValueError, match="against must be one of passes, nit, seconds, got 'time'"):
        result.plot(against="time")
    frame = result.history.to_frame()
    assert list(frame["nit"]) == list(result.history.nit) and "constraint 1" in frame


def test_html_is_escaped():
    named = {"type": "ineq", "fun": lambda x: 1.0 - x @ x, "jac": lambda x: -2 * x, "name": "<b>disc</b>"}
    assert "&lt;b&gt;disc" in solve(constraints=named)._repr_html_()


def test_progress_is_shown(capsys):
    pytest.importorskip("tqdm")
    solve(method="ssg", options={"eta": 1e-6, "maxiter": 200_000, "record": {"at": []}}, verbose=1)
    assert "minimize" in capsys.readouterr().err


def test_no_warning_without_a_reason():
    one = NonlinearConstraint(lambda x: np.array([x @ x]), -np.inf, 1.0, jac=lambda x: 2 * x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plain = solve(rho=0.0)
        # Arrays with one number are numbers.
        for kind in (np.float64, np.array, lambda v: np.array([v]), lambda v: np.array([[v]])):
            assert np.array_equal(solve(fun=lambda x, kind=kind: kind(distance(x)), constraints=one, rho=0.0).x, plain.x)


def test_a_new_draw_is_evaluated_at_the_same_point():
    drawn = []

    def fun(x, rows):
        drawn.append(tuple(rows))
        return float(np.mean(rows))

    options = {"eta": 0.1, "batch_f": 5, "maxiter": 30, "record": {"at": []}}
    minimize(fun, [1.0], jac=lambda x, rows: [0.0], n_samples=100, method="ssg", options=options)
    assert len({rows for rows in drawn if len(rows) == 5}) > 25


def test_zeroth_order():
    # The nearest point of the unit disc to (2, 0). The penalty begins within the disc, so that its minimiser is there too.
    disc = NonlinearConstraint(lambda x: x @ x, -np.inf, 1.0)

    def solve(**options):
        options = {"beta": 10.0, "directions": 20, "eta_w": {"rule": "inv-sqrt", "c": 0.05}, "maxiter": 4000, **options}
        return minimize(lambda x: (x[0] - 2) ** 2 + x[1] ** 2, [0.0, 0.5], constraints=disc, method="dszog", options=options)

    result = solve(margin=0.2)
    assert result.success and result.njev == 0
    np.testing.assert_allclose(result.x, [0.926, 0.0], atol=0.01)
    assert result.zeroth_order["gradient"]["value"] < 0.1 and result.zeroth_order["gradient"]["error"] > 0
    # Stationarity in the first entry: 2 (x - 2) + multiplier 2 x = 0.
    assert result.multipliers[0][0] == pytest.approx((2 - result.x[0]) / result.x[0], abs=0.05)
    assert result.certificate is None and "zeroth-order" in result.certificate_refused
    # Without a margin the method ends a little outside, and the best feasible point is given in place of that.
    outside = solve()
    assert outside.success and outside.zeroth_order is None and "best feasible" in " ".join(outside.notes)


def test_many_constraints_are_all_reported():
    # More than a report lists: x_i <= i / 500 for 500 entries, all of which bind.
    limits = np.arange(1, 501) / 500
    rows = LinearConstraint(sparse.identity(500, format="csr"), -np.inf, limits)
    result = minimize(
        lambda x: -x.sum(), np.zeros(500), jac=lambda x: -np.ones(500), constraints=rows, method="ssg", options={"maxiter": 50}
    )
    assert len(result.constr[0]) == 500 and len(result.violations) == 500
    assert result.history.constraints.shape[1] == 500
