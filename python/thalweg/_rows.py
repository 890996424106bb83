"""Rows from numpy arrays, scipy's sparse matrices, pandas and polars frames to what the core takes, without needless copies."""

from __future__ import annotations

from typing import Any, List, Optional, Tuple

import numpy as np
from scipy import sparse


def feature_names(X: Any) -> Optional[List[str]]:
    """Names of the columns, if there are any."""
    columns = getattr(X, "columns", None)
    return None if columns is None else [str(c) for c in columns]


def features(X: Any, what: str = "X") -> Tuple[Any, int, int]:
    """What the core reads (an array of float64 or float32, or the parts of compressed rows), rows and columns."""
    if sparse.issparse(X):
        rows = X.tocsr() if X.format != "csr" else X
        if rows.dtype not in (np.float64, np.float32):
            rows = rows.astype(np.float64)
        if not rows.has_canonical_format:
            rows = rows.copy()
            rows.sum_duplicates()
        return (rows.indptr, rows.indices, rows.data, rows.shape[1]), rows.shape[0], rows.shape[1]
    names = feature_names(X)
    if names is not None and hasattr(X, "dtypes"):
        for name, kind in zip(names, list(X.dtypes)):
            if str(kind).lower() in ("object", "str", "string", "category", "categorical", "utf8", "enum"):
                raise ValueError(
                    f"column '{name}' of {what} holds text: wanted numbers; encode it first, for example with "
                    "pandas.get_dummies or with a OneHotEncoder in a Pipeline"
                )
    try:
        if names is not None and type(X).__module__.startswith("pandas"):
            # Columns of several types would otherwise become an array of objects.
            kind = np.float32 if all(str(k) == "float32" for k in X.dtypes) else np.float64
            array = X.to_numpy(dtype=kind, na_value=np.nan)
        else:
            array = X.to_numpy() if hasattr(X, "to_numpy") else np.asarray(X)
        if array.dtype not in (np.float64, np.float32):
            array = array.astype(np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{what} has entries that are no numbers: wanted a matrix of numbers") from None
    if array.ndim != 2:
        raise ValueError(f"{what} has shape {array.shape}: wanted two dimensions, a row for each example")
    return array, array.shape[0], array.shape[1]


def labels(y: Any, rows: int, what: str = "y") -> np.ndarray:
    """One label for each row."""
    found = np.asarray(y.to_numpy() if hasattr(y, "to_numpy") else y)
    if found.ndim == 2 and found.shape[1] == 1:
        found = found.ravel()
    if found.shape != (rows,):
        raise ValueError(f"{what} has shape {found.shape}: wanted {rows} labels, one for each row of {what.replace('y', 'X')}")
    if found.dtype.kind == "f" and np.any(np.isnan(found)):
        raise ValueError(f"{what} is NaN in row {int(np.argmax(np.isnan(found))) + 1}: wanted a label")
    return found


def classes(y: Any, rows: int) -> Tuple[np.ndarray, np.ndarray]:
    """The two classes in order, and +1 for the second, -1 for the first."""
    found, code = np.unique(labels(y, rows), return_inverse=True)
    if len(found) != 2:
        shown = ", ".join(str(v) for v in found[:5]) + (", …" if len(found) > 5 else "")
        raise ValueError(f"y has {len(found)} classes ({shown}): wanted two")
    return found, np.where(code == 1, 1.0, -1.0)


def signs(y: Any, rows: int, known: np.ndarray, what: str = "y") -> np.ndarray:
    """+1 for the second of two known classes, -1 for the first, and no other."""
    given = labels(y, rows, what)
    if not np.all(np.isin(given, known)):
        raise ValueError(f"{what} has labels beside {known.tolist()}: wanted those of the training rows")
    return np.where(given == known[1], 1.0, -1.0)


def groups(sensitive: Any, rows: int, what: str = "sensitive_features") -> Tuple[np.ndarray, List[str]]:
    """The number of each row's group, and the names of the groups in order. Several columns make groups of their combinations."""
    table = sensitive.to_numpy() if hasattr(sensitive, "to_numpy") else np.asarray(sensitive)
    if table.ndim == 2 and table.shape[1] == 1:
        table = table[:, 0]
    if table.ndim == 2:
        words = np.array([", ".join(str(v) for v in row) for row in table], dtype=object)
        missing = np.array([any(_absent(v) for v in row) for row in table], dtype=bool)
    else:
        words, missing = table, _missing(table)
    if words.ndim != 1 or len(words) != rows:
        raise ValueError(f"{what} has shape {table.shape}: wanted {rows} entries, one for each row of X")
    if np.any(missing):
        raise ValueError(f"{what} is missing in row {int(np.argmax(missing)) + 1}: wanted a group for every row")
    try:
        found, code = np.unique(words, return_inverse=True)
    except TypeError:
        found, code = np.unique(np.array([str(v) for v in words], dtype=object), return_inverse=True)
    return code.astype(np.uint32), [str(v) for v in found]


def _missing(table: np.ndarray) -> np.ndarray:
    """Which entries are missing."""
    if table.dtype.kind == "f":
        return np.isnan(table)
    if table.dtype.kind == "O" and table.ndim == 1:
        return np.array([_absent(value) for value in table], dtype=bool)
    return np.zeros(0, dtype=bool)


def _absent(value: Any) -> bool:
    return (
        value is None
        or (isinstance(value, (float, np.floating)) and np.isnan(value))
        or type(value).__name__ in ("NAType", "NaTType")
    )


def weights(given: Any, rows: int) -> Optional[np.ndarray]:
    """Weights of the rows."""
    if given is None:
        return None
    array = np.asarray(given, dtype=np.float64)
    if array.ndim == 0:
        array = np.full(rows, float(array))
    if array.shape != (rows,):
        raise ValueError(f"sample_weight has shape {array.shape}: wanted {rows} weights, one for each row of X")
    return np.ascontiguousarray(array)
