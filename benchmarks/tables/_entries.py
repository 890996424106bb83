"""The libraries, each as an entry of a task: one split of a data set under one constraint.

A point is the probability of a positive prediction of each training and each held-out row, which is 0 or 1 for a deterministic
model, and the number of passes over the data or None. Only ``fit`` is timed.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any, Dict, List, Optional

import numpy as np

from comparison._runner import Answer, Clock, Entry, Size, Task
from tables._data import DataSet, split, standardised

#: Models in fairlearn's grid; fewer in a quick run.
GRID = (41, 9)

OURS = "FairClassifier"
EXPONENTIATED = "fairlearn ExponentiatedGradient"
GRID_SEARCH = "fairlearn GridSearch"
OXONFAIR = "oxonfair"
UNCONSTRAINED = "scikit-learn LogisticRegression"
#: Libraries that a run can leave out, by the words of the command line.
OPTIONAL = {"exponentiated": EXPONENTIATED, "grid": GRID_SEARCH, "oxonfair": OXONFAIR, "logistic": UNCONSTRAINED}


@dataclass(frozen=True)
class Constraint:
    """Constraint, its bound, and the labels whose rows it compares; None stands for all rows together."""

    key: str
    bound: float
    labels: tuple

    def __str__(self) -> str:
        return f"{self.key} <= {self.bound:g}"


CONSTRAINTS = {
    "demographic_parity": Constraint("demographic_parity", 0.02, (None,)),
    "equalised_odds": Constraint("equalised_odds", 0.05, (0, 1)),
    "equal_opportunity": Constraint("equal_opportunity", 0.05, (1,)),
}


def gap(positive: np.ndarray, y: np.ndarray, group: np.ndarray, constraint: Constraint) -> float:
    """Return the largest difference of a rate between two groups: the largest minus the smallest rate, over all labels compared.

    >>> gap(np.array([1.0, 0.5, 0.0]), np.array([1, 1, 1]), np.array(["a", "b", "c"]), CONSTRAINTS["equal_opportunity"])
    1.0
    """
    largest = 0.0
    for label in constraint.labels:
        inside = np.ones(len(y), dtype=bool) if label is None else y == label
        rates = [positive[inside & (group == name)].mean() for name in np.unique(group[inside])]
        largest = max(largest, max(rates) - min(rates))
    return float(largest)


class Split(Task):
    """Training and held-out rows of a set under one constraint."""

    title = "Fairness tables"
    processor_time = True

    def __init__(self, data: DataSet, constraint: Constraint, seed: int, size: Size, seconds: float) -> None:
        super().__init__(size)
        self.constraint, self.seed, self.seconds = constraint, seed, seconds
        train, test = split(data.y, data.group, seed)
        X = standardised(data.X, train)
        self.X, self.X_test = X[train], X[test]
        self.raw = (data.X[train], data.X[test]) if data.raw else None
        self.y, self.y_test = data.y[train], data.y[test]
        self.group, self.group_test = data.group[train], data.group[test]
        self.groups = len(np.unique(self.group))

    def entries(self) -> List[Entry]:
        return [
            Entry(OURS, by_thalweg, ours=True),
            Entry(EXPONENTIATED, by_exponentiated, {}, "fairlearn"),
            Entry(GRID_SEARCH, by_grid, {}, "fairlearn"),
            Entry(OXONFAIR, by_oxonfair, {}, "oxonfair", structure="the group at prediction time"),
            Entry(UNCONSTRAINED, unconstrained, baseline=True),
        ]

    def measure(self, entry: Entry, point: Any) -> Dict[str, Optional[float]]:
        train, test = (np.asarray(part, dtype=float) for part in point[:2])
        numbers: Dict[str, Optional[float]] = {"passes": point[2]}
        if entry.ours:
            # The last search over the intercept: whether it moved, and whether no round had satisfied the bound.
            numbers["shifted"] = float(point[3] is not None)
            numbers["shifted_for_bound"] = float(point[3] == "bound")
        for name, positive, y, group in (("train", train, self.y, self.group), ("test", test, self.y_test, self.group_test)):
            right = np.where(y == 1, positive, 1.0 - positive)
            numbers[f"accuracy_{name}"] = float(right.mean())
            numbers[f"balanced_{name}"] = float(0.5 * (right[y == 1].mean() + right[y == 0].mean()))
            numbers[f"gap_{name}"] = gap(positive, y, group, self.constraint)
        numbers["violation"] = max((numbers["gap_train"] or 0.0) - self.constraint.bound, 0.0)
        return numbers

    def equivalent_bound(self) -> float:
        """Return the first bound on the distance of each group's rate from the rate of all rows that is tried.

        With two groups it is the one at which they differ by the bound. With more, a gap of the bound needs a distance between
        half of it and all of it.
        """
        if self.groups > 2:
            return 0.7 * self.constraint.bound
        shares = []
        for label in self.constraint.labels:
            inside = np.ones(len(self.y), dtype=bool) if label is None else self.y == label
            shares.append(max(np.mean(self.group[inside] == name) for name in np.unique(self.group)))
        return self.constraint.bound * float(min(shares))


def by_thalweg(
    task: Split, clock: Clock, bound: Optional[float] = None, weight: Optional[float] = None, arguments: Optional[dict] = None
) -> Answer:
    """Fit ``FairClassifier``; `weight` is the coefficient of l2, by default that of the classifier."""
    from thalweg import FairClassifier

    given: Dict[str, Any] = dict(arguments or {})
    if weight is not None:
        if "regularization" in inspect.signature(FairClassifier).parameters:
            given["regularization"] = weight
        elif weight > 0.0:
            given["objective"] = f"logistic + {weight:.17g} * l2"
    model = FairClassifier(task.constraint.key, bound=task.constraint.bound if bound is None else bound, **given)
    X, X_test = (task.X, task.X_test) if task.raw is None else task.raw
    with clock:
        model.fit(X, task.y, sensitive_features=task.group)
    history = model.history_
    passes = float(history.passes_f[-1] + history.passes_g[-1]) if len(history.passes_f) else None
    shifts = [note.data["satisfied_before"] for note in model.notes_ if note.kind == "intercept-shifted"]
    shift = None if not shifts else "gain" if shifts[0] else "bound"
    return Answer((model.predict(X), model.predict(X_test), passes, shift), bool(model.violation_ == 0.0), model.message_)


def _base() -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(max_iter=1000)


def _moment(task: Split, difference_bound: float) -> Any:
    from fairlearn.reductions import DemographicParity, EqualizedOdds, TruePositiveRateParity

    moments = {
        "demographic_parity": DemographicParity,
        "equalised_odds": EqualizedOdds,
        "equal_opportunity": TruePositiveRateParity,
    }
    return moments[task.constraint.key](difference_bound=difference_bound)


def unconstrained(task: Split, clock: Clock) -> Answer:
    model = _base()
    with clock:
        model.fit(task.X, task.y)
    return Answer((model.predict(task.X), model.predict(task.X_test), None))


def by_exponentiated(task: Split, clock: Clock, bound: Optional[float] = None) -> Answer:
    """Fit ExponentiatedGradient; its mixture predicts with known probabilities, of which the expected values are taken."""
    from fairlearn.reductions import ExponentiatedGradient

    model = ExponentiatedGradient(_base(), _moment(task, task.equivalent_bound() if bound is None else bound))
    with clock:
        model.fit(task.X, task.y, sensitive_features=task.group)
    expected = [model._pmf_predict(X)[:, 1] for X in (task.X, task.X_test)]
    return Answer((*expected, None), None, f"a mixture of {int((model.weights_ > 0).sum())} models")


def by_grid(task: Split, clock: Clock) -> Answer:
    """Fit GridSearch and take the most accurate model of the grid that keeps the bound on the training rows."""
    from fairlearn.reductions import GridSearch

    model = GridSearch(_base(), _moment(task, task.constraint.bound), grid_size=GRID[1 if task.size.quick else 0])
    with clock:
        model.fit(task.X, task.y, sensitive_features=task.group)

        def quality(candidate: Any) -> tuple:
            predicted = np.asarray(candidate.predict(task.X))
            measured = gap(predicted, task.y, task.group, task.constraint)
            kept = measured <= task.constraint.bound
            return (kept, float((predicted == task.y).mean()) if kept else -measured)

        best = max(model.predictors_, key=quality)
    return Answer((best.predict(task.X), best.predict(task.X_test), None), None, "the best model of its grid")


def by_oxonfair(task: Split, clock: Clock) -> Answer:
    from oxonfair import DataDict, FairPredictor, group_metrics

    # The maximal differences: those without `max` are means over pairs of groups.
    metric = {
        "demographic_parity": group_metrics.pos_pred_rate.max_diff,
        "equalised_odds": group_metrics.equalized_odds_max,
        "equal_opportunity": group_metrics.recall.max_diff,
    }[task.constraint.key]
    with clock:
        base = _base().fit(task.X, task.y)
        model = FairPredictor(base, DataDict(task.y, task.X, task.group))
        model.fit(group_metrics.accuracy, metric, task.constraint.bound)
    parts = ((task.y, task.X, task.group), (task.y_test, task.X_test, task.group_test))
    predicted = [np.asarray(model.predict(DataDict(y, X, group))) for y, X, group in parts]
    return Answer((*predicted, None), None, "one threshold per group")
