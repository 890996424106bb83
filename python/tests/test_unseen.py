"""Bounds that hold in the population: what classifiers promise, refuse and warn about."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.stats import binom, binomtest
from sklearn.base import clone

import thalweg
from thalweg import ConstrainedClassifier, FairClassifier, KernelConstrainedClassifier, NeymanPearsonClassifier
from thalweg.learn import demographic_parity


def people(rows=3000, seed=0):
    rng = np.random.default_rng(seed)
    group = np.where(rng.random(rows) < 0.45, "a", "b")
    X = rng.normal(size=(rows, 3)) + 0.8 * (group == "b")[:, None]
    y = np.where(X.sum(axis=1) + rng.normal(size=rows) > 1.0, "yes", "no")
    return X, y, group


def test_a_fair_classifier_says_what_it_promises():
    X, y, group = people()
    model = FairClassifier(bound=0.1, holds_on="population").fit(X, y, sensitive_features=group)
    promise = model.promise_
    assert promise["confirmed"] and promise["confidence"] == 0.95 and promise["rows"] == 999
    test = promise["constraints"][0]
    assert test["value"] < test["at_most"] <= test["bound"] == 0.1 and sum(test["rows"]) == 999
    assert promise["sentence"] in model.message_ and "positive predictions) is at most 0.1 among people" in promise["sentence"]
    assert [c["confirmed"] for c in promise["path"]].count(True) >= 1
    assert model.constraints_[0]["bound"] == 0.1 and model.constraints_[0]["satisfied"]
    # Rows that nothing has seen.
    fresh, _, groups = people(50_000, seed=1)
    predicted = model.predict(fresh) == "yes"
    assert abs(predicted[groups == "a"].mean() - predicted[groups == "b"].mean()) <= 0.1
    # The same again, and in any form of the rows.
    again = pickle.loads(pickle.dumps(clone(model).fit(X, y, sensitive_features=group)))
    assert (again.coef_ == model.coef_).all() and again.promise_ == promise
    same = clone(model).fit(sparse.csr_matrix(X), y, sensitive_features=pd.Series(group))
    assert np.allclose(same.coef_, model.coef_, atol=1e-6)
    assert FairClassifier(bound=0.1).fit(X, y, sensitive_features=group).promise_ is None


def test_the_safety_set_does_not_influence_training():
    X, y, group = people(900)
    from thalweg import _core

    codes = (group == "b").astype(np.uint32)
    training, safety = _core.split_off(np.where(y == "yes", 1.0, -1.0), codes, 1 / 3, 0)
    assert sorted([*training, *safety]) == list(range(900))
    model = FairClassifier(bound=0.3, holds_on="population").fit(X, y, sensitive_features=group)
    # With other features in the safety set, every candidate is the same.
    other = X.copy()
    other[safety] += 0.01
    changed = FairClassifier(bound=0.3, holds_on="population").fit(other, y, sensitive_features=group)
    assert [c["training"] for c in changed.promise_["path"]] == [c["training"] for c in model.promise_["path"]]


def test_terms_kernels_and_several_constraints_are_promised():
    X, y, group = people()
    bounds = [demographic_parity(sensitive=group) <= 0.15, "false_negative_rate <= 0.6", "logistic <= 5"]
    model = ConstrainedClassifier(subject_to=bounds, holds_on="population", confidence=0.9).fit(X, y)
    assert model.promise_["confirmed"] and len(model.promise_["constraints"]) == 2
    assert model.promise_["not_promised"] == ["logistic"]
    assert model.promise_["sentence"].startswith("with 90% confidence, ")
    kernel = KernelConstrainedClassifier(subject_to="false_positive_rate <= 0.1", n_components=20, holds_on="population")
    kernel.fit(X, y)
    assert kernel.promise_["confirmed"] and kernel.promise_["constraints"][0]["at_most"] <= 0.1
    # The centres are rows of the training part.
    assert len(kernel.centers_) == 20


def test_too_few_rows_warn_with_the_number_that_is_missing():
    X, y, group = people(150)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        model = FairClassifier(bound=0.02, holds_on="population").fit(X, y, sensitive_features=group)
    kinds = [w.category for w in found]
    assert kinds.count(thalweg.PromiseWarning) == 1 and kinds.count(thalweg.DataWarning) == 1, [str(w.message) for w in found]
    messages = {w.category: str(w.message) for w in found}
    assert "group 'a' has " in messages[thalweg.DataWarning] and " and needs about " in messages[thalweg.DataWarning]
    assert "more rows" in messages[thalweg.PromiseWarning]
    assert not model.promise_["confirmed"] and model.promise_["sentence"] in model.message_
    assert model.predict(X).shape == (150,)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"holds_on": "everyone"}, "holds_on must be 'training' or 'population', got 'everyone'"),
        ({"confidence": 1.5}, "confidence must be a number between 0 and 1"),
        ({"safety_fraction": 0.0}, "safety_fraction must be a number between 0 and 1, got 0"),
        ({"constraint": "wasserstein_gap"}, "a bound on unseen rows needs a constraint on a rate"),
        ({"enforce": "surrogate"}, "surrogates are enforced"),
    ],
)
def test_what_cannot_be_promised_is_refused(given, sentence):
    X, y, group = people(300)
    with pytest.raises(ValueError, match=sentence):
        FairClassifier(**{"bound": 0.1, "holds_on": "population", **given}).fit(X, y, sensitive_features=group)


def test_weights_are_refused_if_they_differ():
    X, y, group = people(600)
    weights = np.ones(600)
    FairClassifier(bound=0.5, holds_on="population").fit(X, y, sample_weight=weights, sensitive_features=group)
    weights[::2] = 2.0
    with pytest.raises(ValueError, match="cannot be promised for weighted rows"):
        FairClassifier(bound=0.5, holds_on="population").fit(X, y, sample_weight=weights, sensitive_features=group)


def test_intervals_are_exact_and_hold_for_each_line_or_all():
    X, y, _ = people()
    model = ConstrainedClassifier(subject_to=["false_positive_rate <= 0.1"]).fit(X, y)
    fresh, truth, _ = people(seed=3)
    each, all_lines = (
        thalweg.certify(model, fresh, truth, confidence=0.9, together=together).intervals[0]["measured"]
        for together in (False, True)
    )
    negatives = truth == "no"
    count = int(np.sum(model.predict(fresh)[negatives] == "yes"))
    exact = binomtest(count, int(negatives.sum())).proportion_ci(0.9)
    assert (each["low"], each["high"]) == pytest.approx((exact.low, exact.high), abs=1e-9)
    # Two lines: the measured rate and its surrogate.
    exact = binomtest(count, int(negatives.sum())).proportion_ci(0.95)
    assert (all_lines["low"], all_lines["high"]) == pytest.approx((exact.low, exact.high), abs=1e-9)


@pytest.mark.parametrize(("rows", "bound", "delta"), [(100, 0.05, 0.05), (1000, 0.05, 0.05), (777, 0.1, 0.1), (5000, 0.01, 0.01)])
def test_thresholds_are_those_of_the_binomial_distribution(rows, bound, delta):
    from thalweg import _core

    failing = binom.sf(np.arange(rows), rows, 1.0 - bound)
    rank, failure = _core.score_threshold(rows, bound, 1.0 - delta)
    assert rank == int(np.argmax(failing <= delta)) and failure == pytest.approx(failing[rank], rel=1e-6)


def test_neyman_pearson_says_what_it_promises():
    X, y, _ = people()
    model = NeymanPearsonClassifier(max_fpr=0.05, delta=0.05).fit(X, y)
    promise = model.promise_
    assert promise["confirmed"] and promise["rows"] == model.n_holdout_
    assert promise["sentence"].startswith("with 95% confidence, the false-positive rate is at most 0.05 among negatives drawn")
    with pytest.warns(UserWarning, match="is bounded on the training rows only"):
        assert NeymanPearsonClassifier(max_fpr=0.01, delta=0.01).fit(X[:100], y[:100]).promise_ is None
