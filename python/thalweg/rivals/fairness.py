"""Demographic parity of at most 0.02 on a9a: ``FairClassifier`` beside fairlearn's reductions and oxonfair's thresholds.

Shares of positive answers are counted here, on both parts. ExponentiatedGradient answers at random: its numbers are means over
its mixture, which ``_pmf_predict`` gives exactly.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence

import numpy as np

from thalweg.rivals._contest import TOLERANCE, Answer, Clock, Column, Contestant, Goal, Job, Row, Size, by_name
from thalweg.rivals._words import times

BOUND = 0.02
#: Bound of the row that bounds the gap at every threshold.
ROC_BOUND = 0.05
#: What is wanted of ExponentiatedGradient's seconds over ours.
WANTED = 15.0

#: Thresholds at which the ROC gap is counted, in log-odds: probabilities from 5% to 95%, as the term ``roc_gap`` has them.
THRESHOLDS = np.linspace(-3.0, 3.0, 400)

#: Ten-fold cross-validation on the training rows takes it among 0, 0.0001, 0.0003, 0.001 and 0.003, of which the first four are
#: within one standard error of each other. The base learners of the others have such a term too, by scikit-learn's default.
REGULAR = "logistic + 0.0003 * l2"

OURS, EXPONENTIATED = "FairClassifier", "fairlearn ExponentiatedGradient"
CALM = f"{OURS}, {REGULAR}"
TIGHT = f"{EXPONENTIATED}, its bound scaled"


class Fairness(Job):
    """Rows of a9a with labels 0 and 1 and the groups by sex."""

    key = "fairness"
    title = "Fair classification"
    columns = (
        Column("accuracy", "accuracy, held out"),
        Column("gap", "gap, training"),
        Column("gap_test", "gap, held out"),
        Column("violation", "violation", ".4f"),
        Column("roc", "ROC gap, training"),
    )
    cap = (600.0, 20.0)
    advice = (
        "A base learner that is not linear, such as boosted trees, under parity or equalised odds: take fairlearn's reductions, "
        "which wrap any learner with weights. A model that exists already and may look at the group when it answers: take "
        "thresholds for each group, as oxonfair finds them. `FairClassifier` is one linear model that answers without the "
        "group, the same each time, with its bound kept as counted."
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
            f"on {len(self.y_test):,}. fairlearn and oxonfair get scikit-learn's logistic regression as base learner, and dense "
            "rows, which they ask for. Seconds are those of `fit`. The gap is the difference between the shares of positive "
            "answers, the ROC gap the largest such difference over 400 thresholds from 5% to 95%; both are counted here. "
            "fairlearn's `difference_bound` is on the distance of each group from all rows, which is less than the gap between "
            f"two: it is given as it is, {BOUND:g}, and scaled to {self.scaled():.4f}, where the gap is {BOUND:g}."
        )

    def scaled(self) -> float:
        """How far the farther group is from all rows if the two are apart by the bound: the share of the other one of it."""
        return BOUND * float(max((self.group == name).mean() for name in NAMES))

    def contestants(self) -> List[Contestant]:
        parity = {"constraint": "demographic_parity", "bound": BOUND}
        return [
            Contestant(OURS, by_thalweg, parity, ours=True),
            Contestant(f"{OURS}, dense rows", by_thalweg, {**parity, "dense": True}, ours=True),
            Contestant(CALM, by_thalweg, {**parity, "objective": REGULAR}, ours=True),
            Contestant(f"{OURS}, roc_gap <= {ROC_BOUND:g}", by_thalweg, {"constraint": "roc_gap", "bound": ROC_BOUND}, ours=True),
            Contestant("scikit-learn LogisticRegression, no constraint", by_nobody, mark=True),
            Contestant(EXPONENTIATED, by_exponentiated, {}, "fairlearn"),
            Contestant(TIGHT, by_exponentiated, {"difference_bound": self.scaled()}, "fairlearn"),
            Contestant("fairlearn GridSearch, 41 models", by_grid, {}, "fairlearn"),
            Contestant(
                "oxonfair, thresholds for each group", by_oxonfair, {}, "oxonfair", knows="the group of whoever it answers about"
            ),
        ]

    def followers(self, rows: Sequence[Row]) -> List[Contestant]:
        """Ours at the gap that ExponentiatedGradient really has, to compare accuracies at the same gap."""
        reduced = by_name(rows, EXPONENTIATED)
        if reduced is None or reduced.kept or reduced["gap"] is None:
            return []
        told = {"constraint": "demographic_parity", "bound": reduced["gap"]}
        return [
            Contestant(f"{OURS}, bound {reduced['gap']:.4f}, the gap that ExponentiatedGradient has", by_thalweg, told, ours=True)
        ]

    def measure(self, contestant: Contestant, point: Any) -> Dict[str, Optional[float]]:
        train, test = (np.asarray(part, dtype=float) for part in point[:2])
        gap, roc = difference(train, self.group), None if point[2] is None else largest_difference(point[2], self.group)
        counted = roc if roc is not None and contestant.told.get("constraint") == "roc_gap" else gap
        bound = contestant.told.get("bound", BOUND)
        return {
            "accuracy": float(np.where(self.y_test == 1, test, 1.0 - test).mean()),
            "gap": gap,
            "gap_test": difference(test, self.group_test),
            "violation": max(counted - bound, 0.0) if counted - bound > TOLERANCE else 0.0,
            "roc": roc,
        }

    def noise(self, row: Row) -> float:
        """One standard error of its accuracy."""
        accuracy = row["accuracy"] or 0.0
        return float(np.sqrt(accuracy * (1.0 - accuracy) / len(self.y_test)))

    def shows(self, rows: Sequence[Row]) -> List[str]:
        ours, reduced, tight = (by_name(rows, name) for name in (OURS, EXPONENTIATED, TIGHT))
        if ours is None:
            return ["`FairClassifier` has no row here: nothing is compared."]
        text = (
            f"`FairClassifier` {'keeps' if ours.kept else 'does not keep'} its bound as counted ({ours['gap']:.4f}) with an "
            f"accuracy of {ours['accuracy']:.4f} on held-out rows, in {ours.seconds:.2f} seconds."
        )
        if reduced is not None:
            text += (
                f" ExponentiatedGradient takes {times(reduced.seconds or 0.0, ours.seconds or 1.0)} times as long and gets "
                f"{reduced['accuracy']:.4f} at a gap of {reduced['gap']:.4f}"
            )
            text += ", within the bound." if reduced.kept else f", {(reduced['gap'] or 0.0) / BOUND:.1f} times what was wanted."
        level, calm = self._level(rows), by_name(rows, CALM)
        if level is not None:
            text += f" At that gap `FairClassifier` gets {level['accuracy']:.4f}, in {level.seconds:.2f} seconds."
        if tight is not None:
            text += (
                f" With its bound scaled ExponentiatedGradient ends at a gap of {tight['gap']:.4f} with {tight['accuracy']:.4f}, "
                f"in {tight.seconds:.1f} seconds."
            )
        if calm is not None:
            text += (
                f" With `{REGULAR}` as objective, whose weight was chosen by cross-validation on the training rows, "
                f"`FairClassifier` gets {calm['accuracy']:.4f} at {calm['gap']:.4f}."
            )
        others = [row for row in rows if row.ran and not row.ours and not row.mark]
        best = max((row["accuracy"] or 0.0 for row in (ours, calm) if row is not None and row.kept), default=0.0)
        above = [row for row in others if row.kept and not row.knows and (row["accuracy"] or 0.0) > best]
        for row in above:
            text += (
                f" More accurate within the bound: {row.name}, by {(row['accuracy'] or 0.0) - best:.4f}, in "
                f"{times(row.seconds or 0.0, ours.seconds or 1.0)} times the time."
            )
        text += f" One standard error of an accuracy on {len(self.y_test):,} rows is {self.noise(ours):.4f}."
        paragraphs = [text]
        roc = next((row for row in rows if row.ran and "roc_gap" in row.name), None)
        if roc is not None:
            smallest = min((row["roc"] for row in others if row["roc"] is not None), default=None)
            words = (
                f"No other tool here can bound the gap at every threshold. `FairClassifier` with `roc_gap <= {ROC_BOUND:g}` has "
                f"a ROC gap of {roc['roc']:.4f} with an accuracy of {roc['accuracy']:.4f}"
            )
            plain = next((row for row in rows if row.ran and row.mark), None)
            if plain is not None:
                words += f"; without a constraint it is {plain['roc']:.4f}"
            if smallest is not None:
                words += f", and the smallest of other tools with scores is {smallest:.4f}"
            paragraphs.append(words + ".")
        knowing = [row for row in others if row.knows]
        for row in knowing:
            paragraphs.append(
                f"{row.name}: {row['accuracy']:.4f} in {row.seconds:.1f} seconds. It must know {row.knows}, which "
                "`FairClassifier` and fairlearn's reductions need not."
            )
        return paragraphs

    def goals(self, rows: Sequence[Row]) -> List[Goal]:
        fast = f"At least {WANTED:g} times as fast as ExponentiatedGradient, with the bound kept"
        good = "At least as accurate as ExponentiatedGradient at the same gap"
        ours, calm, tight = (by_name(rows, name) for name in (OURS, CALM, TIGHT))
        if ours is None or calm is None or tight is None:
            why = "fairlearn is not installed" if tight is None else "no row of FairClassifier"
            return [Goal(fast, None, why), Goal(good, None, why)]
        ratios = [(tight.seconds or 0.0) / (row.seconds or 1.0) for row in (ours, calm)]
        speed = Goal(
            fast, min(ratios) >= WANTED and ours.kept and calm.kept, f"{min(ratios):.0f} to {max(ratios):.0f} times as fast"
        )
        told = (
            f"at gaps of {calm['gap']:.4f} and {tight['gap']:.4f} {calm['accuracy']:.4f} with a small l2 term, as its base "
            f"learner has one too, against {tight['accuracy']:.4f}; without that term {ours['accuracy']:.4f}"
        )
        reduced, level = by_name(rows, EXPONENTIATED), self._level(rows)
        if reduced is not None and level is not None:
            told += f"; at the gap of {reduced['gap']:.4f} that it has unscaled {level['accuracy']:.4f}"
            told += f" against {reduced['accuracy']:.4f}"
        told += f"; one standard error is {self.noise(calm):.4f}"
        within = (calm["gap"] or 0.0) <= (tight["gap"] or 0.0) + TOLERANCE
        even = (calm["accuracy"] or 0.0) >= (tight["accuracy"] or 0.0)
        return [speed, Goal(good, within and even, told)]

    @staticmethod
    def _level(rows: Sequence[Row]) -> Optional[Row]:
        """Ours at the gap that ExponentiatedGradient has."""
        return next((row for row in rows if row.ran and row.name.startswith(f"{OURS}, bound")), None)


NAMES = ("female", "male")


def difference(positive: np.ndarray, group: np.ndarray) -> float:
    """Between the shares of positive answers of the two groups."""
    first, second = (positive[group == name].mean() for name in NAMES)
    return float(abs(first - second))


def largest_difference(scores: np.ndarray, group: np.ndarray) -> float:
    """Between the shares of the two groups above a threshold, at the worst threshold."""
    ordered = [np.sort(scores[group == name]) for name in NAMES]
    above = [1.0 - np.searchsorted(own, THRESHOLDS, side="right") / len(own) for own in ordered]
    return float(np.abs(above[0] - above[1]).max())


# The tools. An answer is a share of "yes" for each row of both parts, and the scores of the training part in log-odds,
# if there are any.


def by_thalweg(
    job: Fairness, clock: Clock, constraint: str, bound: float, dense: bool = False, objective: str = "logistic"
) -> Answer:
    from thalweg import FairClassifier

    X, X_test = (job.X.toarray(), job.X_test.toarray()) if dense else (job.X, job.X_test)
    model = FairClassifier(constraint, bound=bound, objective=objective)
    with clock:
        model.fit(X, job.y, sensitive_features=job.group)
    return Answer(
        (model.predict(X), model.predict(X_test), model.decision_function(X)), bool(model.violation_ == 0.0), model.message_
    )


def _log_odds(probability: np.ndarray) -> np.ndarray:
    inside = np.clip(probability, 1e-12, 1.0 - 1e-12)
    return np.log(inside / (1.0 - inside))


def _base() -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(max_iter=1000)


def by_nobody(job: Fairness, clock: Clock) -> Answer:
    model = _base()
    with clock:
        model.fit(job.X, job.y)
    return Answer((model.predict(job.X), model.predict(job.X_test), model.decision_function(job.X)), None, "promises nothing")


def by_exponentiated(job: Fairness, clock: Clock, difference_bound: float = BOUND) -> Answer:
    from fairlearn.reductions import DemographicParity, ExponentiatedGradient

    X, X_test = job.X.toarray(), job.X_test.toarray()
    model = ExponentiatedGradient(_base(), DemographicParity(difference_bound=difference_bound))
    with clock:
        model.fit(X, job.y, sensitive_features=job.group)
    share, share_test = model._pmf_predict(X)[:, 1], model._pmf_predict(X_test)[:, 1]
    says = f"a mixture of {(model.weights_ > 0).sum()} models, drawn anew at each answer; its gap {model.best_gap_:.4f}"
    # No scores: a share is a vote of its few models, and has as few values.
    return Answer((share, share_test, None), None, says)


def by_grid(job: Fairness, clock: Clock) -> Answer:
    from fairlearn.reductions import DemographicParity, GridSearch

    X, X_test = job.X.toarray(), job.X_test.toarray()
    model = GridSearch(_base(), DemographicParity(difference_bound=BOUND), grid_size=41)
    with clock:
        model.fit(X, job.y, sensitive_features=job.group)
    scores = _log_odds(model.predict_proba(X)[:, 1])
    return Answer((model.predict(X), model.predict(X_test), scores), None, "the best of its grid")


def by_oxonfair(job: Fairness, clock: Clock) -> Answer:
    from oxonfair import DataDict, FairPredictor, group_metrics

    X, X_test = job.X.toarray(), job.X_test.toarray()
    with clock:
        base = _base().fit(X, job.y)
        model = FairPredictor(base, DataDict(job.y, X, job.group))
        model.fit(group_metrics.accuracy, group_metrics.demographic_parity, BOUND)
    said = [
        np.asarray(model.predict(DataDict(y, Z, g))) for y, Z, g in ((job.y, X, job.group), (job.y_test, X_test, job.group_test))
    ]
    scores = np.asarray(model.predict_proba(DataDict(job.y, X, job.group)))
    # Its answer is yes where the second score is the larger one.
    return Answer((*said, _log_odds(0.5 + 0.5 * (scores[:, 1] - scores[:, 0]))), None, "one threshold for each group")
