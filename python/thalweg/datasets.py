"""Data sets by name: ``load`` returns numeric rows, ``load_table`` raw tables, ``list`` the available sets.

a9a, adult and german are part of the package. Files of other sets are searched in `data_dir`, in the directory given by the
environment variable ``THALWEG_DATA``, in ``./data`` and in the user's data directory. Nothing is downloaded.

>>> from thalweg import datasets
>>> a9a = datasets.load("a9a")
>>> a9a.data.shape, a9a.n_train, a9a.group_names
((48842, 123), 32561, ['female', 'male'])
"""

from __future__ import annotations

import os
import warnings
from typing import Any, Optional, Union

import numpy as np
from scipy import sparse
from sklearn.utils import Bunch

from thalweg import _core
from thalweg._frames import frame_or_rows
from thalweg._result import need, notes_of

__all__ = ["list", "load", "load_table"]

#: Number of training rows, which come first, of sets that were published in two parts.
TRAINING = {"a9a": 32_561, "adult": 32_561}

#: scipy before 1.8 has no sparse arrays.
_rows_of = getattr(sparse, "csr_array", sparse.csr_matrix)


def load(name: str = "a9a", *, data_dir: Union[str, os.PathLike[str], None] = None) -> Bunch:
    """Load a data set as numeric rows with labels and groups.

    Parameters
    ----------
    name : str
        Name that :func:`list` shows with ``load``.
    data_dir : path, optional
        Directory that is searched first.

    Returns
    -------
    Bunch
        With ``data`` (csr_array of float64), ``target`` (+1.0 and -1.0), ``sensitive`` (group of each row, or None),
        ``group_names`` (the first is the protected group), ``n_train`` (number of training rows, which come first; None if the
        set was not published in parts), ``notes`` (remarks, such as that the file differs from the published one),
        ``fingerprint`` (sha256 of the data) and ``name``.

    Examples
    --------
    >>> from thalweg import datasets, learn
    >>> german = datasets.load("german")
    >>> german.data.shape, german.sensitive[:3].tolist(), german.target[:3].tolist()
    ((1000, 21), ['male', 'female', 'male'], [1.0, -1.0, 1.0])
    >>> fair = learn.fit("logistic", "demographic_parity <= 0.02", X=german.data, y=german.target, sensitive=german.sensitive)
    >>> fair.success
    True
    """
    found = _core.dataset(_name(name), _directory(data_dir))
    notes = notes_of(found["notes"])
    _warn(notes)
    sensitive, group_names = None, None
    if found["groups"] is not None:
        codes, group_names = found["groups"]
        sensitive = np.array(group_names)[codes]
    return Bunch(
        data=_rows_of((found["values"], found["indices"], found["indptr"]), shape=found["shape"]),
        target=found["labels"],
        sensitive=sensitive,
        group_names=group_names,
        n_train=TRAINING.get(name),
        notes=notes,
        fingerprint=found["fingerprint"],
        name=name,
    )


def load_table(name: str = "adult", *, data_dir: Union[str, os.PathLike[str], None] = None) -> Any:
    """Load a data set as published: a pandas DataFrame with a column for each attribute and the label.

    Columns of numbers have a numeric type; empty cells and cells with ``?`` are missing. The frame's ``attrs`` have ``n_train``,
    ``notes``, ``fingerprint`` and ``name`` as in :func:`load`.

    Parameters
    ----------
    name : str
        Name that :func:`list` shows with ``load_table``.
    data_dir : path, optional
        Directory that is searched first.

    Returns
    -------
    DataFrame
        Table.

    Examples
    --------
    >>> from thalweg import datasets
    >>> adult = datasets.load_table("adult")
    >>> adult.shape, int(adult["workclass"].isna().sum())
    ((48842, 15), 2799)
    >>> adult[["age", "sex", "income"]].head(2)
       age   sex income
    0   39  Male  <=50K
    1   50  Male  <=50K
    """
    pandas = need("pandas", "a DataFrame")
    columns, found, fingerprint = _core.dataset_table(_name(name), _directory(data_dir))
    notes = notes_of(found)
    _warn(notes)
    frame = pandas.DataFrame(dict(columns))
    frame.attrs.update(n_train=TRAINING.get(name), notes=notes, fingerprint=fingerprint, name=name)
    return frame


def list(*, data_dir: Union[str, os.PathLike[str], None] = None) -> Any:
    """List the known data sets, where each was found, and where to obtain missing ones.

    Parameters
    ----------
    data_dir : path, optional
        Directory that is searched first.

    Returns
    -------
    DataFrame, or list of dict without pandas
        Name, rows, columns, availability in :func:`load` and :func:`load_table`, location ("embedded", a file, or "missing"),
        label, groups, description, source and licence of each set.

    Examples
    --------
    >>> from thalweg import datasets
    >>> known = datasets.list()
    >>> known.loc[known["where"] == "embedded", ["name", "rows", "columns", "load", "load_table"]]
        name   rows  columns   load  load_table
    0    a9a  48842      123   True       False
    1  adult  48842       15  False        True
    ... german   1000       21   True        True
    """
    return frame_or_rows(_core.datasets(_directory(data_dir)))


def _name(name: Any) -> str:
    if not isinstance(name, str):
        raise TypeError(f"name must be the name of a data set such as 'a9a', got {type(name).__name__}")
    return name


def _directory(given: Any) -> Optional[str]:
    return None if given is None else os.fspath(given)


def _warn(notes: Any) -> None:
    """Warn if the data differ from the published ones."""
    for note in notes:
        warnings.warn(note, stacklevel=3)
