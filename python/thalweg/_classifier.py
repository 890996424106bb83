"""Base classes of the classifiers: validation of rows, training and prediction by the rules of scikit-learn.

The objective and the constraints belong to the subclasses.
"""

from __future__ import annotations

import warnings
from typing import Any, List, Optional, Tuple, Type, TypeVar

import numpy as np
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, check_random_state, validate_data

from thalweg import _core, _rows
from thalweg._report import report_of
from thalweg._result import Several, finish, notes_of
from thalweg._terms import _number, as_term, weigh_classes
from thalweg._train import TrainingProblem, TrainingResult, fit_html, grouping, train
from thalweg.learn import ridge

#: Parts of the class docstrings that several classifiers share. A placeholder such as ``{training}`` stands for each.
_DOCS = {
    "intercept": """fit_intercept : bool, default=True
        Whether to add an intercept to the scores.""",
    "regularization": """regularization : "auto" or float, default="auto"
        Factor of :func:`thalweg.learn.ridge`, half the squared norm of the weights on standardised columns, that is added to the
        objective. "auto" is 1 / n for n rows (times the factor of the loss), if the objective is a mean loss without a penalty of
        its own: scikit-learn's ``LogisticRegression`` with ``C=1`` on standardised columns. 0 adds nothing. Whole-number sample
        weights count as repeated rows; other weights do not change n.""",
    "regularized": """regularization_ : float
        Factor of the ridge that was added to the objective; 0 if none was.""",
    "enforce": """enforce : {"measured", "surrogate"}, default="measured"
        Whether the measured 0/1 rates on the training rows must satisfy the bounds, or their surrogates.
    max_iter : int, default=3000
        Maximum number of iterations over all rounds of training.
    max_time : float, default=None
        Time limit in seconds over all rounds of training. Results that stop at it differ between machines.
    feasibility : float, default=1e-6
        Feasibility tolerance: a constraint is satisfied if it exceeds its bound by at most ``feasibility * max(1, |bound|)``.""",
    "promise": """holds_on : {"training", "population"}, default="training"
        Where the bounds must hold: on the training rows, or with the given confidence on unseen rows drawn like these. For
        "population", a part of the rows is used for tests alone, the limits on training are for each of the candidates that
        are tested, and rows must not have weights that differ. Only bounds on rates can be promised.
    confidence : float, default=0.95
        Probability with which bounds hold in the population.
    safety_fraction : float, default=1/3
        Fraction of the rows of every group that is used for the tests of bounds in the population.""",
    "promised": """promise_ : dict or None
        What is promised about unseen rows, if the bounds must hold in the population: ``sentence``, ``confirmed``,
        ``confidence``, ``rows`` of the safety set, ``constraints`` with their tests, and the ``path`` of candidates. If it is
        not confirmed, the model is the strictest candidate and a :class:`thalweg.PromiseWarning` says how many rows would be
        needed.""",
    "threads": """n_threads : int, default=1
        Number of threads for sums over rows. The result does not depend on it.""",
    "class_weight": """class_weight : dict, "balanced" or None, default=None
        Weight of each class in the losses of the objective, as in scikit-learn; constraints are not weighted.""",
    "continuation": """warm_start : bool, default=False
        Whether to start training from the weights of the previous fit.
    callbacks : list of callables, default=None
        Called with each recorded iterate, as in :func:`thalweg.learn.fit`; ``StopIteration`` ends training.""",
    "verbose": """verbose : int, default=0
        1 shows progress.""",
    "solver": """solver : str, default="auto"
        Solver; one of ``thalweg.solvers("fit")``, or "auto", which chooses one and gives the reason in ``notes_``. Those of
        ``thalweg.solvers("fit", constraints=False)`` need an objective without constraints.
    options : dict, default=None
        Settings of the solver.""",
    "constrained_solver": """solver : str, default="auto"
        Solver; one of ``thalweg.solvers("fit", constraints=True)``, or "auto", which chooses one and gives the reason in
        ``notes_``.
    options : dict, default=None
        Settings of the solver.""",
    "coef": """coef_ : ndarray of shape (1, n_features)
        Weights of the features.
    intercept_ : ndarray of shape (1,)
        Intercept of the scores.""",
    "outcome": """n_iter_ : int
        Number of iterations over all rounds of training.
    violation_ : float
        Largest violation of a bound on the training rows; 0 if all are satisfied.
    constraints_ : list of dict
        Name, bound, measured value and status of each constraint.
    multipliers_ : ndarray or None
        Dual variables of the constraints of the problem that was trained.
    certificate_ : dict or None
        What the solver found about the model: the proximal point lies within ``upper``, if the gradients are right and the
        weak-convexity constants hold; not proved if ``estimated``.
    history_ : History
        Recorded iterates.
    message_ : str
        Whether the bounds are satisfied, and why training stopped.
    notes_ : list of Note
        Remarks on the result, such as why a solver was chosen.""",
    "features": """n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray
        Names of the features, if X has any.""",
}

_Class = TypeVar("_Class")
_Self = TypeVar("_Self", bound="GroupConstrainedBase")


def documented(cls: Type[_Class]) -> Type[_Class]:
    """Fill the placeholders of a class docstring with the shared parts."""
    if cls.__doc__ is not None:
        for name, text in _DOCS.items():
            cls.__doc__ = cls.__doc__.replace(f"{{{name}}}", text)
    return cls


def _is_logistic(self: Any) -> bool:
    """Check that the scores can be read as log-odds, which needs the logistic loss and no constraints."""
    if self._always_constrained or getattr(self, "constraints_", None):
        raise AttributeError(
            "predict_proba needs a model without constraints: they move scores away from log-odds, by different amounts in "
            "different groups; use decision_function, or calibrate it with sklearn.calibration.CalibratedClassifierCV"
        )
    text = str(as_term(self._objective()))
    if "logistic" not in text or "hinge" in text or "gap" in text:
        raise AttributeError(f"predict_proba needs the logistic loss; the scores of objective {text!r} are not log-odds")
    return True


class Rows:
    """Validated rows with labels and weights."""

    def __init__(self, X: Any, labels: np.ndarray, weights: Optional[np.ndarray]):
        self.X, self.labels, self.weights = X, labels, weights
        self.payload, self.count, self.columns = _rows.features(X)

    def some(self, which: np.ndarray) -> Rows:
        """Return the rows selected by the mask `which`."""
        return Rows(self.X[which], self.labels[which], None if self.weights is None else self.weights[which])


class SafetySet:
    """Rows that only the tests of bounds in the population see, with their groups."""

    def __init__(self, rows: Rows, division: Optional[_rows.Division]):
        self.rows, self.division = rows, division


class Classifier(ClassifierMixin, BaseEstimator):
    """Binary classifier that scores rows with trained weights."""

    # Parameters of every classifier, which the constructors of the subclasses store.
    objective: Any
    fit_intercept: bool
    solver: str
    options: Optional[dict]
    max_iter: Optional[int]
    max_time: Optional[float]
    n_threads: int
    random_state: Any
    verbose: int
    # Of some classifiers.
    _always_constrained = False
    class_weight: Any = None
    warm_start: bool = False
    callbacks: Any = None
    holds_on: str = "training"
    confidence: float = 0.95
    safety_fraction: float = 1.0 / 3.0

    def _store(self, arguments: dict) -> None:
        """Store the arguments of a constructor, given as its ``locals()``, as attributes of the same names."""
        for name, value in arguments.items():
            if name != "self":
                setattr(self, name, value)

    def _objective(self) -> Any:
        """Return the objective."""
        return self.objective

    def _regularize(self, rows: Rows) -> list:
        """Decide what is added to the objective on these rows, and return notes on it."""
        return []

    def _constraints(self, sensitive: Any) -> Any:
        """Return the constraints for the groups of the rows."""
        return ()

    def _space(self) -> dict:
        """Return arguments of :class:`TrainingProblem` that define the weights, beyond one for each column."""
        return {}

    def _training_options(self, posed: TrainingProblem) -> dict:
        """Return arguments of :func:`train` that not every classifier has."""
        raise NotImplementedError

    def _pose(
        self,
        rows: Rows,
        subject_to: Any,
        sensitive: Any = None,
        *,
        merge: bool = False,
        division: Optional[_rows.Division] = None,
        like: Optional[TrainingProblem] = None,
        objective: Any = None,
    ) -> TrainingProblem:
        """Pose the problem of this classifier on validated rows, with its own objective unless another one is given."""
        return TrainingProblem(
            self._weighted_objective() if objective is None else objective,
            subject_to,
            rows.payload,
            rows.count,
            rows.labels,
            sensitive=sensitive,
            weights=rows.weights,
            intercept=self.fit_intercept,
            merge=merge,
            like=like,
            names=self._names(),
            division=division,
            **self._space(),
        )

    def _names(self) -> Optional[list]:
        """Return the names of the features, if X had any."""
        names = getattr(self, "feature_names_in_", None)
        return None if names is None else list(names)

    def _weighted_objective(self) -> Any:
        """Return the objective with the class weights in its losses."""
        factors = getattr(self, "_class_factors", None)
        return self._objective() if factors is None else weigh_classes(as_term(self._objective()), *factors)

    def _weigh_classes(self, rows: Rows) -> None:
        """Store the factors of the losses on negative and positive rows: class weight times share of the class."""
        self._class_factors: Optional[Tuple[float, float]] = None
        if self.class_weight is not None:
            labels = self.classes_[(rows.labels > 0).astype(int)]
            weights = compute_class_weight(self.class_weight, classes=self.classes_, y=labels)
            of_row = np.ones(rows.count) if rows.weights is None else rows.weights
            positive = float(of_row[rows.labels > 0].sum() / of_row.sum())
            self._class_factors = (float(weights[0]) * (1.0 - positive), float(weights[1]) * positive)

    def _start(self, posed: TrainingProblem) -> Optional[np.ndarray]:
        """Return the point to start from: the weights of the previous fit for a warm start."""
        if not self.warm_start or not hasattr(self, "coef_"):
            return None
        point = self._point()
        return point if len(point) == posed.columns + int(posed.intercept) else None

    def _train(
        self,
        rows: Rows,
        subject_to: Any = (),
        sensitive: Any = None,
        *,
        division: Optional[_rows.Division] = None,
        safety: Optional[SafetySet] = None,
        start: Optional[np.ndarray] = None,
    ) -> TrainingResult:
        """Train on validated rows and set the attributes of every classifier. A warm start goes before `start`."""
        # scikit-learn requires that weight 2 equals a repeated row; merging makes the results the same to the last bit.
        remarks = self._regularize(rows)
        self._weigh_classes(rows)
        posed = self._pose(rows, subject_to, sensitive, merge=True, division=division)
        unseen = None
        if safety is not None:
            unseen = (self._pose(safety.rows, subject_to, division=safety.division, like=posed), float(self.confidence))
        callback = None if not self.callbacks else Several(self.callbacks)
        warm = self._start(posed)
        trained = train(
            posed,
            solver=self.solver,
            options=self.options,
            seed=self._seed(),
            max_time=self.max_time,
            n_threads=self.n_threads,
            verbose=self.verbose,
            start=start if warm is None else warm,
            callback=callback,
            unseen=unseen,
            **self._training_options(posed),
        )
        finish(callback, trained.summary())
        self._keep_weights(trained.x)
        self.n_iter_ = int(trained.fitted["iterations"])
        self.history_ = trained.history
        self.message_ = trained.message
        self.notes_ = remarks + trained.notes
        self._trained = trained.trained
        self._quality = posed.quality(trained.x)
        self._measure(posed, trained)
        self._remember(rows, trained)
        if trained.interrupted:
            # The fitted attributes are set, but a search over many fits must end.
            raise KeyboardInterrupt
        return trained

    def _parts(self, x: np.ndarray) -> Tuple[np.ndarray, np.ndarray]:
        """Split a point into weights and intercept."""
        weights, constant = (x[:-1], x[-1:]) if self.fit_intercept else (x, np.zeros(1))
        return weights.reshape(1, -1), constant.copy()

    def _keep_weights(self, x: np.ndarray) -> None:
        self.coef_, self.intercept_ = self._parts(x)

    def _weights(self) -> np.ndarray:
        """Return the trained weights without the intercept."""
        return self.coef_[0]

    def _point(self) -> np.ndarray:
        """Return the trained weights, followed by the intercept if there is one."""
        return np.concatenate([self._weights(), self.intercept_]) if self.fit_intercept else self._weights()

    def _measure(self, posed: TrainingProblem, trained: TrainingResult) -> None:
        """Set the attributes that not every classifier has."""

    def _remember(self, rows: Rows, trained: TrainingResult) -> None:
        """Keep what a file of the model needs, if there can be one."""

    def _seed(self) -> int:
        """Return the random seed given by `random_state`."""
        if self.random_state is None:
            return 0
        if isinstance(self.random_state, (int, np.integer)):
            return int(self.random_state)
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _read(self, X: Any, y: Any, sample_weight: Any) -> Rows:
        """Validate the training rows and set the attributes that describe them."""
        self._label_name = _rows.name_of(y)
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=[np.float64, np.float32])
        check_classification_targets(y)
        self.classes_, code = np.unique(y, return_inverse=True)
        if len(self.classes_) > 2:
            # scikit-learn's own checks look for the first sentence.
            raise ValueError(
                f"Only binary classification is supported. The type of the target is {type_of_target(y)}; y must have two "
                f"classes, got {len(self.classes_)}"
            )
        if len(self.classes_) < 2:
            raise ValueError(f"y must have two classes, got one class: {self.classes_[0]!r}")
        weights = self._row_weights(sample_weight, X)
        if weights is not None:
            for value, name in zip((0, 1), self.classes_):
                if not np.any(weights[code == value] > 0):
                    raise ValueError(f"every row of class {name!r} has weight 0; both classes need rows of positive weight")
        return Rows(X, np.where(code == 1, 1.0, -1.0), weights)

    def _row_weights(self, sample_weight: Any, X: Any) -> Optional[np.ndarray]:
        """Validate the sample weights."""
        if sample_weight is None:
            return None
        return np.ascontiguousarray(_check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True))

    def decision_function(self, X: Any) -> np.ndarray:
        """Return the score of each row; the second class is predicted where it is positive.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples,)
            Scores.
        """
        check_is_fitted(self)
        return self._scores(validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False))

    def _scores(self, X: Any) -> np.ndarray:
        return np.asarray(X @ self.coef_[0]).ravel() + self.intercept_[0]

    def predict(self, X: Any) -> np.ndarray:
        """Predict the class of each row.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples,)
            Predicted classes.
        """
        above = self.decision_function(X) > 0
        return self.classes_[above.astype(int)]

    @available_if(_is_logistic)
    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the logistic function of the scores, if the objective is the logistic loss and the model has no constraints.

        Constraints move scores away from log-odds, by different amounts in different groups, so that no probabilities are
        offered; use `decision_function`.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, 2)
            Probability of each class.
        """
        above = expit(self.decision_function(X))
        return np.c_[1.0 - above, above]

    def plot(self, against: str = "passes", ax: Any = None) -> Any:
        """Plot objective and constraints of the recorded iterates; see :meth:`thalweg.History.plot`."""
        check_is_fitted(self)
        return self.history_.plot(against, ax)

    def _facts(self) -> list:
        """Return the entries of the report as pairs of name and value."""
        return [("message", self.message_), ("iterations", self.n_iter_)]

    def report_html(self) -> str:
        """Return the result of training as an HTML table."""
        check_is_fitted(self)
        return fit_html(self._facts(), getattr(self, "constraints_", []))

    def _pose_on(self, X: Any, y: Any, sample_weight: Any, sensitive: Any) -> TrainingProblem:
        """Pose the problem of this classifier on other rows, for certificates."""
        check_is_fitted(self)
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        rows = X.shape[0]
        known = Rows(X, _rows.signs(y, rows, self.classes_), _rows.weights(sample_weight, rows))
        return self._pose(known, self._constraints(sensitive), sensitive)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.classifier_tags.multi_class = False
        return tags


class ConstrainedBase(Classifier):
    """Classifier trained under constraints."""

    enforce: str
    feasibility: float

    def _training_options(self, posed: TrainingProblem) -> dict:
        return {"enforce": self.enforce, "max_iter": self.max_iter, "feasibility": self.feasibility}

    def _measure(self, posed: TrainingProblem, trained: TrainingResult) -> None:
        self.multipliers_ = trained.multipliers
        self.violation_ = trained.violation
        self.certificate_ = trained.stationary
        self.constraints_ = trained.constraints
        self.promise_ = trained.promise
        if trained.promise is not None and not trained.promise["confirmed"]:
            return  # The warning of training has the reason.
        if not trained.feasible:
            worst = max(trained.constraints, key=lambda c: trained.enforced(c) - c["bound"])
            missed = (note for note in trained.notes if note.kind == "bound-missed" and note.data["constraint"] == worst["name"])
            why = next(missed, trained.message)
            warnings.warn(
                f"the model violates its bounds on the training rows: '{worst['name']}' is {trained.enforced(worst):.4g}, above "
                f"its bound {worst['bound']:g}; {why}",
                stacklevel=4,
            )

    def _facts(self) -> list:
        return [("message", self.message_), ("violation", self.violation_), ("iterations", self.n_iter_)]


class GroupConstrainedBase(ConstrainedBase):
    """Classifier whose constraints may compare groups of rows."""

    def report(self, X: Any = None, y: Any = None, sample_weight: Any = None, sensitive_features: Any = None) -> Any:
        """Return counts, rates and their 95% intervals by group, as a data frame if pandas is installed.

        The intervals are exact (Clopper and Pearson) for the rates behind independent rows that were not used in training. On
        the training rows they only show how much rows of that number can say.

        Parameters
        ----------
        X, y, sample_weight, sensitive_features : array_like, default=None
            Rows as in `fit`, better ones that were not used in training. By default the training rows.

        Returns
        -------
        pandas.DataFrame or list of dict
            One row for each group: number of rows, share of positive labels, rate of positive predictions among all rows
            (``selection_rate``), accuracy, and the rates among rows of either label with their numbers of rows. If several
            columns define the groups, the column ``by`` names them, and rows for the groups of each column follow.
        """
        check_is_fitted(self)
        quality = self._quality
        if X is not None:
            quality = self._pose_on(X, y, sample_weight, sensitive_features).quality(self._point())
        return report_of(quality["groups"], quality.get("by_column", []))

    def metric_frame(self, X: Any, y: Any, sensitive_features: Any, metrics: Any = None) -> Any:
        """Return the ``MetricFrame`` of fairlearn for the predictions, if fairlearn is installed.

        Parameters
        ----------
        X, y, sensitive_features : array_like
            Rows as in `fit`.
        metrics : dict or callable, default=None
            Metrics of the frame; counts, selection rate, accuracy and the rates among rows of either label by default.

        Returns
        -------
        fairlearn.metrics.MetricFrame
            The frame.
        """
        from fairlearn import metrics as known
        from sklearn.metrics import accuracy_score

        if metrics is None:
            metrics = {
                "count": known.count,
                "selection_rate": known.selection_rate,
                "accuracy": accuracy_score,
                "true_positive_rate": known.true_positive_rate,
                "false_positive_rate": known.false_positive_rate,
            }
        positive = np.asarray(y) == self.classes_[1]
        predicted = self.decision_function(X) > 0
        return known.MetricFrame(
            metrics=metrics, y_true=positive.astype(int), y_pred=predicted.astype(int), sensitive_features=sensitive_features
        )

    def fit(self: _Self, X: Any, y: Any, sample_weight: Any = None, sensitive_features: Any = None) -> _Self:
        """Fit the classifier.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (n_samples, n_features)
            Training rows.
        y : array_like of shape (n_samples,)
            Labels of two classes.
        sample_weight : array_like of shape (n_samples,), default=None
            Weight of each row in every term.
        sensitive_features : array_like of shape (n_samples,), default=None
            Group of each row, for terms that compare groups. Several columns define groups by their combinations.

        Returns
        -------
        self
        """
        if self.holds_on not in ("training", "population"):
            raise ValueError(f"holds_on must be 'training' or 'population', got {self.holds_on!r}")
        rows = self._read(X, y, sample_weight)
        subject_to = self._constraints(sensitive_features)
        division: Optional[_rows.Division] = None
        safety: Optional[SafetySet] = None
        if self.holds_on == "population":
            rows, division, safety = self._split_off(rows, subject_to, sensitive_features)
        names = sensitive_features if division is None else np.array(division.names, dtype=object)[division.codes]
        self._prepare(rows, names)
        self._train(rows, subject_to, sensitive_features, division=division, safety=safety)
        return self

    def _split_off(self, rows: Rows, subject_to: Any, sensitive: Any) -> Tuple[Rows, Optional[_rows.Division], SafetySet]:
        """Split off the safety set; return the training rows with their groups, and the safety set."""
        known = grouping(self._objective(), subject_to, sensitive, rows.count)
        codes = None if known is None else known.codes
        training, safety = _core.split_off(rows.labels, codes, float(self.safety_fraction), self._seed())

        def part(chosen: np.ndarray) -> Tuple[Rows, Optional[_rows.Division]]:
            return rows.some(chosen), None if known is None else known._replace(codes=known.codes[chosen])

        kept, division = part(training)
        for name, sign in zip(self.classes_, (-1.0, 1.0)):
            if not np.any(kept.labels == sign):
                raise ValueError(f"no training row of class {name!r} is left beside the safety set; give more rows")
        return kept, division, SafetySet(*part(safety))

    def _prepare(self, rows: Rows, sensitive: Any) -> None:
        """Set attributes that training needs."""


class RegularizedBase(GroupConstrainedBase):
    """Classifier under constraints with a default regularisation."""

    regularization: Any
    _column_scales: Optional[List[float]]

    def _objective(self) -> Any:
        factor = getattr(self, "regularization_", 0.0)
        return as_term(self.objective) + factor * ridge() if factor > 0.0 else self.objective

    def _space(self) -> dict:
        # Rows for a certificate are measured with the scales of the training rows.
        return {"column_scales": getattr(self, "_column_scales", None)}

    def _regularize(self, rows: Rows) -> list:
        given = self.regularization
        number = _number(given)
        if number is None and not (isinstance(given, str) and given == "auto"):
            raise ValueError(f"regularization must be 'auto' or a finite number of at least 0, got {given!r}")
        # Results of an earlier fit do not count.
        self.regularization_, self._column_scales = 0.0, None
        self.regularization_, note = _core.regularization(str(as_term(self.objective)), number, rows.count, rows.weights)
        return [] if note is None else notes_of([note])

    def _measure(self, posed: TrainingProblem, trained: TrainingResult) -> None:
        self._column_scales = posed.core.column_scales()
        super()._measure(posed, trained)
