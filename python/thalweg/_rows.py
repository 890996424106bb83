"""Conversion of numpy arrays, scipy sparse matrices, pandas and polars frames for the core, without needless copies."""

from __future__ import annotations

from typing import Any, List, NamedTuple, Optional, Tuple

import numpy as np
from scipy import sparse


def feature_names(X: Any) -> Optional[List[str]]:
    """Return the names of the columns, or None."""
    columns = getattr(X, "columns", None)
    return None if columns is None else [str(c) for c in columns]


def features(X: Any, what: str = "X") -> Tuple[Any, int, int]:
    """Return the matrix for the core (an array of float64 or float32, or the parts of a CSR matrix), rows and columns."""
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
                    f"column '{name}' of {what} contains text; encode it as numbers, for example with pandas.get_dummies or "
                    "a OneHotEncoder in a Pipeline"
                )
    try:
        if names is not None and type(X).__module__.startswith("pandas"):
            # Columns of different types would otherwise become an array of objects.
            kind = np.float32 if all(str(k) == "float32" for k in X.dtypes) else np.float64
            array = X.to_numpy(dtype=kind, na_value=np.nan)
        else:
            array = X.to_numpy() if hasattr(X, "to_numpy") else np.asarray(X)
        if array.dtype not in (np.float64, np.float32):
            array = array.astype(np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{what} must be a matrix of numbers, but has other entries") from None
    if array.ndim != 2:
        raise ValueError(f"{what} must have two dimensions, got shape {array.shape}")
    return array, array.shape[0], array.shape[1]


def columns_of(payload: Any) -> int:
    """Return the number of columns of a matrix for the core."""
    return int(payload[3] if isinstance(payload, tuple) else payload.shape[1])


def labels(y: Any, rows: int, what: str = "y") -> np.ndarray:
    """Validate the labels."""
    found = np.asarray(y.to_numpy() if hasattr(y, "to_numpy") else y)
    if found.ndim == 2 and found.shape[1] == 1:
        found = found.ravel()
    if found.shape != (rows,):
        raise ValueError(f"{what} must have {rows} labels, one for each row of {what.replace('y', 'X')}, got shape {found.shape}")
    if found.dtype.kind == "f" and np.any(np.isnan(found)):
        raise ValueError(f"{what} is NaN in row {int(np.argmax(np.isnan(found))) + 1}")
    return found


def classes(y: Any, rows: int) -> Tuple[np.ndarray, np.ndarray]:
    """Return the two classes in order, and the labels as +1 for the second and -1 for the first."""
    found, code = np.unique(labels(y, rows), return_inverse=True)
    if len(found) != 2:
        shown = ", ".join(str(v) for v in found[:5]) + (", …" if len(found) > 5 else "")
        raise ValueError(f"y must have two classes, got {len(found)} ({shown})")
    return found, np.where(code == 1, 1.0, -1.0)


def signs(y: Any, rows: int, known: np.ndarray, what: str = "y") -> np.ndarray:
    """Return labels as +1 for the second of two known classes and -1 for the first."""
    given = labels(y, rows, what)
    if not np.all(np.isin(given, known)):
        raise ValueError(f"{what} must have the labels of the training rows, {known.tolist()}, but has others")
    return np.where(given == known[1], 1.0, -1.0)


class Division(NamedTuple):
    """Division of rows into groups."""

    #: Group of each row, an index into `names`.
    codes: np.ndarray
    #: Names of the groups.
    names: List[str]
    #: For several columns: name, groups, and for each combination the index of its group.
    by_column: List[Tuple[str, List[str], List[int]]]
    #: Names of the columns.
    columns: List[str]


def division(sensitive: Any, rows: int, what: str = "sensitive_features") -> Division:
    """Divide rows into groups. Several columns define groups by the combinations of their values that occur."""
    table = sensitive.to_numpy() if hasattr(sensitive, "to_numpy") else np.asarray(sensitive)
    own = name_of(sensitive)
    named = feature_names(sensitive) or ([] if own is None else [own])
    if table.ndim != 2 or table.shape[1] == 1:
        codes, names = _codes(table[:, 0] if table.ndim == 2 else table, rows, what)
        return Division(codes, names, [], named or ["group"])
    columns = named or [f"group{j}" for j in range(1, table.shape[1] + 1)]
    divided = [_codes(table[:, j], rows, what) for j in range(table.shape[1])]
    found, codes = np.unique(np.stack([codes for codes, _ in divided], axis=1), axis=0, return_inverse=True)
    names = [", ".join(parts[k] for (_, parts), k in zip(divided, key)) for key in found]
    by_column = [(name, parts, found[:, j].tolist()) for j, (name, (_, parts)) in enumerate(zip(columns, divided))]
    return Division(codes.ravel().astype(np.uint32), names, by_column, columns)


def groups(sensitive: Any, rows: int, what: str = "sensitive_features") -> Tuple[np.ndarray, List[str]]:
    """Return the group index of each row and the names of the groups."""
    divided = division(sensitive, rows, what)
    return divided.codes, divided.names


def name_of(column: Any) -> Optional[str]:
    """Return the name of a series, or None."""
    name = getattr(column, "name", None)
    return name if isinstance(name, str) and name else None


def _codes(words: np.ndarray, rows: int, what: str) -> Tuple[np.ndarray, List[str]]:
    """Return the index of the value of each row, and the values in order as text."""
    if words.ndim != 1 or len(words) != rows:
        raise ValueError(f"{what} must have {rows} entries, one for each row of X, got shape {words.shape}")
    missing = _missing(words)
    if np.any(missing):
        raise ValueError(f"{what} is missing in row {int(np.argmax(missing)) + 1}; every row needs a group")
    try:
        found, code = np.unique(words, return_inverse=True)
    except TypeError:
        found, code = np.unique(np.array([str(v) for v in words], dtype=object), return_inverse=True)
    return code.astype(np.uint32), [str(v) for v in found]


def _missing(table: np.ndarray) -> np.ndarray:
    """Return a mask of the missing entries."""
    if table.dtype.kind == "f":
        return np.isnan(table)
    if table.dtype.kind == "O" and table.ndim == 1:
        return np.array([is_absent(value) for value in table], dtype=bool)
    return np.zeros(0, dtype=bool)


def is_absent(value: Any) -> bool:
    """Return whether a cell of a frame is missing."""
    return (
        value is None
        or (isinstance(value, (float, np.floating)) and np.isnan(value))
        or type(value).__name__ in ("NAType", "NaTType")
    )


def weights(given: Any, rows: int) -> Optional[np.ndarray]:
    """Validate the weights of the rows."""
    if given is None:
        return None
    array = np.asarray(given, dtype=np.float64)
    if array.ndim == 0:
        array = np.full(rows, float(array))
    if array.shape != (rows,):
        raise ValueError(f"sample_weight must have {rows} entries, one for each row of X, got shape {array.shape}")
    return np.ascontiguousarray(array)
