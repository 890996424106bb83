"""Training of linear classifiers under constraints, shared by :func:`thalweg.learn.fit` and the estimators."""

from __future__ import annotations

from typing import Any, Callable, List, Optional, Tuple

import numpy as np

from thalweg import _core, _rows
from thalweg._result import Callback, Certificate, History, Result, named, notes_of, raise_with, settings, table_html
from thalweg._running import StopReason, running, seed_of, whole
from thalweg._terms import as_constraints, as_term
from thalweg._warnings import ConvergenceWarning, DataWarning, DegenerateModelWarning, PromiseWarning, warn_of

#: Names of the solvers. Those of ``thalweg.solvers("fit", constraints=False)`` need an objective without constraints.
SOLVERS = ("auto", *_core.solvers("fit"))


class TrainingProblem:
    """Validated training problem: objective and constraints on rows."""

    def __init__(
        self,
        objective: Any,
        subject_to: Any,
        payload: Any,
        rows: int,
        labels: np.ndarray,
        *,
        sensitive: Any = None,
        weights: Optional[np.ndarray] = None,
        intercept: bool = True,
        merge: bool = False,
        like: Optional[TrainingProblem] = None,
        kernel: Optional[Tuple[Any, float]] = None,
        radius: Optional[float] = None,
        column_scales: Optional[List[float]] = None,
        names: Optional[List[str]] = None,
        division: Optional[_rows.Division] = None,
    ):
        term, constraints = as_term(objective), as_constraints(subject_to)
        self.columns = _rows.columns_of(payload)
        self.objective, self.subject_to = str(term), [text for text, _ in constraints]
        #: Division of the rows into groups, or None.
        self.division = grouping(objective, subject_to, sensitive, rows) if division is None else division
        self.groups = None if self.division is None else (self.division.codes, self.division.names)
        self.intercept = intercept
        self.names = names
        self.core: _core.Learning = _core.Learning(
            payload,
            labels,
            self.objective,
            self.subject_to,
            groups=self.groups,
            weights=weights,
            intercept=intercept,
            merge=merge,
            like=None if like is None else like.core,
            kernel=kernel,
            radius=radius,
            column_scales=column_scales,
        )

    def quality(self, x: np.ndarray) -> dict:
        """Measure a point on all rows, also by each of several columns that define the groups."""
        return self.core.quality(np.ascontiguousarray(x), [] if self.division is None else self.division.by_column)

    def warn(self) -> None:
        """Warn, before training, of small groups and of features that give the label away."""
        warn_of(notes_of(self.core.warnings(self.names)), (DataWarning,))


def grouping(objective: Any, subject_to: Any, sensitive: Any, rows: int) -> Optional[_rows.Division]:
    """Return the groups of the rows: those of the terms, or else the sensitive features."""
    own = list(as_term(objective)._groups) + [g for _, given in as_constraints(subject_to) for g in given]
    return _one_grouping(own if own else ([] if sensitive is None else [sensitive]), rows)


def _one_grouping(given: list, rows: int) -> Optional[_rows.Division]:
    """Return the groups of the rows. Several terms may give them, but they must agree."""
    known: Optional[_rows.Division] = None
    for one in given:
        found = _rows.division(one, rows, "sensitive")
        if known is not None and not (np.array_equal(found.codes, known.codes) and found.names == known.names):
            raise ValueError(
                "two terms compare different groups; use the same groups for all terms, or their combinations, "
                "for example sensitive=frame[['sex', 'race']]"
            )
        known = found
    return known


def training(
    solver: Any,
    enforce: Any,
    seed: Any,
    max_iter: Any,
    max_time: Optional[float],
    feasibility: float,
    n_threads: Any,
    max_passes: Optional[float] = None,
) -> dict:
    """Validate the options of training and return them for the core."""
    if not isinstance(solver, str):
        raise TypeError(f"solver must be one of {', '.join(SOLVERS)}, got {type(solver).__name__}")
    if enforce not in ("measured", "surrogate"):
        raise ValueError(
            f"enforce must be 'measured' (0/1 rates satisfy the bounds) or 'surrogate' (their surrogates do), got {enforce!r}"
        )
    budget = {"iterations": whole(max_iter), "passes": max_passes, "seconds": max_time}
    return {
        "budget": {k: v for k, v in budget.items() if v is not None} or None,
        "enforce": enforce,
        "seed": seed_of(seed),
        "feasibility": float(feasibility),
        "threads": whole(n_threads),
    }


def train(
    posed: TrainingProblem,
    *,
    solver: str = "auto",
    options: Optional[dict] = None,
    enforce: str = "measured",
    seed: Optional[int] = None,
    max_iter: Optional[int] = None,
    max_passes: Optional[float] = None,
    max_time: Optional[float] = None,
    feasibility: float = 1e-6,
    n_threads: int = 1,
    start: Any = None,
    callback: Optional[Callable] = None,
    verbose: int = 0,
    unseen: Optional[Tuple[TrainingProblem, float]] = None,
    warns: bool = True,
) -> TrainingResult:
    """Train and measure the result. `unseen` has the problem on a safety set and the confidence of a promise."""
    how = training(solver, enforce, seed, max_iter, max_time, feasibility, n_threads, max_passes)
    watch = None if callback is None else Callback(callback, [c["name"] for c in posed.core.constraints()], feasibility)
    if unseen is None and warns:
        posed.warn()
    elif unseen is not None:
        warn_of(notes_of(unseen[0].core.promise_warnings(unseen[1])), (DataWarning,))
    promise = None if unseen is None else (unseen[0].core, {"confidence": unseen[1]})
    from_point = None if start is None else np.ascontiguousarray(start, dtype=np.float64)
    with running(verbose, "fit") as run:
        fitted, told, raised = posed.core.fit(
            solver, settings(options), how, run.interrupt, from_point, watch, run.on_progress, promise
        )
    ended = StopReason(fitted["ended"], told, watch is not None and watch.stopped)
    trained = TrainingResult(posed, fitted, enforce, ended, run.interrupted)
    if raised is not None:
        raise_with(raised, trained)
    if warns:
        warn_of(trained.notes, (ConvergenceWarning, DegenerateModelWarning, PromiseWarning))
    return trained


class TrainingResult:
    """Result of training."""

    def __init__(self, posed: TrainingProblem, fitted: dict, enforce: str, ended: StopReason, interrupted: bool):
        self.posed, self.fitted, self.enforce, self.interrupted = posed, fitted, enforce, interrupted
        self.x: np.ndarray = fitted["point"]["x"]
        self.coef = self.x[:-1] if posed.intercept else self.x
        self.intercept = float(self.x[-1]) if posed.intercept else 0.0
        self.feasible = bool(fitted["feasible"])
        self.constraints = fitted["constraints"]
        self.history = History(fitted["trace"], [c["name"] for c in self.constraints])
        self.stationary = fitted["stationary"]
        #: What is promised about unseen rows, if a promise was asked for.
        self.promise: Optional[dict] = fitted["promise"]
        self.success = ended.success(self.feasible)
        if self.constraints or ended.failed:
            claim = "every constraint is satisfied on the training rows"
            if self.promise is not None:
                claim = self.promise["sentence"]
            elif not self.feasible:
                claim = "the best model found violates a constraint"
            self.message = ended.headline(self.feasible, claim)
        else:
            self.message = ended.after("trained without constraints")
        self.notes = notes_of(fitted["reasons"] + fitted["notes"])
        self.violation = max([0.0] + [self.enforced(c) - c["bound"] for c in self.constraints])
        self.signed = {c["name"]: self.enforced(c) - c["bound"] for c in self.constraints}
        multipliers = fitted["multipliers"]
        self.multipliers = None if multipliers is None else np.array(multipliers)
        self.dual = None if multipliers is None else named(self.signed, multipliers)
        #: Bound and temperature factor with which each constraint was trained.
        self.trained = [(c["surrogate_bound"], c["sharpened"]) for c in self.constraints]

    def summary(self) -> Result:
        """Return the result as callbacks see it when training ends."""
        return Result(
            x=self.x,
            fun=self.fitted["point"]["objective"],
            maxcv=self.violation,
            nit=self.fitted["iterations"],
            passes_f=self.fitted["passes"]["objective"],
            passes_g=self.fitted["passes"]["constraints"],
            signed=self.signed,
            dual=self.dual,
            stationary=self.stationary,
            success=self.success,
            message=self.message,
        )

    def enforced(self, constraint: dict) -> float:
        """Return the value that had to satisfy the bound."""
        measured = constraint["measured"]
        return constraint["surrogate"] if measured is None or self.enforce == "surrogate" else measured


def certificate_of(posed: TrainingProblem, x: np.ndarray, trained: list, how: dict, record: bool = False) -> Certificate:
    """Certify a point for the problem that was trained."""
    return Certificate.of(posed.core.certify(np.ascontiguousarray(x), how, trained, record))


def constraint_rows(constraints: list) -> list:
    """Return the constraints as rows of text."""
    rows = []
    for c in constraints:
        value = c["surrogate"] if c["measured"] is None else c["measured"]
        rows.append((c["name"], f"{c['bound']:.6g}", f"{value:.6g}", "satisfied" if c["satisfied"] else "violated"))
    return rows


def fit_html(facts: list, constraints: list) -> str:
    """Return a fit as an HTML table."""
    return table_html(facts, constraint_rows(constraints), ("constraint", "bound", "training rows", ""))
