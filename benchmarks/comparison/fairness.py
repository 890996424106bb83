"""Demographic parity of at most 0.02 on a9a: ``FairClassifier``, fairlearn's reductions and oxonfair's thresholds.

Rates of positive predictions are measured here, on the training and the held-out rows. ExponentiatedGradient predicts at random:
its numbers are means over its mixture, which ``_pmf_predict`` gives exactly.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence

import numpy as np

from comparison._phrases import times
from comparison._runner import TOLERANCE, Answer, Clock, Column, Entry, Goal, Row, Size, Task, by_name

BOUND = 0.02
#: Bound on the largest gap over all thresholds.
ROC_BOUND = 0.05
#: Speed-up over ExponentiatedGradient that is the goal.
TARGET_SPEEDUP = 15.0

#: Thresholds of the ROC gap in log-odds: probabilities from 5% to 95%, as in the term ``roc_gap``.
THRESHOLDS = np.linspace(-3.0, 3.0, 400)

#: The weight was chosen by ten-fold cross-validation on the training rows among 0, 0.0001, 0.0003, 0.001 and 0.003, of which the
#: first four are within one standard error of each other. The other libraries' base learners are regularised too, by default.
REGULARISED = "logistic + 0.0003 * l2"

OURS, EXPONENTIATED = "FairClassifier", "fairlearn ExponentiatedGradient"
WITH_L2 = f"{OURS}, {REGULARISED}"
SCALED = f"{EXPONENTIATED}, scaled bound"


class Fairness(Task):
    """a9a with labels 0 and 1 and the groups by sex."""

    key = "fairness"
    title = "Fair classification"
    columns = (
        Column("accuracy", "accuracy, held out"),
        Column("gap", "gap, training"),
        Column("gap_test", "gap, held out"),
        Column("violation", "violation", ".4f"),
        Column("roc", "ROC gap, training"),
    )
    time_limits = (600.0, 20.0)
    advice = (
        "For a base learner that is not linear, such as boosted trees, use fairlearn's reductions, which wrap any learner that "
        "accepts sample weights. For an existing model that may use the group at prediction time, use a threshold per group, as "
        "oxonfair does. `FairClassifier` fits one deterministic linear model that does not need the group at prediction time and "
        "satisfies its bound on the measured 0/1 rates."
    )

    def __init__(self, size: Size) -> None:
        from thalweg.datasets import load

        super().__init__(size)
        a9a = load("a9a")
        cut = a9a.n_train
        train = np.arange(cut)
        test = np.arange(cut, a9a.data.shape[0])
        if size.quick:
            train, test = train[:3000], test[:3000]
        labels, groups = (a9a.target > 0).astype(int), np.asarray(a9a.sensitive)
        self.X, self.y, self.group = a9a.data[train], labels[train], groups[train]
        self.X_test, self.y_test, self.group_test = a9a.data[test], labels[test], groups[test]

    def problem(self) -> str:
        return (
            f"Demographic parity of at most {BOUND:g} between women and men on a9a, trained on {len(self.y):,} rows and tested "
            f"on {len(self.y_test):,}. fairlearn and oxonfair use scikit-learn's logistic regression as base learner and dense "
            "rows, which they require. Seconds are those of `fit`. The gap is the difference between the groups' rates of "
            "positive predictions; the ROC gap is the largest such difference over 400 thresholds from 5% to 95%. fairlearn's "
            "`difference_bound` bounds the distance of each group's rate from the overall rate, which is smaller than the gap "
            f"between two groups. It is run with {BOUND:g} and with {self.scaled():.4f}, at which the gap is {BOUND:g}."
        )

    def scaled(self) -> float:
        """Return the larger distance of a group from the overall rate when the two groups differ by the bound."""
        return BOUND * float(max((self.group == name).mean() for name in NAMES))

    def entries(self) -> List[Entry]:
        parity = {"constraint": "demographic_parity", "bound": BOUND}
        return [
            Entry(OURS, by_thalweg, parity, ours=True),
            Entry(f"{OURS}, dense rows", by_thalweg, {**parity, "dense": True}, ours=True),
            Entry(WITH_L2, by_thalweg, {**parity, "objective": REGULARISED}, ours=True),
            Entry(f"{OURS}, roc_gap <= {ROC_BOUND:g}", by_thalweg, {"constraint": "roc_gap", "bound": ROC_BOUND}, ours=True),
            Entry("scikit-learn LogisticRegression, no constraint", unconstrained, baseline=True),
            Entry(EXPONENTIATED, by_exponentiated, {}, "fairlearn"),
            Entry(SCALED, by_exponentiated, {"difference_bound": self.scaled()}, "fairlearn"),
            Entry("fairlearn GridSearch, 41 models", by_grid, {}, "fairlearn"),
            Entry("oxonfair, threshold per group", by_oxonfair, {}, "oxonfair", structure="the group at prediction time"),
        ]

    def follow_ups(self, rows: Sequence[Row]) -> List[Entry]:
        """Return `FairClassifier` with the gap that ExponentiatedGradient attains, to compare accuracies at the same gap."""
        reduced = by_name(rows, EXPONENTIATED)
        if reduced is None or reduced.feasible or reduced["gap"] is None:
            return []
        arguments = {"constraint": "demographic_parity", "bound": reduced["gap"]}
        return [
            Entry(f"{OURS}, bound {reduced['gap']:.4f} as attained by ExponentiatedGradient", by_thalweg, arguments, ours=True)
        ]

    def measure(self, entry: Entry, point: Any) -> Dict[str, Optional[float]]:
        train, test = (np.asarray(part, dtype=float) for part in point[:2])
        gap, roc = difference(train, self.group), None if point[2] is None else largest_difference(point[2], self.group)
        measured = roc if roc is not None and entry.arguments.get("constraint") == "roc_gap" else gap
        bound = entry.arguments.get("bound", BOUND)
        return {
            "accuracy": float(np.where(self.y_test == 1, test, 1.0 - test).mean()),
            "gap": gap,
            "gap_test": difference(test, self.group_test),
            "violation": max(measured - bound, 0.0) if measured - bound > TOLERANCE else 0.0,
            "roc": roc,
        }

    def standard_error(self, row: Row) -> float:
        """Return the standard error of its accuracy."""
        accuracy = row["accuracy"] or 0.0
        return float(np.sqrt(accuracy * (1.0 - accuracy) / len(self.y_test)))

    def findings(self, rows: Sequence[Row]) -> List[str]:
        ours, reduced, scaled = (by_name(rows, name) for name in (OURS, EXPONENTIATED, SCALED))
        if ours is None:
            return ["`FairClassifier` has no result; nothing is compared."]
        text = (
            f"`FairClassifier` {'satisfies' if ours.feasible else 'violates'} its bound (measured gap {ours['gap']:.4f}) with an "
            f"accuracy of {ours['accuracy']:.4f} on the held-out set, in {ours.seconds:.2f} seconds."
        )
        if reduced is not None:
            text += (
                f" ExponentiatedGradient takes {times(reduced.seconds or 0.0, ours.seconds or 1.0)} times as long and attains "
                f"{reduced['accuracy']:.4f} at a gap of {reduced['gap']:.4f}"
            )
            text += ", within the bound." if reduced.feasible else f", {(reduced['gap'] or 0.0) / BOUND:.1f} times the bound."
        level, with_l2 = self._level(rows), by_name(rows, WITH_L2)
        if level is not None:
            text += f" At that gap `FairClassifier` attains {level['accuracy']:.4f}, in {level.seconds:.2f} seconds."
        if scaled is not None:
            text += (
                f" With the scaled bound ExponentiatedGradient attains {scaled['accuracy']:.4f} at a gap of {scaled['gap']:.4f}, "
                f"in {scaled.seconds:.1f} seconds."
            )
        if with_l2 is not None:
            text += (
                f" With the objective `{REGULARISED}`, whose weight was chosen by cross-validation on the training rows, "
                f"`FairClassifier` attains {with_l2['accuracy']:.4f} at {with_l2['gap']:.4f}."
            )
        others = [row for row in rows if row.ran and not row.ours and not row.baseline]
        best = max((row["accuracy"] or 0.0 for row in (ours, with_l2) if row is not None and row.feasible), default=0.0)
        above = [row for row in others if row.feasible and not row.structure and (row["accuracy"] or 0.0) > best]
        for row in above:
            text += (
                f" More accurate within the bound: {row.name}, by {(row['accuracy'] or 0.0) - best:.4f}, in "
                f"{times(row.seconds or 0.0, ours.seconds or 1.0)} times the time."
            )
        text += f" The standard error of an accuracy on {len(self.y_test):,} rows is {self.standard_error(ours):.4f}."
        paragraphs = [text]
        roc = next((row for row in rows if row.ran and "roc_gap" in row.name), None)
        if roc is not None:
            smallest = min((row["roc"] for row in others if row["roc"] is not None), default=None)
            words = (
                f"No other library here can bound the gap at every threshold. `FairClassifier` with `roc_gap <= {ROC_BOUND:g}` "
                f"has a ROC gap of {roc['roc']:.4f} and an accuracy of {roc['accuracy']:.4f}"
            )
            plain = next((row for row in rows if row.ran and row.baseline), None)
            if plain is not None:
                words += f"; without a constraint the ROC gap is {plain['roc']:.4f}"
            if smallest is not None:
                words += f", and the smallest of the other libraries is {smallest:.4f}"
            paragraphs.append(words + ".")
        for row in (row for row in others if row.structure):
            paragraphs.append(
                f"{row.name}: {row['accuracy']:.4f} in {row.seconds:.1f} seconds. It needs {row.structure}; `FairClassifier` and "
                "fairlearn's reductions do not."
            )
        return paragraphs

    def goals(self, rows: Sequence[Row]) -> List[Goal]:
        fast = f"At least {TARGET_SPEEDUP:g} times as fast as ExponentiatedGradient, with the bound satisfied"
        good = "At least as accurate as ExponentiatedGradient at the same gap"
        ours, with_l2, scaled = (by_name(rows, name) for name in (OURS, WITH_L2, SCALED))
        if ours is None or with_l2 is None or scaled is None:
            why = "fairlearn is not installed" if scaled is None else "FairClassifier has no result"
            return [Goal(fast, None, why), Goal(good, None, why)]
        ratios = [(scaled.seconds or 0.0) / (row.seconds or 1.0) for row in (ours, with_l2)]
        speed = Goal(
            fast,
            min(ratios) >= TARGET_SPEEDUP and ours.feasible and with_l2.feasible,
            f"{min(ratios):.0f} to {max(ratios):.0f} times as fast",
        )
        evidence = (
            f"{with_l2['accuracy']:.4f} at a gap of {with_l2['gap']:.4f} with a small l2 term, as in fairlearn's base learner, "
            f"against {scaled['accuracy']:.4f} at {scaled['gap']:.4f}; {ours['accuracy']:.4f} without that term"
        )
        reduced, level = by_name(rows, EXPONENTIATED), self._level(rows)
        if reduced is not None and level is not None:
            evidence += f"; at the gap {reduced['gap']:.4f} of its unscaled bound {level['accuracy']:.4f}"
            evidence += f" against {reduced['accuracy']:.4f}"
        evidence += f"; the standard error is {self.standard_error(with_l2):.4f}"
        within = (with_l2["gap"] or 0.0) <= (scaled["gap"] or 0.0) + TOLERANCE
        even = (with_l2["accuracy"] or 0.0) >= (scaled["accuracy"] or 0.0)
        return [speed, Goal(good, within and even, evidence)]

    @staticmethod
    def _level(rows: Sequence[Row]) -> Optional[Row]:
        """Return `FairClassifier` at the gap of ExponentiatedGradient."""
        return next((row for row in rows if row.ran and row.name.startswith(f"{OURS}, bound")), None)


NAMES = ("female", "male")


def difference(positive: np.ndarray, group: np.ndarray) -> float:
    """Return the difference between the groups' rates of positive predictions."""
    first, second = (positive[group == name].mean() for name in NAMES)
    return float(abs(first - second))


def largest_difference(scores: np.ndarray, group: np.ndarray) -> float:
    """Return the largest difference between the groups' rates above a threshold, over all thresholds."""
    ordered = [np.sort(scores[group == name]) for name in NAMES]
    above = [1.0 - np.searchsorted(own, THRESHOLDS, side="right") / len(own) for own in ordered]
    return float(np.abs(above[0] - above[1]).max())


# Entries. A point is the probability of a positive prediction for each training and each held-out row, and the scores of the
# training rows in log-odds, or None.


def by_thalweg(
    task: Fairness, clock: Clock, constraint: str, bound: float, dense: bool = False, objective: str = "logistic"
) -> Answer:
    from thalweg import FairClassifier

    X, X_test = (task.X.toarray(), task.X_test.toarray()) if dense else (task.X, task.X_test)
    model = FairClassifier(constraint, bound=bound, objective=objective)
    with clock:
        model.fit(X, task.y, sensitive_features=task.group)
    return Answer(
        (model.predict(X), model.predict(X_test), model.decision_function(X)), bool(model.violation_ == 0.0), model.message_
    )


def _log_odds(probability: np.ndarray) -> np.ndarray:
    inside = np.clip(probability, 1e-12, 1.0 - 1e-12)
    return np.log(inside / (1.0 - inside))


def _base() -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(max_iter=1000)


def unconstrained(task: Fairness, clock: Clock) -> Answer:
    model = _base()
    with clock:
        model.fit(task.X, task.y)
    return Answer((model.predict(task.X), model.predict(task.X_test), model.decision_function(task.X)), None, "no constraint")


def by_exponentiated(task: Fairness, clock: Clock, difference_bound: float = BOUND) -> Answer:
    from fairlearn.reductions import DemographicParity, ExponentiatedGradient

    X, X_test = task.X.toarray(), task.X_test.toarray()
    model = ExponentiatedGradient(_base(), DemographicParity(difference_bound=difference_bound))
    with clock:
        model.fit(X, task.y, sensitive_features=task.group)
    share, share_test = model._pmf_predict(X)[:, 1], model._pmf_predict(X_test)[:, 1]
    message = f"a mixture of {(model.weights_ > 0).sum()} models, drawn for each prediction; its gap {model.best_gap_:.4f}"
    # No scores: the probability is a vote of a few models and takes as few values.
    return Answer((share, share_test, None), None, message)


def by_grid(task: Fairness, clock: Clock) -> Answer:
    from fairlearn.reductions import DemographicParity, GridSearch

    X, X_test = task.X.toarray(), task.X_test.toarray()
    model = GridSearch(_base(), DemographicParity(difference_bound=BOUND), grid_size=41)
    with clock:
        model.fit(X, task.y, sensitive_features=task.group)
    scores = _log_odds(model.predict_proba(X)[:, 1])
    return Answer((model.predict(X), model.predict(X_test), scores), None, "best model of its grid")


def by_oxonfair(task: Fairness, clock: Clock) -> Answer:
    from oxonfair import DataDict, FairPredictor, group_metrics

    X, X_test = task.X.toarray(), task.X_test.toarray()
    with clock:
        base = _base().fit(X, task.y)
        model = FairPredictor(base, DataDict(task.y, X, task.group))
        model.fit(group_metrics.accuracy, group_metrics.demographic_parity, BOUND)
    predicted = [
        np.asarray(model.predict(DataDict(y, Z, g)))
        for y, Z, g in ((task.y, X, task.group), (task.y_test, X_test, task.group_test))
    ]
    scores = np.asarray(model.predict_proba(DataDict(task.y, X, task.group)))
    # The prediction is positive where the second score is the larger one.
    return Answer((*predicted, _log_odds(0.5 + 0.5 * (scores[:, 1] - scores[:, 0]))), None, "one threshold per group")
