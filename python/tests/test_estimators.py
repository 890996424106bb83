"""The classifiers: constraints, guarantees, and use with the tools of scikit-learn."""

import gc
import pickle
import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn import config_context
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
    ours = ConstrainedClassifier(regularization=given, options={"eps": 1e-9}, solver="bundle").fit(X, y)
    c = 1.0 if strength == "auto" else 1.0 / strength
    theirs = make_pipeline(StandardScaler(), LogisticRegression(C=c, tol=1e-10, max_iter=1000)).fit(X, y)
    np.testing.assert_allclose(ours.coef_[0] * X.std(axis=0), theirs[-1].coef_[0], atol=1e-4)
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-3)
    assert ours.regularization_ == pytest.approx(1.0 / (c * len(y)), rel=1e-15)


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
    assert model.violation_ > 0 and "infeasible" in model.message_


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
        (FairClassifier(solver="newton"), {"sensitive_features": np.arange(60) % 2}, "solver 'newton' is not known"),
        (
            FairClassifier(enforce="hoped"),
            {},
            r"enforce must be 'measured' \(0/1 rates satisfy the bounds\) or 'surrogate' \(their surrogates do\), got 'hoped'",
        ),
        (ConstrainedClassifier("hing"), {}, "did you mean hinge"),
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
