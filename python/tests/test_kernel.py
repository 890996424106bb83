"""The classifier with a Gaussian kernel: scores, centres and constraints."""

import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import make_moons
from sklearn.linear_model import LogisticRegression
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC

from thalweg import KernelConstrainedClassifier, _core, certify
from thalweg.learn import demographic_parity


def moons(n=300, seed=0):
    X, y = make_moons(n, noise=0.2, random_state=seed)
    return X, y, np.where(np.random.default_rng(seed).random(n) < 0.3 + 0.4 * y, "a", "b")


def test_kernel_values_equal_those_of_scikit_learn():
    rng = np.random.default_rng(0)
    X, centres = rng.normal(size=(30, 5)), rng.normal(size=(7, 5))
    parts = sparse.csr_matrix(centres)
    for given in (centres, (parts.indptr, parts.indices, parts.data, 5)):
        np.testing.assert_allclose(_core.gaussian_kernel(X, given, 0.3), rbf_kernel(X, centres, 0.3), rtol=1e-12)
    with pytest.raises(ValueError, match="gamma of the kernel"):
        _core.gaussian_kernel(X, centres, 0.0)


def test_scores_and_objective_are_those_of_a_linear_model_on_kernel_values():
    X, y, _ = moons()
    model = KernelConstrainedClassifier("logistic + 0.01 * l2", solver="lbfgs").fit(X, y)
    values = rbf_kernel(X, model.centers_, model.gamma_)
    theirs = LogisticRegression(C=1 / (0.01 * len(y)), tol=1e-10, max_iter=10_000).fit(values, y)
    np.testing.assert_allclose(model.dual_coef_, theirs.coef_, atol=1e-4)
    np.testing.assert_allclose(model.decision_function(X), theirs.decision_function(values), atol=1e-5)
    np.testing.assert_allclose(model.predict_proba(X), theirs.predict_proba(values), atol=1e-5)
    # Scores of a block equal those of single rows.
    one_by_one = np.concatenate([model.decision_function(X[i : i + 1]) for i in range(20)])
    np.testing.assert_allclose(model.decision_function(X[:20]), one_by_one, rtol=1e-12)
    assert len(model.centers_) == len(y) and not hasattr(model, "coef_")


@pytest.mark.parametrize("gamma", ["scale", "auto", 0.7])
def test_gamma_is_that_of_svc(gamma):
    X, y, _ = moons()
    X = X * [3.0, 1.0]
    model = KernelConstrainedClassifier(gamma=gamma, max_iter=5).fit(X, y)
    assert model.gamma_ == pytest.approx(SVC(gamma=gamma).fit(X, y)._gamma, rel=1e-12)
    kept = KernelConstrainedClassifier(gamma=gamma, max_iter=5).fit(sparse.csr_matrix(X), y)
    assert kept.gamma_ == pytest.approx(model.gamma_, rel=1e-12) and sparse.issparse(kept.centers_)
    np.testing.assert_allclose(kept.decision_function(sparse.csr_matrix(X)), kept.decision_function(X), rtol=1e-12)


def test_centres_are_distinct_rows_drawn_by_the_seed():
    X, y, _ = moons()
    doubled = KernelConstrainedClassifier(n_components=40, random_state=1, max_iter=50)
    doubled.fit(np.r_[X, X], np.r_[y, y])
    model = KernelConstrainedClassifier(n_components=40, random_state=1, max_iter=50).fit(X, y)
    assert model.centers_.shape == (40, 2) and np.array_equal(model.centers_, doubled.centers_)
    assert all(any(np.array_equal(c, x) for x in X) for c in model.centers_)
    np.testing.assert_allclose(model.dual_coef_, doubled.dual_coef_, rtol=1e-9, atol=1e-12)
    other = KernelConstrainedClassifier(n_components=40, random_state=2, max_iter=5).fit(X, y)
    assert not np.array_equal(model.centers_, other.centers_)
    weights = np.r_[np.ones(150), np.zeros(150)]
    assert len(KernelConstrainedClassifier(max_iter=5).fit(X, y, sample_weight=weights).centers_) == 150


def test_fairness_under_a_kernel():
    X, y, group = moons(600)
    free = KernelConstrainedClassifier(n_components=60).fit(X, y)
    fair = KernelConstrainedClassifier(subject_to=demographic_parity() <= 0.05, n_components=60)
    fair.fit(X, y, sensitive_features=group)
    gap = lambda model: abs(model.predict(X)[group == "a"].mean() - model.predict(X)[group == "b"].mean())
    assert gap(free) > 0.2 and gap(fair) <= 0.05 and fair.violation_ == 0.0
    assert fair.score(X, y) > 0.6
    proof = certify(fair, X, y, sensitive_features=group)
    assert proof.feasible and np.isfinite(proof.upper)
    assert np.array_equal(pickle.loads(pickle.dumps(fair)).predict(X), fair.predict(X))


@pytest.mark.parametrize(
    "parameters, sentence",
    [
        ({"gamma": "scales"}, "gamma must be 'scale', 'auto' or a positive number, got 'scales'"),
        ({"gamma": 0.0}, r"gamma must be 'scale', 'auto' or a positive number, got 0\.0"),
        ({"n_components": 0}, "n_components must be a positive integer or None, got 0"),
        ({"n_components": 2.5}, r"n_components must be a positive integer or None, got 2\.5"),
    ],
)
def test_invalid_parameters(parameters, sentence):
    X, y, _ = moons(50)
    with pytest.raises(ValueError, match=sentence):
        KernelConstrainedClassifier(**parameters).fit(X, y)


def test_memory_limit_of_kernel_values():
    X = np.arange(30_000.0).reshape(-1, 1)
    y = np.arange(30_000) % 2
    with pytest.raises(
        ValueError, match=r"the kernel values of 30000 rows and 30000 centres take 7\.2 GB; set n_components to at most 17895"
    ):
        KernelConstrainedClassifier().fit(X, y)
    assert KernelConstrainedClassifier(n_components=5, max_iter=2).fit(X, y).centers_.shape == (5, 1)
