"""Classifiers under constraints by the rules of scikit-learn."""

from __future__ import annotations

import math
import warnings
from typing import Any, ClassVar, Optional

import numpy as np
from scipy.special import expit
from scipy.stats import binom
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, check_random_state, validate_data

from thalweg import _rows
from thalweg._terms import Term, as_term
from thalweg._train import Posed, fit_html, train
from thalweg.learn import demographic_parity, equal_opportunity, equalised_odds, false_positive_rate, roc_gap

__all__ = ["ConstrainedClassifier", "FairClassifier", "NeymanPearsonClassifier"]


def _is_logistic(self: Any) -> bool:
    """Only scores that the logistic loss has trained can be read as log-odds."""
    text = str(as_term(self.objective))
    if "logistic" not in text or "hinge" in text or "gap" in text:
        raise AttributeError(f"the scores of objective {text!r} are no log-odds: predict_proba needs the logistic loss")
    return True


class _Rows:
    """Checked rows."""

    def __init__(self, X: Any, labels: np.ndarray, weights: Optional[np.ndarray]):
        self.X, self.labels, self.weights = X, labels, weights
        self.payload, self.count, _ = _rows.features(X)

    def some(self, which: np.ndarray) -> _Rows:
        """Those rows that `which` marks."""
        return _Rows(self.X[which], self.labels[which], None if self.weights is None else self.weights[which])


class _Linear(ClassifierMixin, BaseEstimator):
    """A linear classifier that is trained under constraints."""

    def _train(self, rows: _Rows, subject_to: Any, sensitive: Any = None) -> None:
        """Trains on checked rows, and sets what every classifier has."""
        posed = Posed(
            self.objective,
            subject_to,
            rows.payload,
            rows.count,
            rows.labels,
            sensitive=sensitive,
            weights=rows.weights,
            intercept=self.fit_intercept,
            # scikit-learn's rule: a row of weight 2 is the same as the row twice, to the last bit.
            merge=True,
        )
        trained = train(
            posed,
            solver=self.solver,
            options=self.options,
            enforce=self.enforce,
            seed=self._seed(),
            max_iter=self.max_iter,
            max_time=self.max_time,
            feasibility=self.feasibility,
            n_threads=self.n_threads,
            verbose=self.verbose,
        )
        self.coef_ = trained.coef.reshape(1, -1)
        self.intercept_ = np.array([trained.intercept])
        self.n_iter_ = int(trained.fitted["iterations"])
        self.multipliers_ = trained.multipliers
        self.violation_ = trained.violation
        self.certificate_ = trained.stationary
        self.history_ = trained.history
        self.constraints_ = trained.constraints
        self.message_ = trained.message
        self.notes_ = trained.notes
        self._trained = trained.trained
        if not trained.feasible:
            worst = max(trained.constraints, key=lambda c: trained.enforced(c) - c["bound"])
            why = (trained.fitted["notes"] or [trained.message])[-1]
            warnings.warn(
                f"the model does not keep its bounds on the training rows: '{worst['name']}' is {trained.enforced(worst):.4g}, "
                f"wanted at most {worst['bound']:g}; {why}",
                stacklevel=3,
            )
        if trained.interrupted:
            # What was reached is kept, but a search over many fits must end.
            raise KeyboardInterrupt

    def _constraints(self, sensitive: Any) -> Any:
        """The constraints, given who is in which group."""
        raise NotImplementedError

    def _seed(self) -> int:
        """A seed for the library from scikit-learn's ways to say it."""
        if self.random_state is None:
            return 0
        if isinstance(self.random_state, (int, np.integer)):
            return int(self.random_state)
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _read(self, X: Any, y: Any, sample_weight: Any) -> _Rows:
        """Checks the rows, and remembers what they look like."""
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=[np.float64, np.float32])
        check_classification_targets(y)
        self.classes_, code = np.unique(y, return_inverse=True)
        if len(self.classes_) > 2:
            # The words that scikit-learn's own checks look for come first.
            raise ValueError(
                f"Only binary classification is supported. The type of the target is {type_of_target(y)}: y has "
                f"{len(self.classes_)} classes, wanted two"
            )
        if len(self.classes_) < 2:
            raise ValueError(f"y has one class, {self.classes_[0]!r}: wanted two classes")
        weights = None
        if sample_weight is not None:
            weights = np.ascontiguousarray(_check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True))
            for value, name in zip((0, 1), self.classes_):
                if not np.any(weights[code == value] > 0):
                    raise ValueError(f"every row of class {name!r} has weight 0: wanted two classes")
        return _Rows(X, np.where(code == 1, 1.0, -1.0), weights)

    def decision_function(self, X: Any) -> np.ndarray:
        """The score of each row: the second class is predicted where it is above 0.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (n_samples, n_features)
            The rows.

        Returns
        -------
        ndarray of shape (n_samples,)
            The scores.
        """
        check_is_fitted(self)
        return self._scores(validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False))

    def _scores(self, X: Any) -> np.ndarray:
        return np.asarray(X @ self.coef_[0]).ravel() + self.intercept_[0]

    def predict(self, X: Any) -> np.ndarray:
        """The class of each row.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (n_samples, n_features)
            The rows.

        Returns
        -------
        ndarray of shape (n_samples,)
            The classes.
        """
        above = self.decision_function(X) > 0
        return self.classes_[above.astype(int)]

    @available_if(_is_logistic)
    def predict_proba(self, X: Any) -> np.ndarray:
        """The logistic function of the scores, where the objective is the logistic loss.

        Constraints move scores away from log-odds: read them as an order rather than as frequencies.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (n_samples, n_features)
            The rows.

        Returns
        -------
        ndarray of shape (n_samples, 2)
            A number for each class.
        """
        above = expit(self.decision_function(X))
        return np.c_[1.0 - above, above]

    def plot(self, against: str = "passes", ax: Any = None) -> Any:
        """Objective and constraints of the measured iterates, see :meth:`thalweg.History.plot`."""
        check_is_fitted(self)
        return self.history_.plot(against, ax)

    def report_html(self) -> str:
        """What training came to, as an HTML table."""
        check_is_fitted(self)
        facts = [("message", self.message_), ("violation", self.violation_), ("iterations", self.n_iter_)]
        return fit_html(facts, self.constraints_)

    def _posed_on(self, X: Any, y: Any, sample_weight: Any, sensitive: Any) -> Posed:
        """The problem of this classifier on other rows, for certificates."""
        check_is_fitted(self)
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        payload, rows, _ = _rows.features(X)
        return Posed(
            self.objective,
            self._constraints(sensitive),
            payload,
            rows,
            _rows.signs(y, rows, self.classes_),
            sensitive=sensitive,
            weights=_rows.weights(sample_weight, rows),
            intercept=self.fit_intercept,
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.classifier_tags.multi_class = False
        return tags


class ConstrainedClassifier(_Linear):
    """A linear classifier that minimises any sum of terms subject to bounds on others.

    Parameters
    ----------
    objective : Term or str, default="logistic"
        What to minimise, see :mod:`thalweg.learn`.
    subject_to : constraint, str, or a list or tuple of them, default=()
        The constraints, such as ``"false_positive_rate <= 0.1"``.
    fit_intercept : bool, default=True
        Whether a constant is added to the scores.
    solver : {"auto", "bundle", "ssg"}, default="auto"
        The method; "auto" chooses, and says why in ``notes_``.
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
}


class FairClassifier(_Linear):
    """A linear classifier whose answers may differ between groups by at most a bound.

    Parameters
    ----------
    constraint : {"demographic_parity", "equal_opportunity", "equalised_odds", "roc_gap"} or Term, default="demographic_parity"
        What is compared between groups: the share of positive answers among all rows, among those with a positive label, among
        those of either label, or the share of scores above every threshold.
    bound : float, default=0.05
        By how much it may differ. With more than two groups each is compared with all rows together.
    objective : Term or str, default="logistic"
        What to minimise, see :mod:`thalweg.learn`.
    fit_intercept : bool, default=True
        Whether a constant is added to the scores.
    solver : {"auto", "bundle", "ssg"}, default="auto"
        The method; "auto" chooses, and says why in ``notes_``.
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


class NeymanPearsonClassifier(_Linear):
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
    solver : {"auto", "bundle", "ssg"}, default="auto"
        The method; "auto" chooses, and says why in ``notes_``.
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
