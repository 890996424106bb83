"""Classifier with a penalty on the variance of its loss, trained on all rows at once or incrementally."""

from __future__ import annotations

import math
import time
from typing import Any, Dict, Optional

import numpy as np
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import validate_data

from thalweg import _core, _rows
from thalweg._classifier import Classifier, Rows, documented
from thalweg._result import History, notes_of, settings
from thalweg._terms import Term, as_term, one_loss
from thalweg._train import TrainingProblem, TrainingResult
from thalweg.learn import l2, variance

#: Solvers for a loss with its variance.
_SOLVERS = ("auto", *_core.solvers("fit", constraints=False))
#: Default limits: iterations of a solver that reads all rows in each, passes of one that reads few.
_ITERATIONS, _PASSES = 3000, 30.0
#: Growth of the mini-batch of `partial_fit` from one iteration to the next: a few epochs then make thousands of iterations.
_GROWTH = 0.01


def _learns_in_parts(self: Any) -> bool:
    """Check that the problem does not depend on the total number of rows, and that the solver is incremental."""
    text, problem = one_loss(self.loss), None
    if self.form == "sqrt":
        problem = "partial_fit needs form='plain'; form='sqrt' depends on the total number of rows"
    elif "truncated_logistic" in text and "scale" not in text:
        problem = "partial_fit needs a loss with a scale; the default scale depends on the total number of rows"
    elif self.solver not in ("auto", _core.Incremental.solver()):
        problem = f"partial_fit needs solver 'auto' or {_core.Incremental.solver()!r}, got {self.solver!r}"
    if problem is not None:
        raise AttributeError(problem)
    return True


@documented
class VarianceRegularizedClassifier(Classifier):
    """Linear classifier that minimises the mean of its loss plus a multiple of the variance of the loss over the rows.

    The mean alone tolerates large losses on a few rows. The mean with its variance bounds the mean on unseen rows and
    approximates the worst case over reweighted rows (Yan, Xu, Zhang, Wang and Yang, 2020).

    Parameters
    ----------
    loss : Term or str, default="logistic"
        "logistic", "hinge", "welsch" or "truncated_logistic", or such a term with arguments; see :mod:`thalweg.learn`.
    variance : float, default=0.1
        Factor of the variance, such as 0.1 in ``logistic + 0.1 * variance(logistic)``.
    form : {"plain", "sqrt"}, default="plain"
        Whether to add the variance, or the square root of the variance divided by the number of rows.
    alpha : float, default=0.0
        Factor of the penalty ``l2``, half the squared norm of the weights.
    radius : float, default=10.0
        Radius of the ball around 0 that contains weights and intercept; ``numpy.inf`` for no bound.
    {intercept}
    solver : str, default="auto"
        Solver of `fit`; one of ``thalweg.solvers("fit", constraints=False)``, or "auto", which chooses between "lbfgs" and
        "st-spg" and gives the reason in ``notes_``. "lbfgs" reads all rows in each iteration and is accurate, the others read
        few. `partial_fit` always uses "mspg" and is available with "auto" and "mspg".
    options : dict, default=None
        Settings of the solver.
    max_iter : int, default=None
        Maximum number of iterations.
    max_passes : float, default=None
        Maximum number of passes over the rows.
    max_time : float, default=None
        Time limit in seconds. Results that stop at it differ between machines. If none of the three limits is given, "lbfgs"
        makes at most 3000 iterations and the others 30 passes.
    {threads}
    random_state : int, RandomState or None, default=None
        Random seed; None is 0.
    {verbose}

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        Labels.
    {coef}
    mean_loss_ : float
        Mean of the loss over the training rows; after `partial_fit`, over the rows of the last call.
    loss_variance_ : float
        Variance of the loss over the same rows, for any `form`.
    n_iter_ : int
        Number of iterations, summed over calls of `partial_fit`.
    history_ : History
        Recorded iterates; one for each call of `partial_fit`, measured on the rows of that call.
    message_ : str
        Why training stopped.
    notes_ : list of Note
        Remarks on the result, such as why a solver was chosen.
    {features}

    Notes
    -----
    Only the non-zero entries of sparse rows are read. The cost of a step of "st-spg" or "mspg" is that of the rows it reads, even
    with millions of columns; a call of `partial_fit` also reads the weights once.

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

    Incremental training:

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
        self._store(locals())

    def _objective(self) -> Term:
        if self.form not in ("plain", "sqrt"):
            raise ValueError(f"form must be 'plain' or 'sqrt', got {self.form!r}")
        if not 0 < self.variance < math.inf:
            raise ValueError(f"variance must be positive and finite, got {self.variance}")
        if not 0 <= self.alpha < math.inf:
            raise ValueError(f"alpha must be non-negative and finite, got {self.alpha}")
        loss = one_loss(self.loss)
        form = None if self.form == "plain" else self.form
        objective = as_term(loss) + self.variance * variance(loss, form)
        return objective + self.alpha * l2() if self.alpha > 0 else objective

    def _space(self) -> dict:
        if not self.radius > 0:
            raise ValueError(f"radius must be positive (numpy.inf for no bound), got {self.radius}")
        return {"radius": float(self.radius)}

    def _training_options(self, posed: TrainingProblem) -> dict:
        if self.max_iter is None and self.max_passes is None and self.max_time is None:
            chosen = posed.core.chosen() if self.solver == "auto" else self.solver
            by_rows = _core.solver_needs(chosen) == "inf-projection"
            return {"max_passes": _PASSES} if by_rows else {"max_iter": _ITERATIONS}
        return {"max_iter": self.max_iter, "max_passes": self.max_passes}

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> VarianceRegularizedClassifier:
        """Fit the classifier, discarding previous training.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (n_samples, n_features)
            Training rows.
        y : array_like of shape (n_samples,)
            Labels of two classes.
        sample_weight : array_like of shape (n_samples,), default=None
            Weight of each row, in mean and variance.

        Returns
        -------
        self
        """
        if self.solver not in _SOLVERS:
            raise ValueError(f"solver must be one of {', '.join(_SOLVERS)}, got {self.solver!r}")
        rows = self._read(X, y, sample_weight)
        self._learner: Optional[_core.Incremental] = None
        self._train(rows)
        return self

    def _measure(self, posed: TrainingProblem, trained: TrainingResult) -> None:
        self._keep_losses(posed, trained.x)

    def _keep_losses(self, posed: TrainingProblem, x: np.ndarray, *more: str) -> list:
        """Set mean and variance of the loss; return the values of the expressions in `more`."""
        loss = one_loss(self.loss)
        self.mean_loss_, self.loss_variance_, *others = posed.core.values(x, [loss, f"variance({loss})", *more])
        return others

    def _facts(self) -> list:
        return [*super()._facts(), ("mean loss", self.mean_loss_), ("variance of the loss", self.loss_variance_)]

    @available_if(_learns_in_parts)
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> VarianceRegularizedClassifier:
        """Continue training on new rows.

        Iterations of "mspg" read each row once, in random order. Weights, the estimate of the mean loss and the iteration count
        are carried from call to call, also through pickling. After `fit`, training continues from its weights.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (n_samples, n_features)
            Rows, with the same columns in each call.
        y : array_like of shape (n_samples,)
            Labels of the rows.
        classes : array_like of shape (2,), default=None
            The two possible labels; required in the first call.
        sample_weight : array_like of shape (n_samples,), default=None
            Weight of each row relative to the other rows of the call.

        Returns
        -------
        self

        Notes
        -----
        Problems that depend on the total number of rows cannot be trained incrementally: ``form="sqrt"``, and
        "truncated_logistic" without a scale. `options` are the settings of "mspg" from the first call: the step `eta`, and
        `growth`, by which the mini-batch grows from one iteration to the next, 0.01 by default.
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
        """Return the two classes, of earlier calls or as given."""
        named = None if classes is None else np.unique(np.asarray(classes))
        if hasattr(self, "classes_"):
            if named is not None and not np.array_equal(named, self.classes_):
                raise ValueError(f"classes must be {self.classes_.tolist()} as in the calls before, got {named.tolist()}")
            return self.classes_
        if named is None:
            raise ValueError("classes is required in the first call of partial_fit")
        if len(named) != 2:
            raise ValueError(f"classes must have two labels, got {named.tolist()}")
        return named

    def _iterate(self, objective: float, x: np.ndarray, count: int, seconds: float) -> History:
        """Return the history of one call of `partial_fit`."""
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
