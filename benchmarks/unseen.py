"""Bounds that hold on unseen rows: how often the promise is kept, what it costs, and what it is worth against a plain rival.

``python benchmarks/unseen.py`` writes ``unseen.md``; ``--quick`` is a short form for the tests. Four questions:

- coverage: draw data sets from a population whose rates are known, train with the promise, and count how often the population
  breaks a bound that was confirmed. Given models tested in the order of their results on the safety set must break it too often.
- several constraints at once and models with kernels: the same, with a large pool of rows as the population.
- Neyman-Pearson: the same for the false-positive rate.
- power: which bounds are confirmed on three data sets, and the accuracy given up against bounds on the training rows.
- threshold: constrained training beside logistic regression with a threshold from the same order statistic.
"""

from __future__ import annotations

import argparse
import math
import sys
import warnings
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from copy import copy
from functools import lru_cache
from itertools import takewhile
from pathlib import Path
from typing import Any, Callable, Iterable, List, Optional, Sequence, Tuple

import numpy as np
import thalweg
from scipy.stats import norm
from sklearn.linear_model import LogisticRegression

from tables._data import load, standardised

#: Applies a function to each of a list, in one or several processes.
Map = Callable[[Callable[[Any], Any], Sequence[Any]], Iterable[Any]]

BOUND = 0.1
CONFIDENCE = 0.95
#: Tables of the page.
PARTS = ["coverage", "several", "power", "threshold"]
#: Rows of the pool that stands for the population of models without a formula for their rates.
POOL = 50_000
#: Distance between the means of the two groups along the first feature, and the number of features.
SHIFT, FEATURES = 0.8, 6


def most(repetitions: int) -> float:
    """Return the largest share of broken promises that is compatible with the confidence: three standard errors above."""
    error = 1.0 - CONFIDENCE
    return error + 3.0 * math.sqrt(error * (1.0 - error) / repetitions)


def draw(rng: np.random.Generator, rows: int) -> Tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw rows of two equally large groups with normal features; the label follows the sum of the features."""
    group = np.where(rng.random(rows) < 0.5, "a", "b")
    X = rng.normal(size=(rows, FEATURES))
    X[:, 0] += SHIFT * (group == "b")
    y = X.sum(axis=1) / math.sqrt(FEATURES) + rng.normal(size=rows) > 0.5
    return X, y, group


def gap(coef: np.ndarray, intercept: float) -> float:
    """Return the difference of the positive rates of the groups of a linear model, in the population."""
    rates = [norm.cdf((shift * coef[0] + intercept) / np.linalg.norm(coef)) for shift in (0.0, SHIFT)]
    return float(abs(rates[1] - rates[0]))


def false_positive_rate(coef: np.ndarray, intercept: float) -> float:
    """Return the false-positive rate of a linear model in the population, by the distribution of score and label."""
    total, steps = np.zeros(2), (np.arange(4000) + 0.5) / 4000
    ones = np.ones(FEATURES) / math.sqrt(FEATURES)
    norm_of_coef = np.linalg.norm(coef)
    for shift in (0.0, SHIFT):
        # s is the score and t the sum behind the label, both without their means; t given s is normal.
        mean_s, mean_t = shift * coef[0] + intercept, shift * ones[0]
        slope = float(coef @ ones) / norm_of_coef
        s = norm.ppf(steps)
        negative = norm.cdf((0.5 - mean_t - slope * s) / math.sqrt(2.0 - slope**2))
        total += [float(np.mean(negative * (norm_of_coef * s + mean_s > 0))), float(np.mean(negative))]
    return float(total[0] / total[1])


class Tally:
    """Number of draws, of confirmed models among them, and of those that break their bound in the population."""

    def __init__(self, name: str):
        self.name, self.draws, self.confirmed, self.broken = name, 0, 0, 0
        self.worst = 0.0

    def add(self, value: Optional[float], bound: float) -> None:
        self.draws += 1
        if value is not None:
            self.confirmed += 1
            self.broken += value > bound
            self.worst = max(self.worst, value)

    @property
    def kept(self) -> bool:
        return self.broken / self.draws <= most(self.draws)

    def row(self) -> str:
        share = f"{100 * self.broken / self.draws:.1f}%"
        verdict = "kept" if self.kept else "broken too often"
        return f"| {self.name} | {self.draws} | {self.confirmed} | {self.broken} ({share}) | {self.worst:.4f} | {verdict} |"


def candidate(model: Any, share: float, rng: np.random.Generator) -> Any:
    """Return a copy of a model with random weights of length 1, `share` of it on the feature that differs between groups."""
    other = rng.normal(size=FEATURES - 1)
    found = copy(model)
    found.coef_ = np.concatenate([[share], other * math.sqrt(1.0 - share**2) / np.linalg.norm(other)])[None]
    found.intercept_ = np.zeros(1)
    return found


def sequences(rng: np.random.Generator, model: Any, safety: Any, models: int) -> List[Optional[float]]:
    """Return the population gap of the last of many given models that is confirmed, in two orders: a fixed one, and that of the
    results on the safety set.

    A third of the models satisfies the bound in the population; the others exceed it by a few thousandths. Their weights are
    given and not trained, so that their true gaps are known beforehand.
    """
    border = float(norm.ppf(0.5 + BOUND)) / SHIFT
    strict = np.linspace(0.1, 0.95, models // 3) * border
    loose = border + 0.001 * np.arange(1, models - models // 3 + 1)
    tests = []
    for share in [*strict, *loose]:
        one = candidate(model, float(share), rng)
        # One side of an interval of twice the error.
        how = {"sensitive_features": safety[2], "confidence": 2 * CONFIDENCE - 1, "evaluations": 1}
        measured = thalweg.certify(one, safety[0], safety[1], **how).intervals[0]["measured"]
        tests.append((measured["value"], measured["high"] <= BOUND, gap(one.coef_[0], 0.0)))

    def last(order: List[Any]) -> Optional[float]:
        confirmed = list(takewhile(lambda test: test[1], order))
        return confirmed[-1][2] if confirmed else None

    return [last(tests), last(sorted(tests))]


def repetition(given: Tuple[int, int, int]) -> List[Optional[float]]:
    """Return the population values of the confirmed models of one draw, in the order of :func:`coverage`; None without one."""
    number, rows, models = given
    warnings.simplefilter("ignore")
    rng = np.random.default_rng([number, 0])
    X, y, group = draw(rng, rows)
    values: List[Optional[float]] = []
    for where in ("population", "training"):
        model = thalweg.FairClassifier(bound=BOUND, holds_on=where, confidence=CONFIDENCE)
        model.fit(X, y, sensitive_features=group)
        kept = model.promise_ is None or confirmed(model)
        values.append(gap(model.coef_[0], float(model.intercept_[0])) if kept else None)
    values += sequences(rng, model, draw(rng, rows // 3), models)
    model = thalweg.NeymanPearsonClassifier(max_fpr=BOUND, delta=1.0 - CONFIDENCE).fit(X, y)
    values.append(false_positive_rate(model.coef_[0], float(model.intercept_[0])) if model.n_holdout_ else None)
    return values


@lru_cache(maxsize=1)
def pool() -> Tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the pool."""
    return draw(np.random.default_rng(1), POOL)


def confirmed(model: Any) -> bool:
    """Return whether the promise of a model was confirmed."""
    return model.promise_ is not None and bool(model.promise_["confirmed"])


def pooled(model: Any) -> List[float]:
    """Return the gap and the false-positive rate of a model in the pool."""
    X, y, group = pool()
    predicted = model.predict(X)
    gap_ = abs(float(predicted[group == "a"].mean()) - float(predicted[group == "b"].mean()))
    return [gap_, float(predicted[~y].mean())]


def pooled_repetition(given: Tuple[int, int]) -> List[Optional[float]]:
    """Return the largest ratio of a population value to its bound of the confirmed models of one draw: two constraints, two
    constraints on a kernel model, and `equalised_odds`, which compares two rates itself; None without a confirmed one.

    Rows are drawn with replacement, so that the rates of the pool are those of the population exactly.
    """
    number, rows = given
    warnings.simplefilter("ignore")
    rng = np.random.default_rng([number, 1])
    drawn = rng.integers(0, POOL, rows)
    X, y, group = (part[drawn] for part in pool())
    bounds = [f"demographic_parity <= {BOUND}", f"false_positive_rate <= {1.5 * BOUND}"]
    how: dict = {"subject_to": bounds, "holds_on": "population", "confidence": CONFIDENCE}
    values: List[Optional[float]] = []
    for model in (
        thalweg.ConstrainedClassifier(**how),
        thalweg.KernelConstrainedClassifier(n_components=30, random_state=number, **how),
    ):
        model.fit(X, y, sensitive_features=group)
        gap_, rate = pooled(model)
        values.append(max(gap_ / BOUND, rate / (1.5 * BOUND)) if confirmed(model) else None)
    odds = thalweg.FairClassifier("equalised_odds", bound=1.5 * BOUND, holds_on="population", confidence=CONFIDENCE)
    odds.fit(X, y, sensitive_features=group)
    _, truth, groups = pool()
    predicted = odds.predict(pool()[0])
    rates = [[float(predicted[(groups == name) & (truth == label)].mean()) for name in ("a", "b")] for label in (True, False)]
    worst = max(abs(a - b) for a, b in rates)
    values.append(worst / (1.5 * BOUND) if confirmed(odds) else None)
    return values


def pooled_coverage(repetitions: int, rows: int, run: Map) -> List[Tally]:
    """Count broken promises of several constraints at once, also of models with kernels, in a population that is a pool. Values
    are relative to the bounds."""
    tallies = [
        Tally("`demographic_parity <= 0.1` and `false_positive_rate <= 0.15` at once"),
        Tally("the same two with `KernelConstrainedClassifier`"),
        Tally("`equalised_odds <= 0.15`"),
    ]
    for values in run(pooled_repetition, [(number, rows) for number in range(repetitions)]):
        for tally, value in zip(tallies, values):
            tally.add(value, 1.0)
    return tallies


def coverage(repetitions: int, rows: int, models: int, run: Map) -> List[Tally]:
    """Count broken promises of `FairClassifier`, of two orders of given models, and of `NeymanPearsonClassifier`."""
    tallies = [
        Tally('`FairClassifier(bound=0.1, holds_on="population")`'),
        Tally("`FairClassifier(bound=0.1)`, bound on the training rows, no promise"),
        Tally(f"{models} given models in a fixed order"),
        Tally(f"the same {models} models in the order of their results on the safety set (must fail)"),
        Tally("`NeymanPearsonClassifier(max_fpr=0.1, delta=0.05)`"),
    ]
    for values in run(repetition, [(number, rows, models) for number in range(repetitions)]):
        for tally, value in zip(tallies, values):
            tally.add(value, BOUND)
    return tallies


def divided(key: str, seed: int, rows: Optional[int]) -> Tuple[Any, Any]:
    """Return rows, labels and groups of a data set for training and for testing: seven tenths and the rest."""
    # The law-like set has groups of 1% of the rows; as a set with two groups the largest stands against all others.
    data = load("law-8" if key == "law-2" else key, rows)
    if key == "law-2":
        data.group = np.where(data.group == "group 1", "group 1", "others")
    order = np.random.default_rng(seed).permutation(len(data.y))
    train, test = np.split(order, [7 * len(order) // 10])
    X = standardised(data.X, train)
    return (X[train], data.y[train], data.group[train]), (X[test], data.y[test], data.group[test])


def one_power(given: Tuple[str, float, int, Optional[int]]) -> Tuple[List[Tuple[float, float]], bool, int]:
    """Return accuracy and gap on test rows with the bound on the training rows and in the population, whether the latter was
    confirmed, and the number of groups."""
    key, bound, seed, rows = given
    warnings.simplefilter("ignore")
    train, test = divided(key, seed, rows)
    found = []
    for where in ("training", "population"):
        model = thalweg.FairClassifier(bound=bound, holds_on=where, random_state=seed)
        model.fit(train[0], train[1], sensitive_features=train[2])
        predicted = model.predict(test[0]) == model.classes_[1]
        rates = [predicted[test[2] == name].mean() for name in np.unique(test[2])]
        found.append((float(model.score(test[0], test[1])), float(max(rates) - min(rates))))
    return found, confirmed(model), len(np.unique(train[2]))


def power(keys: Sequence[str], bounds: Sequence[float], seeds: int, rows: Optional[int], run: Map) -> List[str]:
    """Compare bounds on the training rows with bounds in the population: confirmed or not, accuracy and gap on test rows."""
    cells = [(key, bound) for key in keys for bound in bounds]
    results = list(run(one_power, [(key, bound, seed, rows) for key, bound in cells for seed in range(seeds)]))
    lines = []
    for i, (key, bound) in enumerate(cells):
        own = results[i * seeds : (i + 1) * seeds]
        (accuracy, gap_), (accuracy_promised, gap_promised) = np.mean([found for found, _, _ in own], axis=0)
        count = sum(one for _, one, _ in own)
        lines.append(
            f"| {key} | {own[0][2]} | {bound:g} | {count} of {seeds} | {100 * accuracy:.2f}% | {gap_:.4f} | "
            f"{100 * accuracy_promised:.2f}% | {gap_promised:.4f} | {100 * (accuracy - accuracy_promised):+.2f} |"
        )
    return lines


def with_threshold(model: Any, X: np.ndarray, y: np.ndarray, max_fpr: float, delta: float, seed: int) -> np.ndarray:
    """Fit a model on all but three tenths of the negatives; return its threshold as an order statistic of their scores."""
    from thalweg import _core

    rng = np.random.RandomState(seed)
    held = rng.permutation(np.flatnonzero(y == 0))[: round(0.3 * np.sum(y == 0))]
    keep = np.ones(len(y), dtype=bool)
    keep[held] = False
    model.fit(X[keep], y[keep])
    found = _core.score_threshold(len(held), max_fpr, 1.0 - delta)
    assert found is not None, "the caller has checked that there are enough negatives"
    return np.sort(model.decision_function(X[held]))[found[0]]


def one_threshold(given: Tuple[str, float, int, Optional[int], float]) -> Optional[List[Tuple[float, float]]]:
    """Return false-positive and false-negative rate on test rows of ours and of the rival; None with too few negatives."""
    key, bound, seed, rows, delta = given
    warnings.simplefilter("ignore")
    (X, y, _), (X_test, y_test, _) = divided(key, seed, rows)
    ours = thalweg.NeymanPearsonClassifier(max_fpr=bound, delta=delta, random_state=seed).fit(X, y)
    if ours.n_holdout_ == 0:
        return None
    rival = LogisticRegression(max_iter=2000)
    level = with_threshold(rival, X, y, bound, delta, seed)
    found = []
    for predicted in (ours.decision_function(X_test) > 0, rival.decision_function(X_test) > level):
        found.append((float(predicted[y_test == 0].mean()), float((~predicted[y_test == 1]).mean())))
    return found


def threshold(keys: Sequence[str], bounds: Sequence[float], seeds: int, rows: Optional[int], run: Map) -> List[str]:
    """Compare type-II errors of Neyman-Pearson training and of logistic regression at thresholds with the same promise."""
    cells = [(key, bound) for key in keys for bound in bounds]
    results = list(run(one_threshold, [(key, bound, seed, rows, 0.05) for key, bound in cells for seed in range(seeds)]))
    lines = []
    for i, (key, bound) in enumerate(cells):
        own = [found for found in results[i * seeds : (i + 1) * seeds] if found is not None]
        if len(own) < 2:
            lines.append(f"| {key} | {bound:g} | too few negatives | | | | |")
            continue
        (false, missed), (rival_false, rival_missed) = np.mean(own, axis=0)
        better = 100 * np.array([rival[1] - ours[1] for ours, rival in own])
        spread = f"{better.mean():+.2f} ± {better.std(ddof=1) / math.sqrt(len(better)):.2f}"
        rates = [f"{a:.4f} | {100 * b:.2f}%" for a, b in ((false, missed), (rival_false, rival_missed))]
        lines.append(f"| {key} | {bound:g} | {' | '.join(rates)} | {spread} |")
    return lines


def page(tallies: List[Tally], pooled_tallies: List[Tally], powers: List[str], thresholds: List[str]) -> str:
    """Return the tables as Markdown."""
    lines = []
    for value, some in (("largest value", tallies), ("largest value / bound", pooled_tallies)):
        lines += [f"| choice | draws | confirmed | broken in the population | {value} | at most 5% + 3 standard errors |"]
        lines += ["|---|--:|--:|--:|--:|---|", *(tally.row() for tally in some), ""]
    lines += ["| data | groups | bound | confirmed | accuracy, training | gap | accuracy, population | gap | points given up |"]
    lines += ["|---|--:|--:|--:|--:|--:|--:|--:|--:|", *powers, ""]
    lines += ["| data | bound | false positives | missed | rival: false positives | missed | fewer missed, in points |"]
    lines += ["|---|--:|--:|--:|--:|--:|--:|", *thresholds, ""]
    return "\n".join(lines)


def main(arguments: Optional[List[str]] = None) -> int:
    """Run the program; the exit code is 1 if a promise is broken too often, or the choice that peeks keeps it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few repetitions and rows, for the tests")
    parser.add_argument("--repetitions", type=int, default=300)
    parser.add_argument("--rows", type=int, default=4500, help="rows of a draw")
    parser.add_argument("--models", type=int, default=30, help="given models of the sequences")
    parser.add_argument("--seeds", type=int, default=3, help="splits of each data set")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--only", choices=PARTS, nargs="+", default=PARTS, help="only these tables")
    parser.add_argument("--out", type=Path, default=Path("."))
    given = parser.parse_args(arguments)
    if given.quick:
        given.repetitions, given.models, given.seeds = min(given.repetitions, 12), min(given.models, 4), 2
    limit = 4000 if given.quick else None
    fair, bounds = (["german"], [0.05]) if given.quick else (["a9a", "credit-raw", "law-2", "law-8"], [0.02, 0.05, 0.1])
    sets, rates = (["german"], [0.1]) if given.quick else (["a9a", "bank", "compas", "credit-raw"], [0.05, 0.1])
    with ExitStack() as stack:
        run: Map = map
        if given.jobs > 1:
            # Every draw and split has a seed of its own, so that the number of processes does not change the results.
            run = stack.enter_context(ProcessPoolExecutor(given.jobs)).map
        tallies = coverage(given.repetitions, given.rows, given.models, run) if "coverage" in given.only else []
        several = pooled_coverage(given.repetitions, given.rows, run) if "several" in given.only else []
        powers = power(fair, bounds, given.seeds, limit, run) if "power" in given.only else []
        thresholds = threshold(sets, rates, given.seeds, limit, run) if "threshold" in given.only else []
    text = page(tallies, several, powers, thresholds)
    (given.out / "unseen.md").write_text(text)
    print(text)
    # Models that satisfied the training rows alone promise nothing, and the order that peeks must break the promise.
    promised = [tally for i, tally in enumerate(tallies) if i not in (1, 3)] + several
    peeking = [tally for i, tally in enumerate(tallies) if i == 3]
    right = all(tally.kept for tally in promised) and (given.quick or not any(tally.kept for tally in peeking))
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
