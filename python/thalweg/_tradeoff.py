"""``thalweg.tradeoff``: what a bound costs. One run for each value of one bound, each begun where the one before it ended."""

from __future__ import annotations

from typing import Any, List, Optional, Tuple, Union

import numpy as np

from thalweg import _core, _rows
from thalweg._result import need, raise_with, settings
from thalweg._running import running
from thalweg._terms import Term, _number
from thalweg._train import Posed, training
from thalweg.learn import FitResult


class TradeoffModel:
    """The model of one value of the bound.

    Attributes
    ----------
    bound : float
        The bound.
    feasible : bool
        Every bound is kept on the training rows.
    coef : ndarray
        A weight for each column of X.
    intercept : float
        Added to every score.
    classes : ndarray
        The two labels; the model says the second where the score is above 0.
    """

    def __init__(self, bound: float, feasible: bool, coef: np.ndarray, intercept: float, classes: np.ndarray):
        self.bound, self.feasible = bound, feasible
        self.coef, self.intercept, self.classes = coef, intercept, classes

    decision_function = FitResult.decision_function
    predict = FitResult.predict

    def __repr__(self) -> str:
        return f"<model for the bound {self.bound:.6g}, {'keeps every bound' if self.feasible else 'misses a bound'}>"


class Tradeoff:
    """What :func:`tradeoff` returns: the finished points, from the loosest to the tightest bound.

    Attributes
    ----------
    frame : DataFrame
        A row for each bound: ``bound``, ``feasible``, ``objective``, the left-hand side of the constraint on the training rows
        (``value``) and with counted rates (``counted``), ``accuracy``, the same on held-out rows (``held_out_objective``, …), the
        distance within which the proximal point is proved to lie (``proved``), ``iterations``, ``passes``, ``seconds`` and why
        the run ended (``ended``).
    models : list of TradeoffModel
        The model of each bound; None where a run failed.
    coef : ndarray of shape (bounds, columns)
        Their weights; NaN where a run failed.
    intercept : ndarray
        Their intercepts.
    classes : ndarray
        The two labels.
    objective, constraint : str
        What was minimised, and the constraint whose bound was swept.
    others : list of str
        The constraints that stayed as they are.
    notes : list of str
        What a careful reader should know.
    interrupted : bool
        Ctrl-C ended it: the points that were finished are there.
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
        notes: List[str],
        interrupted: bool,
    ):
        self._rows = rows
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
        """The points as a pandas DataFrame."""
        pandas = need("pandas", "a DataFrame")
        columns = {name: [row[name] for row in self._rows] for name in COLUMNS}
        numbers = lambda name: np.array(columns[name], dtype=float)
        kinds = {"feasible": bool, "iterations": np.int64, "ended": object}
        return pandas.DataFrame({n: np.array(columns[n], dtype=kinds[n]) if n in kinds else numbers(n) for n in COLUMNS})

    def __len__(self) -> int:
        return len(self._rows)

    def plot(self, ax: Any = None) -> Any:
        """What the bound is about against the accuracy on held-out rows, or against the objective if there are none.

        Points that miss a bound are hollow. Returns the matplotlib axes.
        """
        pyplot = need("matplotlib.pyplot", "a picture")
        if ax is None:
            _, ax = pyplot.subplots(figsize=(5.5, 3.6), layout="constrained")
        accuracy = any(row["held_out_accuracy"] is not None for row in self._rows)
        counted = any(row["counted"] is not None for row in self._rows)
        marks = []
        for row in self._rows:
            seen = row["value"] if row["counted"] is None else row["counted"]
            height = row["held_out_accuracy"] if accuracy else row["objective"]
            if seen is not None and height is not None:
                marks.append((seen, height, row["feasible"]))
        colour = "#2a6f97"
        kept = sorted((x, y) for x, y, feasible in marks if feasible)
        missed = [(x, y) for x, y, feasible in marks if not feasible]
        if kept:
            ax.plot(*zip(*kept), "-o", color=colour, linewidth=1.0, markersize=5, label="keeps every bound")
        if missed:
            ax.plot(*zip(*missed), "o", color=colour, markerfacecolor="none", markersize=5, label="misses a bound")
            ax.legend(fontsize="small")
        where = ", counted on the training rows" if counted else ", training rows" if accuracy else ""
        ax.set(
            title=f"What a bound on {self.constraint} costs",
            xlabel=f"{self.constraint}{where}",
            ylabel="accuracy on held-out rows" if accuracy else self.objective,
        )
        ax.grid(alpha=0.3)
        return ax

    def __repr__(self) -> str:
        kept = sum(row["feasible"] for row in self._rows)
        ended = "interrupted: " if self.interrupted else ""
        return f"<{ended}{self.objective} subject to {self.constraint} <= bound, {len(self)} bounds, {kept} kept>"

    def _repr_html_(self) -> str:
        return str(self.frame._repr_html_())


#: The columns of the frame.
COLUMNS = (
    "bound",
    "feasible",
    "objective",
    "value",
    "counted",
    "accuracy",
    "held_out_objective",
    "held_out_value",
    "held_out_counted",
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
    """Trains under one bound after another, from the loosest to the tightest, and shows what tightening it costs.

    Each run begins where the one before it ended. Where a looser bound ended worse than a tighter one it is run again from the
    point of that one. Ctrl-C ends the sweep with the points that are finished.

    Parameters
    ----------
    objective : Term or str
        What to minimise, as in :func:`thalweg.learn.fit`.
    subject_to : constraint, str, or a list of them
        The constraints. The bound of the one that is swept is replaced by each of `bounds`.
    X, y : array_like
        Rows and labels to train on.
    bounds : list of float or str
        The values of the bound, or text such as ``"0.01..0.2:12"``: twelve from 0.01 to 0.2, evenly in the logarithm.
    of : int, str or Term, optional
        The constraint whose bound is swept: its place in `subject_to`, counted from 0, or its name. The first if absent.
    sensitive, sample_weight : array_like, optional
        Group and weight of each row.
    X_test, y_test, sensitive_test : array_like, optional
        Rows that are held out: every point is measured on them too. ``sensitive_test`` is needed if terms compare groups.
    intercept : bool
        Whether a constant is added to the scores.
    solver : str
        The method: 'auto' chooses; or one of ``thalweg.solvers("fit", constraints=True)``.
    options : dict, optional
        Settings of the solver.
    enforce : {'measured', 'surrogate'}
        Whether the counted rates on the training rows must keep the bounds, or their smooth forms.
    seed : int, optional
        Seed of everything that is drawn; 0 if absent.
    max_iter, max_time : int and float, optional
        Iterations and seconds of the training for one bound.
    feasibility : float
        What a constraint may exceed its bound by, times the bound if that is above 1.
    n_threads : int
        Threads for sums over rows; the numbers do not depend on it.
    verbose : int
        1 shows progress.

    Returns
    -------
    Tradeoff
        The points as a frame, their models, and a picture.

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
    posed = Posed(objective, subject_to, payload, rows, labels, sensitive=sensitive, weights=weights, intercept=intercept)
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
        notes=([] if note is None else [note]) + notes,
        interrupted=interrupted,
    )
    if raised is not None:
        raise_with(raised, swept)
    return swept


def _bounds(given: Any) -> List[float]:
    """The values of the bound, from the loosest to the tightest."""
    if isinstance(given, str):
        return _core.sweep_bounds(given)
    try:
        values = [given] if _number(given) is not None else list(given)
    except TypeError:
        raise TypeError(
            f"bounds is of type {type(given).__name__}: wanted a list of numbers, or text such as '0.01..0.2:12'"
        ) from None
    numbers = [_number(value) for value in values]
    for value, number in zip(values, numbers):
        if number is None:
            raise TypeError(f"bounds has {value!r}: wanted numbers")
    return _core.sweep_bounds([number for number in numbers if number is not None])


def _which(names: List[str], of: Any) -> Tuple[int, Optional[str]]:
    """The place of the constraint that is swept, and a note if nobody chose it among several."""
    if not names:
        raise ValueError("there is no constraint: wanted subject_to with one whose bound is swept")
    listed = ", ".join(f"{j} ({name})" for j, name in enumerate(names))
    if of is None:
        several = f"the bound of '{names[0]}' is swept, the first of {len(names)} constraints; of=… chooses another"
        return 0, several if len(names) > 1 else None
    if isinstance(of, (int, np.integer)) and not isinstance(of, bool):
        if not 0 <= of < len(names):
            raise ValueError(f"of = {of}: there is no such constraint: wanted one of {listed}")
        return int(of), None
    if not isinstance(of, (str, Term)):
        raise TypeError(f"of is of type {type(of).__name__}: wanted the place of a constraint or its name, one of {listed}")
    text = str(of)
    # A term without its arguments is enough where only one constraint begins so.
    exact = [j for j, name in enumerate(names) if name == text]
    found = exact or [j for j, name in enumerate(names) if name.startswith(text)]
    if len(found) != 1:
        how = f"{len(found)} constraints are called so" if found else "there is no such constraint"
        raise ValueError(f"of = '{text}': {how}: wanted one of {listed}")
    return found[0], None


def _held_out(posed: Posed, X: Any, y: Any, sensitive: Any, classes: np.ndarray, columns: int) -> Optional[Posed]:
    """The same problem on held-out rows, with the reference values of the training rows."""
    if X is None:
        for name, given in (("y_test", y), ("sensitive_test", sensitive)):
            if given is not None:
                raise ValueError(f"{name} is given and X_test is not: wanted both or neither")
        return None
    if y is None:
        raise ValueError("X_test is given and y_test is not: wanted both or neither")
    payload, rows, found = _rows.features(X, "X_test")
    if found != columns:
        raise ValueError(f"X_test has {found} columns: wanted {columns}, as in X")
    signs = _rows.signs(y, rows, classes, "y_test")
    if posed.groups is not None and sensitive is None:
        raise ValueError("sensitive_test is missing: wanted the group of each row of X_test, as the training rows have groups")
    if posed.groups is not None:
        _, names = _rows.groups(sensitive, rows, "sensitive_test")
        if names != posed.groups[1]:
            raise ValueError(
                f"sensitive_test has the groups {', '.join(names)}: wanted {', '.join(posed.groups[1])}, as in the training rows"
            )
    return Posed(
        posed.objective,
        posed.subject_to,
        payload,
        rows,
        signs,
        sensitive=None if posed.groups is None else sensitive,
        intercept=posed.intercept,
        like=posed,
    )
