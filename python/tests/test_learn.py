"""Terms, :func:`thalweg.learn.fit`, and rows in every supported format."""

import json
import subprocess
import sys

import numpy as np
import pytest
from scipy import sparse
from scipy.stats import wasserstein_distance

import thalweg
from thalweg.datasets import load
from thalweg.learn import (
    best,
    demographic_parity,
    equalized_odds,
    fit,
    hinge,
    l1,
    l2,
    logistic,
    ridge,
    roc_gap,
    scad,
    self_paced,
    term,
    truncated_logistic,
    variance,
    wasserstein_gap,
    welsch,
)


def sample(n=600, seed=0):
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 2, n)
    X = np.c_[rng.normal(size=n) + group, rng.normal(size=(n, 3))]
    y = (X @ [1.0, 0.5, -0.5, 0.0] + 0.5 * rng.normal(size=n) > 0.5).astype(int)
    return X, y, group


def gap(said, group):
    return abs(said[group == 0].mean() - said[group == 1].mean())


def test_terms_render_to_the_library_syntax():
    assert str(hinge() + 0.02 * scad()) == "hinge + 0.02 * scad"
    assert str(2 * (logistic(on="positives") + l1() / 4)) == '2.0 * logistic(on = "positives") + 0.5 * l1'
    assert str(sum([hinge(), l2()])) == "hinge + l2"
    assert str(hinge() + 0.5 * ridge()) == "hinge + 0.5 * ridge"
    assert str(np.float64(0.5) * hinge()) == "0.5 * hinge"
    assert str(demographic_parity(temperature=0.5) <= 0.02) == "demographic_parity(temperature = 0.5) <= 0.02"
    assert str(equalized_odds() <= 0.02) == "equalised_odds <= 0.02"
    assert str(term("2 * equalized_odds")) == "2 * equalised_odds"
    assert str(demographic_parity(compare="to_overall")) == 'demographic_parity(compare = "to-overall")'
    assert str(hinge() <= 1.001 * best(hinge()) + 0.01) == "hinge <= 1.001 * best(hinge) + 0.01"
    assert str(roc_gap(thresholds=50) <= 0.1) == "roc_gap(thresholds = 50.0, low = -3.0, high = 3.0) <= 0.1"
    assert str(term("hinge+0.5*l2")) == "hinge + 0.5 * l2"
    assert str(0.1 * variance(logistic(on="negatives"), form="sqrt")) == (
        '0.1 * variance(logistic(on = "negatives"), form = "sqrt")'
    )
    assert str(self_paced(welsch(scale=2), age=3, softness=0.5)) == "self_paced(welsch(scale = 2.0), age = 3.0, softness = 0.5)"
    assert str(variance(truncated_logistic(scale=5))) == "variance(truncated_logistic(scale = 5.0))"


def test_every_term_of_the_library_has_its_function():
    with pytest.raises(ValueError, match="^unknown term 'nonsense'; expected one of ") as refused:
        fit("nonsense", X=np.eye(4), y=[0, 1, 0, 1])
    names = str(refused.value).split("expected one of ")[1].split(", ")
    assert "wasserstein_gap" in names and len(names) > 15
    for name in names:
        made = getattr(thalweg.learn, name)
        assert name in thalweg.learn.__all__ and str(made()).startswith(name)


def test_loss_terms_agree_with_numpy():
    X, y, _ = sample()
    model = fit(self_paced("logistic", age=2.0, softness=0.5) + 0.1 * l2(), X=X, y=y, solver="lbfgs")
    each = np.logaddexp(0.0, np.where(y == 1, -1.0, 1.0) * model.decision_function(X))
    v = np.clip((1 / 2.0 - each) / 0.5, 0.0, 1.0)
    worth = np.mean(v * each - v / 2.0 + 0.25 * v**2) + 0.05 * model.coef @ model.coef
    assert model.fun == pytest.approx(worth, rel=1e-12)
    model = fit(welsch(scale=2), variance("welsch(scale = 2)") <= 0.5, X=X, y=y)
    each = 4.0 * (1.0 - np.exp(-((np.where(y == 1, 1.0, -1.0) - model.decision_function(X)) ** 2) / 4.0))
    assert model.fun == pytest.approx(each.mean(), rel=1e-12)
    assert model.constraints[0]["surrogate"] == pytest.approx(each.var(), rel=1e-9) and model.success


@pytest.mark.parametrize("name", ["german", "a9a"])
def test_the_distance_between_scores_of_groups_is_bounded(name):
    data = load(name)
    rows = slice(0, min(data.n_train or len(data.target), 3000))
    X, y, group = data.data[rows], data.target[rows], data.sensitive[rows]
    distance = lambda scores: wasserstein_distance(*(scores[group == g] for g in np.unique(group)))
    free = fit(logistic() + 0.001 * l2(), X=X, y=y)
    bound = 0.2 * distance(free.decision_function(X))
    fair = fit(logistic() + 0.001 * l2(), wasserstein_gap(group) <= bound, X=X, y=y)
    assert fair.success and fair.solver == "ssg"
    assert distance(fair.decision_function(X)) <= bound * (1 + 1e-6)
    assert fair.constraints[0]["surrogate"] == pytest.approx(distance(fair.decision_function(X)), rel=1e-9)
    assert fair.accuracy > 0.65 and free.fun < fair.fun < 1.3 * free.fun
    model = thalweg.FairClassifier("wasserstein_gap", bound=bound).fit(X, y, sensitive_features=group)
    assert model.violation_ == 0.0 and distance(model.decision_function(X)) <= bound * (1 + 1e-6)


@pytest.mark.parametrize(
    "wrong, sentence",
    [
        (lambda: hinge() - l2(), "terms can only be added and multiplied by positive numbers, got "),
        (lambda: -hinge(), "terms can only be added and multiplied by positive numbers, got "),
        (lambda: 0 * hinge(), "the factor of a term must be positive, got "),
        (lambda: hinge() * np.nan, "the factor of a term must be positive, got "),
        (lambda: hinge() >= 0.1, "constraints must be written with <=, got hinge "),
        (lambda: hinge() < 0.1, "constraints must be written with <=, got hinge "),
        (
            lambda: hinge() <= "0.1",
            r"the bound of hinge must be a number, or one with best\(…\) such as 1\.001 \* best\(hinge\(\)\), got '0\.1'",
        ),
        (lambda: 0 <= hinge() <= 1, "constraints must be written with <=, got hinge >= 0"),
        (lambda: bool(hinge() <= 1), r"the constraint 'hinge <= 1\.0' has no truth value; write one comparison at a time"),
        (lambda: hinge() + 1, "unsupported operand"),
        (lambda: hinge() * hinge(), "unsupported operand"),
        (lambda: term("hing"), None),
        (lambda: term("hinge +"), "expected a term"),
        (lambda: term(3), r"the term must be a term such as hinge\(\) or text such as 'hinge', got int"),
    ],
)
def test_invalid_terms(wrong, sentence):
    if sentence is None:
        assert str(wrong()) == "hing"  # the grammar is right; the fit knows the names
        return
    with pytest.raises((TypeError, ValueError), match=sentence):
        wrong()


def test_constraints_are_satisfied_and_increase_the_objective():
    X, y, group = sample()
    free = fit(logistic(), X=X, y=y)
    fair = fit(logistic(), [demographic_parity(group) <= 0.02, "false_positive_rate <= 0.2"], X=X, y=y)
    assert free.success and "without constraints" in free.message
    assert fair.success and fair.maxcv == 0.0
    assert gap(free.predict(X), group) > 0.2 and gap(fair.predict(X), group) <= 0.02
    assert fair.predict(X)[y == 0].mean() <= 0.2
    assert fair.fun > free.fun and fair.accuracy == pytest.approx((fair.predict(X) == y).mean())
    assert [c["satisfied"] for c in fair.constraints] == [True, True]
    assert fair.constraints[0]["measured"] == pytest.approx(gap(fair.predict(X), group), abs=1e-12)
    assert fair.multipliers.shape == (2,) and np.all(fair.multipliers >= 0)
    assert free.stationary["upper"] <= 1e-3
    assert "demographic_parity" in repr(fair) and "satisfied" in fair._repr_html_()


def test_enforce_surrogate():
    X, y, group = sample()
    soft = fit(logistic(), demographic_parity(group) <= 0.02, X=X, y=y, enforce="surrogate")
    assert soft.success and soft.constraints[0]["surrogate"] <= 0.02 + 1e-6
    assert soft.constraints[0]["surrogate_bound"] == 0.02


def test_references_in_bounds():
    X, y, group = sample()
    least = fit(hinge(), X=X, y=y).fun
    result = fit(roc_gap(group), hinge() <= 1.05 * best(hinge()), X=X, y=y)
    assert result.success and result.constraints[0]["bound"] == pytest.approx(1.05 * least, rel=1e-3)


def test_all_row_formats_give_the_same_result():
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    X, y, group = sample(300)
    X = np.where(np.abs(X) < 0.8, 0.0, X)
    names = list("abcd")
    plain = fit("logistic", "demographic_parity <= 0.05", X=X, y=y, sensitive=group)
    forms = {
        "fortran": np.asfortranarray(X),
        "strided": np.repeat(X, 2, axis=0)[::2],
        "read-only": _locked(X),
        "list": X.tolist(),
        "pandas": pandas.DataFrame(X, columns=names),
        "polars": polars.DataFrame(X, schema=names),
    }
    for name, form in forms.items():
        result = fit("logistic", "demographic_parity <= 0.05", X=form, y=y, sensitive=group)
        assert np.array_equal(result.x, plain.x), name
        np.testing.assert_allclose(result.decision_function(form), plain.decision_function(X), rtol=1e-12)
        assert result.feature_names == (names if name in ("pandas", "polars") else None)
    for form in (sparse.csr_matrix(X), sparse.csr_array(X), sparse.coo_array(X), sparse.csc_matrix(X)):
        result = fit("logistic", "demographic_parity <= 0.05", X=form, y=y, sensitive=group)
        np.testing.assert_allclose(result.x, plain.x, atol=2e-3)
        np.testing.assert_allclose(result.decision_function(form), result.decision_function(X), atol=1e-12)
    half = fit("logistic", "demographic_parity <= 0.05", X=X.astype(np.float32), y=y, sensitive=group)
    whole = fit("logistic", "demographic_parity <= 0.05", X=X.astype(np.float32).astype(float), y=y, sensitive=group)
    assert np.array_equal(half.x, whole.x)
    labels = fit(
        "logistic", "demographic_parity <= 0.05", X=X, y=np.where(y == 1, "yes", "no"), sensitive=np.where(group, "m", "f")
    )
    assert np.array_equal(labels.x, plain.x) and list(labels.classes) == ["no", "yes"]
    series = fit(
        "logistic", "demographic_parity <= 0.05", X=X, y=pandas.Series(y), sensitive=pandas.Series(group, dtype="category")
    )
    assert np.array_equal(series.x, plain.x)


def _locked(values):
    array = values.copy()
    array.setflags(write=False)
    return array


def test_duplicates_in_compressed_rows_are_added_up():
    X, y, _ = sample(50)
    rows, columns = np.divmod(np.arange(200), 4)
    doubled = sparse.coo_matrix((np.r_[X.ravel() / 2, X.ravel() / 2], (np.r_[rows, rows], np.r_[columns, columns])))
    unsorted = sparse.csr_matrix(X)[:, ::-1][:, ::-1]
    result = fit("logistic + 0.1 * l2", X=X, y=y)
    for form in (doubled, unsorted):
        np.testing.assert_allclose(fit("logistic + 0.1 * l2", X=form, y=y).x, result.x, atol=2e-3)


def test_mostly_zero_arrays_become_sparse():
    from thalweg import _core

    X = np.zeros((10, 20))
    X[:, 0] = 1.0
    y = np.where(np.arange(10) % 2, 1.0, -1.0)
    assert _core.Learning(X, y, "hinge", []).describe()[2] == "sparse ones, one-byte columns"
    assert _core.Learning(X + 1.0, y, "hinge", []).describe()[2] == "dense"


def test_weights_and_several_columns_of_groups():
    pandas = pytest.importorskip("pandas")
    X, y, group = sample(400)
    exact = {"solver": "bundle", "options": {"eps": 1e-7}}
    twice = fit("logistic", X=np.r_[X, X[:100]], y=np.r_[y, y[:100]], **exact)
    weighted = fit("logistic", X=X, y=y, sample_weight=np.where(np.arange(400) < 100, 2.0, 1.0), **exact)
    np.testing.assert_allclose(weighted.x, twice.x, atol=1e-5)
    frame = pandas.DataFrame({"sex": group, "old": np.arange(400) % 2})
    both = fit("logistic", "demographic_parity <= 0.05", X=X, y=y, sensitive=frame)
    assert both.success and len(both.groups) == 4 and both.groups[0]["group"] == "0, 0"


X, Y, GROUP = sample(60)


@pytest.mark.parametrize(
    "given, sentence",
    [
        ({"objective": "hing"}, "did you mean 'hinge'"),
        ({"objective": 3}, r"the objective must be a term such as hinge\(\) or text such as 'hinge', got int"),
        ({"subject_to": "demographic_parity >= 0.1"}, "only <= is understood"),
        ({"subject_to": [3]}, r"a constraint must be one such as demographic_parity\(\) <= 0\.02 or text, got int"),
        ({"subject_to": "demographic_parity <= 0.1"}, "the data have none"),
        ({"subject_to": "demographic_parity <= 0.1", "sensitive": np.zeros(60)}, "compares groups, but the data have only one"),
        (
            {"subject_to": demographic_parity(GROUP[:5]) <= 0.1},
            r"sensitive must have 60 entries, one for each row of X, got shape \(5,\)",
        ),
        ({"subject_to": [demographic_parity(GROUP) <= 0.1, roc_gap(1 - GROUP) <= 0.1]}, "two terms compare different groups"),
        ({"sensitive": [None] + [1] * 59}, "sensitive is missing in row 1"),
        ({"y": np.arange(60) % 3}, r"y must have two classes, got 3 \(0, 1, 2\)"),
        ({"y": np.zeros(60)}, r"y must have two classes, got 1 \(0\.0\)"),
        ({"y": Y[:5]}, r"y must have 60 labels, one for each row of X, got shape \(5,\)"),
        ({"y": np.where(np.arange(60) == 3, np.nan, 1.0)}, "y is NaN in row 4"),
        ({"X": np.where(X[2, 1] == X, np.nan, X)}, r"entry \(3, 2\) of the matrix is NaN; expected a finite number"),
        ({"X": X[:, 0]}, r"X must have two dimensions, got shape \(60,\)"),
        ({"X": np.array([["a"] * 4] * 60)}, "X must be a matrix of numbers, but has other entries"),
        ({"sample_weight": np.ones(5)}, r"sample_weight must have 60 entries, one for each row of X, got shape \(5,\)"),
        ({"sample_weight": -np.ones(60)}, "weight of row 1 must be a finite number of at least 0, got -1"),
        ({"solver": "newton"}, "unknown solver 'newton'"),
        ({"solver": 3}, f"solver must be one of auto, {', '.join(thalweg.solvers('fit'))}, got int"),
        ({"solver": "ssg", "options": {"etta": 1.0}}, "unknown key 'etta'"),
        ({"options": {"eta": 1.0}}, "belongs to a solver"),
        (
            {"enforce": "hoped"},
            r"enforce must be 'measured' \(0/1 rates satisfy the bounds\) or 'surrogate' \(their surrogates do\), got 'hoped'",
        ),
        ({"seed": -3}, r"seed must be an integer from 0 to 2\^63 - 1, got -3"),
        ({"max_iter": 0.5}, "iterations"),
        ({"max_iter": None, "max_time": -1.0}, "seconds"),
        ({"n_threads": 0}, "threads must be at least 1, got 0"),
        ({"feasibility": -1.0}, "feasibility must be a finite number of at least 0, got -1"),
        ({"start": [0.0]}, "the start has 1 entries; expected 5"),
        ({"subject_to": "hinge <= -1"}, "can never hold"),
    ],
)
def test_invalid_arguments(given, sentence):
    given = {"objective": "logistic", "X": X, "y": Y, **given}
    with pytest.raises((ValueError, TypeError), match=sentence) as caught:
        fit(**given)
    assert "\n" not in str(caught.value)


def test_columns_of_several_types():
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    X, y, _ = sample(100)
    columns = {"real": X[:, 0], "half": X[:, 1].astype(np.float32), "truth": X[:, 2] > 0, "whole": np.arange(100) % 7}
    plain = fit("logistic + 0.1 * l2", X=np.column_stack([np.asarray(c, dtype=float) for c in columns.values()]), y=y)
    for frame in (pandas.DataFrame(columns), polars.DataFrame(columns), pandas.DataFrame(columns).convert_dtypes()):
        assert np.array_equal(fit("logistic + 0.1 * l2", X=frame, y=y).x, plain.x)
    absent = pandas.DataFrame(columns).convert_dtypes()
    absent.loc[4, "whole"] = pandas.NA
    with pytest.raises(ValueError, match=r"entry \(5, 4\) of the matrix is NaN"):
        fit("logistic", X=absent, y=y)


def test_text_columns_are_named():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"age": [1.0, 2.0], "work": ["private", "public"]})
    with pytest.raises(
        ValueError,
        match="column 'work' of X contains text; encode it as numbers",
    ):
        fit("logistic", X=frame, y=[0, 1])


def test_predict_checks_the_number_of_columns():
    with pytest.raises(ValueError, match="X must have 4 columns as in the fit, got 3"):
        fit("logistic", X=X, y=Y).predict(X[:, :3])


def test_callbacks_stop_and_raise():
    X, y, group = sample(2000)
    seen = []

    def callback(shown):
        seen.append(shown.nit)
        assert shown.x.shape == (5,)
        if len(seen) == 3:
            raise StopIteration

    result = fit("logistic", "demographic_parity <= 0.02", X=X, y=y, sensitive=group, callback=callback)
    assert len(seen) == 3 and "stopped by the callback" in result.message
    with pytest.raises(ZeroDivisionError) as caught:
        fit("logistic", "demographic_parity <= 0.02", X=X, y=y, sensitive=group, callback=lambda _: 1 / 0)
    assert np.all(np.isfinite(caught.value.result.coef))


def test_threads_do_not_change_the_numbers():
    X, y, group = sample(9000)
    one, two = (fit("logistic", "demographic_parity <= 0.02", X=X, y=y, sensitive=group, n_threads=n) for n in (1, 2))
    assert np.array_equal(one.x, two.x)


def test_other_python_threads_run_while_a_fit_runs(ctrl_c):
    X, y, group = sample(20_000)
    # With the interpreter's lock held, the other thread could not interrupt the fit before its time is over.
    other = ctrl_c(ticks=100)
    result = fit("logistic", "roc_gap(low = -3, high = 3) <= 0.02", X=X, y=y, sensitive=group, **{**ENDLESS, "max_time": 30.0})
    assert "interrupted" in result.message and other.ticked == 100


def test_the_command_gives_the_same_bits(tmp_path):
    X, y, group = sample(500)
    X = np.round(X, 3)
    X[:, 3] = 1.0 - group  # the column that marks the first group for the command
    file = tmp_path / "rows.svm"
    lines = [
        "{} {}".format("+1" if label else "-1", " ".join(f"{c + 1}:{v!r}" for c, v in enumerate(row.tolist()) if v != 0.0))
        for row, label in zip(X, y)
    ]
    file.write_text("\n".join(lines) + "\n")
    out = tmp_path / "model"
    command = [
        *_command(),
        "fit",
        str(file),
        "--group",
        "4",
        "--minimize",
        "logistic",
        "--subject-to",
        "demographic_parity <= 0.05",
    ]
    command += ["--regularization", "0", "--test-fraction", "0", "--seed", "3", "--out", str(out)]
    subprocess.run(command, check=True, capture_output=True)
    model = json.loads((out / "model.json").read_text())
    theirs = np.array([w["weight"] for w in model["weights"]] + [model["intercept"]])
    ours = fit("logistic", "demographic_parity <= 0.05", X=sparse.csr_matrix(X), y=y, sensitive=group, seed=3)
    assert np.array_equal(ours.x, theirs)


def _command():
    """Return the command of this package."""
    return [sys.executable, "-m", "thalweg"]


def test_certificates_of_models():
    X, y, group = sample(1000)
    result = fit("logistic", "demographic_parity <= 0.05", X=X, y=y, sensitive=group)
    found = thalweg.certify(result, X, y, sensitive_features=group)
    assert found.certified and found.feasible and found.upper < 0.01 and found.source == "proved"
    assert found.constraints[0]["measured"] == pytest.approx(result.constraints[0]["measured"], abs=1e-12)
    # A planted bad model is rejected.
    bad = thalweg.learn.FitResult(result)
    bad.x = result.x + 1.0
    found = thalweg.certify(bad, X, y, sensitive_features=group)
    assert found.lower > 0.1 or not found.feasible
    # So is one that was trained without the constraint.
    bad.x = fit("logistic", X=X, y=y).x
    found = thalweg.certify(bad, X, y, sensitive_features=group)
    said = fit("logistic", X=X, y=y).predict(X)
    assert not found.feasible and not found.certified and found.worst == "demographic_parity"
    assert found.maxcv == pytest.approx(gap(said, group) - 0.05, abs=1e-12)
    held = thalweg.certify(result, *sample(1000, seed=1)[:2], sensitive_features=sample(1000, seed=1)[2], confidence=0.9)
    assert held.intervals[0]["low"] <= held.intervals[0]["value"] <= held.intervals[0]["high"]
    with pytest.raises(TypeError, match="certified on rows"):
        thalweg.certify(result, X)
    with pytest.raises(ValueError, match="y must have the labels of the training rows"):
        thalweg.certify(result, X, y + 5)


def test_a_forked_process_can_fit():
    import multiprocessing

    # Enough rows for several threads, here and there.
    fit("logistic", X=LARGE[0], y=LARGE[1], n_threads=2)
    context = multiprocessing.get_context("fork")
    with context.Pool(1) as pool:
        # A child that waits for a thread of its parent would wait for ever.
        found = pool.apply_async(_child).get(timeout=60)
    assert np.array_equal(found, fit("logistic", X=LARGE[0], y=LARGE[1]).x)


LARGE = sample(6000)


def _child():
    return fit("logistic", X=LARGE[0], y=LARGE[1]).x


ENDLESS = {"solver": "ssg", "max_iter": 10**9, "max_time": None}


def test_ctrl_c_returns_the_best_model_so_far(ctrl_c):
    import signal

    X, y, group = sample(5000)
    ctrl_c()
    result = fit("logistic", "demographic_parity <= 0.05", X=X, y=y, sensitive=group, **ENDLESS)
    assert "interrupted" in result.message and np.all(np.isfinite(result.coef))
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_ctrl_c_raises_and_the_classifier_is_fitted(ctrl_c):
    X, y, group = sample(5000)
    model = thalweg.FairClassifier(bound=0.05, **ENDLESS)
    ctrl_c()
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y, sensitive_features=group)
    assert np.all(np.isfinite(model.predict(X)))


@pytest.mark.parametrize("compare", [None, "between_groups", "to_overall"])
def test_gaps_of_three_groups_have_the_meaning_that_is_asked_for(compare):
    rng = np.random.default_rng(4)
    group = rng.integers(0, 3, 1500)
    X = np.c_[rng.normal(size=1500) + 0.7 * group, rng.normal(size=1500)]
    y = (X.sum(axis=1) + rng.normal(size=1500) > 1).astype(int)
    result = fit(logistic(), demographic_parity(group, compare=compare) <= 0.04, X=X, y=y)
    said = X @ result.coef + result.intercept > 0
    rates = np.array([said[group == k].mean() for k in range(3)])
    gap = np.abs(rates - said.mean()).max() if compare == "to_overall" else np.ptp(rates)
    assert all(constraint["satisfied"] for constraint in result.constraints) and gap <= 0.04
    assert result.constraints[0]["measured"] == pytest.approx(gap, abs=1e-12)
    meaning = "a group and the overall rate" if compare == "to_overall" else "two groups"
    assert any(f"is the largest difference between {meaning} (3 groups)" in note for note in result.notes)
