"""Data sets that are known by name: ``load`` gives rows of numbers, ``load_table`` raw tables, ``list`` says which there are.

a9a, adult and german come with the package. The files of others are looked for in `data_dir`, in the directory that the
environment variable ``THALWEG_DATA`` names, in ``./data`` and in the user's data directory. Nothing is ever downloaded.

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
from thalweg._result import need

__all__ = ["list", "load", "load_table"]

#: Rows of the training part, for sets that were published in two parts: they come first.
TRAINING = {"a9a": 32_561, "adult": 32_561}

#: scipy 1.8 has it, and what is older has none.
_rows_of = getattr(sparse, "csr_array", sparse.csr_matrix)


def load(name: str = "a9a", *, data_dir: Union[str, os.PathLike[str], None] = None) -> Bunch:
    """A data set as rows of numbers with labels and groups.

    Parameters
    ----------
    name : str
        One of the names that :func:`list` has with ``load``.
    data_dir : path, optional
        A directory that is looked in before the others.

    Returns
    -------
    Bunch
        With ``data`` (csr_array of float64), ``target`` (+1.0 and -1.0), ``sensitive`` (the name of each row's group, or None),
        ``group_names`` (the first is the protected group), ``n_train`` (rows of the training part, which come first; None if the
        set was not published in parts), ``notes`` (sentences, such as that the file is another copy than the published one),
        ``fingerprint`` (sha256 of what was read) and ``name``.

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
    _tell(found["notes"])
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
        notes=found["notes"],
        fingerprint=found["fingerprint"],
        name=name,
    )


def load_table(name: str = "adult", *, data_dir: Union[str, os.PathLike[str], None] = None) -> Any:
    """A data set as it was published: a pandas DataFrame with a column for each attribute and the label.

    Columns whose cells are all numbers are numbers; cells with ``?`` or nothing in them are missing. ``attrs`` of the frame has
    ``n_train``, ``notes``, ``fingerprint`` and ``name`` as :func:`load` gives them.

    Parameters
    ----------
    name : str
        One of the names that :func:`list` has with ``load_table``.
    data_dir : path, optional
        A directory that is looked in before the others.

    Returns
    -------
    DataFrame
        The table.

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
    columns, notes, fingerprint = _core.dataset_table(_name(name), _directory(data_dir))
    _tell(notes)
    frame = pandas.DataFrame(dict(columns))
    frame.attrs.update(n_train=TRAINING.get(name), notes=notes, fingerprint=fingerprint, name=name)
    return frame


def list(*, data_dir: Union[str, os.PathLike[str], None] = None) -> Any:
    """The data sets that are known, where each was found, and where to get those that are missing.

    Parameters
    ----------
    data_dir : path, optional
        A directory that is looked in before the others.

    Returns
    -------
    DataFrame, or list of dict without pandas
        For each set its name, rows and columns, whether :func:`load` and :func:`load_table` give it, where it was found
        ("embedded", a file, or "missing"), what label and groups are, what it is, its source and licence.

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
        raise TypeError(f"name is of type {type(name).__name__}: wanted the name of a data set, such as 'a9a'")
    return name


def _directory(given: Any) -> Optional[str]:
    return None if given is None else os.fspath(given)


def _tell(notes: Any) -> None:
    """Data that are not what the name promises should not go unseen."""
    for note in notes:
        warnings.warn(note, stacklevel=3)
