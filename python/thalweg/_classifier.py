"""What every classifier of the package does by the rules of scikit-learn: reading rows, training, answering. What they minimise
and under which constraints is their own business."""

from __future__ import annotations

import warnings
from typing import Any, Optional, Tuple

import numpy as np
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, check_random_state, validate_data

from thalweg import _rows
from thalweg._terms import as_term
from thalweg._train import Posed, Trained, fit_html, train


def _is_logistic(self: Any) -> bool:
    """Only scores that the logistic loss has trained can be read as log-odds."""
    text = str(as_term(self._objective()))
    if "logistic" not in text or "hinge" in text or "gap" in text:
        raise AttributeError(f"the scores of objective {text!r} are no log-odds: predict_proba needs the logistic loss")
    return True


class Rows:
    """Checked rows."""

    def __init__(self, X: Any, labels: np.ndarray, weights: Optional[np.ndarray]):
        self.X, self.labels, self.weights = X, labels, weights
        self.payload, self.count, self.columns = _rows.features(X)

    def some(self, which: np.ndarray) -> Rows:
        """Those rows that `which` marks."""
        return Rows(self.X[which], self.labels[which], None if self.weights is None else self.weights[which])


class Classifier(ClassifierMixin, BaseEstimator):
    """A classifier with a score for each row, whose weights are trained."""

    def _objective(self) -> Any:
        """What is minimised."""
        return self.objective

    def _constraints(self, sensitive: Any) -> Any:
        """The constraints, given who is in which group."""
        return ()

    def _space(self) -> dict:
        """What weights there are and where they stay, beyond one for each column: arguments of :class:`Posed`."""
        return {}

    def _conduct(self, posed: Posed) -> dict:
        """How it is trained beyond what every classifier is told: arguments of :func:`train`."""
        raise NotImplementedError

    def _pose(self, rows: Rows, subject_to: Any, sensitive: Any = None, *, merge: bool = False) -> Posed:
        """The problem of this classifier on checked rows."""
        return Posed(
            self._objective(),
            subject_to,
            rows.payload,
            rows.count,
            rows.labels,
            sensitive=sensitive,
            weights=rows.weights,
            intercept=self.fit_intercept,
            merge=merge,
            **self._space(),
        )

    def _train(self, rows: Rows, subject_to: Any = (), sensitive: Any = None) -> Trained:
        """Trains on checked rows, and sets what every classifier has."""
        # scikit-learn's rule: a row of weight 2 is the same as the row twice, to the last bit.
        posed = self._pose(rows, subject_to, sensitive, merge=True)
        trained = train(
            posed,
            solver=self.solver,
            options=self.options,
            seed=self._seed(),
            max_time=self.max_time,
            n_threads=self.n_threads,
            verbose=self.verbose,
            **self._conduct(posed),
        )
        self._keep_weights(trained.x)
        self.n_iter_ = int(trained.fitted["iterations"])
        self.history_ = trained.history
        self.message_ = trained.message
        self.notes_ = trained.notes
        self._trained = trained.trained
        self._measure(posed, trained)
        if trained.interrupted:
            # What was reached is kept, but a search over many fits must end.
            raise KeyboardInterrupt
        return trained

    def _parts(self, x: np.ndarray) -> Tuple[np.ndarray, np.ndarray]:
        """A point as weights and intercept."""
        weights, constant = (x[:-1], x[-1:]) if self.fit_intercept else (x, np.zeros(1))
        return weights.reshape(1, -1), constant.copy()

    def _keep_weights(self, x: np.ndarray) -> None:
        self.coef_, self.intercept_ = self._parts(x)

    def _weights(self) -> np.ndarray:
        """The trained weights without the intercept."""
        return self.coef_[0]

    def _point(self) -> np.ndarray:
        """The trained weights, and the intercept where there is one."""
        return np.concatenate([self._weights(), self.intercept_]) if self.fit_intercept else self._weights()

    def _measure(self, posed: Posed, trained: Trained) -> None:
        """Sets what a classifier of this kind tells beyond the others."""

    def _seed(self) -> int:
        """A seed for the library from scikit-learn's ways to say it."""
        if self.random_state is None:
            return 0
        if isinstance(self.random_state, (int, np.integer)):
            return int(self.random_state)
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _read(self, X: Any, y: Any, sample_weight: Any) -> Rows:
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
        weights = self._row_weights(sample_weight, X)
        if weights is not None:
            for value, name in zip((0, 1), self.classes_):
                if not np.any(weights[code == value] > 0):
                    raise ValueError(f"every row of class {name!r} has weight 0: wanted two classes")
        return Rows(X, np.where(code == 1, 1.0, -1.0), weights)

    def _row_weights(self, sample_weight: Any, X: Any) -> Optional[np.ndarray]:
        """Weights of the rows, checked."""
        if sample_weight is None:
            return None
        return np.ascontiguousarray(_check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True))

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

    def _facts(self) -> list:
        """What a report says: pairs of a name and a value."""
        return [("message", self.message_), ("iterations", self.n_iter_)]

    def report_html(self) -> str:
        """What training came to, as an HTML table."""
        check_is_fitted(self)
        return fit_html(self._facts(), getattr(self, "constraints_", []))

    def _posed_on(self, X: Any, y: Any, sample_weight: Any, sensitive: Any) -> Posed:
        """The problem of this classifier on other rows, for certificates."""
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


class Constrained(Classifier):
    """A classifier that is trained under constraints."""

    def _conduct(self, posed: Posed) -> dict:
        return {"enforce": self.enforce, "max_iter": self.max_iter, "feasibility": self.feasibility}

    def _measure(self, posed: Posed, trained: Trained) -> None:
        self.multipliers_ = trained.multipliers
        self.violation_ = trained.violation
        self.certificate_ = trained.stationary
        self.constraints_ = trained.constraints
        if not trained.feasible:
            worst = max(trained.constraints, key=lambda c: trained.enforced(c) - c["bound"])
            missed = (note for note in trained.notes if note.kind == "bound-missed" and note.data["constraint"] == worst["name"])
            why = next(missed, trained.message)
            warnings.warn(
                f"the model does not keep its bounds on the training rows: '{worst['name']}' is {trained.enforced(worst):.4g}, "
                f"wanted at most {worst['bound']:g}; {why}",
                stacklevel=4,
            )

    def _facts(self) -> list:
        return [("message", self.message_), ("violation", self.violation_), ("iterations", self.n_iter_)]
