"""Results on a9a, trained on its training part and tested on its test part."""

import numpy as np
import pytest

import thalweg
from thalweg import FairClassifier
from thalweg.datasets import load


@pytest.fixture(scope="module")
def parts():
    a9a = load("a9a")
    sex = np.asarray(a9a.sensitive)
    cut = a9a.n_train
    assert (a9a.data.shape, cut) == ((48_842, 123), 32_561)
    return [(a9a.data[rows], a9a.target[rows], sex[rows]) for rows in (slice(0, cut), slice(cut, None))]


@pytest.mark.parametrize("form", ["sparse", "dense"])
def test_demographic_parity(parts, form):
    (X, y, sex), (X_test, y_test, _) = parts
    if form == "dense":
        X, X_test = X.toarray(), X_test.toarray()
    model = FairClassifier("demographic_parity", bound=0.02).fit(X, y, sensitive_features=sex)
    said = model.predict(X) > 0
    first, second = np.unique(sex)
    assert abs(said[sex == first].mean() - said[sex == second].mean()) <= 0.02
    assert model.score(X_test, y_test) >= 0.830
    found = thalweg.certify(model, X, y, sensitive_features=sex)
    assert found.certified and found.upper <= 1e-3


def test_roc_gap(parts):
    (X, y, sex), (X_test, y_test, _) = parts
    model = FairClassifier("roc_gap", bound=0.05).fit(X, y, sensitive_features=sex)
    found = thalweg.certify(model, X, y, sensitive_features=sex)
    assert found.certified and found.constraints[0]["satisfied"] and found.upper <= 1e-2
    # Computed directly: at every threshold the rates of scores above it differ by at most 0.05.
    scores, (first, second) = model.decision_function(X), np.unique(sex)
    above = lambda group, at: (scores[sex == group][:, None] > at).mean(axis=0)
    thresholds = np.linspace(-3, 3, 400)
    assert np.max(np.abs(above(first, thresholds) - above(second, thresholds))) <= 0.05 + 1e-6
    assert model.score(X_test, y_test) >= 0.830


def test_several_groups_are_each_compared_with_all_rows(parts):
    (X, y, sex), _ = parts
    X, y, sex = X[:4000], y[:4000], sex[:4000]
    race = np.asarray(X[:, [66]].todense()).ravel()
    groups = np.c_[sex, np.where(race > 0, "white", "other")]
    model = FairClassifier("demographic_parity", bound=0.03).fit(X, y, sensitive_features=groups)
    said = model.predict(X) > 0
    names = np.array([", ".join(row) for row in groups])
    assert model.groups_ == sorted(set(names)) and len(model.groups_) == 4
    assert max(abs(said[names == name].mean() - said.mean()) for name in model.groups_) <= 0.03 + 1e-6
