"""``thalweg.minimize``: functions of one's own, by scipy's conventions."""

from __future__ import annotations

import json
from typing import Any, Callable, Optional

import numpy as np

from thalweg import _core
from thalweg._functions import Problem, problem
from thalweg._result import Callback, Certificate, History, Note, Result, finish, named, notes_of, raise_with, settings
from thalweg._running import conduct, name_of, running, status_of

#: Names of the methods.
METHODS = ("auto", *_core.solvers("minimize"))


class MinimizeResult(Result):
    """What :func:`minimize` returns: an ``OptimizeResult`` whose numbers were measured at ``x`` on all data.

    Attributes
    ----------
    x : ndarray
        The point.
    fun : float
        The objective there.
    success : bool
        Every constraint is kept within ``ctol`` on a full evaluation, and the run did not fail. It says nothing about why the run
        ended: that is in ``status`` and ``message``.
    status : int
        0 the solver finished or reached its target, 1 a limit was reached, 2 the method found that the constraints cannot be
        kept, 3 stopped by the callback, 4 interrupted, 5 failed.
    message : str
        The same in words.
    nit, nfev, njev : int
        Iterations, and calls of the objective and of its gradient.
    maxcv : float
        By how much the worst constraint is violated; 0 if none is.
    constr : list of ndarray
        The values of each constraint's function.
    multipliers : list of ndarray or None
        For each of these values, above 0 if its upper side holds it back, below 0 for its lower side.
    certificate : Certificate or None
        How near ``x`` is to stationary; see ``rho`` of :func:`minimize`.
    zeroth_order : dict or None
        After a method that uses values alone: the gradient norm of the penalised objective with its standard error, and more.
    best_feasible : OptimizeResult or None
        The feasible point with the smallest objective among all that were measured: ``x``, ``fun``.
    violations : dict
        By how much each inequality is violated, by name; 0 if it is kept.
    dual : dict or None
        The multiplier of each inequality, by name.
    passes_f, passes_g : float
        Passes over the data that were spent on the objective and on the constraints.
    history : History
        The measured iterates.
    notes : list of Note
        What a careful reader should know.
    """


def minimize(
    fun: Callable,
    x0: Any,
    args: tuple = (),
    *,
    jac: Any = None,
    constraints: Any = (),
    bounds: Any = None,
    method: str = "auto",
    callback: Optional[Callable] = None,
    options: Optional[dict] = None,
    n_samples: Optional[int] = None,
    seed: Optional[int] = None,
    rho: Any = None,
    ctol: float = 1e-6,
    eq_tol: float = 1e-6,
    verbose: int = 0,
) -> MinimizeResult:
    """Minimises a function under constraints, where neither has to be smooth or convex.

    Parameters
    ----------
    fun : callable
        ``fun(x)``, or ``fun(x, rows)`` with `n_samples`. ``x`` is a new array at each call.
    x0 : array_like
        Where to start. It need not keep the constraints.
    args : tuple, optional
        Further arguments of `fun` and `jac`.
    jac : callable, True or {'2-point', '3-point', 'cs'}
        A subgradient of `fun`: any one where there are several. True if `fun` returns the pair of value and subgradient. The
        names ask for finite differences, also for constraints that have no ``jac`` of their own. Without it
        there is 'dszog', which uses values alone.
    constraints : NonlinearConstraint, LinearConstraint, dict, or a list of them
        As in ``scipy.optimize``, with its signs: ``lb <= fun(x) <= ub``, or ``fun(x) >= 0`` for a dict with type 'ineq'. An
        equality becomes two inequalities that hold within `eq_tol`.
    bounds : Bounds, pairs (low, high), Ball or Simplex, optional
        A simple set that every iterate stays in.
    method : str
        'auto', which chooses and says why in ``notes``, or one of ``thalweg.solvers("minimize")``. 'dszog' uses values alone and
        penalises violations: its point is near the feasible set, and inside it only with ``margin`` in the options.
    callback : callable, optional
        Called as ``callback(intermediate)`` with one object that has x, fun, maxcv, nit, seconds, passes_f, passes_g, every
        inequality by name in ``signed`` and, where the method has them, multipliers by name in ``dual`` and a bound on the
        distance to the proximal point in ``stationarity``; else they are None. ``StopIteration`` ends the run. With a callback
        every iterate is measured, unless ``options['record']`` says otherwise. A callback that has ``finish`` is called as
        ``callback.finish(result)`` at the end. :mod:`thalweg.callbacks` has some.
    options : dict, optional
        ``maxiter`` (default 10,000), ``budget`` (iterations, passes, samples, seconds), ``record`` (every, at, per_decade),
        ``stop`` (objective), ``certificate`` (mu, width, target, evaluations), and the settings of the method by their names in
        specs, such as eta and tol of ssg.
    n_samples : int, optional
        The objective and the constraints are means over so many samples, and their functions take the indices of some of them
        as second argument. Methods with batches draw them; others ask for all.
    seed : int, optional
        Seed of everything that is drawn. Without one it is 0: the same call gives the same numbers.
    rho : float, pair of floats or 'estimate', optional
        Weak-convexity constant of the objective and of the constraints (0 for convex): how much of ``||x||^2 / 2`` makes them
        convex. With it the result has a certificate, which is as true as the constant. 'estimate' takes the largest that visited
        points ask for, and the certificate is marked as estimated. Without it there is no certificate.
    ctol : float
        A constraint is kept if it is violated by at most this, times the size of its bound if that is above 1.
    eq_tol : float
        What an equality may be off by.
    verbose : int
        1 shows progress.

    Returns
    -------
    MinimizeResult
        With ``x``, ``fun``, ``success``, ``maxcv``, ``certificate`` and more.

    Notes
    -----
    An exception that `fun` or another function raises ends the run and is raised again, unchanged; what was reached is its
    attribute ``result``. Ctrl-C ends the run once the function that is being called returns, and the result has what was reached.

    Examples
    --------
    The point of a disc that is nearest to (2, 2) in the sum of absolute differences, with a cap on the first variable:

    >>> import numpy as np, thalweg
    >>> from scipy.optimize import NonlinearConstraint
    >>> disc = NonlinearConstraint(lambda x: x @ x, -np.inf, 1.0, jac=lambda x: 2 * x)
    >>> result = thalweg.minimize(
    ...     lambda x: np.abs(x - 2).sum(), [0.0, 0.0], jac=lambda x: np.sign(x - 2),
    ...     constraints=[disc], bounds=[(None, 0.6), (None, None)], rho=0.0,
    ... )
    >>> result.success, np.round(result.x, 3)
    (True, array([0.6, 0.8]))
    >>> result.certificate.upper < 1e-3
    True
    """
    given = settings(options)
    posed = problem(
        fun, x0, args=args, jac=jac, constraints=constraints, bounds=bounds, n_samples=n_samples, rho=rho, eq_tol=eq_tol
    )
    certificate = settings(given.pop("certificate", None), "options['certificate']")
    how = conduct(given, seed, ctol, {"every": 1} if callback is not None else None)
    solver = {"name": name_of(method, METHODS), **given}
    watch = None if callback is None else Callback(callback, posed.names, ctol)
    with running(verbose, "minimize") as run:
        outcome, ended, choice, raised = _core.minimize(posed.core, posed.x0, solver, how, run.interrupt, watch, run.on_progress)
    result = None if outcome is None else _result(posed, outcome, ended, choice, ctol, watch is not None and watch.stopped)
    if raised is not None:
        raise_with(raised, result)
    assert result is not None and outcome is not None
    if outcome["zeroth_order"] is not None:
        result.certificate_refused = "the method used values alone, which prove nothing: see zeroth_order"
    elif rho is not None and np.all(np.isfinite(result.x)):
        _certify(posed, result, certificate)
    else:
        result.certificate_refused = "no weak-convexity constant was given: rho=… claims one, rho='estimate' estimates it"
    finish(callback, result)
    return result


def _reasons(choice: Optional[tuple]) -> list:
    """Why a solver was chosen, and the arguments that repeat the run."""
    if choice is None:
        return []
    sentences, name, changed = choice
    options = ", ".join(f"{json.dumps(key)}: {value!r}" for key, value in changed.items())
    return [*sentences, f"to repeat: method={json.dumps(name)}" + (f", options={{{options}}}" if options else "")]


def _result(posed: Problem, outcome: dict, ended: str, choice: Optional[tuple], ctol: float, stopped: bool) -> MinimizeResult:
    point, multipliers, zeroth_order = outcome["point"], outcome["multipliers"], outcome["zeroth_order"]
    notes = notes_of(posed.notes + _reasons(choice) + outcome["notes"])
    best, status = outcome["best_feasible"], status_of(outcome["ended"], stopped)
    if best is not None and not point["feasible"]:
        point, multipliers, zeroth_order = best, None, None
        notes.append(Note("the solver's output is infeasible; this is the best feasible point measured", "best-feasible"))
    signed = {c["name"]: c["value"] for c in point["constraints"]}
    words = "stopped by the callback" if status == 3 else ended
    x = np.array(point["x"])
    nfev, njev = posed.core.calls()
    try:
        constr = posed.core.function_values(x)
    except Exception:  # what made the run fail may fail here too
        constr = [np.full(size, np.nan) for size in posed.sizes]
    return MinimizeResult(
        x=x,
        fun=point["objective"],
        success=bool(point["feasible"] and status != 5),
        status=status,
        message=f"{'feasible' if point['feasible'] else 'not feasible'}; {words}",
        nit=outcome["iterations"],
        nfev=nfev,
        njev=njev,
        maxcv=max(point["violation"], 0.0),
        constr=constr,
        multipliers=None if multipliers is None else posed.by_constraint(multipliers),
        dual=None if multipliers is None else named(posed.names, multipliers),
        passes_f=outcome["passes"]["objective"],
        passes_g=outcome["passes"]["constraints"],
        certificate=None,
        zeroth_order=zeroth_order,
        best_feasible=None if best is None else Result(x=np.array(best["x"]), fun=best["objective"]),
        violations={name: max(value, 0.0) for name, value in signed.items()},
        signed=signed,
        history=History(outcome["trace"], posed.names),
        method=outcome["solver"],
        seconds=outcome["seconds"],
        seed=outcome["seed"],
        ctol=ctol,
        notes=notes,
    )


def _certify(posed: Problem, result: MinimizeResult, how: dict) -> None:
    try:
        found = _core.certify(posed.core, result.x, {"feasibility": result.ctol, **how})
    except ValueError as refused:
        result.certificate_refused = str(refused)
    else:
        result.certificate = Certificate.of(found)
