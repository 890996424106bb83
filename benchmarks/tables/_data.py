"""Data sets of the tables: published ones by ``thalweg.datasets``, and made-up ones with the shapes of data that are not at hand.

Every set is a dense matrix with the groups of its rows. Columns with more than two values are standardised by their training
rows, columns of indicators stay as they are, and constant columns are left out. Of a *raw* set, ``FairClassifier`` is given the
columns in their own units and the other libraries the standardised ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import numpy as np

#: Share of the rows that are trained on.
TRAIN = 0.7


@dataclass
class DataSet:
    """Rows, labels 0 and 1, and the group of each row."""

    key: str
    #: What the rows and groups are, in one sentence.
    about: str
    X: np.ndarray
    y: np.ndarray
    group: np.ndarray
    #: FairClassifier is given the columns in their own units.
    raw: bool = False

    @property
    def groups(self) -> int:
        return len(np.unique(self.group))


def standardised(X: np.ndarray, train: np.ndarray) -> np.ndarray:
    """Return the columns that vary among the training rows: indicators as they are, the others with mean 0 and variance 1 there.

    >>> X = np.array([[0.0, 1.0, 10.0], [1.0, 1.0, 20.0], [1.0, 1.0, 60.0]])
    >>> standardised(X, np.array([0, 1])).tolist()
    [[0.0, -1.0], [1.0, 1.0], [1.0, 9.0]]
    """
    X = np.asarray(X, dtype=float)
    X = X[:, X[train].std(axis=0) > 0.0]
    numeric = ~np.isin(X, (0.0, 1.0)).all(axis=0)
    X[:, numeric] = (X[:, numeric] - X[train][:, numeric].mean(axis=0)) / X[train][:, numeric].std(axis=0)
    return X


def one_hot(values: Sequence[Any]) -> np.ndarray:
    """Return an indicator for each value but the first in alphabetical order; a missing value has none.

    >>> one_hot(["b", "a", None]).tolist()
    [[1.0], [0.0], [0.0]]
    """
    words = np.array(["" if value is None or value != value else str(value) for value in values])
    names = [name for name in np.unique(words) if name][1:]
    return np.column_stack([words == name for name in names]).astype(float) if names else np.zeros((len(words), 0))


def split(y: np.ndarray, group: np.ndarray, seed: int) -> Tuple[np.ndarray, np.ndarray]:
    """Return the indices of training and held-out rows, stratified by label and group."""
    rng = np.random.default_rng(seed)
    train: List[np.ndarray] = []
    test: List[np.ndarray] = []
    for name in np.unique(group):
        for label in (0, 1):
            rows = rng.permutation(np.flatnonzero((group == name) & (y == label)))
            cut = round(TRAIN * len(rows))
            train.append(rows[:cut])
            test.append(rows[cut:])
    return np.sort(np.concatenate(train)), np.sort(np.concatenate(test))


def load(key: str, rows: Optional[int] = None) -> DataSet:
    """Load or make a set by its name, with at most the given number of rows, drawn with a fixed seed."""
    found = SETS[key](key)
    if rows is not None and rows < len(found.y):
        kept = np.sort(np.random.default_rng(0).permutation(len(found.y))[:rows])
        found = DataSet(key, found.about, found.X[kept], found.y[kept], found.group[kept], found.raw)
    return found


# Published sets.


def _prepared(key: str) -> DataSet:
    import warnings

    from thalweg import datasets

    with warnings.catch_warnings():
        # The one remark, on the unknown outcomes of compas, is part of the page.
        warnings.simplefilter("ignore")
        data = datasets.load(key)
    about = {
        "a9a": "Adult, binarised; groups by sex",
        "bank": "Bank marketing; age from 25 to 60, and all others",
        "compas": "COMPAS, all defendants; Caucasian or not. 719 rows with an unknown outcome count as "
        "negative, as in the papers",
        "german": "German credit; groups by sex",
    }[key]
    return DataSet(key, about, data.data.toarray(), (data.target > 0).astype(int), np.asarray(data.sensitive))


def _covtype(key: str) -> DataSet:
    from thalweg import datasets

    data = datasets.load("covtype-sample")
    X = data.data.toarray()
    # The first column is the elevation. The groups are made up; there are no people in this set.
    group = np.where(X[:, 0] > np.quantile(X[:, 0], 2.0 / 3.0), "high", "low")
    about = "Sample of Covertype, cover type 2 against the others; made-up groups: the upper third of elevations, and the rest"
    return DataSet(key, about, X, (data.target > 0).astype(int), group)


def _adult(key: str) -> DataSet:
    from thalweg import datasets

    table = datasets.load_table("adult")
    numbers = ["age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week"]
    words = ["workclass", "education", "marital-status", "occupation", "relationship", "race", "sex", "native-country"]
    X = np.column_stack([table[numbers].to_numpy(float), *(one_hot(table[name].tolist()) for name in words)])
    race = table["race"].replace({"Amer-Indian-Eskimo": "Other"})
    y = table["income"].str.startswith(">").to_numpy(int)
    about = "Adult with all attributes; race (the two smallest together) and sex"
    return DataSet(key, about, X, y, (race + ", " + table["sex"]).to_numpy(str))


def _compas(key: str) -> DataSet:
    from thalweg import datasets

    table = datasets.load_table("compas-two-years")
    usual = (
        table["days_b_screening_arrest"].between(-30, 30)
        & (table["is_recid"] != -1)
        & (table["c_charge_degree"] != "O")
        & table["score_text"].notna()
        & (table["score_text"] != "N/A")
    )
    table = table[usual]
    numbers = ["age", "juv_fel_count", "juv_misd_count", "juv_other_count", "priors_count"]
    words = ["sex", "race", "age_cat", "c_charge_degree"]
    X = np.column_stack([table[numbers].to_numpy(float), *(one_hot(table[name].tolist()) for name in words)])
    race = table["race"].replace({"Asian": "Other", "Native American": "Other"})
    y = table["two_year_recid"].to_numpy(int)
    about = "COMPAS, two years, with the usual filter; race (the three smallest together) and sex"
    return DataSet(key, about, X, y, (race + ", " + table["sex"]).to_numpy(str))


# Made-up sets. Their generators have a seed of their own: the splits differ between seeds and the rows do not.


def _labels(rng: np.random.Generator, scores: np.ndarray, positive: float) -> np.ndarray:
    """Draw labels with log-odds `scores`, shifted so that the given share is positive."""
    low, high = -50.0, 50.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        below = np.mean(1.0 / (1.0 + np.exp(-(scores + middle)))) < positive
        low, high = (middle, high) if below else (low, middle)
    return (rng.random(len(scores)) < 1.0 / (1.0 + np.exp(-(scores + low)))).astype(int)


def _law(key: str) -> DataSet:
    rng = np.random.default_rng(17_432)
    rows, shares = 17_432, np.array([0.70, 0.10, 0.06, 0.05, 0.04, 0.025, 0.015, 0.01])
    code = rng.choice(len(shares), size=rows, p=shares)
    disadvantage = np.array([0.0, 1.3, 0.9, 0.4, 0.8, 0.6, 0.3, 0.9])[code]
    ability = rng.normal(size=rows) - disadvantage
    marks = [0.7 * ability + 0.7 * rng.normal(size=rows) for _ in range(4)]
    others = rng.normal(size=(rows, 3))
    # Seven indicators of the groups complete the fourteen columns.
    indicators = (code[:, None] == np.arange(1, 8)).astype(float)
    X = np.column_stack([*marks, others, indicators])
    y = _labels(rng, 1.5 * ability + 0.3 * others[:, 0], 0.8)
    about = "Made up, shaped like law-school admissions: 8 groups, the smallest with 1% of the rows; 80% positive labels"
    return DataSet(key, about, X, y, np.array([f"group {k + 1}" for k in range(8)])[code])


def _credit(key: str) -> DataSet:
    rng = np.random.default_rng(24_034)
    rows = 24_000
    group = np.where(rng.random(rows) < 0.6, "female", "male")
    male = (group == "male").astype(float)
    income = rng.normal(size=rows) + 0.5 * male
    limit = np.exp(11.5 + 0.8 * income + 0.4 * rng.normal(size=rows)).round(-4) + 10_000.0
    use = 1.0 / (1.0 + np.exp(0.7 * income - rng.normal(size=rows)))
    bills = [(limit * np.clip(use + 0.1 * rng.normal(size=rows), 0.0, None)).round() for _ in range(6)]
    paid = [(bill * rng.beta(0.7, 4.0, size=rows)).round() for bill in bills]
    late = [np.clip(np.round(1.2 * use - 0.4 * income + 0.8 * rng.normal(size=rows)), -2.0, 8.0) for _ in range(6)]
    codes = [one_hot(list(rng.integers(0, count, size=rows))) for count in (4, 4, 8)]
    age = np.clip(rng.gamma(9.0, 4.0, size=rows), 21.0, 79.0).round()
    X = np.column_stack([limit, male, age, *bills, *paid, *late, *codes])
    scores = 0.9 * late[0] + 0.3 * late[1] + 1.2 * use - 0.4 * income
    y = _labels(rng, scores, 0.22)
    about = (
        "Made up, shaped like credit-card default: amounts up to 10^6 beside codes; groups by sex. `FairClassifier` gets the raw "
        "columns and the other libraries standardised ones"
    )
    assert X.shape[1] == 34, X.shape
    return DataSet(key, about, X, y, group, raw=True)


def _census(key: str) -> DataSet:
    rng = np.random.default_rng(24_484)
    rows = 24_000
    group = np.where(rng.random(rows) < 0.52, "female", "male")
    male = (group == "male").astype(float)
    skill = rng.normal(size=rows) + 0.4 * male
    numbers = [0.6 * skill + 0.8 * rng.normal(size=rows) for _ in range(4)] + [rng.normal(size=rows) for _ in range(4)]
    # Categories with a skewed number of rows, most of which say little about the label.
    counts = [48, 47, 24, 52, 43, 39, 51, 17, 9, 15, 38, 43, 43, 7, 10]
    columns, effect = [], np.zeros(rows)
    for k, count in enumerate(counts):
        weights = 1.0 / (1.0 + np.arange(count))
        bias = rng.normal(scale=0.8 if k < 4 else 0.1, size=count)
        chosen = np.argmax(np.log(weights) + skill[:, None] * bias + rng.gumbel(size=(rows, count)), axis=1)
        values = rng.normal(scale=0.6 if k < 4 else 0.1, size=count)
        columns.append((chosen[:, None] == np.arange(count)).astype(float))
        effect += values[chosen]
    X = np.column_stack([*numbers[:7], *columns, male])[:, :484]
    y = _labels(rng, 1.2 * skill + effect + 0.4 * male, 0.08)
    about = (
        "Made up, shaped like census income: 484 columns, most of them indicators of rare categories, 8% positive labels; by sex"
    )
    return DataSet(key, about, X, y, group)


#: Loader of every set, in the order of the tables.
SETS: Dict[str, Callable[[str], DataSet]] = {
    "a9a": _prepared,
    "bank": _prepared,
    "compas": _prepared,
    "german": _prepared,
    "covtype": _covtype,
    "adult-8": _adult,
    "compas-8": _compas,
    "law-8": _law,
    "credit-raw": _credit,
    "census": _census,
}

#: Sets of the study of regularisation: the five published ones with two groups.
FIVE = ["a9a", "bank", "compas", "german", "covtype"]
