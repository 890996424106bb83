"""Training a linear classifier under constraints: what :func:`thalweg.learn.fit` and the estimators share."""

from __future__ import annotations

from typing import Any, Callable, List, Optional, Tuple

import numpy as np

from thalweg import _core, _rows
from thalweg._result import Callback, Certificate, History, named, notes_of, raise_with, settings, table_html
from thalweg._running import running, seed_of, whole
from thalweg._terms import as_constraints, as_term

#: Names of the solvers that train; the last three without constraints.
SOLVERS = ("auto", *_core.solvers("fit"))


class Posed:
    """An objective and constraints on rows, understood and checked."""

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
        like: Optional[Posed] = None,
        kernel: Optional[Tuple[Any, float]] = None,
        radius: Optional[float] = None,
    ):
        term, constraints = as_term(objective), as_constraints(subject_to)
        self.objective, self.subject_to = str(term), [text for text, _ in constraints]
        own = list(term._groups) + [g for _, given in constraints for g in given]
        self.groups = _one_grouping(own if own else ([] if sensitive is None else [sensitive]), rows)
        self.intercept = intercept
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
        )


def _one_grouping(given: list, rows: int) -> Optional[Tuple[np.ndarray, List[str]]]:
    """The groups of the rows; several terms may name them, but only the same ones."""
    known: Optional[Tuple[np.ndarray, List[str]]] = None
    for one in given:
        found = _rows.groups(one, rows, "sensitive")
        if known is not None and not (np.array_equal(found[0], known[0]) and found[1] == known[1]):
            raise ValueError(
                "two terms compare different groups: wanted the same for all, or one with their combinations, "
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
    """How a model is trained, for the core; refuses what cannot be meant."""
    if not isinstance(solver, str):
        raise TypeError(f"solver is of type {type(solver).__name__}: wanted one of {', '.join(SOLVERS)}")
    if enforce not in ("measured", "surrogate"):
        raise ValueError(
            f"enforce = {enforce!r}: wanted 'measured' (counted rates keep the bounds) or 'surrogate' (their smooth forms do)"
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
    posed: Posed,
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
) -> Trained:
    """Trains, and measures what came of it."""
    how = training(solver, enforce, seed, max_iter, max_time, feasibility, n_threads, max_passes)
    watch = None if callback is None else Callback(callback, [c["name"] for c in posed.core.constraints()], feasibility)
    from_point = None if start is None else np.ascontiguousarray(start, dtype=np.float64)
    with running(verbose, "fit") as run:
        fitted, ended, raised = posed.core.fit(solver, settings(options), how, run.interrupt, from_point, watch, run.on_progress)
    words = "stopped by the callback" if watch is not None and watch.stopped else ended
    trained = Trained(posed, fitted, enforce, words, run.interrupted)
    if raised is not None:
        raise_with(raised, trained)
    return trained


class Trained:
    """What training came to, in plain numbers."""

    def __init__(self, posed: Posed, fitted: dict, enforce: str, ended: str, interrupted: bool):
        self.fitted, self.enforce, self.interrupted = fitted, enforce, interrupted
        self.x: np.ndarray = fitted["point"]["x"]
        self.coef = self.x[:-1] if posed.intercept else self.x
        self.intercept = float(self.x[-1]) if posed.intercept else 0.0
        self.feasible = bool(fitted["feasible"])
        self.constraints = fitted["constraints"]
        self.history = History(fitted["trace"], [c["name"] for c in self.constraints])
        self.stationary = fitted["stationary"]
        kept = "every bound is kept on the training rows" if self.constraints else "trained without constraints"
        self.message = f"{'feasible: ' + kept if self.feasible else 'not feasible: a bound is missed'}; {ended}"
        self.notes = notes_of(fitted["reasons"] + fitted["notes"])
        self.violation = max([0.0] + [self.enforced(c) - c["bound"] for c in self.constraints])
        self.signed = {c["name"]: self.enforced(c) - c["bound"] for c in self.constraints}
        multipliers = fitted["multipliers"]
        self.multipliers = None if multipliers is None else np.array(multipliers)
        self.dual = None if multipliers is None else named(self.signed, multipliers)
        #: The bound and the factor of the temperature that each constraint was trained with.
        self.trained = [(c["surrogate_bound"], c["sharpened"]) for c in self.constraints]

    def enforced(self, constraint: dict) -> float:
        """The side that had to keep the bound."""
        counted = constraint["measured"]
        return constraint["surrogate"] if counted is None or self.enforce == "surrogate" else counted


def certificate_of(posed: Posed, x: np.ndarray, trained: list, how: dict) -> Certificate:
    """Certifies a point for the problem that was trained."""
    return Certificate.of(posed.core.certify(np.ascontiguousarray(x), how, trained))


def constraint_rows(constraints: list) -> list:
    """Constraints as a person reads them."""
    rows = []
    for c in constraints:
        value = c["surrogate"] if c["measured"] is None else c["measured"]
        rows.append((c["name"], f"{c['bound']:.6g}", f"{value:.6g}", "kept" if c["kept"] else "missed"))
    return rows


def fit_html(facts: list, constraints: list) -> str:
    """A fit as an HTML table."""
    return table_html(facts, constraint_rows(constraints), ("constraint", "bound", "training rows", ""))
