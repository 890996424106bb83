"""Linear classifiers under constraints by the rules of scikit-learn.

Their base classes are in `_classifier`; the classifiers with kernels and variance have modules of their own.
"""

from __future__ import annotations

import math
import warnings
from typing import Any, ClassVar, Optional, Tuple

import numpy as np

from thalweg import _core, _rows
from thalweg._classifier import ConstrainedBase, RegularizedBase, Rows, documented
from thalweg._kernel import KernelConstrainedClassifier
from thalweg._model import SavesModel, constraints_at
from thalweg._result import Note
from thalweg._terms import Term, as_term, with_negatives
from thalweg._train import TrainingResult, train
from thalweg._variance import VarianceRegularizedClassifier
from thalweg.learn import demographic_parity, equal_opportunity, equalised_odds, false_positive_rate, roc_gap, wasserstein_gap

__all__ = [
    "ConstrainedClassifier",
    "FairClassifier",
    "KernelConstrainedClassifier",
    "NeymanPearsonClassifier",
    "VarianceRegularizedClassifier",
]


@documented
class ConstrainedClassifier(SavesModel, RegularizedBase):
    """Linear classifier that minimises a sum of terms subject to bounds on other terms.

    Parameters
    ----------
    objective : Term or str, default="logistic"
        Objective; see :mod:`thalweg.learn` for the terms.
    subject_to : constraint, str, or a list or tuple of them, default=()
        Constraints, such as ``"false_positive_rate <= 0.1"``.
    {regularization}
    {intercept}
    {solver}
    {enforce}
    {promise}
    {threads}
    {class_weight}
    {continuation}
    random_state : int, RandomState or None, default=None
        Random seed; None is 0.
    {verbose}

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        Labels.
    {coef}
    {regularized}
    {outcome}
    {promised}
    {features}

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
        regularization: Any = "auto",
        fit_intercept: bool = True,
        solver: str = "auto",
        options: Optional[dict] = None,
        enforce: str = "measured",
        holds_on: str = "training",
        confidence: float = 0.95,
        safety_fraction: float = 1.0 / 3.0,
        max_iter: Optional[int] = 3000,
        max_time: Optional[float] = None,
        feasibility: float = 1e-6,
        n_threads: int = 1,
        class_weight: Any = None,
        warm_start: bool = False,
        callbacks: Any = None,
        random_state: Any = None,
        verbose: int = 0,
    ):
        self._store(locals())

    def _constraints(self, sensitive: Any) -> Any:
        return self.subject_to


#: Fairness constraints by name, in both spellings.
_FAIR = {
    "demographic_parity": demographic_parity,
    "equal_opportunity": equal_opportunity,
    "equalised_odds": equalised_odds,
    "equalized_odds": equalised_odds,
    "roc_gap": roc_gap,
    "wasserstein_gap": wasserstein_gap,
}


@documented
class FairClassifier(SavesModel, RegularizedBase):
    """Linear classifier whose predictions differ between groups by at most a bound.

    Parameters
    ----------
    constraint : {"demographic_parity", "equal_opportunity", "equalised_odds", "roc_gap", "wasserstein_gap"} or Term, \
default="demographic_parity"
        Quantity that is compared between groups: the rate of positive predictions among all rows, among rows with a positive
        label, among rows of either label, the rate of scores above each threshold, or the distribution of the scores, by its
        Wasserstein distance (:func:`thalweg.learn.wasserstein_gap`).
    bound : float, default=0.05
        Largest difference between groups; for "wasserstein_gap" in the units of the scores. To compare each group with all
        rows instead, use a term, such as ``thalweg.learn.demographic_parity(compare="to_overall")``.
    objective : Term or str, default="logistic"
        Objective; see :mod:`thalweg.learn` for the terms.
    {regularization}
    {intercept}
    {constrained_solver}
    {enforce}
    {promise}
    {threads}
    {class_weight}
    {continuation}
    random_state : int, RandomState or None, default=None
        Random seed; None is 0.
    {verbose}

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        Labels.
    groups_ : list of str
        Names of the groups; empty without `sensitive_features`.
    {coef}
    {regularized}
    {outcome}
    {promised}
    {features}

    Notes
    -----
    Groups are needed for training only; predictions use the same weights for all groups. Without `sensitive_features` the
    constraint is omitted with a warning.

    Examples
    --------
    >>> import numpy as np
    >>> from thalweg import FairClassifier
    >>> rng = np.random.default_rng(0)
    >>> group = np.where(rng.random(2000) < 0.4, "a", "b")
    >>> X = rng.normal(size=(2000, 3)) + (group == "b")[:, None]
    >>> y = X.sum(axis=1) + rng.normal(size=2000) > 1.5
    >>> model = FairClassifier(bound=0.03).fit(X, y, sensitive_features=group)
    >>> predicted = model.predict(X)
    >>> bool(abs(predicted[group == "a"].mean() - predicted[group == "b"].mean()) <= 0.03)
    True
    """

    # Metadata routing passes the groups on without being asked, because the constraint needs them.
    __metadata_request__fit: ClassVar[dict] = {"sensitive_features": True}

    _always_constrained = True

    def __init__(
        self,
        constraint: Any = "demographic_parity",
        bound: float = 0.05,
        *,
        objective: Any = "logistic",
        regularization: Any = "auto",
        fit_intercept: bool = True,
        solver: str = "auto",
        options: Optional[dict] = None,
        enforce: str = "measured",
        holds_on: str = "training",
        confidence: float = 0.95,
        safety_fraction: float = 1.0 / 3.0,
        max_iter: Optional[int] = 3000,
        max_time: Optional[float] = None,
        feasibility: float = 1e-6,
        n_threads: int = 1,
        class_weight: Any = None,
        warm_start: bool = False,
        callbacks: Any = None,
        random_state: Any = None,
        verbose: int = 0,
    ):
        self._store(locals())

    def _prepare(self, rows: Rows, sensitive: Any) -> None:
        self.groups_: list = []
        if sensitive is None:
            warnings.warn("no sensitive_features are given; the classifier is trained without its constraint", stacklevel=3)
        else:
            self.groups_ = _rows.groups(sensitive, rows.count)[1]

    def _constraints(self, sensitive: Any) -> Any:
        if isinstance(self.constraint, Term):
            term = self.constraint
        elif isinstance(self.constraint, str) and self.constraint in _FAIR:
            term = _FAIR[self.constraint]()
        else:
            names = ", ".join(name for name in _FAIR if name != "equalized_odds")
            raise ValueError(f"constraint must be a term or one of {names}, got {self.constraint!r}")
        return () if sensitive is None else (term <= self.bound,)


@documented
class NeymanPearsonClassifier(SavesModel, ConstrainedBase):
    """Linear classifier with a bound on the false-positive rate that also holds on unseen rows drawn like the held-out ones.

    A first model is trained without a bound, on the losses of all rows. From there, the loss on the positives is minimised
    subject to a bound on the false-positive rate. Of the two models, the one that misses fewer positive training rows at the same
    false-positive rate is kept. The threshold is then set to an order statistic of the scores of held-out negatives: with
    probability at least ``1 - delta`` over those rows, the false-positive rate on unseen rows is at most ``max_fpr``, for any
    distribution (Tong, Feng and Li, 2018). This assumes that the held-out and the unseen negatives are drawn independently from
    the same distribution; it does not hold for shifted or dependent rows.

    Parameters
    ----------
    max_fpr : float, default=0.1
        Bound on the false-positive rate on unseen rows drawn like the held-out ones.
    delta : float, default=0.1
        Probability with which the bound may fail.
    holdout : float, default=0.3
        Fraction of the negatives held out for the threshold; more if the bound needs them, up to one half.
    objective : Term or str, default='logistic(on = "positives")'
        Objective; see :mod:`thalweg.learn` for the terms.
    {intercept}
    {constrained_solver}
    {enforce}
    {threads}
    {continuation}
    random_state : int, RandomState or None, default=None
        Random seed, also for the held-out rows; None is 0.
    {verbose}

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        Labels; the first is the negative one.
    n_holdout_ : int
        Number of held-out negatives; 0 if there are too few for the bound, which is then not guaranteed.
    failure_probability_ : float
        Probability with which the bound may fail, at most `delta`, if unseen rows are drawn like the held-out ones; 1 if the
        bound is not guaranteed.
    promise_ : dict or None
        What is promised about unseen rows: ``sentence``, ``confirmed``, ``confidence``, and the ``rows`` behind it; None if
        there are too few rows.
    {coef}
    {outcome}
    {features}

    Notes
    -----
    The threshold is part of ``intercept_``. ``violation_``, ``constraints_`` and the other results of training refer to the
    model before the threshold is set.

    Training under the bound is not convex, and where most positives must be missed, their mean loss says little about how many
    are: a stationary point can rank rows worse than chance. The first model minimises the same loss on all rows (logistic
    regression, by default), which is convex; ``notes_`` says when it is kept. ``max_iter`` and ``max_time`` hold for each of the
    two, and ``n_iter_`` is the sum. The choice sees training rows alone, so that the bound is not affected.

    The bound refers to unweighted rows: weights matter in training but not for the threshold, except that rows of weight 0 are
    left out.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from thalweg import NeymanPearsonClassifier
    >>> X, y = make_classification(4000, n_informative=6, random_state=0)
    >>> model = NeymanPearsonClassifier(max_fpr=0.05, delta=0.05).fit(X[:2000], y[:2000])
    >>> predicted = model.predict(X[2000:])
    >>> bool(predicted[y[2000:] == 0].mean() <= 0.05), model.failure_probability_ <= 0.05
    (True, True)
    """

    max_fpr: float
    delta: float
    holdout: float
    _always_constrained = True

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
        warm_start: bool = False,
        callbacks: Any = None,
        random_state: Any = None,
        verbose: int = 0,
    ):
        self._store(locals())

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> NeymanPearsonClassifier:
        """Fit the classifier and set its threshold.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (n_samples, n_features)
            Training rows.
        y : array_like of shape (n_samples,)
            Labels of two classes; the smaller one is the negative.
        sample_weight : array_like of shape (n_samples,), default=None
            Weight of each row in training.

        Returns
        -------
        self
        """
        for name in ("max_fpr", "delta", "holdout"):
            if not 0.0 < getattr(self, name) < 1.0:
                raise ValueError(f"{name} must be between 0 and 1, got {getattr(self, name)}")
        rows = self._read(X, y, sample_weight)
        present = rows.labels < 0 if rows.weights is None else (rows.labels < 0) & (rows.weights > 0)
        negatives = np.flatnonzero(present)
        # With fewer negatives, even the largest score does not give a bound with probability 1 - delta.
        least = math.ceil(math.log(self.delta) / math.log1p(-self.max_fpr))
        least += _core.score_threshold(least, self.max_fpr, 1.0 - self.delta) is None
        count = max(least, round(self.holdout * len(negatives)))
        self.n_holdout_, self.failure_probability_, self.promise_ = 0, 1.0, None
        if 2 * least > len(negatives):
            warnings.warn(
                f"a bound of {self.max_fpr:g} that fails with probability {self.delta:g} needs {2 * least} negative rows, got "
                f"{len(negatives)}; the false-positive rate is bounded on the training rows only",
                stacklevel=2,
            )
            if self.fit_intercept:
                self._train_two(rows, self.max_fpr)
            else:
                # Nothing would move the threshold of a second model.
                self._train(rows, self._constraints(None))
            return self
        held = np.random.RandomState(self._seed()).permutation(negatives)[:count]
        keep = np.ones(rows.count, dtype=bool)
        keep[held] = False
        found = _core.score_threshold(count, self.max_fpr, 1.0 - self.delta)
        assert found is not None, "as many negatives as a threshold needs are held out"
        rank, failing = found
        trained = self._train_two(rows.some(keep), (count - 1 - rank) / count)
        scores = np.sort(self._scores(rows.X[held]))
        self.n_holdout_, self.failure_probability_ = count, failing
        sentence = (
            f"with {100 * (1 - self.delta):.6g}% confidence, the false-positive rate is at most {self.max_fpr:g} among "
            f"negatives drawn at random from the same population as the {count} negatives that set the threshold and were not "
            "trained on; not promised: anything about the other class, other or later populations, or a single row"
        )
        self.promise_ = {"confirmed": True, "confidence": 1.0 - self.delta, "rows": count, "sentence": sentence}
        self.intercept_ = self.intercept_ - scores[rank]
        # Rounding must not lift the row at the threshold above it.
        while np.sum(self._scores(rows.X[held]) > 0) > np.sum(scores > scores[rank]):
            self.intercept_ = self.intercept_ - 1e-15 * (1.0 + np.abs(self.intercept_) + abs(scores[rank]))
        # A saved model records what the moved one is worth, and no proof about the trained one.
        self._quality = trained.posed.quality(self._point())
        trained.fitted["stationary"] = None
        self._remember(rows, trained)
        return self

    def _train_two(self, rows: Rows, share: float) -> TrainingResult:
        """Train without the bound, and from there with it; keep the model that misses fewer positives when at most `share` of
        the negatives are above the threshold. The one with the bound is kept if both miss as many."""
        weights = np.ones(rows.count) if rows.weights is None else rows.weights
        negative = rows.labels < 0
        ratio = float(weights[negative].sum() / weights[~negative].sum())
        plain = train(
            self._pose(rows, (), merge=True, objective=with_negatives(as_term(self.objective), ratio)),
            seed=self._seed(),
            max_iter=self.max_iter,
            max_time=self.max_time,
            feasibility=self.feasibility,
            n_threads=self.n_threads,
            verbose=self.verbose,
            warns=False,
        )
        if plain.interrupted:
            raise KeyboardInterrupt
        scores = np.asarray(rows.X @ plain.coef).ravel() + plain.intercept
        threshold, missed = _missed(scores, negative, weights, share)
        x = plain.x.copy()
        if self.fit_intercept:
            x[-1] -= threshold
        trained = self._train(rows, self._constraints(None), start=x)
        self.n_iter_ += int(plain.fitted["iterations"])
        _, missed_with_bound = _missed(self._scores(rows.X), negative, weights, share)
        if missed < missed_with_bound:
            self._replace(trained, x)
            sentence = (
                f"the model without the bound in training is kept: at a false-positive rate of at most {share:.4g} it misses "
                f"{missed:.1%} of the positive training rows, the one with the bound {missed_with_bound:.1%}"
            )
            data = {"missed": missed, "missed_with_bound": missed_with_bound, "false_positive_rate": share}
            self.notes_ = [note for note in self.notes_ if note.kind not in _OF_THE_POINT]
            self.notes_.append(Note(sentence, "model-without-bound-kept", data))
            self._remember(rows, trained)
        return trained

    def _replace(self, trained: TrainingResult, x: np.ndarray) -> None:
        """Put another point, which was trained without the bound, in place of the trained one."""
        self._keep_weights(x)
        self._quality = trained.posed.quality(x)
        # Nothing was proved about this model; its surrogate bound is the value that it satisfies.
        trained.fitted["stationary"] = None
        found = constraints_at(trained, self._quality, self.feasibility)
        self.constraints_ = [{**c, "surrogate_bound": max(c["bound"], c["surrogate"]), "sharpened": 1.0} for c in found]
        self.multipliers_, self.certificate_ = None, None
        self.violation_ = max([0.0] + [trained.enforced(c) - c["bound"] for c in self.constraints_])
        self._trained = [(c["surrogate_bound"], c["sharpened"]) for c in self.constraints_]

    def _constraints(self, sensitive: Any) -> Any:
        return (false_positive_rate() <= self.max_fpr,)


#: Kinds of notes that describe the trained point, which another one may replace.
_OF_THE_POINT = ("intercept-shifted", "surrogate-bound-moved", "temperature-lowered", "bound-missed")


def _missed(scores: np.ndarray, negative: np.ndarray, weights: np.ndarray, share: float) -> Tuple[float, float]:
    """Return a threshold that at most `share` of the negative rows exceed, but no further one, and the share of the positive rows
    that do not exceed it."""
    present = weights > 0
    scores, negative, weights = scores[present], negative[present], weights[present]
    order = np.argsort(-scores[negative], kind="stable")
    ordered, above = scores[negative][order], np.cumsum(weights[negative][order])
    # The tolerance is for the rounding of the sum.
    place = min(int(np.searchsorted(above, share * above[-1] * (1.0 + 1e-12), side="right")), len(ordered) - 1)
    at_most, positive = ordered[place], weights[~negative]
    above_it = scores[scores > at_most]
    # In the middle of two scores, so that no prediction is decided by rounding.
    threshold = 0.5 * (at_most + above_it.min()) if len(above_it) else at_most + 1.0
    return float(threshold), float(positive[scores[~negative] <= at_most].sum() / positive.sum())
