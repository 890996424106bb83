"""The page with the tables, as Markdown, and the line that is printed for each run."""

from __future__ import annotations

import json
import math
from typing import Any, Dict, List, Optional, Sequence

from comparison._page import INSTALL, _wrapped
from comparison._phrases import listed, times
from tables import _data
from tables._entries import CONSTRAINTS, EXPONENTIATED, GRID_SEARCH, OURS, OXONFAIR, UNCONSTRAINED
from tables._study import ATTEMPTS, Mean, Plan, Ratio, Run, Summary, ratio, summaries

TITLE = "Fair classifiers on ten data sets"
#: Goals: how many times as fast as ExponentiatedGradient, with two groups and with more.
TARGETS = (20.0, 10.0)
RIVALS = (EXPONENTIATED, GRID_SEARCH, OXONFAIR)


def progress(run: Run) -> str:
    """Return one line about a run."""
    cell = lambda name: f"{run.numbers[name]:.4f}" if run.numbers.get(name) is not None else "-"
    seconds = "-" if run.seconds is None else f"{run.seconds:.2f}"
    name = f"{run.name}, l2 {run.weight}" if run.weight else run.name
    kept = "kept" if run.kept else "not kept" if run.numbers else run.install_hint or run.message
    numbers = " ".join(f"{cell(key):>7}" for key in ("accuracy_test", "balanced_test", "gap_train", "gap_test"))
    return f"{run.seed} {run.set:10} {run.constraint:18} {name:34} {seconds:>7} {numbers}  {kept}"


def command(plan: Plan) -> str:
    """Return the command line of a plan, without the files it reads and writes."""
    full = Plan(list(_data.SETS), list(CONSTRAINTS), 5)
    line = ["python benchmarks/fairness_tables.py"]
    line += ["--quick"] if plan.quick else []
    if not plan.quick:
        line += [f"--sets {','.join(plan.sets)}"] if list(plan.sets) != list(full.sets) else []
        line += [f"--constraints {','.join(plan.constraints)}"] if list(plan.constraints) != list(full.constraints) else []
        line += [f"--seeds {plan.seeds}"] if plan.seeds != full.seeds else []
        line += [f"--seconds {plan.seconds:g}"] if plan.seconds != full.seconds else []
    line += ["--ours-only"] if plan.ours_only else []
    line += [f"--without {','.join(plan.without)}"] if plan.without else []
    weights = ["default" if weight is None else f"{weight:g}" for weight in plan.weights]
    line += [f"--regularization {','.join(weights)}"] if weights else []
    line += [f"--arguments '{json.dumps(plan.arguments)}'"] if plan.arguments else []
    return " ".join(line)


def markdown(plan: Plan, runs: Sequence[Run], described: Dict[str, Dict[str, Any]], machine: str) -> str:
    """Return the page. `described` has the facts about each set that ``_study.describe`` returns."""
    out = [f"# {TITLE}", f"```sh\n{INSTALL}\n{command(plan)}\n```"]
    if plan.quick:
        out.append(_wrapped("A quick run on small data. It shows that everything works; its numbers rank nothing."))
    out += [*map(_wrapped, _method(plan)), _wrapped(machine), "## Data", _sets(described)]
    if not plan.ours_only:
        out += ["## Speed at an equal gap", *map(_wrapped, _speed_words()), _speed(plan, runs, described)]
        out += map(_wrapped, _speed_findings(plan, runs, described))
    out += ["## How often the bound holds", _kept(plan, runs)]
    shifts = _shifts(runs)
    out += ["## How often the intercept is moved", _wrapped(shifts)] if shifts else []
    for key in plan.sets:
        out += [f"## {key}", _wrapped(f"{described[key]['about']}."), _results(plan, runs, key)]
        out += map(_wrapped, _failures(runs, key))
    if plan.weights:
        out += ["## Regularisation", _wrapped(_weights_words()), _weights(plan, runs)]
        out += map(_wrapped, _weights_findings(plan, runs))
    return "\n\n".join(out) + "\n"


# Words.


def _method(plan: Plan) -> List[str]:
    bounds = listed(f"`{CONSTRAINTS[name]}`" for name in plan.constraints)
    return [
        f"Each set is split {plan.seeds} time{'s' if plan.seeds != 1 else ''} at random into 70% training and 30% held-out rows, "
        f"stratified by label and group. The constraints are {bounds}. A gap is the largest rate of a group "
        "minus the smallest, for "
        "equalised odds the larger of those among the negative and among the positive rows. It is measured by "
        "the same function for "
        "every library, on the 0/1 predictions, and for the mixture of ExponentiatedGradient on their expected "
        "values. Numbers are "
        "means over the splits ± their standard error. *Kept* counts the splits in which the gap on the "
        "training rows is at most the "
        "bound. Nothing is chosen by held-out rows.",
        "All libraries get the same columns: indicators of categories, and numbers standardised by the training "
        "rows. fairlearn and "
        "oxonfair use scikit-learn's logistic regression with its default regularisation. *Seconds* are "
        "processor time of `fit` with "
        "one thread, the median over splits, in which the median of up to three timings counts for fits below five seconds; "
        "*passes* are evaluations of `FairClassifier` over all rows.",
        "ExponentiatedGradient bounds the distance of each group's rate from the rate of all rows, which is not "
        "the gap. With two "
        "groups its bound is set to the distance at which the gap is the required one, with more to 0.7 of the "
        "bound; if the gap is "
        "then too large or below 0.9 of the bound, the bound is scaled and the fit repeated, at most "
        f"{ATTEMPTS} fits. The best one is "
        "reported: the most accurate one on the training rows that keeps the bound, or else the one with the smallest gap. Its "
        "seconds are those of that fit alone. `FairClassifier` has the bound as given; with more than two "
        "groups, a fit with a larger "
        "gap is repeated with a smaller bound in the same way. GridSearch fits 41 models; the most accurate one "
        "that keeps the bound "
        "is taken. oxonfair sets one threshold per group and needs the group at prediction time.",
    ]


def _speed_words() -> List[str]:
    return [
        "How many times the processor time of `FairClassifier` each library needs, over the splits in which both keep the bound. "
        "The differences are the held-out accuracy and balanced accuracy of `FairClassifier` minus those of "
        "ExponentiatedGradient in these splits; *lower* marks one that is below zero by more than one standard error, or with a "
        "single split at all. A dash means that there is no such split."
    ]


def _weights_words() -> str:
    return (
        "`FairClassifier` with several weights of l2 on the published sets with two groups; *default* is the "
        "weight that it chooses "
        "itself. The largest held-out gap is that over all splits."
    )


# Tables.


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]], texts: int = 1) -> str:
    lines = [f"| {' | '.join(headings)} |", f"|{'---|' * texts}{'--:|' * (len(headings) - texts)}"]
    return "\n".join(lines + [f"| {' | '.join(row)} |" for row in rows])


def with_error(mean: Optional[Mean]) -> str:
    """Format a mean with its standard error, if there is one.

    >>> with_error(Mean(0.81234, 0.00123)), with_error(Mean(0.5, float("nan"))), with_error(None)
    ('0.8123 ± 0.0012', '0.5000', '')
    """
    if mean is None:
        return ""
    return f"{mean.value:.4f}" if math.isnan(mean.error) else f"{mean.value:.4f} ± {mean.error:.4f}"


def _seconds(value: Optional[float]) -> str:
    return "" if value is None else f"{value:.3f}" if value < 1.0 else f"{value:.2f}"


def _sets(described: Dict[str, Dict[str, Any]]) -> str:
    headings = ["", "rows", "columns", "groups", "smallest group", "positive labels"]
    rows = [
        [key, f"{d['rows']:,}", str(d["columns"]), str(d["groups"]), f"{d['smallest']:,}", f"{d['positive']:.1%}"]
        for key, d in described.items()
    ]
    return _table(headings, rows)


def _speed(plan: Plan, runs: Sequence[Run], described: Dict[str, Dict[str, Any]]) -> str:
    headings = ["set", "constraint", "groups", *RIVALS, "splits", "accuracy difference", "balanced difference"]
    rows = []
    for key in plan.sets:
        for name in plan.constraints:
            found = {rival: ratio(runs, key, name, rival) for rival in RIVALS}
            cells = [key, f"`{CONSTRAINTS[name]}`", str(described[key]["groups"]), *(_times(found[rival]) for rival in RIVALS)]
            main = found[EXPONENTIATED]
            if main is None:
                cells += ["", "", ""]
            else:
                cells += [f"{main.splits} of {main.total}", _difference(main, main.accuracy), _difference(main, main.balanced)]
            rows.append(cells)
    return _table(headings, rows, 2)


def _difference(found: Ratio, mean: Mean) -> str:
    if found.splits == 0:
        return ""
    return with_error(mean) + ("" if found.no_lower(mean) else ", lower")


def _times(found: Optional[Ratio]) -> str:
    return "-" if found is None or found.splits == 0 else times(found.times, 1.0)


def _kept(plan: Plan, runs: Sequence[Run]) -> str:
    rows = []
    for name in (OURS, *RIVALS, UNCONSTRAINED):
        own = [run for run in runs if run.name == name and not run.weight and run.numbers]
        if not own:
            continue
        bound = lambda run: CONSTRAINTS[run.constraint].bound
        held = sum((run.numbers["gap_test"] or 0.0) <= bound(run) for run in own)
        over = sorted((run.numbers["gap_test"] or 0.0) / bound(run) for run in own)
        rows.append(
            [name, f"{sum(run.kept for run in own)} of {len(own)}", f"{held} of {len(own)}", f"{over[len(over) // 2]:.2f}"]
        )
    return _table(["", "training rows", "held-out rows", "median held-out gap, in bounds"], rows)


def _shifts(runs: Sequence[Run]) -> str:
    """Return in how many fits the exact search over the intercept changed the model; empty if that was not measured.

    >>> _shifts([])
    ''
    """
    own = [run.numbers for run in runs if run.name == OURS and not run.weight and "shifted" in run.numbers]
    if not own:
        return ""
    moved, needed = (sum(bool(numbers[key]) for numbers in own) for key in ("shifted", "shifted_for_bound"))
    return (
        "After training, `FairClassifier` searches the intercept exactly over the sorted scores. It moved it in "
        f"{moved} of {len(own)} fits: in {needed} because training had satisfied the bound nowhere, in {moved - needed} because "
        "the gain in accuracy on the training rows exceeded two standard errors."
    )


def _results(plan: Plan, runs: Sequence[Run], key: str) -> str:
    headings = ["constraint", "", "accuracy", "balanced", "gap, training", "gap, held out", "kept", "seconds", "passes"]
    rows = []
    for name in plan.constraints:
        for summary in summaries(runs, key, name):
            rows.append(
                [f"`{CONSTRAINTS[name]}`", f"**{summary.name}**" if summary.name == OURS else summary.name, *_cells(summary)]
            )
    return _table(headings, rows, 2)


def _cells(summary: Summary) -> List[str]:
    if not summary.ran:
        first = summary.runs[0]
        return [f"not installed: {first.install_hint}" if first.install_hint else "no result", "", "", "", "", "", ""]
    passes = summary.mean("passes")
    return [
        *(with_error(summary.mean(key)) for key in ("accuracy_test", "balanced_test", "gap_train", "gap_test")),
        f"{summary.kept} of {len(summary.runs)}",
        _seconds(summary.seconds),
        "" if passes is None else f"{passes.value:,.0f}",
    ]


def _failures(runs: Sequence[Run], key: str) -> List[str]:
    """Return a sentence for each library that returned nothing, and one if ours was repeated with smaller bounds."""
    found: Dict[str, List[Run]] = {}
    for run in runs:
        if run.set == key and not run.numbers and not run.install_hint:
            found.setdefault(f"{run.name}: {run.message}", []).append(run)
    out = [f"{words}, in {len(own)} fit{'s' if len(own) != 1 else ''}." for words, own in found.items()]
    again = [run for run in runs if run.set == key and run.name == OURS and len(run.tried) > 1]
    if again:
        total = sum(run.set == key and run.name == OURS and not run.weight for run in runs)
        out.append(f"`FairClassifier` was repeated with a smaller bound in {len(again)} of {total} cases.")
    return out


def _weights(plan: Plan, runs: Sequence[Run]) -> str:
    headings = ["set", "constraint", "l2", "accuracy", "balanced", "gap, training", "gap, held out", "largest", "kept", "seconds"]
    rows = []
    for key in [key for key in plan.sets if key in _data.FIVE]:
        for name in plan.constraints:
            for weight in _named(plan):
                for summary in summaries(runs, key, name, weight):
                    cells = _cells(summary)
                    largest = max(((run.numbers["gap_test"] or 0.0) for run in summary.runs if run.numbers), default=math.nan)
                    rows.append([key, f"`{CONSTRAINTS[name]}`", weight, *cells[:4], f"{largest:.4f}", *cells[4:6]])
    return _table(headings, rows, 3)


def _named(plan: Plan) -> List[str]:
    return ["default" if weight is None else f"{weight:g}" for weight in plan.weights]


# Findings.


def _speed_findings(plan: Plan, runs: Sequence[Run], described: Dict[str, Dict[str, Any]]) -> List[str]:
    """Return whether the goals are reached, with the cases in which they are not."""
    out = []
    for target, many, words in ((TARGETS[0], False, "two groups"), (TARGETS[1], True, "more than two groups")):
        reached, missed, unknown = 0, [], []
        for key in (key for key in plan.sets if (described[key]["groups"] > 2) == many):
            for name in plan.constraints:
                found, case = ratio(runs, key, name, EXPONENTIATED), f"{key} {name}"
                why = "" if found is None else _shortfall(found, target)
                if found is None or (found.splits == 0 and found.lost == 0):
                    unknown.append(case)
                elif why:
                    missed.append(f"{case} ({why})")
                else:
                    reached += 1
        total = reached + len(missed) + len(unknown)
        if total == 0:
            continue
        text = (
            f"**Goal, {words}:** at least {target:g} times as fast as ExponentiatedGradient, at no lower accuracy or balanced "
            f"accuracy and with the bound kept wherever it keeps it, is reached in {reached} of {total} cases."
        )
        text += f" Not reached: {listed(missed)}." if missed else ""
        text += (
            f" Not comparable, because ExponentiatedGradient never keeps the bound or has no result: {listed(unknown)}."
            * bool(unknown)
        )
        out.append(text)
    return out


def _shortfall(found: Ratio, target: float) -> str:
    """Return what a comparison lacks of the goal; empty if nothing.

    >>> _shortfall(Ratio(2, 3, 1, 15.0, Mean(0.1, 0.01), Mean(-0.1, 0.01)), 20.0)
    '15.0 times, lower balanced accuracy, bound not kept in 1 of 3'
    """
    parts = [f"{found.times:.1f} times"] if found.splits and found.times < target else []
    parts += ["lower accuracy"] if found.splits and not found.no_lower(found.accuracy) else []
    parts += ["lower balanced accuracy"] if found.splits and not found.no_lower(found.balanced) else []
    parts += [f"bound not kept in {found.lost} of {found.total}"] if found.lost else []
    return ", ".join(parts)


def _weights_findings(plan: Plan, runs: Sequence[Run]) -> List[str]:
    """Compare every weight with the first one, case by case."""
    first, *others = _named(plan)
    out = []
    for weight in others:
        gaps, accuracies, cases = 0, 0, 0
        for key in (key for key in plan.sets if key in _data.FIVE):
            for name in plan.constraints:
                base, other = summaries(runs, key, name, first), summaries(runs, key, name, weight)
                if not (base and other and base[0].ran and other[0].ran):
                    continue
                pairs = [(base[0].mean(k), other[0].mean(k)) for k in ("gap_test", "accuracy_test")]
                (gap_a, gap_b), (accuracy_a, accuracy_b) = pairs
                assert gap_a and gap_b and accuracy_a and accuracy_b
                cases += 1
                gaps += gap_b.value <= gap_a.value
                accuracies += accuracy_b.value >= accuracy_a.value
        if cases:
            out.append(
                f"l2 weight {weight} compared with {first}: the mean held-out gap is no larger in {gaps} of "
                f"{cases} cases, and the "
                f"mean held-out accuracy no lower in {accuracies}."
            )
    return out
