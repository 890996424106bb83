"""Black-box minimisation: functions with values only, under any number of constraints.

``minimize`` evaluates constraints by index, a few at a time, and several points in one call. For problems with subgradients or a
``NonlinearConstraint``, use :func:`thalweg.minimize`.
"""

from __future__ import annotations

import contextlib
import functools
import multiprocessing
from dataclasses import dataclass
from typing import Any, Callable, Iterator, Optional, Sequence, Tuple, Union

import numpy as np
from scipy.optimize import LinearConstraint

from thalweg import _core
from thalweg._functions import count, domain, for_core, limits, linear_rows, vector
from thalweg._result import Callback, History, Result, constraint_rows, finish, notes_of, raise_with, settings
from thalweg._running import StopReason, name_of, run_options, running

__all__ = ["METHODS", "BlackBoxResult", "minimize"]

#: Name of the default method, and the solver that it stands for.
AUTO, CHOSEN = "auto", "trust-region"
#: Names of the methods.
METHODS = (AUTO, *_core.solvers("blackbox"))
#: Methods that use values of the constraints; the others project onto them.
BY_VALUES = (AUTO, CHOSEN, "dszog")
#: Largest number of constraints that the history lists individually.
LISTED = 200
#: Number of the largest constraints in a result.
WORST = 10


class BlackBoxResult(Result):
    """Result of :func:`minimize`: an ``OptimizeResult`` whose numbers are measured at ``x`` on all samples and constraints.

    Attributes
    ----------
    x : ndarray
        Output of the method, after repair if requested. It may violate the constraints; ``best_feasible`` satisfies them.
    fun : float
        Objective at ``x``.
    success : bool
        Whether every constraint is satisfied within ``feasibility`` on all data, and the run neither failed nor reached a limit
        before the stopping criterion of 'trust-region' was met. The other solvers have no stopping criterion, so that their
        success is no statement about optimality. ``status`` and ``message`` tell why the run stopped.
    status : int
        0 finished or reached the target, 1 reached a limit with a solver without a stopping criterion, 3 stopped by the callback,
        4 interrupted, 5 failed, 6 reached a limit before the stopping criterion was met.
    message : str
        Description of ``success`` and ``status``.
    nit, nfev, ncev : int
        Number of iterations, of points at which `fun` was evaluated, and of constraint values, including measurements.
    maxcv : float
        Largest constraint violation; 0 if all are satisfied.
    violated : float
        Fraction of the constraints that are violated by more than ``feasibility``.
    worst : list of (int or str, float)
        The ten constraints with the largest values in decreasing order, by name or index. Positive values violate the constraint.
    zeroth_order : dict or None
        Zeroth-order check of the point: ``gradient`` has the ``value`` of the gradient norm of the penalised objective and its
        standard ``error``. None after a failure or an interruption.
    best_feasible : OptimizeResult or None
        Best feasible point among the recorded iterates: ``x``, ``fun``.
    history : History
        Recorded iterates. With more than 200 constraints, ``constraints`` has no columns; ``maxcv`` is always available.
    method, seed, seconds, feasibility
        Solver, random seed, time without measurements, and feasibility tolerance.
    notes : list of Note
        Remarks on the result.
    """

    _shown = ("success", "message", "fun", "maxcv", "violated", "nit", "nfev", "ncev", "method", "seconds")

    def _constraint_rows(self) -> list:
        return constraint_rows(self.worst, self.feasibility)


def minimize(
    fun: Callable,
    x0: Any,
    *,
    constraints: Union[Callable, LinearConstraint, None] = None,
    n_constraints: Optional[int] = None,
    vectorized: bool = False,
    bounds: Any = None,
    n_samples: Optional[int] = None,
    method: str = AUTO,
    max_evaluations: Optional[int] = None,
    workers: Union[int, Callable, None] = None,
    names: Union[Sequence[str], Callable[[int], str], None] = None,
    repair: bool = False,
    callback: Optional[Callable] = None,
    options: Optional[dict] = None,
    seed: Optional[int] = None,
    feasibility: float = 1e-6,
    verbose: int = 0,
) -> BlackBoxResult:
    """Minimise a function from its values, under any number of constraints ``g_j(x) <= 0`` evaluated a few at a time.

    Parameters
    ----------
    fun : callable
        Objective: ``fun(x)`` returns a number; if `vectorized`, ``fun(X)`` returns k numbers for the k rows of ``X``. With
        `n_samples` it takes sample indices as second argument. ``x`` and ``X`` are new arrays in each call.
    x0 : array_like
        Starting point. It may violate the constraints.
    constraints : callable or LinearConstraint, optional
        ``constraints(x, which)`` returns the values of the constraints with indices ``which``, an array of int64, in that order;
        at most 0 if satisfied. If `vectorized`, ``constraints(X, which)`` returns an array of shape ``(k, len(which))``. A
        ``scipy.optimize.LinearConstraint``, dense or sparse, has one constraint for each row, ``max(A x - ub, lb - A x)``. It is
        evaluated without calling Python, and points can be projected onto it.
    n_constraints : int, optional
        Number of constraints of a callable.
    vectorized : bool
        Whether both functions take several points in one call, such as all perturbed points of an iteration.
    bounds : Bounds, pairs (low, high), Ball or Simplex, optional
        Simple set that contains every iterate. Functions are also evaluated at perturbed points slightly outside it.
    n_samples : int, optional
        Number of samples. The objective is a mean over samples, and `fun` takes sample indices, an array of int64.
    method : str
        Solver; 'auto' or one of ``thalweg.solvers("blackbox")``. 'auto', the default, is 'trust-region', which needs no settings:
        it measures noise and units, steps to the minimiser of a model under a working set of constraints, and returns the best
        feasible point. 'dszog' penalises values of constraints drawn at random: its point may violate the constraints slightly,
        unless the options have a ``margin`` or `repair` is set. The others project onto a LinearConstraint, or run without
        constraints; 'zoscgd' and 'accszofw' need bounded `bounds`.
    max_evaluations : int, optional
        Largest number of points at which 'trust-region' evaluates `fun`; by default 100 for each of up to 150 variables, and
        1,000 more. ``notes`` have the number that was used.
    workers : int or callable, optional
        Evaluate several points at the same time: an int is a number of processes, for which the functions must be picklable; a
        callable is used as ``workers(function, points)`` in place of ``map``, such as the ``map`` of an executor. The results are
        the same for any number. Not with `vectorized`, whose functions take several points anyway.
    names : sequence of str or callable, optional
        Names of the constraints: one for each, or a function of the index, which is called for few of them.
    repair : bool
        Whether to project the returned point onto the constraints if it violates any; needs a LinearConstraint.
    callback : callable, optional
        Called as ``callback(intermediate)`` with an object that has x, fun, maxcv, nit, seconds, for each recorded iterate.
        ``StopIteration`` stops the run.
    options : dict, optional
        ``maxiter`` (default 10,000; an iteration of 'trust-region' is one batch of evaluations), ``budget`` (iterations, passes,
        samples, seconds), ``stop`` (objective), ``record`` (every, at, per_decade) for the recorded iterates, each with all
        constraints: by default 0, 1, 2, 5, 10, 20, … and the last; and the settings of the method with the names of specs, such
        as tolerance of 'trust-region', and eta_w, beta and margin of 'dszog'.
    seed : int, optional
        Random seed, 0 by default: the same call gives the same result.
    feasibility : float
        Feasibility tolerance: a constraint is satisfied if its value is at most this.
    verbose : int
        1 shows progress.

    Returns
    -------
    BlackBoxResult
        With ``x``, ``fun``, ``success``, ``maxcv``, ``violated``, ``worst`` and more.

    Notes
    -----
    An exception in a function stops the run and is raised again, unchanged, with the result so far as its attribute ``result``.
    A value that is not finite stops the run at the last finite point, and the message names the constraint, ``g[j]`` if it has no
    name. Ctrl-C stops the run after the current function call and returns the result so far.

    The 'dszog' of :func:`thalweg.minimize` takes the same steps on the same problem with the same seed, but returns the best
    feasible iterate if its output is infeasible. Here the output is returned: with many constraints the starting point is often
    the only feasible iterate.

    Examples
    --------
    The unit disc as a hundred thousand half-planes:

    >>> import numpy as np
    >>> from thalweg import blackbox
    >>> angle = np.arange(100_000) * (2 * np.pi / 100_000)
    >>> normals = np.stack([np.cos(angle), np.sin(angle)])
    >>> result = blackbox.minimize(
    ...     lambda X: ((X - [2.0, 0.0]) ** 2).sum(axis=1),
    ...     [0.0, 0.5],
    ...     constraints=lambda X, which: X @ normals[:, which] - 1.0,
    ...     n_constraints=100_000,
    ...     vectorized=True,
    ... )
    >>> result.success, bool(np.linalg.norm(result.x - [1.0, 0.0]) < 0.01)
    (True, True)

    Projection onto a LinearConstraint:

    >>> from scipy.optimize import LinearConstraint
    >>> rows = LinearConstraint([[1.0, 1.0], [-1.0, 1.0]], -np.inf, [1.0, 0.5])
    >>> result = blackbox.minimize(
    ...     lambda x: -x[0] - 2 * x[1], [0.0, 0.0], constraints=rows, method="zopsgd", options={"maxiter": 500}
    ... )
    >>> result.success, np.round(result.x, 2)
    (True, array([0.25, 0.75]))
    """
    given = settings(options)
    if not callable(fun):
        raise TypeError(f"fun must be a function of x, got {type(fun).__name__}")
    x0 = vector(x0, "x0")
    name = name_of(method, METHODS)
    if name not in METHODS:
        raise ValueError(f"method must be one of {', '.join(METHODS)}, got {method!r}")
    parsed = _parse(constraints, n_constraints, len(x0))
    if callable(constraints) and (repair or name not in BY_VALUES):
        what, instead = ("repair", "repair=False") if name in BY_VALUES else (name, f"method={AUTO!r}")
        raise ValueError(f"{what} projects onto the constraints; use a LinearConstraint in place of a function, or {instead}")
    name = CHOSEN if name == AUTO else name
    if max_evaluations is not None:
        if name != CHOSEN:
            raise ValueError(f"max_evaluations is a limit of {CHOSEN!r}; with method={name!r} set options={{'maxiter': ...}}")
        given["max_evaluations"] = count(max_evaluations, "max_evaluations")
    if workers is not None and vectorized:
        raise ValueError("workers evaluate points one by one; expected vectorized=False, or workers=None")
    how = {**run_options(given, seed, feasibility, None), "repair": bool(repair), "listed": LISTED}
    label = _labels(names, parsed)
    listed = [_display_name(label(j)) for j in range(parsed.count)] if parsed.count <= LISTED else []
    watch = None if callback is None else Callback(callback, listed, feasibility)
    with running(verbose, "minimize") as run, _pool(workers) as each:
        of_constraints = parsed.given
        if each is not None:
            fun = _Mapped(each, fun)
            if callable(constraints):
                of_constraints = (_Mapped(each, constraints), parsed.count)
        core = _core.BlackBox(
            len(x0),
            fun,
            constraints=of_constraints,
            name=lambda j: _display_name(label(j)),
            vectorized=bool(vectorized) or each is not None,
            domain=domain(bounds, len(x0)),
            samples=None if n_samples is None else count(n_samples, "n_samples"),
        )
        outcome, told, raised = _core.minimize_zeroth_order(
            core, x0, {"name": name, **given}, how, run.interrupt, watch, run.on_progress
        )
    result = None
    if outcome is not None and told is not None:
        if outcome["ended"] == "finished" and any(isinstance(note, dict) and note.get("limited") for note in outcome["notes"]):
            told = ("stopped at the limit of evaluations", "unfinished")
        ended = StopReason(outcome["ended"], told, watch is not None and watch.stopped)
        result = _result(outcome, ended, core.calls(), label, History(outcome["trace"], listed), feasibility)
    if raised is not None:
        raise_with(raised, result)
    assert result is not None
    finish(callback, result)
    return result


class _Mapped:
    """Function of several points that evaluates a function of one point by a map."""

    def __init__(self, each: Callable, function: Callable):
        self._each, self._function = each, function

    def __call__(self, points: np.ndarray, *rest: Any) -> list:
        function = functools.partial(_one, self._function, rest) if rest else self._function
        return list(self._each(function, list(points)))


def _one(function: Callable, rest: tuple, x: np.ndarray) -> Any:
    return function(x, *rest)


@contextlib.contextmanager
def _pool(workers: Any) -> Iterator[Optional[Callable]]:
    """Yield the map that evaluates several points, or None without workers."""
    if workers is None or callable(workers):
        yield workers
        return
    size = count(workers, "workers")
    if size == 1:
        yield None
        return
    with multiprocessing.Pool(size) as pool:
        yield pool.map


@dataclass(frozen=True)
class _Constraints:
    """Constraints in the form that the core evaluates."""

    #: A function and its number of constraints, or rows with both sides; None without constraints.
    given: Optional[tuple]
    count: int
    #: Index of each constraint in the caller's order, if some rows are omitted because they have no bound.
    index: Optional[np.ndarray] = None
    #: Number of names.
    names: int = 0


def _parse(constraints: Any, n_constraints: Optional[int], dim: int) -> _Constraints:
    if constraints is None:
        if n_constraints is not None:
            raise ValueError(
                f"n_constraints = {n_constraints!r} is given without constraints; set constraints to a function of x and indices"
            )
        return _Constraints(None, 0)
    if isinstance(constraints, LinearConstraint):
        what = "the LinearConstraint"
        rows = linear_rows(constraints.A, dim, what)
        size = rows.shape[0]
        if n_constraints is not None and n_constraints != size:
            raise ValueError(f"n_constraints must be {size}, the number of rows of {what}, or None, got {n_constraints!r}")
        low, high = limits(constraints.lb, constraints.ub, what, size)
        free = (low == -np.inf) & (high == np.inf)
        if not np.any(free):
            return _Constraints((for_core(rows), low, high), size, names=size)
        index = np.flatnonzero(~free)
        return _Constraints((for_core(rows[index]), low[index], high[index]), len(index), index, names=size)
    if not callable(constraints):
        raise TypeError(
            f"constraints must be a function of x and indices or one LinearConstraint, got {type(constraints).__name__}"
        )
    if n_constraints is None:
        raise ValueError("n_constraints is required if constraints is a function")
    size = count(n_constraints, "n_constraints")
    return _Constraints((constraints, size), size, names=size)


def _labels(names: Any, parsed: _Constraints) -> Callable[[int], Union[int, str]]:
    """Return a function from the index of a constraint in the core to its name or the caller's index."""
    left = parsed.index
    index: Callable[[int], int] = int if left is None else (lambda j: int(left[j]))
    if names is None:
        return index
    if callable(names):
        return lambda j: str(names(index(j)))
    if isinstance(names, (str, bytes)) or not hasattr(names, "__len__"):
        raise TypeError(f"names must be a sequence of names or a function of the index, got {type(names).__name__}")
    given = list(names)
    if len(given) != parsed.names:
        raise ValueError(f"names must have {parsed.names} entries, one for each constraint, got {len(given)}")
    return lambda j: str(given[index(j)])


def _display_name(label: Union[int, str]) -> str:
    return label if isinstance(label, str) else f"g[{label}]"


def _result(
    outcome: dict,
    ended: StopReason,
    calls: Tuple[int, int],
    label: Callable[[int], Union[int, str]],
    history: History,
    feasibility: float,
) -> BlackBoxResult:
    point, best = outcome["point"], outcome["best_feasible"]
    largest = sorted(point["constraints"], key=lambda c: -np.inf if np.isnan(c["value"]) else -c["value"])
    return BlackBoxResult(
        x=np.array(point["x"]),
        fun=point["objective"],
        success=ended.success(point["feasible"]),
        status=ended.status,
        message=ended.headline(point["feasible"]),
        nit=outcome["iterations"],
        nfev=calls[0],
        ncev=calls[1],
        maxcv=max(point["violation"], 0.0),
        violated=point["violated"] / max(point["total"], 1),
        worst=[(label(c["index"]), c["value"]) for c in largest[:WORST]],
        zeroth_order=outcome["zeroth_order"],
        best_feasible=None if best is None else Result(x=np.array(best["x"]), fun=best["objective"]),
        history=history,
        method=outcome["solver"],
        seconds=outcome["seconds"],
        seed=outcome["seed"],
        feasibility=feasibility,
        notes=notes_of(outcome["notes"]),
    )
