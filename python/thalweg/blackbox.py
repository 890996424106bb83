"""Black boxes: functions of which only values can be had, under any number of constraints.

``minimize`` asks for the constraints by their indices, a few at a time, and for several points in one call. Problems with
subgradients, and scipy's ``NonlinearConstraint``, belong to :func:`thalweg.minimize`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Optional, Sequence, Tuple, Union

import numpy as np
from scipy.optimize import LinearConstraint

from thalweg import _core
from thalweg._functions import count, domain, for_core, linear_rows, sides, vector
from thalweg._result import Callback, History, Result, finish, notes_of, raise_with, settings
from thalweg._running import conduct, name_of, running, status_of

__all__ = ["METHODS", "BlackBoxResult", "minimize"]

#: Names of the methods. All but the first project onto the constraints.
METHODS = tuple(_core.solvers("blackbox"))
#: Up to so many constraints each one is in the history.
LISTED = 200
#: How many of the largest a result shows.
WORST = 10


class BlackBoxResult(Result):
    """What :func:`minimize` returns: an ``OptimizeResult`` whose numbers were measured at ``x`` on all samples and constraints.

    Attributes
    ----------
    x : ndarray
        The point that the method returns, repaired if that was asked for. It need not keep the constraints: ``best_feasible``
        does.
    fun : float
        The objective there.
    success : bool
        Every constraint is kept within ``ctol`` on a full evaluation, and the run did not fail. It says nothing about why the run
        ended: that is in ``status`` and ``message``.
    status : int
        0 the solver finished or reached its target, 1 a limit was reached, 3 stopped by the callback, 4 interrupted, 5 it
        failed.
    message : str
        The same in words.
    nit, nfev, ncev : int
        Iterations, points at which `fun` was asked, and single values of constraints that were asked for; measuring is in it.
    maxcv : float
        By how much the worst constraint is violated; 0 if none is.
    violated : float
        The share of the constraints that are violated by more than ``ctol``.
    worst : list of (int or str, float)
        The ten constraints with the largest values, the largest first, by index, or by name if they have names. Values above 0
        violate.
    zeroth_order : dict or None
        What values say about the point: ``gradient`` has the ``value`` of the gradient norm of the penalised objective and its
        standard ``error``. None after a failure or an interruption.
    best_feasible : OptimizeResult or None
        The feasible point with the smallest objective among all that were measured: ``x``, ``fun``.
    history : History
        The measured iterates. With more than 200 constraints its ``constraints`` has no columns; ``maxcv`` is always there.
    method, seed, seconds, ctol
        What was asked for, and the time without measuring.
    notes : list of Note
        What a careful reader should know.
    """

    _shown = ("success", "message", "fun", "maxcv", "violated", "nit", "nfev", "ncev", "method", "seconds")

    def _constraint_rows(self) -> list:
        return [(name, f"{value:.6g}", "kept" if value <= self.ctol else "violated") for name, value in self.worst]


def minimize(
    fun: Callable,
    x0: Any,
    *,
    constraints: Union[Callable, LinearConstraint, None] = None,
    n_constraints: Optional[int] = None,
    vectorized: bool = False,
    bounds: Any = None,
    n_samples: Optional[int] = None,
    method: str = METHODS[0],
    names: Union[Sequence[str], Callable[[int], str], None] = None,
    repair: bool = False,
    callback: Optional[Callable] = None,
    options: Optional[dict] = None,
    seed: Optional[int] = None,
    ctol: float = 1e-6,
    verbose: int = 0,
) -> BlackBoxResult:
    """Minimises a function by its values, under any number of constraints ``g_j(x) <= 0`` of which a few are asked for at a time.

    Parameters
    ----------
    fun : callable
        ``fun(x)`` gives a number; if `vectorized`, ``fun(X)`` gives k numbers for the k rows of ``X``. With `n_samples` it takes
        the indices of samples as a second argument. ``x`` and ``X`` are new arrays at each call.
    x0 : array_like
        Where to start. It need not keep the constraints.
    constraints : callable or LinearConstraint, optional
        ``constraints(x, which)`` gives the values of the constraints with the indices ``which``, an array of int64, in that
        order: at most 0 if they hold. If `vectorized`, ``constraints(X, which)`` gives an array of shape ``(k, len(which))``. A
        ``scipy.optimize.LinearConstraint``, dense or sparse, has one constraint for each row, ``max(A x - ub, lb - A x)``. It is
        evaluated without calling Python, and points can be projected onto it.
    n_constraints : int, optional
        How many constraints a callable has.
    vectorized : bool
        Both functions take several points at once: one call for all points that the method perturbs.
    bounds : Bounds, pairs (low, high), Ball or Simplex, optional
        A simple set that every iterate stays in. Functions are also asked at points near it, a perturbation away.
    n_samples : int, optional
        The objective is a mean over so many samples, and `fun` takes the indices of some of them, an array of int64.
    method : str
        One of ``thalweg.solvers("blackbox")``. 'dszog', the default, uses values of the constraints and penalises violations: its
        point is near the feasible set, and inside it only with ``margin`` in the options, or repaired. The others project onto
        a LinearConstraint, or run without constraints; 'zoscgd' and 'accszofw' need bounds that are bounded.
    names : sequence of str or callable, optional
        What the constraints are called: one name for each, or a function of the index, which is asked for few of them.
    repair : bool
        Project the returned point onto the constraints if it violates any; needs a LinearConstraint.
    callback : callable, optional
        Called as ``callback(intermediate)`` with one object that has x, fun, maxcv, nit, seconds, for each measured iterate.
        ``StopIteration`` ends the run.
    options : dict, optional
        ``maxiter`` (default 10,000), ``budget`` (iterations, passes, samples, seconds), ``stop`` (objective), ``record`` (every,
        at, per_decade) for the iterates that are measured, each with all constraints: by default 0, 1, 2, 5, 10, 20, … and
        the last; and the settings of the method by their names in specs, such as eta_w, beta and margin of dszog.
    seed : int, optional
        Seed of everything that is drawn. Without one it is 0: the same call gives the same numbers.
    ctol : float
        A constraint is kept if its value is at most this.
    verbose : int
        1 shows progress.

    Returns
    -------
    BlackBoxResult
        With ``x``, ``fun``, ``success``, ``maxcv``, ``violated``, ``worst`` and more.

    Notes
    -----
    An exception that a function raises ends the run and is raised again, unchanged; what was reached is its attribute ``result``.
    A value that is not finite ends the run at the last good point, and the message names the constraint, ``g[j]`` if it has no
    name. Ctrl-C ends the run once the function that is being called returns, and the result has what was reached.

    Unlike :func:`thalweg.minimize`, whose 'dszog' takes the same steps on the same problem with the same seed, it returns the
    method's own point although a feasible one was measured: of so many constraints the start is often the only one.

    Examples
    --------
    The unit disc as a hundred thousand half-planes, of which 'dszog' asks for at most 256 in an iteration:

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
    ...     options={"maxiter": 3000, "beta": 100.0, "margin": 0.05},
    ... )
    >>> result.success, bool(np.linalg.norm(result.x - [1.0, 0.0]) < 0.1)
    (True, True)

    A LinearConstraint can be projected onto:

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
        raise TypeError(f"fun is of type {type(fun).__name__}: wanted a function of x")
    x0 = vector(x0, "x0")
    name = name_of(method, METHODS)
    if name not in METHODS:
        raise ValueError(f"method = {method!r}: wanted one of {', '.join(METHODS)}, which use values alone")
    asked = _understand(constraints, n_constraints, len(x0))
    if callable(constraints) and (repair or name != METHODS[0]):
        what, instead = (name, f"method={METHODS[0]!r}, which uses values alone")
        if name == METHODS[0]:
            what, instead = "repair", "no repair"
        raise ValueError(
            f"{what} projects onto the constraints, which a function does not describe: wanted a LinearConstraint, or {instead}"
        )
    how = {**conduct(given, seed, ctol, None), "repair": bool(repair), "listed": LISTED}
    label = _labels(names, asked)
    core = _core.BlackBox(
        len(x0),
        fun,
        constraints=asked.given,
        name=lambda j: _called(label(j)),
        vectorized=bool(vectorized),
        domain=domain(bounds, len(x0)),
        samples=None if n_samples is None else count(n_samples, "n_samples"),
    )
    listed = [_called(label(j)) for j in range(asked.count)] if asked.count <= LISTED else []
    watch = None if callback is None else Callback(callback, listed, ctol)
    with running(verbose, "minimize") as run:
        outcome, ended, raised = _core.minimize_zeroth_order(
            core, x0, {"name": name, **given}, how, run.interrupt, watch, run.on_progress
        )
    result = None
    if outcome is not None:
        stopped = watch is not None and watch.stopped
        result = _result(outcome, ended, core.calls(), label, History(outcome["trace"], listed), ctol, stopped)
    if raised is not None:
        raise_with(raised, result)
    assert result is not None
    finish(callback, result)
    return result


@dataclass(frozen=True)
class _Asked:
    """Constraints as the core asks for them."""

    #: A function and how many, or rows with both sides; None without constraints.
    given: Optional[tuple]
    count: int
    #: The index of each by the caller's counting, if that is another one: rows without a bound are no constraints.
    index: Optional[np.ndarray] = None
    #: How many names there are.
    names: int = 0


def _understand(constraints: Any, n_constraints: Optional[int], dim: int) -> _Asked:
    if constraints is None:
        if n_constraints is not None:
            raise ValueError(f"n_constraints = {n_constraints!r} without constraints: wanted a function of x and indices")
        return _Asked(None, 0)
    if isinstance(constraints, LinearConstraint):
        what = "the LinearConstraint"
        rows = linear_rows(constraints.A, dim, what)
        size = rows.shape[0]
        if n_constraints is not None and n_constraints != size:
            raise ValueError(f"n_constraints = {n_constraints!r}: wanted {size}, the rows of {what}, or nothing")
        low, high = sides(constraints.lb, what, "lb", size), sides(constraints.ub, what, "ub", size)
        free = (low == -np.inf) & (high == np.inf)
        if not np.any(free):
            return _Asked((for_core(rows), low, high), size, names=size)
        index = np.flatnonzero(~free)
        return _Asked((for_core(rows[index]), low[index], high[index]), len(index), index, names=size)
    if not callable(constraints):
        raise TypeError(
            f"constraints is of type {type(constraints).__name__}: wanted a function of x and indices, or one LinearConstraint"
        )
    if n_constraints is None:
        raise ValueError("constraints is a function, and n_constraints is not given: wanted how many constraints it has")
    size = count(n_constraints, "n_constraints")
    return _Asked((constraints, size), size, names=size)


def _labels(names: Any, asked: _Asked) -> Callable[[int], Union[int, str]]:
    """What the caller knows a constraint of the core by: its name, or its index."""
    left = asked.index
    index: Callable[[int], int] = int if left is None else (lambda j: int(left[j]))
    if names is None:
        return index
    if callable(names):
        return lambda j: str(names(index(j)))
    if isinstance(names, (str, bytes)) or not hasattr(names, "__len__"):
        raise TypeError(f"names is of type {type(names).__name__}: wanted a sequence of names, or a function of the index")
    given = list(names)
    if len(given) != asked.names:
        raise ValueError(f"names has {len(given)} entries: wanted {asked.names}, one for each constraint")
    return lambda j: str(given[index(j)])


def _called(label: Union[int, str]) -> str:
    return label if isinstance(label, str) else f"g[{label}]"


def _result(
    outcome: dict,
    ended: str,
    calls: Tuple[int, int],
    label: Callable[[int], Union[int, str]],
    history: History,
    ctol: float,
    stopped: bool,
) -> BlackBoxResult:
    point, best = outcome["point"], outcome["best_feasible"]
    status = status_of(outcome["ended"], stopped)
    words = "stopped by the callback" if status == 3 else ended
    largest = sorted(point["constraints"], key=lambda c: -np.inf if np.isnan(c["value"]) else -c["value"])
    return BlackBoxResult(
        x=np.array(point["x"]),
        fun=point["objective"],
        success=bool(point["feasible"] and status != 5),
        status=status,
        message=f"{'feasible' if point['feasible'] else 'not feasible'}; {words}",
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
        ctol=ctol,
        notes=notes_of(outcome["notes"]),
    )
