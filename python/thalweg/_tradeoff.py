"""``thalweg.tradeoff``: objective and accuracy as functions of a bound, with one warm-started run for each value."""

from __future__ import annotations

from typing import Any, List, Optional, Tuple, Union

import numpy as np

from thalweg import _core, _rows
from thalweg._result import Note, need, notes_of, raise_with, settings
from thalweg._running import running
from thalweg._terms import Term, _number
from thalweg._train import TrainingProblem, training
from thalweg.learn import FitResult


class TradeoffModel:
    """Model for one value of the bound.

    Attributes
    ----------
    bound : float
        Bound.
    feasible : bool
        Whether every bound is satisfied on the training rows.
    coef : ndarray
        Weights of the columns of X.
    intercept : float
        Intercept of the scores.
    classes : ndarray
        The two labels; the second is predicted where the score is positive.
    """

    def __init__(self, bound: float, feasible: bool, coef: np.ndarray, intercept: float, classes: np.ndarray):
        self.bound, self.feasible = bound, feasible
        self.coef, self.intercept, self.classes = coef, intercept, classes

    decision_function = FitResult.decision_function
    predict = FitResult.predict

    def __repr__(self) -> str:
        return f"<model for the bound {self.bound:.6g}, {'feasible' if self.feasible else 'infeasible'}>"


class Tradeoff:
    """Result of :func:`tradeoff`: the finished points, from the loosest to the tightest bound.

    Attributes
    ----------
    frame : DataFrame
        A row for each bound: ``bound``, ``feasible``, ``objective``, the surrogate of the constraint on the training rows
        (``value``) and its 0/1 rate (``measured``), ``accuracy``, the same on the held-out set (``held_out_objective``, …), the
        bound on the distance to the proximal point (``proved``, if the gradients are right and the constants hold),
        ``iterations``, ``passes``, ``seconds`` and why the run stopped (``ended``).
    models : list of TradeoffModel
        Model of each bound; None if a run failed.
    coef : ndarray of shape (bounds, columns)
        Weights of the models; NaN if a run failed.
    intercept : ndarray
        Intercepts of the models.
    classes : ndarray
        The two labels.
    objective, constraint : str
        Objective, and the constraint whose bound is varied.
    others : list of str
        The other constraints.
    notes : list of Note
        Remarks on the result.
    interrupted : bool
        Whether Ctrl-C stopped the sweep, leaving the finished points.
    """

    def __init__(
        self,
        rows: List[dict],
        points: List[Optional[np.ndarray]],
        *,
        objective: str,
        constraint: str,
        others: List[str],
        classes: np.ndarray,
        columns: int,
        intercept: bool,
        notes: List[Note],
        interrupted: bool,
    ):
        self._rows = list(rows)
        self.objective, self.constraint, self.others, self.classes = objective, constraint, others, classes
        self.notes, self.interrupted = notes, interrupted
        self.coef = np.full((len(rows), columns), np.nan)
        self.intercept = np.full(len(rows), np.nan)
        self.models: List[Optional[TradeoffModel]] = []
        for i, (row, x) in enumerate(zip(rows, points)):
            if x is None:
                self.models.append(None)
                continue
            self.coef[i] = x[:columns]
            self.intercept[i] = x[columns] if intercept else 0.0
            self.models.append(TradeoffModel(row["bound"], row["feasible"], self.coef[i], float(self.intercept[i]), classes))

    @property
    def frame(self) -> Any:
        """Return the points as a pandas DataFrame."""
        pandas = need("pandas", "a DataFrame")
        columns = {name: [row[name] for row in self._rows] for name in COLUMNS}
        numbers = lambda name: np.array(columns[name], dtype=float)
        kinds = {"feasible": bool, "iterations": np.int64, "ended": object}
        return pandas.DataFrame({n: np.array(columns[n], dtype=kinds[n]) if n in kinds else numbers(n) for n in COLUMNS})

    def __len__(self) -> int:
        return len(self._rows)

    def plot(self, ax: Any = None) -> Any:
        """Plot the held-out accuracy, or the objective without a held-out set, against the constrained quantity.

        Infeasible points are hollow; bars are 95% confidence intervals on unseen rows, each by itself. Returns the axes.
        """
        pyplot = need("matplotlib.pyplot", "plotting")
        if ax is None:
            _, ax = pyplot.subplots(figsize=(5.5, 3.6), layout="constrained")
        accuracy = any(row["held_out_accuracy"] is not None for row in self._rows)
        measured = any(row["measured"] is not None for row in self._rows)
        marks = []
        colour = "#2a6f97"
        for row in self._rows:
            seen = row["value"] if row["measured"] is None else row["measured"]
            height = row["held_out_accuracy"] if accuracy else row["objective"]
            if seen is not None and height is not None:
                marks.append((seen, height, row["feasible"]))
                if row["held_out_interval"] is not None:
                    ax.plot(row["held_out_interval"], [height, height], "-|", color=colour, alpha=0.45, linewidth=1.0)
        inside = sorted((x, y) for x, y, feasible in marks if feasible)
        outside = [(x, y) for x, y, feasible in marks if not feasible]
        if inside:
            ax.plot(*zip(*inside), "-o", color=colour, linewidth=1.0, markersize=5, label="feasible")
        if outside:
            ax.plot(*zip(*outside), "o", color=colour, markerfacecolor="none", markersize=5, label="infeasible")
            ax.legend(fontsize="small")
        where = ", measured on the training rows" if measured else ", training rows" if accuracy else ""
        ax.set(
            title=f"Trade-off for {self.constraint}",
            xlabel=f"{self.constraint}{where}",
            ylabel="accuracy on the held-out set" if accuracy else self.objective,
        )
        ax.grid(alpha=0.3)
        return ax

    def __repr__(self) -> str:
        feasible = sum(row["feasible"] for row in self._rows)
        ended = "interrupted: " if self.interrupted else ""
        return f"<{ended}{self.objective} subject to {self.constraint} <= bound, {len(self)} bounds, {feasible} feasible>"

    def _repr_html_(self) -> str:
        return str(self.frame._repr_html_())


#: Columns of the frame.
COLUMNS = (
    "bound",
    "feasible",
    "objective",
    "value",
    "measured",
    "accuracy",
    "held_out_objective",
    "held_out_value",
    "held_out_measured",
    "held_out_accuracy",
    "proved",
    "iterations",
    "passes",
    "seconds",
    "ended",
)


def tradeoff(
    objective: Union[Term, str],
    subject_to: Any,
    *,
    X: Any,
    y: Any,
    bounds: Any,
    of: Union[int, str, Term, None] = None,
    sensitive: Any = None,
    sample_weight: Any = None,
    X_test: Any = None,
    y_test: Any = None,
    sensitive_test: Any = None,
    intercept: bool = True,
    solver: str = "auto",
    options: Optional[dict] = None,
    enforce: str = "measured",
    seed: Optional[int] = None,
    max_iter: Optional[int] = 3000,
    max_time: Optional[float] = 60.0,
    feasibility: float = 1e-6,
    n_threads: int = 1,
    verbose: int = 0,
) -> Tradeoff:
    """Train for each value of a bound, from the loosest to the tightest.

    Each run is warm-started from the one before. If a looser bound ends with a worse objective than a tighter one, it is run
    again from the point of the tighter one. Ctrl-C stops the sweep and returns the finished points.

    Parameters
    ----------
    objective : Term or str
        Objective, as in :func:`thalweg.learn.fit`.
    subject_to : constraint, str, or a list of them
        Constraints. One of them has its bound replaced by each of `bounds`.
    X, y : array_like
        Training rows and labels.
    bounds : list of float or str
        Values of the bound, or text such as ``"0.01..0.2:12"``: twelve values from 0.01 to 0.2, evenly spaced in the logarithm.
    of : int, str or Term, optional
        Constraint whose bound is varied: its index in `subject_to` or its name. The first by default.
    sensitive, sample_weight : array_like, optional
        Group and weight of each row.
    X_test, y_test, sensitive_test : array_like, optional
        Held-out set on which every point is measured too. ``sensitive_test`` is required if terms compare groups.
    max_iter, max_time : int and float, optional
        Limits on the iterations and seconds of the training for one bound.
    intercept, solver, options, enforce, seed, feasibility, n_threads, verbose
        As in :func:`thalweg.learn.fit`.

    Returns
    -------
    Tradeoff
        Points as a frame, models, and a plot.

    Examples
    --------
    >>> import numpy as np, thalweg
    >>> from thalweg.learn import demographic_parity, logistic
    >>> rng = np.random.default_rng(0)
    >>> group = rng.integers(0, 2, 2000)
    >>> X = np.c_[rng.normal(size=2000) + group, rng.normal(size=2000)]
    >>> y = X @ [1.0, 0.5] + 0.5 * rng.normal(size=2000) > 0.5
    >>> swept = thalweg.tradeoff(logistic(), demographic_parity(group) <= 0.1, X=X, y=y, bounds=[0.02, 0.1, 0.3])
    >>> swept.frame[["bound", "feasible"]]
       bound  feasible
    0   0.30      True
    1   0.10      True
    2   0.02      True
    >>> bool(np.all(np.diff(swept.frame["objective"]) > 0))
    True
    """
    how = training(solver, enforce, seed, max_iter, max_time, feasibility, n_threads)
    values = _bounds(bounds)
    payload, rows, columns = _rows.features(X)
    classes, labels = _rows.classes(y, rows)
    weights = _rows.weights(sample_weight, rows)
    posed = TrainingProblem(
        objective, subject_to, payload, rows, labels, sensitive=sensitive, weights=weights, intercept=intercept
    )
    named = posed.core.constraints()
    which, note = _which([c["name"] for c in named], of)
    held_out = _held_out(posed, X_test, y_test, sensitive_test, classes, columns)
    with running(verbose, "tradeoff") as run:
        found, points, notes, interrupted, raised = posed.core.sweep(
            which,
            values,
            solver,
            settings(options),
            how,
            run.interrupt,
            None if held_out is None else held_out.core,
            run.on_progress,
        )
    swept = Tradeoff(
        found,
        points,
        objective=posed.objective,
        constraint=named[which]["name"],
        others=[f"{c['name']} <= {c['bound']:.6g}" for j, c in enumerate(named) if j != which],
        classes=classes,
        columns=columns,
        intercept=intercept,
        notes=notes_of(([] if note is None else [note]) + notes),
        interrupted=interrupted,
    )
    if raised is not None:
        raise_with(raised, swept)
    return swept


def _bounds(given: Any) -> List[float]:
    """Return the values of the bound, from the loosest to the tightest."""
    if isinstance(given, str):
        return _core.sweep_bounds(given)
    try:
        values = [given] if _number(given) is not None else list(given)
    except TypeError:
        raise TypeError(f"bounds must be a list of numbers or text such as '0.01..0.2:12', got {type(given).__name__}") from None
    numbers = [_number(value) for value in values]
    for value, number in zip(values, numbers):
        if number is None:
            raise TypeError(f"bounds must be numbers, got {value!r}")
    return _core.sweep_bounds([number for number in numbers if number is not None])


def _which(names: List[str], of: Any) -> Tuple[int, Optional[str]]:
    """Return the index of the constraint whose bound is varied, and a note if it is the default among several."""
    if not names:
        raise ValueError("subject_to must have a constraint whose bound is varied, got none")
    listed = ", ".join(f"{j} ({name})" for j, name in enumerate(names))
    if of is None:
        several = f"the bound of '{names[0]}' is varied, the first of {len(names)} constraints; of=… chooses another"
        return 0, several if len(names) > 1 else None
    if isinstance(of, (int, np.integer)) and not isinstance(of, bool):
        if not 0 <= of < len(names):
            raise ValueError(f"of must be one of {listed}, got {of}")
        return int(of), None
    if not isinstance(of, (str, Term)):
        raise TypeError(f"of must be the index or name of a constraint, one of {listed}, got {type(of).__name__}")
    text = str(of)
    # A term without its arguments suffices if only one constraint begins with it.
    exact = [j for j, name in enumerate(names) if name == text]
    found = exact or [j for j, name in enumerate(names) if name.startswith(text)]
    if len(found) != 1:
        matches = f", which matches {len(found)} constraints" if found else ""
        raise ValueError(f"of must be one of {listed}, got '{text}'{matches}")
    return found[0], None


def _held_out(
    posed: TrainingProblem, X: Any, y: Any, sensitive: Any, classes: np.ndarray, columns: int
) -> Optional[TrainingProblem]:
    """Pose the same problem on the held-out set, with the reference values of the training rows."""
    if X is None:
        for name, given in (("y_test", y), ("sensitive_test", sensitive)):
            if given is not None:
                raise ValueError(f"{name} is given without X_test")
        return None
    if y is None:
        raise ValueError("X_test is given without y_test")
    payload, rows, found = _rows.features(X, "X_test")
    if found != columns:
        raise ValueError(f"X_test must have {columns} columns as in X, got {found}")
    signs = _rows.signs(y, rows, classes, "y_test")
    if posed.groups is not None and sensitive is None:
        raise ValueError("sensitive_test is required, because the training rows have groups")
    if posed.groups is not None:
        _, names = _rows.groups(sensitive, rows, "sensitive_test")
        if names != posed.groups[1]:
            raise ValueError(
                f"sensitive_test must have the groups of the training rows, {', '.join(posed.groups[1])}, got {', '.join(names)}"
            )
    return TrainingProblem(
        posed.objective,
        posed.subject_to,
        payload,
        rows,
        signs,
        sensitive=None if posed.groups is None else sensitive,
        intercept=posed.intercept,
        like=posed,
    )
