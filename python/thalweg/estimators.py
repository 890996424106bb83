"""Classifiers under constraints by the rules of scikit-learn. What they share is in `_classifier`; those about variance
and kernels have files of their own."""

from __future__ import annotations

import math
import warnings
from typing import Any, ClassVar, Optional

import numpy as np
from scipy.stats import binom

from thalweg import _rows
from thalweg._classifier import Constrained
from thalweg._kernel import KernelConstrainedClassifier
from thalweg._terms import Term
from thalweg._variance import VarianceRegularizedClassifier
from thalweg.learn import demographic_parity, equal_opportunity, equalised_odds, false_positive_rate, roc_gap, wasserstein_gap

__all__ = [
    "ConstrainedClassifier",
    "FairClassifier",
    "KernelConstrainedClassifier",
    "NeymanPearsonClassifier",
    "VarianceRegularizedClassifier",
]


class ConstrainedClassifier(Constrained):
    """A linear classifier that minimises any sum of terms subject to bounds on others.

    Parameters
    ----------
    objective : Term or str, default="logistic"
        What to minimise, see :mod:`thalweg.learn`.
    subject_to : constraint, str, or a list or tuple of them, default=()
        The constraints, such as ``"false_positive_rate <= 0.1"``.
    fit_intercept : bool, default=True
        Whether a constant is added to the scores.
    solver : str, default="auto"
        The method: "auto" chooses, and says why in ``notes_``; or one of ``thalweg.solvers("fit")``. Those in
        ``thalweg.solvers("fit", constraints=False)`` are for objectives without constraints.
    options : dict, default=None
        Settings of the solver.
    enforce : {"measured", "surrogate"}, default="measured"
        Whether counted rates on the training rows must keep the bounds, or their smooth forms.
    max_iter : int, default=3000
        Iterations of all rounds of training.
    max_time : float, default=None
        Seconds of all rounds of training; a result that ends by it differs between machines.
    feasibility : float, default=1e-6
        What a constraint may exceed its bound by, times the bound if that is above 1.
    n_threads : int, default=1
        Threads for sums over rows; the numbers do not depend on it.
    random_state : int, RandomState or None, default=None
        Seed of everything that is drawn; None is 0.
    verbose : int, default=0
        1 shows progress.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        The labels.
    coef_ : ndarray of shape (1, n_features)
        The weights.
    intercept_ : ndarray of shape (1,)
        Added to every score.
    n_iter_ : int
        Iterations of all rounds.
    violation_ : float
        By how much the worst bound is missed on the training rows; 0 if none is.
    constraints_ : list of dict
        Each constraint with its bound, what was measured and whether it is kept.
    multipliers_ : ndarray or None
        Of the constraints of the problem that was trained.
    certificate_ : dict or None
        What the solver proved about the model: its proximal point lies within ``upper``.
    history_ : History
        The measured iterates.
    n_features_in_ : int
        Columns of X.
    feature_names_in_ : ndarray
        Their names, if X had any.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from thalweg import ConstrainedClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = ConstrainedClassifier("logistic + 0.01 * l2", ["false_positive_rate <= 0.01"])
    >>> model = make_pipeline(StandardScaler(), model).fit(X, y)
    >>> bool((model.predict(X)[y == 0] == 1).mean() <= 0.01)
    True
    """

    def __init__(
        self,
        objective: Any = "logistic",
        subject_to: Any = (),
        *,
        fit_intercept: bool = True,
        solver: str = "auto",
        options: Optional[dict] = None,
        enforce: str = "measured",
        max_iter: Optional[int] = 3000,
        max_time: Optional[float] = None,
        feasibility: float = 1e-6,
        n_threads: int = 1,
        random_state: Any = None,
        verbose: int = 0,
    ):
        self.objective = objective
        self.subject_to = subject_to
        self.fit_intercept = fit_intercept
        self.solver = solver
        self.options = options
        self.enforce = enforce
        self.max_iter = max_iter
        self.max_time = max_time
        self.feasibility = feasibility
        self.n_threads = n_threads
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any, sample_weight: Any = None, sensitive_features: Any = None) -> ConstrainedClassifier:
        """Trains.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (n_samples, n_features)
            The rows.
        y : array_like of shape (n_samples,)
            Labels of two classes.
        sample_weight : array_like of shape (n_samples,), default=None
            A weight for each row, in every term.
        sensitive_features : array_like of shape (n_samples,), default=None
            The group of each row, for terms that compare groups.

        Returns
        -------
        self
        """
        self._train(self._read(X, y, sample_weight), self._constraints(sensitive_features), sensitive_features)
        return self

    def _constraints(self, sensitive: Any) -> Any:
        return self.subject_to


#: Fairness constraints by name, with other spellings.
_FAIR = {
    "demographic_parity": demographic_parity,
    "equal_opportunity": equal_opportunity,
    "equalised_odds": equalised_odds,
    "equalized_odds": equalised_odds,
    "roc_gap": roc_gap,
    "wasserstein_gap": wasserstein_gap,
}


class FairClassifier(Constrained):
    """A linear classifier whose answers may differ between groups by at most a bound.

    Parameters
    ----------
    constraint : {"demographic_parity", "equal_opportunity", "equalised_odds", "roc_gap", "wasserstein_gap"} or Term, \
default="demographic_parity"
        What is compared between groups: the share of positive answers among all rows, among those with a positive label, among
        those of either label, the share of scores above every threshold, or the scores themselves: the mean distance by which
        those of one group have to be moved to become those of the other, see :func:`thalweg.learn.wasserstein_gap`.
    bound : float, default=0.05
        By how much it may differ; for "wasserstein_gap" in the units of the scores. With more than two groups each is compared
        with all rows together.
    objective : Term or str, default="logistic"
        What to minimise, see :mod:`thalweg.learn`.
    fit_intercept : bool, default=True
        Whether a constant is added to the scores.
    solver : str, default="auto"
        The method: "auto" chooses, and says why in ``notes_``; or one of ``thalweg.solvers("fit", constraints=True)``.
    options : dict, default=None
        Settings of the solver.
    enforce : {"measured", "surrogate"}, default="measured"
        Whether counted rates on the training rows must keep the bound, or their smooth form.
    max_iter : int, default=3000
        Iterations of all rounds of training.
    max_time : float, default=None
        Seconds of all rounds of training; a result that ends by it differs between machines.
    feasibility : float, default=1e-6
        What the constraint may exceed its bound by.
    n_threads : int, default=1
        Threads for sums over rows; the numbers do not depend on it.
    random_state : int, RandomState or None, default=None
        Seed of everything that is drawn; None is 0.
    verbose : int, default=0
        1 shows progress.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        The labels.
    groups_ : list of str
        Names of the groups; empty if there were none.
    coef_ : ndarray of shape (1, n_features)
        The weights.
    intercept_ : ndarray of shape (1,)
        Added to every score.
    n_iter_ : int
        Iterations of all rounds.
    violation_ : float
        By how much the bound is missed on the training rows; 0 if it is not.
    constraints_ : list of dict
        The constraint with its bound, what was measured and whether it is kept.
    multipliers_ : ndarray or None
        Of the constraint of the problem that was trained.
    certificate_ : dict or None
        What the solver proved about the model: its proximal point lies within ``upper``.
    history_ : History
        The measured iterates.
    n_features_in_ : int
        Columns of X.
    feature_names_in_ : ndarray
        Their names, if X had any.

    Notes
    -----
    Groups are needed for training alone: one model, the same for all, answers without knowing them. Without `sensitive_features`
    the constraint is left out, with a warning.

    Examples
    --------
    >>> import numpy as np
    >>> from thalweg import FairClassifier
    >>> rng = np.random.default_rng(0)
    >>> group = np.where(rng.random(2000) < 0.4, "a", "b")
    >>> X = rng.normal(size=(2000, 3)) + (group == "b")[:, None]
    >>> y = X.sum(axis=1) + rng.normal(size=2000) > 1.5
    >>> model = FairClassifier(bound=0.03).fit(X, y, sensitive_features=group)
    >>> said = model.predict(X)
    >>> bool(abs(said[group == "a"].mean() - said[group == "b"].mean()) <= 0.03)
    True
    """

    # Who routes metadata routes this one without being asked, as the constraint is nothing without it.
    __metadata_request__fit: ClassVar[dict] = {"sensitive_features": True}

    def __init__(
        self,
        constraint: Any = "demographic_parity",
        bound: float = 0.05,
        *,
        objective: Any = "logistic",
        fit_intercept: bool = True,
        solver: str = "auto",
        options: Optional[dict] = None,
        enforce: str = "measured",
        max_iter: Optional[int] = 3000,
        max_time: Optional[float] = None,
        feasibility: float = 1e-6,
        n_threads: int = 1,
        random_state: Any = None,
        verbose: int = 0,
    ):
        self.constraint = constraint
        self.bound = bound
        self.objective = objective
        self.fit_intercept = fit_intercept
        self.solver = solver
        self.options = options
        self.enforce = enforce
        self.max_iter = max_iter
        self.max_time = max_time
        self.feasibility = feasibility
        self.n_threads = n_threads
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any, sample_weight: Any = None, sensitive_features: Any = None) -> FairClassifier:
        """Trains.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (n_samples, n_features)
            The rows.
        y : array_like of shape (n_samples,)
            Labels of two classes.
        sample_weight : array_like of shape (n_samples,), default=None
            A weight for each row, in loss and rates.
        sensitive_features : array_like of shape (n_samples,), default=None
            The group of each row. Of several columns the combinations count.

        Returns
        -------
        self
        """
        rows = self._read(X, y, sample_weight)
        constraints = self._constraints(sensitive_features)
        self.groups_: list = []
        if sensitive_features is None:
            warnings.warn("there are no sensitive_features: the classifier is trained without its constraint", stacklevel=2)
        else:
            self.groups_ = _rows.groups(sensitive_features, rows.count)[1]
        self._train(rows, constraints, sensitive_features)
        return self

    def _constraints(self, sensitive: Any) -> Any:
        if isinstance(self.constraint, Term):
            term = self.constraint
        elif isinstance(self.constraint, str) and self.constraint in _FAIR:
            term = _FAIR[self.constraint]()
        else:
            wanted = ", ".join(name for name in _FAIR if name != "equalized_odds")
            raise ValueError(f"constraint = {self.constraint!r}: wanted a term, or one of {wanted}")
        return () if sensitive is None else (term <= self.bound,)


class NeymanPearsonClassifier(Constrained):
    """A linear classifier that finds as many positives as it can while few negatives are called positive, on unseen rows too.

    It minimises the loss on the positives subject to a bound on the false-positive rate, and then moves its threshold to an
    order statistic of the scores of negatives that were held out: with probability at least ``1 - delta`` over those rows, the
    false-positive rate on unseen rows is at most ``max_fpr``, whatever the distribution (Tong, Feng and Li, 2018).

    Parameters
    ----------
    max_fpr : float, default=0.1
        Bound on the false-positive rate on unseen rows.
    delta : float, default=0.1
        Probability with which the bound may fail.
    holdout : float, default=0.3
        Share of the negatives that is held out for the threshold; more where the bound needs them, up to one half.
    objective : Term or str, default='logistic(on = "positives")'
        What to minimise.
    fit_intercept : bool, default=True
        Whether a constant is added to the scores.
    solver : str, default="auto"
        The method: "auto" chooses, and says why in ``notes_``; or one of ``thalweg.solvers("fit", constraints=True)``.
    options : dict, default=None
        Settings of the solver.
    enforce : {"measured", "surrogate"}, default="measured"
        Whether the counted rate on the training rows must keep the bound, or its smooth form.
    max_iter : int, default=3000
        Iterations of all rounds of training.
    max_time : float, default=None
        Seconds of all rounds of training; a result that ends by it differs between machines.
    feasibility : float, default=1e-6
        What the constraint may exceed its bound by.
    n_threads : int, default=1
        Threads for sums over rows; the numbers do not depend on it.
    random_state : int, RandomState or None, default=None
        Seed of everything that is drawn, the held-out rows among it; None is 0.
    verbose : int, default=0
        1 shows progress.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        The labels; the first is the negative one.
    n_holdout_ : int
        Negatives that were held out; 0 if there were too few for the bound, which is then not promised.
    failure_probability_ : float
        Probability with which the bound may fail, at most `delta`; 1 if it is not promised.
    coef_ : ndarray of shape (1, n_features)
        The weights.
    intercept_ : ndarray of shape (1,)
        Added to every score; the threshold is in it.
    n_iter_ : int
        Iterations of all rounds.
    violation_ : float
        By how much the bound is missed on the rows that were trained on, before the threshold was moved; 0 if it is not.
    constraints_, multipliers_, certificate_, history_
        As of :class:`ConstrainedClassifier`, before the threshold was moved.
    n_features_in_ : int
        Columns of X.
    feature_names_in_ : ndarray
        Their names, if X had any.

    Notes
    -----
    The bound is about rows as they come: weights count in training, not in the threshold, except that rows of weight 0 are left
    out.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from thalweg import NeymanPearsonClassifier
    >>> X, y = make_classification(4000, n_informative=6, random_state=0)
    >>> model = NeymanPearsonClassifier(max_fpr=0.05, delta=0.05).fit(X[:2000], y[:2000])
    >>> said = model.predict(X[2000:])
    >>> bool(said[y[2000:] == 0].mean() <= 0.05), model.failure_probability_ <= 0.05
    (True, True)
    """

    def __init__(
        self,
        max_fpr: float = 0.1,
        delta: float = 0.1,
        *,
        holdout: float = 0.3,
        objective: Any = 'logistic(on = "positives")',
        fit_intercept: bool = True,
        solver: str = "auto",
        options: Optional[dict] = None,
        enforce: str = "measured",
        max_iter: Optional[int] = 3000,
        max_time: Optional[float] = None,
        feasibility: float = 1e-6,
        n_threads: int = 1,
        random_state: Any = None,
        verbose: int = 0,
    ):
        self.max_fpr = max_fpr
        self.delta = delta
        self.holdout = holdout
        self.objective = objective
        self.fit_intercept = fit_intercept
        self.solver = solver
        self.options = options
        self.enforce = enforce
        self.max_iter = max_iter
        self.max_time = max_time
        self.feasibility = feasibility
        self.n_threads = n_threads
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> NeymanPearsonClassifier:
        """Trains, and sets the threshold.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (n_samples, n_features)
            The rows.
        y : array_like of shape (n_samples,)
            Labels of two classes; the smaller one is the negative.
        sample_weight : array_like of shape (n_samples,), default=None
            A weight for each row in training.

        Returns
        -------
        self
        """
        for name in ("max_fpr", "delta", "holdout"):
            if not 0.0 < getattr(self, name) < 1.0:
                raise ValueError(f"{name} = {getattr(self, name)}: wanted a number between 0 and 1")
        rows = self._read(X, y, sample_weight)
        present = rows.labels < 0 if rows.weights is None else (rows.labels < 0) & (rows.weights > 0)
        negatives = np.flatnonzero(present)
        # With fewer, even the largest score of all is not certain enough.
        least = math.ceil(math.log(self.delta) / math.log1p(-self.max_fpr))
        count = max(least, round(self.holdout * len(negatives)))
        self.n_holdout_, self.failure_probability_ = 0, 1.0
        if 2 * least > len(negatives):
            warnings.warn(
                f"there are {len(negatives)} negative rows, and a bound of {self.max_fpr:g} that fails with probability "
                f"{self.delta:g} needs {2 * least}: the rate is bounded on the training rows alone",
                stacklevel=2,
            )
            self._train(rows, self._constraints(None))
            return self
        held = np.random.RandomState(self._seed()).permutation(negatives)[:count]
        keep = np.ones(rows.count, dtype=bool)
        keep[held] = False
        self._train(rows.some(keep), self._constraints(None))
        scores = np.sort(self._scores(rows.X[held]))
        # The smallest rank k with P(k of so many negatives are below the quantile of order 1 - max_fpr) <= delta.
        failing = binom.sf(np.arange(count), count, 1.0 - self.max_fpr)
        rank = int(np.argmax(failing <= self.delta))
        self.n_holdout_, self.failure_probability_ = count, float(failing[rank])
        self.intercept_ = self.intercept_ - scores[rank]
        # Rounding must not lift the row that the threshold is at above it.
        while np.sum(self._scores(rows.X[held]) > 0) > np.sum(scores > scores[rank]):
            self.intercept_ = self.intercept_ - 1e-15 * (1.0 + np.abs(self.intercept_) + abs(scores[rank]))
        return self

    def _constraints(self, sensitive: Any) -> Any:
        return (false_positive_rate() <= self.max_fpr,)
