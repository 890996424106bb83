"""The classifier that pays for the variance of its loss, from all rows at once or from parts of them as they come."""

from __future__ import annotations

import math
import time
from typing import Any, Dict, Optional

import numpy as np
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import validate_data

from thalweg import _core, _rows
from thalweg._classifier import Classifier, Rows
from thalweg._result import History, notes_of, settings
from thalweg._terms import Term, as_term, one_loss
from thalweg._train import Posed, Trained
from thalweg.learn import l2, variance

#: The solvers that take a loss with its variance.
_SOLVERS = ("auto", *_core.solvers("fit", constraints=False))
#: Limits where none is given: iterations of a method that reads all rows in each, passes of one that reads few.
_ITERATIONS, _PASSES = 3000, 30.0
#: By how many rows a batch of `partial_fit` is larger than the one before: some epochs then make thousands of iterations.
_GROWTH = 0.01


def _learns_in_parts(self: Any) -> bool:
    """Only what does not depend on the number of all rows can be learnt in parts, and only by one method."""
    text, wanted = one_loss(self.loss), None
    if self.form == "sqrt":
        wanted = "form 'sqrt' is divided by the number of all rows, which partial_fit does not know: wanted 'plain'"
    elif "truncated_logistic" in text and "scale" not in text:
        wanted = "the scale is taken from the number of all rows, which partial_fit does not know: wanted one in the loss"
    elif self.solver not in ("auto", _core.Incremental.solver()):
        wanted = f"solver = {self.solver!r}: partial_fit is done by {_core.Incremental.solver()!r}"
    if wanted is not None:
        raise AttributeError(wanted)
    return True


class VarianceRegularizedClassifier(Classifier):
    """A linear classifier that minimises its mean loss plus a multiple of the variance of the loss over the rows.

    The mean alone does not mind a few rows that are wrong by much. A mean with its variance is what the mean on unseen rows is
    bounded by, and stands for the worst case over reweighted rows (Yan, Xu, Zhang, Wang and Yang, 2020).

    Parameters
    ----------
    loss : Term or str, default="logistic"
        "logistic", "hinge", "welsch" or "truncated_logistic", or such a term with arguments, see :mod:`thalweg.learn`.
    variance : float, default=0.1
        The factor of the variance, as 0.1 in ``logistic + 0.1 * variance(logistic)``.
    form : {"plain", "sqrt"}, default="plain"
        Whether the variance is added, or the root of the variance divided by the number of rows.
    alpha : float, default=0.0
        The factor of the penalty ``l2``, half the squared norm of the weights.
    radius : float, default=10.0
        Weights and intercept stay in the ball of this radius around 0; ``numpy.inf`` for no ball.
    fit_intercept : bool, default=True
        Whether a constant is added to the scores.
    solver : str, default="auto"
        The method of `fit`: "auto" or one of ``thalweg.solvers("fit", constraints=False)``. "lbfgs" reads all rows in each
        iteration and is accurate, "st-spg" and "mspg" read few. "auto" chooses between "lbfgs" and "st-spg", and says why
        in ``notes_``. With "auto" and "mspg" there is `partial_fit`, always by "mspg".
    options : dict, default=None
        Settings of the solver.
    max_iter : int, default=None
        Iterations.
    max_passes : float, default=None
        Passes over the rows.
    max_time : float, default=None
        Seconds; a result that ends by it differs between machines. If none of the three is given, "lbfgs" makes at most 3000
        iterations and the others 30 passes.
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
    mean_loss_ : float
        Mean of the loss over the training rows; after `partial_fit` over those of the last call.
    loss_variance_ : float
        Variance of the loss over the same rows, whatever the `form`.
    n_iter_ : int
        Iterations; of all calls of `partial_fit`.
    history_ : History
        The measured iterates; one for each call of `partial_fit`, measured on the rows of that call.
    message_ : str
        What training came to.
    notes_ : list of Note
        What a careful reader should know.
    n_features_in_ : int
        Columns of X.
    feature_names_in_ : ndarray
        Their names, if X had any.

    Notes
    -----
    Of sparse rows only the entries that are not 0 are read, whatever the number of columns. With millions of columns a step of
    "st-spg" or "mspg" costs as much as the rows that it reads, and a call of `partial_fit` as much as its rows and one visit to
    the weights.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import StandardScaler
    >>> from thalweg import VarianceRegularizedClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> X = StandardScaler().fit_transform(X)
    >>> little, much = (VarianceRegularizedClassifier(variance=v, alpha=0.01).fit(X, y) for v in (0.01, 1.0))
    >>> much.loss_variance_ < little.loss_variance_, much.mean_loss_ > little.mean_loss_
    (True, True)

    Rows that come in parts:

    >>> model = VarianceRegularizedClassifier(alpha=0.01)
    >>> for epoch in range(20):
    ...     for part in range(0, len(y), 100):
    ...         model = model.partial_fit(X[part : part + 100], y[part : part + 100], classes=[0, 1])
    >>> bool(model.score(X, y) > 0.97)
    True
    """

    def __init__(
        self,
        loss: Any = "logistic",
        variance: float = 0.1,
        *,
        form: str = "plain",
        alpha: float = 0.0,
        radius: float = 10.0,
        fit_intercept: bool = True,
        solver: str = "auto",
        options: Optional[dict] = None,
        max_iter: Optional[int] = None,
        max_passes: Optional[float] = None,
        max_time: Optional[float] = None,
        n_threads: int = 1,
        random_state: Any = None,
        verbose: int = 0,
    ):
        self.loss = loss
        self.variance = variance
        self.form = form
        self.alpha = alpha
        self.radius = radius
        self.fit_intercept = fit_intercept
        self.solver = solver
        self.options = options
        self.max_iter = max_iter
        self.max_passes = max_passes
        self.max_time = max_time
        self.n_threads = n_threads
        self.random_state = random_state
        self.verbose = verbose

    def _objective(self) -> Term:
        if self.form not in ("plain", "sqrt"):
            raise ValueError(f"form = {self.form!r}: wanted 'plain' or 'sqrt'")
        if not 0 < self.variance < math.inf:
            raise ValueError(f"variance = {self.variance}: wanted a finite number above 0")
        if not 0 <= self.alpha < math.inf:
            raise ValueError(f"alpha = {self.alpha}: wanted a finite number of at least 0")
        loss = one_loss(self.loss)
        form = None if self.form == "plain" else self.form
        objective = as_term(loss) + self.variance * variance(loss, form)
        return objective + self.alpha * l2() if self.alpha > 0 else objective

    def _space(self) -> dict:
        if not self.radius > 0:
            raise ValueError(f"radius = {self.radius}: wanted a number above 0, or numpy.inf for no ball")
        return {"radius": float(self.radius)}

    def _conduct(self, posed: Posed) -> dict:
        if self.max_iter is None and self.max_passes is None and self.max_time is None:
            chosen = posed.core.chosen() if self.solver == "auto" else self.solver
            by_rows = _core.solver_needs(chosen) == "inf-projection"
            return {"max_passes": _PASSES} if by_rows else {"max_iter": _ITERATIONS}
        return {"max_iter": self.max_iter, "max_passes": self.max_passes}

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> VarianceRegularizedClassifier:
        """Trains on these rows alone, and forgets what was learnt before.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (n_samples, n_features)
            The rows.
        y : array_like of shape (n_samples,)
            Labels of two classes.
        sample_weight : array_like of shape (n_samples,), default=None
            A weight for each row, in mean and variance.

        Returns
        -------
        self
        """
        if self.solver not in _SOLVERS:
            raise ValueError(f"solver = {self.solver!r}: wanted one of {', '.join(_SOLVERS)}")
        rows = self._read(X, y, sample_weight)
        self._learner: Optional[_core.Incremental] = None
        self._train(rows)
        return self

    def _measure(self, posed: Posed, trained: Trained) -> None:
        self._keep_losses(posed, trained.x)

    def _keep_losses(self, posed: Posed, x: np.ndarray, *more: str) -> list:
        """Measures mean and variance of the loss; returns what more was to be measured."""
        loss = one_loss(self.loss)
        self.mean_loss_, self.loss_variance_, *others = posed.core.values(x, [loss, f"variance({loss})", *more])
        return others

    def _facts(self) -> list:
        return [*super()._facts(), ("mean loss", self.mean_loss_), ("variance of the loss", self.loss_variance_)]

    @available_if(_learns_in_parts)
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> VarianceRegularizedClassifier:
        """Goes on learning from rows that come now, and forgets nothing of those that came before.

        It makes iterations of "mspg" that read each of the rows once, in a random order: weights, its estimate of the mean loss
        and the number of its iteration are carried from call to call, in pickles too. After `fit` it goes on from its weights.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (n_samples, n_features)
            The rows, with the same columns in each call.
        y : array_like of shape (n_samples,)
            Their labels.
        classes : array_like of shape (2,), default=None
            The two labels that there can be; needed in the first call.
        sample_weight : array_like of shape (n_samples,), default=None
            A weight for each row, next to the other rows of the call.

        Returns
        -------
        self

        Notes
        -----
        What depends on the number of all rows cannot be learnt in parts: with ``form="sqrt"``, and with "truncated_logistic"
        without a scale, there is no such method. `options` are settings of "mspg", those of the first call: the step `eta`, and
        `growth`, by which the number of rows that an iteration reads grows from one to the next, 0.01 if it is not there.
        """
        first = not hasattr(self, "classes_")
        known = self._known_classes(classes)
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=[np.float64, np.float32], reset=first)
        count = X.shape[0]
        rows = Rows(X, _rows.signs(y, count, known), self._row_weights(sample_weight, X))
        posed = self._pose(rows, ())
        known_learner: Optional[_core.Incremental] = getattr(self, "_learner", None)
        fresh = known_learner is None
        learner = known_learner or _core.Incremental({"growth": _GROWTH, **settings(self.options)}, self._seed())
        begun = time.perf_counter()
        steps, x, notes = learner.learn(posed.core, self._point() if fresh and not first else None)
        seconds = time.perf_counter() - begun
        if fresh:
            self._learner, self.n_iter_, self.history_, self._trained = learner, 0, History(()), []
        self.classes_ = known
        self._keep_weights(x)
        self.n_iter_ += steps
        (objective,) = self._keep_losses(posed, x, posed.objective)
        self.history_ = self.history_ + self._iterate(objective, x, count, seconds)
        self.message_ = f"{len(self.history_)} calls of partial_fit, the last with {count} rows"
        self.notes_ = notes_of(notes)
        return self

    def _known_classes(self, classes: Any) -> np.ndarray:
        """The two classes: of earlier calls, or those that are named."""
        named = None if classes is None else np.unique(np.asarray(classes))
        if hasattr(self, "classes_"):
            if named is not None and not np.array_equal(named, self.classes_):
                raise ValueError(f"classes = {named.tolist()}: wanted {self.classes_.tolist()}, as in the calls before")
            return self.classes_
        if named is None:
            raise ValueError("classes is not given: the first call of partial_fit wants the two labels that there can be")
        if len(named) != 2:
            raise ValueError(f"classes = {named.tolist()}: wanted two labels")
        return named

    def _iterate(self, objective: float, x: np.ndarray, count: int, seconds: float) -> History:
        """What a call of `partial_fit` has reached."""
        before = self.history_
        last = lambda column: column[-1] if len(before) else 0
        row: Dict[str, Any] = {
            "iteration": self.n_iter_,
            "objective": objective,
            "violation": -math.inf,
            "norm": float(np.linalg.norm(x)),
            "passes_f": last(before.passes_f) + 1.0,
            "passes_g": 0.0,
            "samples": last(before.samples) + count,
            "seconds": last(before.seconds) + seconds,
            "constraints": [],
        }
        return History([row])
