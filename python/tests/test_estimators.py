"""The classifiers: constraints, guarantees, and use with the tools of scikit-learn."""

import gc
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.stats import binomtest
from sklearn import config_context
from sklearn import exceptions as sklearn_exceptions
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import thalweg
from thalweg import ConstrainedClassifier, FairClassifier, NeymanPearsonClassifier
from thalweg.learn import demographic_parity, false_negative_rate, l2, logistic


def sample(n=800, seed=0):
    rng = np.random.default_rng(seed)
    group = np.where(rng.random(n) < 0.4, "a", "b")
    X = rng.normal(size=(n, 3)) + (group == "b")[:, None]
    y = np.where(X.sum(axis=1) + rng.normal(size=n) > 1.5, "yes", "no")
    return X, y, group


def gap(model, X, group):
    said = model.predict(X) == model.classes_[1]
    return abs(said[group == "a"].mean() - said[group == "b"].mean())


def test_unconstrained_is_logistic_regression():
    X, y, _ = sample()
    ours = ConstrainedClassifier("logistic", regularization=0, options={"eps": 1e-8}, solver="bundle").fit(X, y)
    theirs = LogisticRegression(C=np.inf, tol=1e-10, max_iter=1000).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-5)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-5)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-6)
    assert list(ours.classes_) == ["no", "yes"]


@pytest.mark.parametrize("strength", ["auto", 4.0])
def test_the_regularisation_is_that_of_logistic_regression_on_standardised_columns(strength):
    X, y, _ = sample()
    X = X * [1e-3, 1.0, 1e4] + [0.0, 5.0, 0.0]
    given = strength if strength == "auto" else strength / len(y)
    ours = ConstrainedClassifier(regularization=given, options={"tolerance": 1e-14}, solver="sqp").fit(X, y)
    c = 1.0 if strength == "auto" else 1.0 / strength
    theirs = make_pipeline(StandardScaler(), LogisticRegression(C=c, tol=1e-10, max_iter=1000)).fit(X, y)
    np.testing.assert_allclose(ours.coef_[0] * X.std(axis=0), theirs[-1].coef_[0], atol=1e-3)
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=5e-3)
    # The default is rounded to three digits.
    assert ours.regularization_ == pytest.approx(1.0 / (c * len(y)), rel=5e-3 if strength == "auto" else 1e-15)


def test_regularisation_follows_the_objective_and_the_weights():
    X, y, group = sample(200)
    factor = lambda model, **given: model.fit(X, y, **given).regularization_
    assert factor(ConstrainedClassifier()) == 1 / 200 and factor(ConstrainedClassifier(2 * logistic())) == 1 / 100
    assert factor(ConstrainedClassifier(regularization=0)) == 0.0
    model = ConstrainedClassifier("logistic + 0.1 * l2")
    assert factor(model) == 0.0
    assert any(note.kind == "not-regularized" and note.data["term"] == "l2" for note in model.notes_)
    twice, even = np.full(200, 2), np.full(200, 0.3)
    assert factor(ConstrainedClassifier(), sample_weight=twice) == 1 / 400
    assert factor(ConstrainedClassifier(), sample_weight=even) == 1 / 200
    model = FairClassifier(bound=0.05).fit(X, y, sensitive_features=group)
    assert model.regularization_ == 1 / 200 and any(note.kind == "regularized" for note in model.notes_)
    # Other rows have the factor and the column scales of the training rows.
    posed = model._pose_on(3.0 * X[:50], y[:50], None, group[:50])
    assert posed.objective == "logistic + 0.005 * ridge"
    np.testing.assert_allclose(posed.core.column_scales(), X.std(axis=0), rtol=1e-12)
    # A second fit does not depend on the first.
    model.set_params(regularization=0).fit(X, y, sensitive_features=group)
    assert model.regularization_ == 0.0 and model._pose_on(X, y, None, group).objective == "logistic"
    for wrong in ("some", None, True):
        with pytest.raises(ValueError, match="regularization must be 'auto' or a finite number of at least 0, got"):
            ConstrainedClassifier(regularization=wrong).fit(X, y)
    with pytest.raises(ValueError, match="regularization must be auto, or a finite number of at least 0, got -1"):
        ConstrainedClassifier(regularization=-1.0).fit(X, y)
    with pytest.raises(ValueError, match="regularization must be auto or 0 beside the objective .*, which has the penalty l1"):
        ConstrainedClassifier("hinge + 0.1 * l1", regularization=1.0).fit(X, y)


@pytest.mark.parametrize(
    "constraint", ["demographic_parity", "equal_opportunity", "equalised_odds", "equalized_odds", "roc_gap", demographic_parity()]
)
def test_every_fairness_constraint_is_satisfied(constraint):
    X, y, group = sample()
    free = ConstrainedClassifier().fit(X, y)
    model = FairClassifier(constraint, bound=0.05).fit(X, y, sensitive_features=group)
    assert model.violation_ == 0.0 and model.constraints_[0]["satisfied"]
    assert model.groups_ == ["a", "b"]
    said, free_said = ((m.predict(X) == "yes") for m in (model, free))
    rate = lambda s, rows: abs(s[rows & (group == "a")].mean() - s[rows & (group == "b")].mean())
    everyone, positive = np.ones(len(y), bool), y == "yes"
    rows = {"demographic_parity": [everyone], "equal_opportunity": [positive]}.get(str(constraint), [positive, ~positive])
    if str(constraint) != "roc_gap":
        assert max(rate(said, r) for r in rows) <= 0.05 + 1e-9 < max(rate(free_said, r) for r in rows)
    assert model.multipliers_.shape == (1,) and len(model.history_) > 1


def test_without_groups_it_is_the_unconstrained_classifier():
    X, y, _ = sample()
    with pytest.warns(UserWarning, match="no sensitive_features are given"):
        fair = FairClassifier().fit(X, y)
    free = ConstrainedClassifier().fit(X, y)
    assert np.array_equal(fair.coef_, free.coef_) and fair.constraints_ == [] and fair.violation_ == 0.0


def test_several_constraints_and_terms():
    X, y, group = sample()
    model = ConstrainedClassifier(logistic() + 0.01 * l2(), [demographic_parity() <= 0.1, false_negative_rate() <= 0.2])
    model.fit(X, y, sensitive_features=group)
    assert gap(model, X, group) <= 0.1 and (model.predict(X)[y == "yes"] == "no").mean() <= 0.2
    copy = clone(model)
    assert str(copy.objective) == str(model.objective)
    assert np.array_equal(copy.fit(X, y, sensitive_features=group).coef_, model.coef_)


def test_a_violated_bound_gives_a_warning():
    X, y, _ = sample()
    with pytest.warns(UserWarning, match="the model violates its bounds on the training rows: '"):
        model = ConstrainedClassifier(
            "logistic", ["false_positive_rate <= 0.01", "false_negative_rate <= 0.01"], max_iter=300
        ).fit(X, y)
    assert model.violation_ > 0 and model.message_.startswith(("not feasible", "infeasible"))


def test_sparse_dense_and_frames_agree():
    pandas = pytest.importorskip("pandas")
    X, y, group = sample()
    X = np.where(np.abs(X) < 1.0, 0.0, np.round(X, 1))
    dense = FairClassifier(bound=0.05).fit(X, y, sensitive_features=group)
    names = ["age", "pay", "debt"]
    framed = FairClassifier(bound=0.05).fit(
        pandas.DataFrame(X, columns=names), pandas.Series(y), sensitive_features=pandas.Series(group)
    )
    assert np.array_equal(framed.coef_, dense.coef_) and list(framed.feature_names_in_) == names
    for form in (sparse.csr_matrix, sparse.csc_array, sparse.coo_matrix):
        other = FairClassifier(bound=0.05).fit(form(X), y, sensitive_features=group)
        assert gap(other, form(X), group) <= 0.05
        np.testing.assert_allclose(other.decision_function(form(X)), other.decision_function(X), atol=1e-12)


def test_pickle_and_repeat():
    X, y, group = sample()
    model = FairClassifier(bound=0.05, random_state=3).fit(X, y, sensitive_features=group)
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.predict(X), model.predict(X)) and len(again.history_) == len(model.history_)
    repeated = FairClassifier(bound=0.05, random_state=3).fit(X, y, sensitive_features=group)
    assert np.array_equal(repeated.coef_, model.coef_) and np.array_equal(repeated.intercept_, model.intercept_)


def test_pipeline_and_grid_search_with_routed_groups():
    X, y, group = sample(600)
    with config_context(enable_metadata_routing=True):
        pipeline = make_pipeline(StandardScaler(), FairClassifier())
        grid = {"fairclassifier__bound": [0.02, 0.2]}
        searches = [GridSearchCV(pipeline, grid, cv=3, n_jobs=jobs).fit(X, y, sensitive_features=group) for jobs in (1, 2)]
    one, two = searches
    assert np.array_equal(one.cv_results_["mean_test_score"], two.cv_results_["mean_test_score"])
    best = [s.best_estimator_[-1] for s in searches]
    assert np.array_equal(best[0].coef_, best[1].coef_) and best[0].groups_ == ["a", "b"]
    # Without routing the groups can go through the parameters of fit.
    plain = pipeline.fit(X, y, fairclassifier__sensitive_features=group)
    assert gap(plain, X, group) <= 0.05


def test_cross_validation_of_a_constrained_classifier():
    X, y, _ = sample()
    scores = cross_validate(ConstrainedClassifier("hinge", ["false_positive_rate <= 0.1"]), X, y, cv=3, scoring="accuracy")
    assert np.all(scores["test_score"] > 0.6)


def test_probabilities_need_the_logistic_loss():
    X, y, _ = sample(200)
    assert not hasattr(ConstrainedClassifier("hinge").fit(X, y), "predict_proba")
    assert hasattr(ConstrainedClassifier("logistic + 0.1 * l2").fit(X, y), "predict_proba")


def test_weights_equal_repeated_rows_bit_for_bit():
    X, y, group = sample(300)
    weights = np.arange(300) % 3
    repeated = np.repeat(np.arange(300), weights)
    one = FairClassifier(bound=0.05).fit(X, y, sample_weight=weights, sensitive_features=group)
    two = FairClassifier(bound=0.05).fit(X[repeated], y[repeated], sensitive_features=group[repeated])
    assert np.array_equal(one.coef_, two.coef_)


@pytest.mark.parametrize(
    "model, given, sentence",
    [
        (
            FairClassifier(),
            {"y": np.arange(60) % 3},
            r"Only binary classification is supported\. The type of the target is multiclass; y must have two classes, got 3",
        ),
        (FairClassifier(), {"y": np.zeros(60)}, r"y must have two classes, got one class: np\.float64\(0\.0\)"),
        (FairClassifier(), {"sensitive_features": np.zeros(60)}, "compares groups, but the data have only one"),
        (
            FairClassifier(),
            {"sensitive_features": np.zeros(5)},
            r"sensitive_features must have 60 entries, one for each row of X, got shape \(5,\)",
        ),
        (
            FairClassifier("parity"),
            {"sensitive_features": np.arange(60) % 2},
            "constraint must be a term or one of demographic_parity, .*, wasserstein_gap, got 'parity'",
        ),
        (FairClassifier(bound=-0.1), {"sensitive_features": np.arange(60) % 2}, "can never hold"),
        (
            FairClassifier(bound="x"),
            {"sensitive_features": np.arange(60) % 2},
            "the bound of demographic_parity must be a number, .* got 'x'",
        ),
        (FairClassifier(solver="newton"), {"sensitive_features": np.arange(60) % 2}, "unknown solver 'newton'"),
        (
            FairClassifier(enforce="hoped"),
            {},
            r"enforce must be 'measured' \(0/1 rates satisfy the bounds\) or 'surrogate' \(their surrogates do\), got 'hoped'",
        ),
        (ConstrainedClassifier("hing"), {}, "did you mean 'hinge'"),
        (ConstrainedClassifier(subject_to="demographic_parity <= 0.1"), {}, "the data have none"),
        (ConstrainedClassifier(), {"X": np.full((60, 2), np.nan)}, "NaN"),
        (ConstrainedClassifier(), {"sample_weight": -np.ones(60)}, "[Nn]egative"),
        (
            ConstrainedClassifier(),
            {"sample_weight": np.r_[np.zeros(30), np.ones(30)], "y": np.r_[np.zeros(30), np.ones(30)]},
            r"every row of class np\.float64\(0\.0\) has weight 0; both classes need rows of positive weight",
        ),
        (NeymanPearsonClassifier(max_fpr=0.0), {}, r"max_fpr must be between 0 and 1, got 0\.0"),
        (NeymanPearsonClassifier(delta=1.0), {}, r"delta must be between 0 and 1, got 1\.0"),
        (NeymanPearsonClassifier(holdout=2.0), {}, r"holdout must be between 0 and 1, got 2\.0"),
    ],
)
def test_invalid_arguments(model, given, sentence):
    rng = np.random.default_rng(0)
    given = {"X": rng.normal(size=(60, 2)), "y": np.arange(60) % 2, **given}
    with pytest.raises((ValueError, TypeError), match=sentence), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(given.pop("X"), given.pop("y"), **given)


def test_unfitted_models_raise():
    with pytest.raises(NotFittedError):
        FairClassifier().predict(np.zeros((2, 2)))
    with pytest.raises(NotFittedError):
        FairClassifier().plot()


def test_neyman_pearson_failure_rate_is_at_most_delta():
    rng = np.random.default_rng(0)

    def draw(n):
        y = rng.integers(0, 2, n)
        return rng.normal(size=(n, 2)) + np.outer(y, [1.5, 0.5]), y

    test_X, test_y = draw(100_000)
    rates, found = [], []
    for seed in range(60):
        X, y = draw(400)
        model = NeymanPearsonClassifier(max_fpr=0.1, delta=0.2, random_state=seed).fit(X, y)
        assert model.failure_probability_ <= 0.2 and model.n_holdout_ >= 11
        said = model.predict(test_X)
        rates.append(said[test_y == 0].mean())
        found.append(said[test_y == 1].mean())
    # At most one in five may fail; 60 draws leave 12, and three standard deviations more.
    assert np.mean(np.array(rates) > 0.1) <= 0.2 + 3 * np.sqrt(0.2 * 0.8 / 60)
    # Not by predicting only negatives: the best rule finds about 60%.
    assert np.mean(found) > 0.35


def test_neyman_pearson_misses_no_more_positives_than_a_model_without_the_bound(tmp_path):
    """Counts with a long tail and rare indicators, with which training under the bound can end at a bad stationary point."""

    def sample(rng, rows, chance, factor):
        y = (rng.random(rows) < 0.45).astype(int)
        counts = rng.poisson(rng.gamma(0.3, np.where(y == 1, 3.5, 1.6)))
        rare = rng.random((rows, len(chance))) < chance * np.where(y[:, None] == 1, 1.0, factor)
        return np.c_[counts / 3.0, rng.gamma(2.0, 1.0, rows), rare], y

    kept = 0
    for seed in (2, 4, 8, 9, 12, 13):
        rng = np.random.default_rng(seed)
        chance, factor = 0.1 * rng.random(20), rng.choice([0.0, 0.5, 1.0, 2.0], 20)
        X, y = sample(rng, 3000, chance, factor)
        fresh, truth = sample(rng, 20_000, chance, factor)
        model = NeymanPearsonClassifier(max_fpr=0.1, delta=0.05).fit(X, y)
        plain = LogisticRegression(max_iter=1000).fit(X, y)
        missed = []
        for scores in (model.decision_function(fresh), plain.decision_function(fresh)):
            missed.append(np.mean(scores[truth == 1] <= np.quantile(scores[truth == 0], 0.9)))
        assert missed[0] <= missed[1] + 0.01, (seed, missed)
        told = [note for note in model.notes_ if note.kind == "model-without-bound-kept"]
        if told:
            kept += 1
            assert told[0].data["missed"] < told[0].data["missed_with_bound"]
            assert model.multipliers_ is None and model.certificate_ is None and model.violation_ == 0.0
            assert model.constraints_[0]["measured"] <= 0.1 and model.constraints_[0]["satisfied"]
            saved = thalweg.load(model.save(tmp_path / "model.json"))
            assert np.allclose(saved.decision_function(fresh[:50]), model.decision_function(fresh[:50]))
            assert saved.measured_["training"]["measured"][0] <= 0.1
    assert kept > 0


def test_neyman_pearson_counts_with_weights_and_without_an_intercept():
    from thalweg.estimators import _missed

    scores = np.array([5.0, 4.0, 3.0, 2.0, 1.0, 4.5, 3.5, 0.5])
    negative = np.array([True] * 5 + [False] * 3)
    threshold, missed = _missed(scores, negative, np.ones(8), 0.4)
    assert 3.0 < threshold < 3.5 and missed == pytest.approx(1 / 3)
    # The first negative has half of the weight of all.
    weights = np.array([4.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 2.0])
    threshold, missed = _missed(scores, negative, weights, 0.4)
    assert threshold > 5.0 and missed == 1.0
    assert _missed(scores, negative, weights, 0.5)[1] == 0.75
    X, y, _ = sample(2000)
    weighted = NeymanPearsonClassifier(max_fpr=0.1, fit_intercept=False).fit(X, y, sample_weight=np.linspace(0.5, 2.0, len(y)))
    assert weighted.n_holdout_ > 0 and weighted.n_iter_ > 0


def test_neyman_pearson_with_too_few_rows_has_no_guarantee():
    X, y, _ = sample(40)
    with pytest.warns(UserWarning, match="a bound of 0.1 that fails with probability 0.1 needs 44 negative rows"):
        model = NeymanPearsonClassifier().fit(X, y)
    assert model.n_holdout_ == 0 and model.failure_probability_ == 1.0


def test_the_threshold_is_an_order_statistic():
    X, y, _ = sample(2000)
    model = NeymanPearsonClassifier(max_fpr=0.1, delta=0.05, random_state=1).fit(X, y)
    # Rank k is the smallest with P(Binomial(n, 0.9) >= k) <= delta: the next smaller one would not do.
    from scipy.stats import binom

    n = model.n_holdout_
    ranks = np.arange(1, n + 1)
    k = ranks[binom.sf(ranks - 1, n, 0.9) <= 0.05][0]
    assert model.failure_probability_ == pytest.approx(binom.sf(k - 1, n, 0.9))
    held = np.random.RandomState(1).permutation(np.flatnonzero(y == "no"))[:n]
    # The row at the threshold is predicted negative, those above it positive.
    assert np.sum(model.predict(X[held]) == "yes") == n - k


def test_certificates_of_classifiers():
    X, y, group = sample(2000)
    model = FairClassifier("roc_gap", bound=0.1).fit(X, y, sensitive_features=group)
    found = thalweg.certify(model, X, y, sensitive_features=group)
    assert found.certified and found.constraints[0]["satisfied"] and found.upper < 0.05
    assert model.certificate_ is None or model.certificate_["upper"] <= 1e-3 + 1e-12
    assert "satisfied" in model.report_html()
    with pytest.raises(ValueError, match=r"y must have the labels of the training rows, \['no', 'yes'\], but has others"):
        thalweg.certify(model, X, np.where(y == "no", "never", y), sensitive_features=group)


def test_many_fits_do_not_grow_memory():
    X, y, group = sample(100)

    def resident():
        gc.collect()
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4096

    def fit(times):
        for _ in range(times):
            FairClassifier(bound=0.1, max_iter=40).fit(X, y, sensitive_features=group)
            thalweg.minimize(lambda x: x @ x, [1.0, 1.0], jac=lambda x: 2 * x, options={"maxiter": 5})

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit(100)
        before = resident()
        fit(1000)
    grown = resident() - before
    assert grown < 4 * 2**20, f"{grown / 2**20:.1f} MB"


def test_plot():
    pytest.importorskip("matplotlib").use("Agg")
    X, y, group = sample(200)
    axes = FairClassifier(bound=0.1).fit(X, y, sensitive_features=group).plot(against="nit")
    assert len(axes) == 2


def people(rows=2000, seed=0, signal=1.0):
    rng = np.random.default_rng(seed)
    group = np.array(["a", "b", "c"])[rng.choice(3, rows, p=[0.55, 0.42, 0.03])]
    X = rng.normal(size=(rows, 3)) + (group == "b")[:, None]
    y = np.where(signal * X.sum(axis=1) + rng.normal(size=rows) > 1.0, "yes", "no")
    return X, y, group


def test_unfinished_and_useless_models_give_warnings_of_their_own():
    X, y, _ = people()
    assert issubclass(thalweg.ConvergenceWarning, sklearn_exceptions.ConvergenceWarning)
    with pytest.warns(thalweg.ConvergenceWarning, match="training did not converge"):
        ConstrainedClassifier(max_iter=2).fit(X, y)
    noise = np.random.default_rng(1).random(len(y)) < 0.3
    with pytest.warns(thalweg.DegenerateModelWarning, match="no better than"):
        ConstrainedClassifier("logistic + l2").fit(X, noise)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ConstrainedClassifier().fit(X, y)


def test_small_groups_and_leaks_are_named_before_training():
    X, y, group = people()
    with pytest.warns(thalweg.DataWarning, match=r"'demographic_parity' <= 0.05 need not hold .*'c' \((\d+) rows, ±0\.") as found:
        FairClassifier(bound=0.05, max_iter=50).fit(X, y, sensitive_features=group)
    assert f"'c' ({np.sum(group == 'c')} rows" in str(found[0].message)
    assert found[0].filename == __file__
    leak = pd.DataFrame(np.c_[X, np.where(y == "yes", 2.0, 3.0)], columns=["p", "q", "r", "outcome"])
    with pytest.warns(thalweg.DataWarning, match="feature 'outcome' alone predicts the label with a balanced accuracy of 1.000"):
        ConstrainedClassifier("logistic + 0.1 * l2").fit(leak, y)


def test_class_weights_are_those_of_scikit_learn():
    X, y, group = people()
    for weights in ("balanced", {"no": 1.0, "yes": 5.0}):
        ours = ConstrainedClassifier("logistic + 0.01 * l2", class_weight=weights).fit(X, y)
        theirs = LogisticRegression(C=1 / (0.01 * len(y)), class_weight=weights, tol=1e-10, max_iter=1000).fit(X, y)
        np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=2e-3)
        np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=2e-3)
    # Constraints keep their meaning.
    two = group != "c"
    fair = FairClassifier(bound=0.03, class_weight="balanced").fit(X[two], y[two], sensitive_features=group[two])
    said = fair.predict(X[two]) == "yes"
    assert abs(said[group[two] == "a"].mean() - said[group[two] == "b"].mean()) <= 0.03 + 1e-9
    with pytest.raises(
        ValueError, match="class_weight needs an objective with a loss over all rows, such as 'logistic', got 'l2'"
    ):
        ConstrainedClassifier("l2", "hinge <= 0.9", class_weight="balanced").fit(X, y)


def test_a_warm_start_continues_and_callbacks_see_every_iterate():
    X, y, _ = people()
    seen, ended = [], []

    class Watch:
        def __call__(self, intermediate):
            seen.append(intermediate.fun)

        def finish(self, result):
            ended.append(result.message)

    model = ConstrainedClassifier("logistic + 0.01 * l2", callbacks=[Watch()], warm_start=True).fit(X, y)
    first, start = len(seen), seen[0]
    assert first > 1 and ended == [model.message_] and start == pytest.approx(np.log(2))
    model.fit(X, y)
    assert seen[first] == pytest.approx(min(seen[:first]), abs=1e-6)
    with pytest.raises(TypeError, match="callbacks must be callables, got int"):
        ConstrainedClassifier(callbacks=[3]).fit(X, y)


def test_the_report_has_rates_and_intervals_by_group():
    X, y, group = people()
    model = FairClassifier(bound=0.2).fit(X, y, sensitive_features=group)
    frame = model.report().set_index("group")
    said = model.predict(X) == "yes"
    for name in "abc":
        own = group == name
        row = frame.loc[name]
        assert row["rows"] == own.sum() and row["selection_rate"] == pytest.approx(said[own].mean())
        interval = binomtest(int(said[own].sum()), int(own.sum())).proportion_ci(0.95)
        assert (row["selection_rate_low"], row["selection_rate_high"]) == pytest.approx((interval.low, interval.high), abs=1e-9)
        positives = own & (y == "yes")
        assert row["true_positive_rate_rows"] == positives.sum()
        assert row["true_positive_rate"] == pytest.approx(said[positives].mean())
    other = people(seed=5)
    fresh = model.report(other[0], other[1], sensitive_features=other[2]).set_index("group")
    assert fresh.loc["b", "rows"] == np.sum(other[2] == "b")
    fairlearn = pytest.importorskip("fairlearn.metrics")
    found = model.metric_frame(X, y, group)
    assert isinstance(found, fairlearn.MetricFrame)
    assert found.by_group.loc["a", "selection_rate"] == pytest.approx(frame.loc["a", "selection_rate"])


def test_no_probabilities_are_offered_under_constraints():
    X, y, group = people()
    fair = FairClassifier(bound=0.2).fit(X, y, sensitive_features=group)
    assert not hasattr(fair, "predict_proba")
    with pytest.raises(AttributeError, match="has no attribute 'predict_proba'") as refused:
        _ = fair.predict_proba
    assert "predict_proba needs a model without constraints" in str(refused.value.__cause__)
    assert hasattr(ConstrainedClassifier().fit(X, y), "predict_proba")
