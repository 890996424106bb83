"""Results of runs: dictionaries with attribute access that print, render in notebooks and plot."""

from __future__ import annotations

import contextlib
import html
from os import PathLike
from typing import Any, Callable, Dict, Iterable, List, Optional, Tuple, Union

import numpy as np
from scipy.optimize import OptimizeResult

from thalweg import _core


class Note(str):
    """Remark on a result: a string with its content as data.

    Attributes
    ----------
    kind : str
        Kind of the remark, such as "continued" or "bound-missed"; "text" if there is no data.
    data : dict
        Numbers and names in the sentence.
    """

    kind: str
    data: Dict[str, Any]

    def __new__(cls, text: str, kind: str = "text", data: Optional[Dict[str, Any]] = None) -> Note:
        note = super().__new__(cls, text)
        note.kind, note.data = kind, data or {}
        return note


def notes_of(found: Iterable[Any]) -> List[Note]:
    """Convert notes of the core, and plain sentences, to `Note`."""
    data = lambda note: {key: value for key, value in note.items() if key not in ("kind", "text")}
    known = lambda note: note if isinstance(note, Note) else Note(note)
    return [known(note) if isinstance(note, str) else Note(note["text"], note["kind"], data(note)) for note in found]


class History:
    """Recorded iterates of a run, one array for each quantity.

    Attributes
    ----------
    nit : ndarray of int
        Iteration of each iterate.
    fun : ndarray
        Objective on all data.
    maxcv : ndarray
        Largest constraint value, positive if violated; minus infinity without constraints.
    constraints : ndarray of shape (iterates, constraints)
        Values of the constraints ``g_j <= 0``; no columns if there are too many to list.
    passes_f, passes_g : ndarray
        Passes over the data for the objective and for the constraints.
    seconds : ndarray
        Elapsed time without measurements.
    """

    def __init__(self, rows: Iterable[dict], names: Iterable[str] = ()):
        rows = list(rows)
        column = lambda key, kind=float: np.array([row[key] for row in rows], dtype=kind)
        self.names = list(names)
        self.nit = column("iteration", np.int64)
        self.fun = column("objective")
        self.maxcv = column("violation")
        self.norm = column("norm")
        self.passes_f = column("passes_f")
        self.passes_g = column("passes_g")
        self.samples = column("samples", np.int64)
        self.seconds = column("seconds")
        self.constraints = np.array([row["constraints"] for row in rows], dtype=float).reshape(len(rows), len(self.names))

    def __add__(self, later: History) -> History:
        """Concatenate with later iterates of the same constraints."""
        both = History((), self.names)
        for key, own in vars(self).items():
            if isinstance(own, np.ndarray):
                setattr(both, key, np.concatenate([own, getattr(later, key)]))
        return both

    def __len__(self) -> int:
        return len(self.nit)

    def __repr__(self) -> str:
        return f"<history of {len(self)} iterates>"

    def to_frame(self) -> Any:
        """Return the iterates as a pandas DataFrame."""
        pandas = need("pandas", "a DataFrame")
        frame = pandas.DataFrame(
            {
                "nit": self.nit,
                "fun": self.fun,
                "maxcv": self.maxcv,
                "norm": self.norm,
                "passes_f": self.passes_f,
                "passes_g": self.passes_g,
                "samples": self.samples,
                "seconds": self.seconds,
            }
        )
        for j, name in enumerate(self.names):
            frame[name] = self.constraints[:, j]
        return frame

    def plot(self, against: str = "passes", ax: Any = None) -> Any:
        """Plot objective and constraints against ``"passes"``, iterations (``"nit"``) or ``"seconds"``.

        Returns the two matplotlib axes, or one if there are no constraints.
        """
        places = {"passes": self.passes_f + self.passes_g, "nit": self.nit, "seconds": self.seconds}
        if against not in places:
            raise ValueError(f"against must be one of {', '.join(places)}, got {against!r}")
        pyplot = need("matplotlib.pyplot", "plotting")
        constrained = bool(np.any(self.maxcv > -np.inf))
        if ax is None:
            _, ax = pyplot.subplots(1, 2 if constrained else 1, figsize=(9 if constrained else 5, 3.2), layout="constrained")
        axes = np.atleast_1d(ax)
        words = {"passes": "passes over the data", "nit": "iterations", "seconds": "seconds"}[against]
        axes[0].plot(places[against], self.fun, color="#2a6f97")
        axes[0].set(xlabel=words, ylabel="objective")
        if constrained and len(axes) > 1:
            axes[1].axhline(0.0, color="#888888", linewidth=0.8)
            for j, name in enumerate(self.names):
                axes[1].plot(places[against], self.constraints[:, j], label=name)
            if not self.names:
                axes[1].plot(places[against], self.maxcv)
            what = {0: "largest constraint", 1: "".join(self.names[:1])}.get(len(self.names), "constraints")
            axes[1].set(xlabel=words, ylabel=f"{what} (satisfied if at most 0)")
            if 1 < len(self.names) <= 8:
                axes[1].legend(fontsize="small")
        for one in axes:
            one.set_xscale("symlog" if against == "nit" else "linear")
            one.grid(alpha=0.3)
        return axes if len(axes) > 1 else axes[0]


class Certificate(OptimizeResult):
    """Bounds on the distance of a point from stationarity.

    The proximal point of ``x`` is the solution of the problem with ``(rho_f + mu) / 2 * ||y - x||^2`` added to the objective and
    ``rho_g / 2 * ||y - x||^2`` to each constraint. A point at distance 0 from its proximal point is stationary.

    Attributes
    ----------
    lower, upper : float
        Bounds on the distance to the proximal point, if the gradients are right and the weak-convexity constants hold.
    residual : float
        Norm of a subgradient of objective and constraints, weighted by ``multipliers``, near the proximal point.
    feasible : bool
        Whether every constraint is satisfied on all data.
    maxcv : float
        Largest constraint violation; 0 if all are satisfied.
    estimated : bool
        Whether weak-convexity constants were estimated from visited points, in which case the bounds are no proof.
    differences : bool
        Whether gradients are finite differences, in which case the bounds are no proof either.
    multipliers : ndarray
        Dual variable of each inequality.
    infeasible_radius : float or None
        Distance from the point within which no point satisfies all constraints within their tolerances, if the gradients are
        right and the weak-convexity constants hold; infinite if that is proved for a bounded domain. ``None`` without a proof.
    """

    @classmethod
    def of(cls, found: dict, differences: bool = False) -> Certificate:
        point = found["point"]
        constants = [found["rho_f"], *found["rho_g"]]
        sources = {c["source"] for c in constants}
        return cls(
            lower=found["lower"],
            upper=found["upper"],
            residual=found["residual"],
            feasible=point["feasible"],
            maxcv=max(point["violation"], 0.0),
            worst=point["worst"],
            fun=point["objective"],
            multipliers=np.array(found["multipliers"]),
            relaxed=found["relaxed"],
            evaluations=found["evaluations"],
            rho_f=found["rho_f"]["value"],
            rho_g=np.array([c["value"] for c in found["rho_g"]]),
            mu=found["mu"],
            source="estimated" if "Estimated" in sources else "claimed" if "Claimed" in sources else "proved",
            estimated="Estimated" in sources,
            differences=differences,
            reached=found["reached"],
            infeasible_radius=None if differences else _radius(found.get("conflict")),
            _file=found.get("file"),
        )

    def save(self, file: Union[str, PathLike]) -> None:
        """Write everything that the bounds follow from, for :func:`thalweg.check` or ``thalweg check``.

        Requires ``thalweg.certify(..., record=True)``.
        """
        if self._file is None:
            raise ValueError("the certificate has no record to save; call thalweg.certify(..., record=True)")
        _core.write_file(file, self._file.encode())

    @property
    def certified(self) -> bool:
        """Whether the point is feasible with a finite bound that is proved if the gradients are right and the constants hold."""
        return bool(self.feasible and np.isfinite(self.upper) and not self.estimated and not self.differences)

    def __repr__(self) -> str:
        by = {
            "proved": "proved if the gradients are right",
            "claimed": "proved if the gradients are right and the given constants hold",
            "estimated": "from estimated constants, not proved",
        }
        how = "from finite differences, not proved" if self.differences else by[self.source]
        state = "feasible" if self.feasible else f"infeasible: '{self.worst}' is violated by {self.maxcv:.3g}"
        if self.infeasible_radius is not None:
            place = "of the domain" if np.isinf(self.infeasible_radius) else f"within {self.infeasible_radius:.3g}"
            state = f"infeasible: no point {place} satisfies all constraints ({how})"
        return f"<{state}; distance to the proximal point between {self.lower:.3g} and {self.upper:.3g} ({how})>"


def _radius(conflict: Optional[dict]) -> Optional[float]:
    """Return the radius that the proof of a conflict excludes; infinite for the whole domain."""
    if conflict is None:
        return None
    return float(np.inf) if conflict["radius"] is None else float(conflict["radius"])


class Result(OptimizeResult):
    """``OptimizeResult`` that renders in notebooks and plots its history."""

    _shown: Tuple[str, ...] = ("success", "message", "fun", "maxcv", "nit", "nfev", "njev", "certificate", "method", "seconds")

    def plot(self, against: str = "passes", ax: Any = None) -> Any:
        """Plot objective and constraints of the recorded iterates; see :meth:`thalweg.History.plot`."""
        return self.history.plot(against, ax)

    def _repr_html_(self) -> str:
        rows = [(key, self[key]) for key in self._shown if self.get(key) is not None]
        return table_html(rows, self._constraint_rows())

    def _constraint_rows(self) -> list:
        return constraint_rows(self.signed.items(), self.feasibility)


def constraint_rows(values: Iterable[Tuple[Any, float]], feasibility: float) -> list:
    """Return constraints by name as rows of text."""
    return [(name, f"{value:.6g}", "satisfied" if value <= feasibility else "violated") for name, value in values]


def table_html(facts: Iterable[tuple], constraints: Iterable[tuple], head: tuple = ("constraint", "g(x)", "")) -> str:
    """Render facts and constraints as a plain HTML table, escaping everything."""
    cell = lambda v: html.escape(f"{v:.6g}" if isinstance(v, float) else str(v))
    body = "".join(
        f"<tr><th style='text-align:left'>{cell(k)}</th><td style='text-align:left'>{cell(v)}</td></tr>" for k, v in facts
    )
    rows = "".join("<tr>" + "".join(f"<td>{cell(c)}</td>" for c in row) + "</tr>" for row in constraints)
    if rows:
        titles = "".join(f"<th>{cell(t)}</th>" for t in head)
        rows = f"<table><thead><tr>{titles}</tr></thead><tbody>{rows}</tbody></table>"
    return f"<table><tbody>{body}</tbody></table>{rows}"


def need(module: str, what: str) -> Any:
    """Import an optional module, or raise an error that says how to install it."""
    import importlib

    try:
        return importlib.import_module(module)
    except ImportError:
        package = module.split(".")[0]
        raise ImportError(f"{what} needs {package}; install it with pip install {package}") from None


def settings(given: Optional[dict], what: str = "options") -> dict:
    """Validate a dictionary of settings and return a copy."""
    if given is None:
        return {}
    if not isinstance(given, dict):
        raise TypeError(f"{what} must be a dict, got {type(given).__name__}")
    for key in given:
        if not isinstance(key, str):
            raise TypeError(f"the keys of {what} must be strings, got {key!r}")
    return dict(given)


class Callback:
    """Adapter between the core and a user's callback, which stops the run by raising ``StopIteration``."""

    def __init__(self, call: Callable, names: Iterable[str], feasibility: float):
        self._call, self._names, self._feasibility = call, list(names), feasibility
        #: Whether the callback stopped the run.
        self.stopped = False
        #: Work of an earlier run, which is added to that of the iterates.
        self.before: Dict[str, Any] = {}

    def __call__(self, row: dict, x: np.ndarray, multipliers: Optional[np.ndarray], upper: Optional[float]) -> bool:
        try:
            self._call(self._intermediate(row, x, multipliers, upper))
        except StopIteration:
            self.stopped = True
        return self.stopped

    def _intermediate(self, row: dict, x: np.ndarray, multipliers: Optional[np.ndarray], upper: Optional[float]) -> Result:
        row = {**row, **{key: row[key] + work for key, work in self.before.items() if key in row}}
        return Result(
            x=x,
            fun=row["objective"],
            maxcv=max(row["violation"], 0.0),
            nit=row["iteration"],
            seconds=row["seconds"],
            passes_f=row["passes_f"],
            passes_g=row["passes_g"],
            signed=dict(zip(self._names, row["constraints"])),
            dual=None if multipliers is None else named(self._names, multipliers),
            stationarity=upper,
            feasibility=self._feasibility,
        )


class Several:
    """Several callbacks as one."""

    def __init__(self, callbacks: Any):
        self._callbacks = [callbacks] if callable(callbacks) else list(callbacks)
        for given in self._callbacks:
            if not callable(given):
                raise TypeError(f"callbacks must be callables, got {type(given).__name__}")

    def __call__(self, intermediate: Result) -> None:
        for callback in self._callbacks:
            callback(intermediate)

    def finish(self, result: Optional[Result]) -> None:
        """Call ``finish`` of the callbacks that have it."""
        for callback in self._callbacks:
            finish(callback, result)


def finish(callback: Optional[Callable], result: Optional[Result]) -> None:
    """Call ``callback.finish(result)`` if it exists; its exceptions carry the result."""
    ending = getattr(callback, "finish", None)
    if ending is not None:
        try:
            ending(result)
        except BaseException as raised:
            raise_with(raised, result)


def named(names: Iterable[str], values: Iterable[float]) -> dict:
    """Return numbers by the names of the constraints."""
    return {name: float(value) for name, value in zip(names, values)}


def raise_with(raised: BaseException, result: Any) -> None:
    """Raise a user's own exception again, with the result so far as its attribute ``result``."""
    # Some exceptions take no attributes; they are raised without it.
    with contextlib.suppress(AttributeError, TypeError):
        raised.result = result  # type: ignore[attr-defined]
    raise raised
