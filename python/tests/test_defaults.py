"""Classifiers with nothing set, on made-up tables like those that people bring: wild units, tiny groups, rare labels."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import thalweg
from thalweg import ConstrainedClassifier, FairClassifier
from thalweg.learn import demographic_parity


def credit(rows=4000, seed=0):
    """Return amounts up to 1e6 beside codes, labels with 22% positives, and two groups."""
    rng = np.random.default_rng(seed)
    group = rng.choice(["f", "m"], rows, p=[0.6, 0.4])
    limit = np.minimum(1e6, rng.gamma(1.5, 1.1e5, rows).round())
    late = rng.poisson(0.5 + 0.15 * (group == "m"), rows) - 1.0
    bills = limit[:, None] * rng.beta(1.0, 2.0, (rows, 3))
    paid = bills * rng.beta(0.5, 4.0, (rows, 3))
    X = np.c_[limit, rng.integers(1, 5, rows), late, rng.integers(21, 75, rows), bills, paid]
    score = 1.2 * late - limit / 3e5 - 2e-5 * paid.sum(axis=1) + rng.logistic(scale=0.5, size=rows)
    return X, (score > np.quantile(score, 0.78)).astype(int), group


def law(rows=6000, seed=0):
    """Return grades, a label that most rows have, and eight groups of which some are tiny."""
    rng = np.random.default_rng(seed)
    share = np.array([0.838, 0.06, 0.04, 0.025, 0.02, 0.01, 0.005, 0.002])
    group = rng.choice(8, rows, p=share)
    ability = rng.normal(size=rows) - 0.6 * (group > 0)
    X = np.c_[36 + 5 * (ability + rng.normal(size=rows)), 3.2 + 0.4 * (ability + rng.normal(size=rows)), rng.integers(1, 6, rows)]
    return X, (ability + rng.logistic(scale=0.5, size=rows) > -1.2).astype(int), np.array(list("wbhacopi"))[group]


def test_units_of_columns_do_not_change_predictions():
    X, y, group = credit()
    model = FairClassifier(bound=0.03).fit(X, y, sensitive_features=group)
    predicted = model.predict(X)
    # Not the useless model that predicts the common class.
    assert 0.05 < predicted.mean() < 0.4 and balanced_accuracy_score(y, predicted) > 0.6
    for seed in range(3):
        units = 10.0 ** np.random.default_rng(seed).uniform(-6, 6, X.shape[1])
        other = FairClassifier(bound=0.03).fit(X * units, y, sensitive_features=group).predict(X * units)
        assert (other == predicted).mean() >= 0.999


def test_raw_columns_are_as_good_as_standardised_ones():
    X, y, _ = credit()
    theirs = make_pipeline(StandardScaler(), LogisticRegression(tol=1e-8)).fit(X, y)
    ours = ConstrainedClassifier().fit(X, y)
    assert (ours.predict(X) == theirs.predict(X)).mean() >= 0.999
    assert ours.regularization_ == pytest.approx(1 / len(y), rel=1e-2)


def test_a_bound_that_few_rows_decide_is_satisfied():
    # A group of three rows: a gap of .05 needs all three predicted like the common class, or the others like them.
    X, y, group = credit(3000)
    group = group.astype(object)
    group[:3] = "x"
    with pytest.warns(thalweg.DataWarning, match="'x' \\(3 rows, ±0\\."):
        model = FairClassifier(bound=0.05).fit(X, y, sensitive_features=group)
    predicted = model.predict(X)
    rates = [predicted[group == name].mean() for name in "fmx"]
    assert model.violation_ == 0.0 and max(rates) - min(rates) <= 0.05 + 1e-9


def test_small_groups_are_named_and_large_ones_are_not():
    X, y, group = law()
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        model = FairClassifier("equalised_odds", 0.05).fit(X, y, sensitive_features=group)
    [small] = [str(w.message) for w in found if issubclass(w.category, thalweg.DataWarning)]
    assert "'equalised_odds' <= 0.05 need not hold for new rows of small groups" in small
    assert model.violation_ == 0.0 and "'w' with label 1" not in small
    report = model.report().set_index("group")
    assert len(report) == 8 and report["rows"].sum() == len(y)
    width = report["true_positive_rate_high"] - report["true_positive_rate_low"]
    assert width["i"] > 0.2 > width["w"]


@pytest.mark.parametrize("name", ["equalised_odds", "equalized_odds"])
def test_both_spellings_are_one_constraint(name):
    X, y, group = credit(1500)
    model = FairClassifier(name, 0.1).fit(X, y, sensitive_features=group)
    assert model.constraints_[0]["name"] == "equalised_odds" and model.violation_ == 0.0


def test_between_groups_and_to_overall_are_told_apart():
    X, y, group = law(3000)
    rates = lambda model: pd.Series(model.predict(X)).groupby(group).mean()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", thalweg.DataWarning)
        between = FairClassifier(bound=0.1).fit(X, y, sensitive_features=group)
        overall = FairClassifier(demographic_parity(compare="to_overall"), 0.1).fit(X, y, sensitive_features=group)
    assert np.ptp(rates(between)) <= 0.1 + 1e-9
    assert np.abs(rates(overall) - overall.predict(X).mean()).max() <= 0.1 + 1e-9
    for model, meaning in ((between, "between two groups"), (overall, "between a group and the overall rate")):
        assert any(note.kind == "gap-meaning" and meaning in note for note in model.notes_), model.notes_


def test_very_many_groups_are_warned_of():
    X, y, _ = credit(1200)
    group = np.random.default_rng(0).permutation(len(y))
    with pytest.warns(thalweg.DataWarning, match="1,200 groups are compared; training is slow"):
        model = FairClassifier(bound=0.5, max_iter=20).fit(X, y, sensitive_features=group)
    assert len(model.groups_) == 1200


def test_rare_positives_are_not_ignored_in_silence():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 4))
    group = rng.choice(["a", "b"], 4000)
    y = (X[:, 0] + 0.3 * (group == "a") + rng.logistic(scale=1.5, size=4000) > 6.5).astype(int)
    assert 0.005 < y.mean() < 0.05
    with pytest.warns(thalweg.DegenerateModelWarning, match="positive predictions|predicted|no better than"):
        FairClassifier(bound=0.02).fit(X, y, sensitive_features=group)
