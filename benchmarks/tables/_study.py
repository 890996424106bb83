"""Runs of every library on every split, the cache of those that do not depend on Thalweg, and the numbers of the tables."""

from __future__ import annotations

import hashlib
import json
import math
import os
import statistics
import tempfile
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import numpy as np

from comparison._page import processor
from comparison._runner import TOLERANCE, Entry, Row, Size, run_entry, version
from tables import _data
from tables._entries import CONSTRAINTS, EXPONENTIATED, OPTIONAL, OURS, Split

#: Number that is raised when a rival is run or measured in another way, so that cached results of the old way are not used.
CACHE = 1
#: Fits of a library whose own bound means something else than the gap between groups: how many bounds are tried at most.
ATTEMPTS = 3
#: A fit whose gap is at least this share of the bound is not tried again with a larger one.
CLOSE = 0.9
#: Rows of each set in a quick run, and its time limit for one fit.
QUICK_ROWS, QUICK_SECONDS = 1500, 8.0
QUICK_SETS, QUICK_CONSTRAINTS = ["german", "law-8"], ["demographic_parity", "equal_opportunity"]


@dataclass(frozen=True)
class Plan:
    """What is run."""

    sets: Sequence[str]
    constraints: Sequence[str]
    seeds: int
    quick: bool = False
    seconds: float = 300.0
    ours_only: bool = False
    #: Libraries that are left out, by the words of the command line.
    without: Sequence[str] = ()
    #: Weights of l2 in the study of regularisation: numbers, or None for the classifier's own.
    weights: Sequence[Optional[float]] = ()
    #: Arguments of FairClassifier.
    arguments: Dict[str, Any] = field(default_factory=dict)


@dataclass
class Run:
    """Result of one library on one split. `numbers` is empty if it returned nothing."""

    set: str
    constraint: str
    seed: int
    name: str
    seconds: Optional[float]
    numbers: Dict[str, Optional[float]]
    message: str
    claimed: Optional[bool] = None
    #: Bounds that were tried, of which the last numbers belong to the best.
    tried: List[float] = field(default_factory=list)
    install_hint: str = ""
    #: Study of regularisation: weight as on the command line; empty in the main table.
    weight: str = ""

    @property
    def kept(self) -> bool:
        return bool(self.numbers) and (self.numbers["violation"] or 0.0) <= TOLERANCE


class Cache:
    """Results of the other libraries in a JSON file, each under a key with everything that it depends on."""

    def __init__(self, path: Optional[Path]) -> None:
        self.path = path
        self.runs: Dict[str, Any] = {}
        if path is not None and path.exists():
            try:
                self.runs = json.loads(path.read_text(encoding="utf-8"))
            except ValueError as error:
                raise ValueError(f"{path} is not a cache of this program: {error}") from None
            if not isinstance(self.runs, dict):
                raise ValueError(f"{path} is not a cache of this program: it contains no object")

    @staticmethod
    def key(task: Split, entry: Entry, plan: Plan, fingerprint: str) -> str:
        """Return the key of a run: data, split, constraint, limits, machine and versions."""
        packages = [f"{name} {version(name)}" for name in ("scikit-learn", "numpy", entry.package) if name]
        parts = [
            CACHE,
            fingerprint,
            task.seed,
            str(task.constraint),
            entry.name,
            plan.quick,
            plan.seconds,
            processor(),
            *packages,
        ]
        return " | ".join(map(str, parts))

    def get(self, key: str) -> Optional[Run]:
        return Run(**self.runs[key]) if key in self.runs else None

    def put(self, key: str, run: Run) -> None:
        self.runs[key] = asdict(run)
        if self.path is not None:
            write(self.path, json.dumps(self.runs, indent=0))


def write(path: Path, text: str) -> None:
    """Write a file by renaming, so that a reader never sees half of it."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}")
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(temporary, 0o644)
    os.replace(temporary, path)


def fingerprint(data: _data.DataSet) -> str:
    """Return a hash of rows, labels and groups."""
    digest = hashlib.sha256(np.ascontiguousarray(data.X).tobytes())
    digest.update(np.ascontiguousarray(data.y).tobytes())
    digest.update("\n".join(data.group.tolist()).encode())
    return digest.hexdigest()[:16]


def load_sets(plan: Plan) -> Dict[str, _data.DataSet]:
    """Load the sets of a plan."""
    return {key: _data.load(key, QUICK_ROWS if plan.quick else None) for key in plan.sets}


def describe(data: _data.DataSet) -> Dict[str, Any]:
    """Return the facts about a set that the page has."""
    counts = np.unique(data.group, return_counts=True)[1]
    return {
        "about": data.about,
        "rows": len(data.y),
        "columns": data.X.shape[1],
        "groups": data.groups,
        "smallest": int(counts.min()),
        "positive": float(data.y.mean()),
    }


def run_plan(plan: Plan, loaded: Dict[str, _data.DataSet], cache: Cache, report: Callable[[List[Run]], None]) -> List[Run]:
    """Run everything, seed by seed, so that an interrupted run has all sets; calls `report` with all results after each."""
    size = Size(plan.quick, 1 if plan.quick else 3)
    runs: List[Run] = []
    prints = {key: fingerprint(data) for key, data in loaded.items()}
    for seed in range(plan.seeds):
        for key, data in loaded.items():
            for name in plan.constraints:
                task = Split(data, CONSTRAINTS[name], seed, size, plan.seconds)
                for entry in task.entries():
                    if (plan.ours_only and not entry.ours) or entry.name in [OPTIONAL[word] for word in plan.without]:
                        continue
                    if entry.ours:
                        found = attempt(task, entry, key, {"arguments": plan.arguments})
                    else:
                        cached = cache.key(task, entry, plan, prints[key])
                        known = cache.get(cached)
                        found = known or attempt(task, entry, key, {})
                        # What is missing or was killed may work the next time.
                        if known is None and found.numbers:
                            cache.put(cached, found)
                    runs.append(found)
                    report(runs)
                if key not in _data.FIVE:
                    continue
                for weight in plan.weights:
                    entry = next(entry for entry in task.entries() if entry.ours)
                    found = attempt(task, entry, key, {"arguments": plan.arguments, "weight": weight})
                    found.weight = "default" if weight is None else f"{weight:g}"
                    runs.append(found)
                    report(runs)
    return runs


def attempt(task: Split, entry: Entry, key: str, arguments: Dict[str, Any]) -> Run:
    """Fit with several bounds where the library's bound is not the gap between groups, and return the best fit.

    ExponentiatedGradient bounds distances from the rate of all rows. Of the fits that keep the bound, the most accurate one on
    the training rows is the best, or else the one with the smallest gap. Its seconds do not include the others.
    """
    target = task.constraint.bound
    searched = entry.name == EXPONENTIATED or (entry.ours and task.groups > 2)
    bound = task.equivalent_bound() if entry.name == EXPONENTIATED else target
    best: Optional[Run] = None
    tried: List[float] = []
    before: Optional[float] = None
    for _ in range(ATTEMPTS if searched else 1):
        more = {"bound": bound} if searched else {}
        row = run_entry(task, Entry(entry.name, entry.solve, {**entry.arguments, **arguments, **more}, entry.package, entry.ours))
        tried.append(bound)
        run = _run(task, key, row)
        if best is None or _quality(run) > _quality(best):
            best = run
        measured, last = row["gap_train"], before
        before = measured
        if measured is None or measured == last or (run.kept and measured >= CLOSE * target):
            break
        if run.kept and bound >= target and entry.ours:
            # The bound as given is kept; a larger one would not be what a user asks for.
            break
        # A little below the bound, because the mixture and the counts move in steps.
        factor = 0.97 * target / measured if measured > 0.0 else 2.0
        bound *= min(max(factor, 0.25), 2.0)
    assert best is not None
    best.tried = tried if searched else []
    return best


def _run(task: Split, key: str, row: Row) -> Run:
    return Run(
        key,
        task.constraint.key,
        task.seed,
        row.name,
        row.seconds,
        row.numbers,
        row.message,
        row.claimed,
        install_hint=row.install_hint,
    )


def _quality(run: Run) -> Tuple[int, float]:
    if not run.numbers:
        return (0, 0.0)
    return (2, run.numbers["accuracy_train"] or 0.0) if run.kept else (1, -(run.numbers["gap_train"] or 0.0))


# Numbers of the tables.


@dataclass
class Mean:
    """Mean over seeds and its standard error, which is NaN for a single seed."""

    value: float
    error: float

    @staticmethod
    def of(values: Sequence[float]) -> Mean:
        error = statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else math.nan
        return Mean(statistics.fmean(values), error)


@dataclass
class Summary:
    """One library on one set under one constraint, over all seeds."""

    name: str
    runs: List[Run]

    def mean(self, key: str) -> Optional[Mean]:
        values = [run.numbers[key] for run in self.runs if run.numbers.get(key) is not None]
        return Mean.of([value for value in values if value is not None]) if values else None

    @property
    def ran(self) -> bool:
        return any(run.numbers for run in self.runs)

    @property
    def kept(self) -> int:
        """Number of seeds for which the bound is kept on the training rows."""
        return sum(run.kept for run in self.runs)

    @property
    def seconds(self) -> Optional[float]:
        times = [run.seconds for run in self.runs if run.numbers and run.seconds is not None]
        return statistics.median(times) if times else None


@dataclass
class Ratio:
    """Comparison with a rival on the splits in which both keep the bound: seconds, and differences of held-out accuracies.

    `splits` is their number; without any, the other numbers are NaN.
    """

    splits: int
    total: int
    #: Splits in which the rival keeps the bound and ours does not.
    lost: int
    #: Median over splits of the rival's seconds divided by ours.
    times: float
    accuracy: Mean
    balanced: Mean

    def no_lower(self, mean: Mean) -> bool:
        """Return whether a difference is at least 0, up to one standard error."""
        slack = 0.0 if math.isnan(mean.error) else mean.error
        return self.splits > 0 and mean.value >= -slack


def summaries(runs: Sequence[Run], key: str, constraint: str, weight: str = "") -> List[Summary]:
    """Return a summary for every library, in the order in which they ran."""
    found: Dict[str, List[Run]] = {}
    for run in runs:
        if (run.set, run.constraint, run.weight) == (key, constraint, weight):
            found.setdefault(run.name, []).append(run)
    return [Summary(name, own) for name, own in found.items()]


def ratio(runs: Sequence[Run], key: str, constraint: str, rival: str) -> Optional[Ratio]:
    """Compare ours with a rival; None if the rival returned nothing."""
    by_seed: Dict[int, Dict[str, Run]] = {}
    for run in runs:
        if (run.set, run.constraint, run.weight) == (key, constraint, "") and run.name in (OURS, rival):
            by_seed.setdefault(run.seed, {})[run.name] = run
    pairs = [(own[OURS], own[rival]) for own in by_seed.values() if len(own) == 2 and own[rival].numbers]
    if not pairs:
        return None
    both = [(ours, other) for ours, other in pairs if ours.kept and other.kept]
    lost = sum(other.kept and not ours.kept for ours, other in pairs)
    if not both:
        nothing = Mean(math.nan, math.nan)
        return Ratio(0, len(pairs), lost, math.nan, nothing, nothing)
    difference = lambda name: Mean.of([(a.numbers[name] or 0.0) - (b.numbers[name] or 0.0) for a, b in both])
    # Processor time has a resolution; a fit below it counts as that long.
    times = statistics.median([(other.seconds or 1e-6) / (ours.seconds or 1e-6) for ours, other in both])
    return Ratio(len(both), len(pairs), lost, times, difference("accuracy_test"), difference("balanced_test"))
