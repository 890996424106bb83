"""The classifier with a variance penalty: its objective, and incremental training."""

import copy
import pickle
import resource

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from thalweg import VarianceRegularizedClassifier, certify
from thalweg.datasets import load
from thalweg.learn import fit, logistic, truncated_logistic, variance, welsch


def sample(n=500, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    y = np.where(X @ [1.0, -1.0, 0.5, 0.0] + rng.standard_t(2, size=n) > 0.2, "yes", "no")
    return X, y


def losses(model, X, y):
    """Loss of each row, computed independently."""
    margins = np.where(y == model.classes_[1], 1.0, -1.0) * (X @ model.coef_[0] + model.intercept_[0])
    plain = np.logaddexp(0.0, -margins)
    scale = np.sqrt(10.0 * len(y))
    return {
        "logistic": plain,
        "hinge": np.maximum(0.0, 1.0 - margins),
        "truncated_logistic": scale * np.log1p(plain / scale),
        "welsch": 1.0 - np.exp(-((1.0 - margins) ** 2)),
    }[model.loss]


def objective(model, X, y, weights=None):
    """Mean plus variance plus penalty, with numpy only."""
    each = losses(model, X, y)
    weights = np.ones(len(y)) if weights is None else weights
    mean = np.average(each, weights=weights)
    spread = np.average((each - mean) ** 2, weights=weights)
    root = np.sqrt(spread / weights.sum())
    added = model.variance * (root if model.form == "sqrt" else spread)
    return mean + added + model.alpha / 2 * np.sum(model.coef_**2), mean, spread


@pytest.mark.parametrize("form", ["plain", "sqrt"])
@pytest.mark.parametrize("loss", ["logistic", "truncated_logistic", "hinge", "welsch"])
def test_objective_agrees_with_numpy_and_is_minimal(loss, form):
    X, y = sample()
    steady = {"solver": "st-spg", "options": {"order": "shuffled", "output": "average", "weight": 8}, "max_passes": 200}
    how = {"hinge": steady, "welsch": {"solver": "lbfgs"}}.get(loss, {})
    model = VarianceRegularizedClassifier(loss, 0.5, form=form, alpha=0.01, **how).fit(X, y)
    value, mean, spread = objective(model, X, y)
    if how is not steady:  # which returns an average, and not the last iterate
        assert model.history_.fun[-1] == pytest.approx(value, rel=1e-12)
    assert model.mean_loss_ == pytest.approx(mean, rel=1e-12) and model.loss_variance_ == pytest.approx(spread, rel=1e-9)
    other = copy.deepcopy(model)
    rng = np.random.default_rng(1)
    for _ in range(30):
        other.coef_ = model.coef_ + 0.05 * rng.normal(size=model.coef_.shape)
        other.intercept_ = model.intercept_ + 0.05 * rng.normal(size=1)
        # A stochastic method ends near the minimum.
        assert objective(other, X, y)[0] > value - (1e-3 if how is steady else 0.0)


def test_every_solver_reaches_the_optimum():
    X, y = sample()
    reached = {}
    for solver, options in [("lbfgs", None), ("st-spg", {"order": "shuffled", "output": "average"}), ("mspg", {"growth": 0.05})]:
        model = VarianceRegularizedClassifier(solver=solver, options=options).fit(X, y)
        reached[solver] = objective(model, X, y)[0]
    assert min(reached.values()) == reached["lbfgs"]
    assert max(reached.values()) < 1.005 * reached["lbfgs"], reached


def test_same_bits_as_fit():
    X, y = sample()
    for solver in ("auto", "lbfgs", "mspg"):
        model = VarianceRegularizedClassifier(solver=solver, random_state=3).fit(X, y)
        same = fit(logistic() + 0.1 * variance(), X=X, y=y, solver=solver, seed=3)
        assert np.array_equal(model.coef_[0], same.coef) and model.intercept_[0] == same.intercept


def test_weights_ball_and_limits():
    X, y = sample()
    rng = np.random.default_rng(2)
    weights = rng.integers(0, 4, len(y)).astype(float)
    model = VarianceRegularizedClassifier(variance=0.3).fit(X, y, sample_weight=weights)
    times = weights.astype(int)
    repeated = VarianceRegularizedClassifier(variance=0.3).fit(np.repeat(X, times, axis=0), np.repeat(y, times))
    assert np.array_equal(model.coef_, repeated.coef_)
    assert model.history_.fun[-1] == pytest.approx(objective(model, X, y, weights)[0], rel=1e-12)
    tight = VarianceRegularizedClassifier(radius=0.5).fit(X, y)
    assert np.linalg.norm(np.r_[tight.coef_[0], tight.intercept_]) == pytest.approx(0.5)
    assert VarianceRegularizedClassifier(radius=np.inf, max_iter=3).fit(X, y).n_iter_ == 3
    model = VarianceRegularizedClassifier(solver="mspg", max_passes=2).fit(X, y)
    assert 2 <= model.history_.passes_f[-1] < 2.2
    assert "mean loss" in model.report_html() and len(model.predict_proba(X)) == len(y)
    assert GridSearchCV(VarianceRegularizedClassifier(), {"variance": [0.01, 1.0]}, cv=2).fit(X, y).best_params_


@pytest.mark.parametrize(
    "parameters, sentence",
    [
        ({"loss": "logistic + hinge"}, "loss must be a single loss such as 'logistic', got '"),
        ({"loss": 2 * logistic()}, "loss must be a single loss such as 'logistic', got '"),
        ({"loss": "l2"}, "l2"),
        ({"variance": 0.0}, r"variance must be positive and finite, got 0\.0"),
        ({"form": "linear"}, "form must be 'plain' or 'sqrt', got 'linear'"),
        ({"alpha": -1.0}, r"alpha must be non-negative and finite, got -1\.0"),
        ({"radius": 0.0}, r"radius must be positive \(numpy\.inf for no bound\), got 0\.0"),
        ({"solver": "bundle"}, "solver must be one of auto, lbfgs, st-spg, mspg, got 'bundle'"),
        ({"solver": "mspg", "options": {"eta": -1.0}}, "eta"),
    ],
)
def test_invalid_parameters(parameters, sentence):
    X, y = sample(50)
    with pytest.raises(ValueError, match=sentence):
        VarianceRegularizedClassifier(**parameters).fit(X, y)


@pytest.mark.parametrize(
    "parameters, call, sentence",
    [
        ({}, {}, "classes is required in the first call of partial_fit"),
        ({}, {"classes": ["no", "yes", "perhaps"]}, r"classes must have two labels, got \['no', 'perhaps', 'yes'\]"),
        ({}, {"classes": ["no", "maybe"]}, r"y must have the labels of the training rows, \['"),
        ({"solver": "mspg", "options": {"memory": 3}}, {"classes": ["no", "yes"]}, "memory"),
    ],
)
def test_invalid_arguments_of_partial_fit(parameters, call, sentence):
    X, y = sample(50)
    with pytest.raises(ValueError, match=sentence):
        VarianceRegularizedClassifier(**parameters).partial_fit(X, y, **call)


@pytest.mark.parametrize(
    "parameters, sentence",
    [
        ({"form": "sqrt"}, "partial_fit needs form='plain'"),
        ({"loss": truncated_logistic()}, "partial_fit needs a loss with a scale"),
        ({"solver": "lbfgs"}, "partial_fit needs solver 'auto' or 'mspg', got 'lbfgs'"),
    ],
)
def test_partial_fit_is_unavailable_where_it_needs_all_rows(parameters, sentence):
    model = VarianceRegularizedClassifier(**parameters)
    assert not hasattr(model, "partial_fit")
    with pytest.raises(AttributeError) as refused:
        _ = model.partial_fit
    assert sentence in str(refused.value.__cause__)
    assert hasattr(VarianceRegularizedClassifier(truncated_logistic(scale=50)), "partial_fit")


def test_partial_fits_agree_with_each_other():
    X, y = sample(60)
    model = VarianceRegularizedClassifier().partial_fit(X[:30], y[:30], classes=["no", "yes"])
    with pytest.raises(ValueError, match="3 features"):
        model.partial_fit(X[:, :3], y)
    with pytest.raises(ValueError, match="as in the calls before"):
        model.partial_fit(X, y, classes=["a", "b"])
    with pytest.raises(ValueError, match=r"y must have the labels of the training rows, \['"):
        model.partial_fit(X, np.arange(60))
    # A part may have only one class.
    model.partial_fit(X[y == "yes"], y[y == "yes"])
    assert model.classes_.tolist() == ["no", "yes"] and len(model.history_) == 2


def chunks(rows, size):
    return [slice(begin, min(begin + size, rows)) for begin in range(0, rows, size)]


def test_partial_fit_on_a9a_approaches_batch_training():
    data = load("a9a")
    X, y = data.data[: data.n_train], data.target[: data.n_train]
    whole = VarianceRegularizedClassifier(max_iter=300).fit(X, y)
    least = objective(whole, X, y)[0]
    for size in (500, 2500):
        model = VarianceRegularizedClassifier()
        for _ in range(10):
            for part in chunks(len(y), size):
                model.partial_fit(X[part], y[part], classes=[-1, 1])
        value = objective(model, X, y)[0]
        assert least <= value < 1.01 * least, (value, least)
        assert model.history_.samples[-1] == 10 * len(y) and len(model.history_) == 10 * len(chunks(len(y), size))


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_training_continues_after_pickling(kind):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(400, 30)) * (rng.random((400, 30)) < 0.1)
    y = (X.sum(axis=1) + 0.3 * rng.normal(size=400) > 0).astype(int)
    X = sparse.csr_matrix(X) if kind == "sparse" else X
    model = VarianceRegularizedClassifier(alpha=0.01, random_state=7, options={"growth": 0.1, "output": "average"})
    parts = chunks(400, 70)
    for part in parts[:3]:
        model.partial_fit(X[part], y[part], classes=[0, 1])
    others = [pickle.loads(pickle.dumps(model)), copy.deepcopy(model)]
    for part in parts[3:]:
        for one in (model, *others):
            one.partial_fit(X[part], y[part])
    for other in others:
        assert np.array_equal(model.coef_, other.coef_) and model.intercept_ == other.intercept_
        assert model.n_iter_ == other.n_iter_ and np.array_equal(model.history_.fun, other.history_.fun)
    assert not hasattr(clone(model), "coef_")
    again = clone(model)
    for part in parts:
        again.partial_fit(X[part], y[part], classes=[0, 1])
    assert np.array_equal(model.coef_, again.coef_)


def test_partial_fit_continues_from_fit_and_fit_starts_over():
    X, y = sample()
    model = VarianceRegularizedClassifier(alpha=0.1).fit(X, y)
    before, fitted = model.coef_.copy(), clone(model).fit(X, y)
    model.partial_fit(X[:100], y[:100])
    assert 0 < np.linalg.norm(model.coef_ - before) < 0.5 * np.linalg.norm(before)
    assert np.array_equal(model.fit(X, y).coef_, fitted.coef_)
    with pytest.raises(ValueError, match="no weak-convexity constant|constant"):
        certify(model, X, y)
    assert certify(VarianceRegularizedClassifier(welsch(), radius=np.inf).fit(X, y), X, y).feasible


def test_cost_with_millions_of_columns_is_that_of_the_entries():
    rng = np.random.default_rng(0)
    rows, columns, each = 20_000, 3_000_000, 20
    places = np.sort(rng.integers(0, columns, size=(rows, each)), axis=1)
    # Half of the entries are in columns that occur often enough to be learnt.
    places[:, : each // 2] = np.sort(rng.integers(0, 2000, size=(rows, each // 2)), axis=1)
    X = sparse.csr_matrix((np.ones(rows * each), places.ravel(), np.arange(0, rows * each + 1, each)), shape=(rows, columns))
    X.sum_duplicates()
    truth = np.zeros(columns)
    truth[:2000] = rng.normal(size=2000)
    y = (X @ truth > 0).astype(int)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    model = VarianceRegularizedClassifier(alpha=1e-4, solver="mspg", options={"growth": 0.1}, max_passes=3).fit(X, y)
    assert model.score(X, y) > 0.8 and model.coef_.shape == (1, columns)
    parts = VarianceRegularizedClassifier(alpha=1e-4, options={"growth": 0.1})
    for part in chunks(rows, 5000):
        parts.partial_fit(X[part], y[part], classes=[0, 1])
    assert parts.score(X, y) > 0.7
    # The dense array of all rows and columns would take 480 GB; vectors of all columns take 24 MB each.
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    assert grown < 1500, f"{grown:.0f} MB"
