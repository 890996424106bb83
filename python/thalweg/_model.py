"""Saved linear models: those of ``thalweg fit`` and of the estimators, with the encoding of their columns."""

from __future__ import annotations

import os
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, Union

import numpy as np
from scipy import sparse
from scipy.special import expit
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from thalweg import _core, _rows
from thalweg._report import report_of
from thalweg._result import notes_of
from thalweg._warnings import DataWarning, warn

#: Why a model has no ``predict_proba``.
NO_PROBABILITIES = (
    "predict_proba needs the logistic loss without constraints: they move scores away from log-odds, by different amounts in "
    "different groups; use decision_function, or calibrate it with sklearn.calibration.CalibratedClassifierCV"
)

_Path = Union[str, "os.PathLike[str]"]


def load(path: _Path) -> LinearModel:
    """Read a model that ``thalweg fit`` or the ``save`` of a classifier wrote.

    Parameters
    ----------
    path : str or path
        The file, or the directory with its ``model.json``.

    Returns
    -------
    LinearModel
        The model.

    Examples
    --------
    >>> import pandas as pd, tempfile, thalweg
    >>> X = pd.DataFrame({"age": [20.0, 30.0, 40.0, 50.0], "hours": [10.0, 40.0, 20.0, 50.0]})
    >>> fitted = thalweg.ConstrainedClassifier().fit(X, [0, 1, 0, 1])
    >>> with tempfile.TemporaryDirectory() as place:
    ...     file = fitted.save(f"{place}/model.json")
    ...     thalweg.load(file).predict(X[["hours", "age"]])
    array([0, 1, 0, 1])
    """
    return LinearModel(_core.Model.read(os.fspath(path)))


def _labels(negative: str, positive: str) -> np.ndarray:
    """Return the two labels, which a file has as text, as numbers or truth values if they are."""
    texts = [negative, positive]
    if texts == ["False", "True"]:
        return np.array([False, True])
    for kind in (int, float):
        try:
            return np.array([kind(text) for text in texts])
        except ValueError:
            continue
    return np.array(texts)


def _cells(series: Any) -> Any:
    """Return the cells of a column of a frame as numbers with NaN for missing ones, or as text."""
    if type(series).__module__.startswith("pandas") and str(series.dtype)[0] in "IUF":
        values = series.to_numpy(dtype=np.float64, na_value=np.nan)
    else:
        values = series.to_numpy()
    if values.dtype.kind in "iuf":
        return np.ascontiguousarray(values, dtype=np.float64)
    return ["" if _rows.is_absent(value) else str(value) for value in values]


def _columns(X: Any, wanted: Sequence[str], optional: Sequence[str] = ()) -> List[Tuple[str, Any]]:
    """Return the cells of the wanted columns of a frame, or the names of all columns too if one is absent."""
    names = [str(name) for name in X.columns]
    for name in wanted:
        if names.count(name) > 1:
            raise ValueError(f"X has {names.count(name)} columns called '{name}'; expected one")
    column = X.iloc if hasattr(X, "iloc") else None
    series = lambda j: X.to_series(j) if column is None else column[:, j]
    complete = set(wanted) <= set(names)
    used = set(wanted) | set(optional)
    return [
        (name, _cells(series(j)) if name in used else [""] * len(X))
        for j, name in enumerate(names)
        if name in used or not complete
    ]


def _has_probabilities(self: Any) -> bool:
    """Check that the scores are log-odds."""
    if not self._core.has_probabilities():
        raise AttributeError(NO_PROBABILITIES)
    return True


class LinearModel:
    """Linear classifier with the encoding of its columns, as :func:`load` returns it.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        Labels; the second is predicted for positive scores. A file has them as text, which becomes numbers or truth values if it
        can.
    columns_ : list of str or None
        Names of the columns that rows need; None for matrices.
    feature_names_ : list of str
        Names of the features that the columns are encoded as.
    coef_ : ndarray of shape (1, n_features)
        Weights of the features.
    intercept_ : ndarray of shape (1,)
        Intercept of the scores.
    training_, measured_ : dict
        What was asked for and what was measured, by the names of ``model.json`` in docs/fit.md.
    thalweg_version_ : str
        Version that wrote the file.
    """

    def __init__(self, core: _core.Model):
        self._core = core
        parts = core.parts()
        self.training_: Dict[str, Any] = parts["training"]
        self.measured_: Dict[str, Any] = parts["measured"]
        self.thalweg_version_: str = parts["thalweg"]
        self.feature_names_: List[str] = core.feature_names()
        self.coef_ = np.array([[weight["weight"] for weight in parts["weights"]]])
        self.intercept_ = np.array([parts["intercept"]])
        table = parts["input"].get("table")
        self._encoding: List[dict] = [] if table is None else table["encoding"]["columns"]
        self._grouping: Optional[dict] = None if table is None else table["grouping"]
        labels = parts["input"]["libsvm"] if table is None else table["labels"]
        self._label_column: Optional[str] = labels.get("column")
        self._texts: Tuple[str, str] = (labels["negative"], labels["positive"])
        self.classes_ = _labels(*self._texts)
        self.columns_: Optional[List[str]] = [column["name"] for column in self._encoding] if table is not None else None
        #: Whether rows are matrices with a column for each feature.
        self._plain = table is None or (
            all(column.get("complete") for column in self._encoding)
            and self.columns_ == [f"x{j}" for j in range(len(self._encoding))]
        )

    def __repr__(self) -> str:
        bounds = ", ".join(self.training_["subject_to"])
        return f"LinearModel({self.training_['minimize']!r}{', ' + repr(bounds) if bounds else ''}, {self.coef_.size} features)"

    def __reduce__(self) -> Tuple[Any, Tuple[Any]]:
        return _from_parts, (self._core.parts(),)

    def _scores(self, X: Any, optional: Sequence[str] = ()) -> Tuple[np.ndarray, Optional[np.ndarray], Optional[dict]]:
        """Return the scores, and the labels and groups that a frame has."""
        if _rows.feature_names(X) is not None and self.columns_ is not None:
            scores, labels, groups, notes = self._core.frame(_columns(X, self.columns_, optional))
            for note in notes_of(notes):
                warn(str(note), DataWarning)
            return scores, labels, groups
        if not self._plain:
            names = ", ".join(f"'{name}'" for name in (self.columns_ or [])[:5])
            more = ", …" if len(self.columns_ or []) > 5 else ""
            raise ValueError(f"X must be a frame with the columns {names}{more}, got {type(X).__name__}")
        payload, _, columns = _rows.features(sparse.csr_matrix(X) if not hasattr(X, "columns") else X)
        if columns != self.coef_.size:
            raise ValueError(f"X has {columns} columns; the model was trained on {self.coef_.size}")
        return self._core.scores(payload), None, None

    def decision_function(self, X: Any) -> np.ndarray:
        """Return the score of each row; the second class is predicted where it is positive.

        Parameters
        ----------
        X : frame, or array or sparse matrix
            Rows. The columns of a frame are found by name, in any order; others are ignored. A model of ``thalweg fit`` encodes
            them as the command does, with the same bits. A model that was fitted to an array takes arrays.

        Returns
        -------
        ndarray of shape (n_samples,)
            Scores.
        """
        return self._scores(X)[0]

    def predict(self, X: Any) -> np.ndarray:
        """Predict the class of each row.

        Parameters
        ----------
        X : frame, or array or sparse matrix
            Rows as in :meth:`decision_function`.

        Returns
        -------
        ndarray of shape (n_samples,)
            Predicted classes.
        """
        return self.classes_[(self.decision_function(X) > 0).astype(int)]

    @available_if(_has_probabilities)
    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the logistic function of the scores, for a model of the logistic loss without constraints.

        Parameters
        ----------
        X : frame, or array or sparse matrix
            Rows as in :meth:`decision_function`.

        Returns
        -------
        ndarray of shape (n_samples, 2)
            Probability of each class.
        """
        above = expit(self.decision_function(X))
        return np.c_[1.0 - above, above]

    def report(self, X: Any = None, y: Any = None, sample_weight: Any = None, sensitive_features: Any = None) -> Any:
        """Return counts, rates and their exact 95% intervals by group, as the ``report`` of the classifiers.

        Parameters
        ----------
        X : frame, or array or sparse matrix, default=None
            Rows as in :meth:`decision_function`. By default the training rows.
        y : array_like, default=None
            Labels; by default those in the label column of X.
        sample_weight : array_like, default=None
            Weights of the rows.
        sensitive_features : array_like, default=None
            Groups; by default those in the group columns of X.

        Returns
        -------
        pandas.DataFrame or list of dict
            One row for each group.
        """
        if X is None:
            training = self.measured_["training"]
            return report_of(training["groups"], training.get("by_column", []))
        if y is not None:
            y = _rows.labels(y, len(y))
        optional = self._group_columns() if sensitive_features is None else []
        if y is None and self._label_column is not None:
            optional = [*optional, self._label_column]
        scores, labels, groups = self._scores(X, optional)
        rows = len(scores)
        if y is not None:
            labels = _rows.signs(y, rows, self.classes_)
        if labels is None:
            where = "" if self._label_column is None else f"; X has no column '{self._label_column}' with them"
            raise ValueError(f"y must have the labels of the rows{where}")
        if sensitive_features is not None:
            codes, names, by_column, _ = _rows.division(sensitive_features, rows)
        elif groups is not None:
            codes, names = np.array(groups["of_row"], dtype=np.uint32), groups["names"]
            by_column = groups["by_column"]
        else:
            raise ValueError("sensitive_features must have the groups of the rows, which X does not have")
        weights = _rows.weights(sample_weight, rows)
        measured = lambda codes, names: _core.by_group(scores, labels, names, codes, weights)
        coarser = lambda of_group: np.asarray(of_group, dtype=np.uint32)[codes]
        columns = [{"column": name, "groups": measured(coarser(of), found)} for name, found, of in by_column]
        return report_of(measured(codes, names), columns)

    def _group_columns(self) -> List[str]:
        if self._grouping is None:
            return []
        columns = self._grouping.get("columns")
        return [self._grouping["column"]] if columns is None else [column["column"] for column in columns]

    def save(self, path: _Path) -> str:
        """Write the model to a file that :func:`load` and ``thalweg predict``, ``explain`` and ``certify`` read.

        Parameters
        ----------
        path : str or path
            The file, or a directory, which gets a ``model.json``.

        Returns
        -------
        str
            The file.
        """
        file = os.fspath(path)
        if os.path.isdir(file):
            file = os.path.join(file, "model.json")
        self._core.write(file)
        return file

    def to_onnx(self, path: Optional[_Path] = None) -> Any:
        """Return the model with its encoding as an ONNX model, if ``onnx`` is installed (``pip install 'thalweg[onnx]'``).

        Each column of a table is an input of shape (rows, 1): numbers as float64, where NaN is a missing cell, and categories as
        strings. A model on matrices has one input ``X`` of float64. The outputs are ``label`` and ``score``, of shape (rows,).
        The scores are sums of the same float64 numbers in another order, so that they agree up to rounding.

        Parameters
        ----------
        path : str or path, default=None
            Also write the model to this file.

        Returns
        -------
        onnx.ModelProto
            The model.
        """
        from thalweg._onnx import to_onnx

        return to_onnx(
            self._texts, self.classes_, None if self._plain else self._encoding, self.coef_[0], self.intercept_[0], path
        )


def _from_parts(parts: dict) -> LinearModel:
    """Make a model from the contents of its file, for pickling."""
    return LinearModel(_core.Model({k: v for k, v in parts.items() if k not in ("format", "thalweg")}))


#: Parts of ``measured`` in a model file that are results of training as they are.
_MEASURED = ("ended", "stationary", "slope", "rounds", "iterations", "passes", "seconds")


def constraints_at(trained: Any, quality: dict, feasibility: float) -> List[dict]:
    """Return the constraints with the values of a point, which may be another one than the trained one."""
    found = []
    for c, surrogate, measured in zip(trained.constraints, quality["constraints"], quality["measured"]):
        value = {**c, "surrogate": surrogate, "measured": measured}
        tolerance = feasibility * max(1.0, abs(c["bound"]))
        found.append({**value, "satisfied": trained.enforced(value) <= c["bound"] + tolerance})
    return found


class SavesModel:
    """Methods of linear classifiers that save the trained model."""

    coef_: np.ndarray
    intercept_: np.ndarray
    classes_: np.ndarray
    fit_intercept: bool
    feasibility: float
    options: Optional[dict]
    _record: Dict[str, Any]
    _quality: Dict[str, Any]
    _label_name: Optional[str]
    _seed: Callable[[], int]
    _names: Callable[[], Optional[List[str]]]

    def _remember(self, rows: Any, trained: Any) -> None:
        """Keep everything about a fit that a file has besides the weights; quality and constraints are those of `_quality`."""
        fitted, division, quality = trained.fitted, trained.posed.division, self._quality
        measured = {name: fitted[name] for name in _MEASURED if fitted.get(name) is not None}
        warned = [note for note in fitted["notes"] if isinstance(note, dict) and note.get("warning")]
        measured.update(
            constraints=constraints_at(trained, quality, self.feasibility), warnings=warned, training=quality, held_out=None
        )
        measured["feasible"] = all(c["satisfied"] for c in measured["constraints"])
        training = {
            "minimize": trained.posed.objective,
            "subject_to": trained.posed.subject_to,
            "regularization": getattr(self, "regularization_", 0.0),
            "enforce": trained.enforce,
            "solver": fitted["solver"],
            "eta": "" if fitted.get("eta") is None else str(fitted["eta"]),
            "reasons": fitted["reasons"],
            "settings": ", ".join(f"{name}={value}" for name, value in (self.options or {}).items()),
            "seed": self._seed(),
            "file": "",
            "fingerprint": "",
            "test_fraction": 0.0,
            # A threshold that was set after training is an intercept too.
            "intercept": self.fit_intercept or bool(np.any(self.intercept_)),
        }
        self._record = {
            "training": training,
            "measured": measured,
            "sparse": sparse.issparse(rows.X),
            "weighted": rows.weights is not None,
            "names": self._names(),
            "label": self._label_name,
            "groups": None if division is None else division._asdict(),
        }
        if division is not None:
            del self._record["groups"]["codes"]

    def _model(self, label: Optional[str] = None, group: Any = None, weights: Optional[str] = None) -> LinearModel:
        """Return the trained model as a saved one. The arguments name columns of tables."""
        check_is_fitted(self)
        record = self._record
        training = dict(record["training"])
        if record["weighted"]:
            training["row_weights"] = weights or "weight"
        negative, positive = (str(name) for name in self.classes_)
        names = record["names"]
        if record["sparse"] and names is None:
            features = [f"column {j}" for j in range(1, self.coef_.size + 1)]
            parts: Dict[str, Any] = {
                "libsvm": {"columns": self.coef_.size, "positive": positive, "negative": negative, "group": None}
            }
        else:
            features = names = [f"x{j}" for j in range(self.coef_.size)] if names is None else names
            labels = {"column": label or record["label"] or "label", "positive": positive, "negative": negative}
            if labels["column"] in names:
                raise ValueError(f"label must be another column than the features, got '{labels['column']}'")
            parts = {"table": {"labels": labels, "grouping": _grouping(record["groups"], group)}}
        model = {
            "input": parts,
            "weights": [{"feature": name, "weight": float(w)} for name, w in zip(features, self.coef_[0])],
            "intercept": float(self.intercept_[0]),
            "training": training,
            "measured": record["measured"],
        }
        return LinearModel(_core.Model(model, None if "libsvm" in parts else names))

    def save(self, path: _Path, *, label: Optional[str] = None, group: Any = None, weights: Optional[str] = None) -> str:
        """Write the trained model to a file that :func:`thalweg.load` and ``thalweg predict``, ``explain`` and ``certify`` read.

        The file has the weights on the columns of X as they are, no training rows and no Python objects. Other steps of a
        pipeline are not in it. Scores of the saved model agree with those of the classifier up to the rounding of a sum.

        Parameters
        ----------
        path : str or path
            The file, or a directory, which gets a ``model.json``.
        label, group, weights : str, default=None
            Columns of tables with the label, with the groups (a list for several columns) and with the weights of rows, which
            ``certify`` and ``report`` look for. By default the names of y and of `sensitive_features` if they have any, else
            "label", "group" and "weight". Columns of X without names are called x0, x1, …

        Returns
        -------
        str
            The file.
        """
        return self._model(label, group, weights).save(path)

    def to_onnx(self, path: Optional[_Path] = None) -> Any:
        """Return the trained model as an ONNX model; see :meth:`thalweg.LinearModel.to_onnx`.

        Parameters
        ----------
        path : str or path, default=None
            Also write the model to this file.

        Returns
        -------
        onnx.ModelProto
            The model.
        """
        return self._model().to_onnx(path)


def _grouping(groups: Optional[dict], given: Any) -> Optional[dict]:
    """Return the groups of the training rows for a file, with the given names of their columns."""
    if groups is None:
        return None
    columns = groups["by_column"]
    names = [given] if isinstance(given, str) else given
    wanted = max(1, len(columns))
    if names is None:
        names = groups["columns"]
    if len(names) != wanted:
        raise ValueError(f"group must name {wanted} column{'s' if wanted > 1 else ''}, got {len(names)}")
    if not columns:
        return {"column": str(names[0]), "value": None, "groups": groups["names"]}
    listed = [{"column": str(name), "value": None, "groups": found} for name, (_, found, _) in zip(names, columns)]
    return {"columns": listed, "combinations": [list(key) for key in zip(*(of_group for _, _, of_group in columns))]}
