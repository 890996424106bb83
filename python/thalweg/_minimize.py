"""``thalweg.minimize``: minimisation of Python functions with the conventions of scipy.optimize."""

from __future__ import annotations

import json
from typing import Any, Callable, Optional

import numpy as np

from thalweg import _core
from thalweg._functions import Problem, problem, warn_of_equalities
from thalweg._result import Callback, Certificate, History, Note, Result, finish, named, notes_of, raise_with, settings
from thalweg._running import StopReason, name_of, run_options, running

#: Names of the methods.
METHODS = ("auto", *_core.solvers("minimize"))


class MinimizeResult(Result):
    """Result of :func:`minimize`: an ``OptimizeResult`` whose numbers are measured at ``x`` on all data.

    Attributes
    ----------
    x : ndarray
        Solution.
    fun : float
        Objective at ``x``.
    success : bool
        Whether every constraint is satisfied within ``feasibility`` on all data, and the run neither failed nor reached a limit
        before the stopping criterion of its solver was met. A solver without a stopping criterion, such as 'ssg', runs until a
        limit; its success is no statement about optimality. ``status`` and ``message`` tell why the run stopped.
    status : int
        0 finished or reached the target, 1 reached a limit with a solver without a stopping criterion, 2 found the constraints
        infeasible, 3 stopped by the callback, 4 interrupted, 5 failed, 6 reached a limit before the stopping criterion was met,
        7 withdrew the finding that the constraints are infeasible, because a feasible point is known.
    message : str
        Description of ``success`` and ``status``.
    nit, nfev, njev : int
        Number of iterations, of calls of the objective, including those for finite differences, and of gradients.
    maxcv : float
        Largest constraint violation; 0 if all are satisfied.
    constr : list of ndarray
        Values of each constraint function.
    multipliers : list of ndarray or None
        Dual variables of these values: positive for the upper side, negative for the lower side.
    certificate : Certificate or None
        Bounds on the distance of ``x`` from stationarity, if the gradients are right and the constants hold; see ``rho`` of
        :func:`minimize`.
    zeroth_order : dict or None
        Of a zeroth-order method: gradient norm of the penalised objective with its standard error, and more.
    best_feasible : OptimizeResult or None
        Best feasible point among the recorded iterates: ``x``, ``fun``.
    violations : dict
        Violation of each inequality by name; 0 if it is satisfied.
    dual : dict or None
        Dual variable of each inequality by name.
    passes_f, passes_g : float
        Passes over the data for the objective and for the constraints.
    history : History
        Recorded iterates.
    notes : list of Note
        Remarks on the result.
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
    feasibility: float = 1e-6,
    eq_tol: Optional[float] = None,
    verbose: int = 0,
) -> MinimizeResult:
    """Minimise a function subject to constraints. Neither needs to be smooth or convex.

    Parameters
    ----------
    fun : callable
        Objective: ``fun(x)``, or ``fun(x, rows)`` with `n_samples`. ``x`` is a new array in each call.
    x0 : array_like
        Starting point. It may violate the constraints.
    args : tuple, optional
        Additional arguments of `fun` and `jac`.
    jac : callable, True or {'2-point', '3-point', 'cs'}, optional
        A subgradient of `fun`. True if `fun` returns the pair of value and subgradient. The names select finite differences, also
        for constraints without a ``jac``; the default is '3-point', central differences. They never leave `bounds` that are a
        box, but may leave a Ball or Simplex by a step. Finite differences are approximate and wrong at kinks: ``notes`` mention
        them, and a certificate is then not proved. 'dszog' uses values only and needs none.
    constraints : NonlinearConstraint, LinearConstraint, dict, or a list of them
        As in ``scipy.optimize``: ``lb <= fun(x) <= ub``, or ``fun(x) >= 0`` for a dict with type 'ineq'. An equality becomes two
        inequalities. 'sqp' solves problems with equalities if all functions are smooth; the other methods converge slowly on
        them. '2-point' of a NonlinearConstraint is the default of scipy and means the same as no ``jac``.
    bounds : Bounds, pairs (low, high), Ball or Simplex, optional
        Simple set that contains every iterate.
    method : str
        Solver; one of ``thalweg.solvers("minimize")``, or 'auto', which chooses one and gives the reason in ``notes``. It chooses
        'sqp' for problems with equality constraints and at most 200 variables over the whole space or a box; if that stalls or
        ends at an infeasible point without a proof, 'bundle' continues with the remaining budget. The better point is returned.
        'sqp' needs smooth functions. 'dszog' is a zeroth-order penalty method: its point may violate the constraints slightly,
        unless the options have a ``margin``.
    callback : callable, optional
        Called as ``callback(intermediate)`` with an object that has x, fun, maxcv, nit, seconds, passes_f, passes_g, the value of
        every inequality by name in ``signed`` and, if the method provides them, dual variables by name in ``dual`` and a bound on
        the distance to the proximal point in ``stationarity`` (otherwise None). ``StopIteration`` stops the run. With a callback
        every iterate is recorded, unless ``options['record']`` says otherwise. If the callback has a method ``finish``, it is
        called as ``callback.finish(result)`` at the end. See :mod:`thalweg.callbacks`.
    options : dict, optional
        ``maxiter`` (default 10,000), ``budget`` (iterations, passes, samples, seconds), ``record`` (every, at, per_decade),
        ``stop`` (objective), ``certificate`` (mu, width, target, evaluations), and the settings of the method with the names of
        specs, such as eta and tol of ssg.
    n_samples : int, optional
        Number of samples. Objective and constraints are means over samples, and their functions take an array of sample indices
        as second argument. Mini-batch methods draw them; others pass all.
    seed : int, optional
        Random seed, 0 by default: the same call gives the same result.
    rho : float, pair of floats or 'estimate', optional
        Weak-convexity constants of objective and constraints (0 for convex): the multiple of ``||x||^2 / 2`` that makes them
        convex. With it the result has a certificate, which is valid if the constant and the gradients are. 'estimate' uses the
        largest constant that the visited points require, and the certificate is marked as estimated. Without it there is no
        certificate.
    feasibility : float
        Feasibility tolerance: a constraint is satisfied if its violation is at most `feasibility` times its unit, the change that
        its gradient predicts over the length of x. With a solver that uses values only, the unit is ``max(1, |bound|)``.
    eq_tol : float, optional
        Replace ``h(x) = b`` by ``|h(x) - b| <= eq_tol``, which gives methods that need a strictly feasible point some room. By
        default an equality has no room beyond `feasibility`.
    verbose : int
        1 shows progress.

    Returns
    -------
    MinimizeResult
        With ``x``, ``fun``, ``success``, ``maxcv``, ``certificate`` and more.

    Notes
    -----
    An exception in `fun` or another function stops the run and is raised again, unchanged, with the result so far as its
    attribute ``result``. Ctrl-C stops the run after the current function call and returns the result so far.

    Examples
    --------
    The point of the unit disc nearest to (2, 2) in the l1 norm, with an upper bound on the first variable:

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
    name = name_of(method, METHODS)
    posed = problem(
        fun,
        x0,
        args=args,
        jac=jac,
        constraints=constraints,
        bounds=bounds,
        n_samples=n_samples,
        rho=rho,
        eq_tol=eq_tol,
        feasibility=feasibility,
        values_only=name in METHODS[1:] and _core.solver_needs(name) == "values",
        warn=False,
    )
    certificate = settings(given.pop("certificate", None), "options['certificate']")
    how = run_options(given, seed, feasibility, {"every": 1} if callback is not None else None)
    watch = None if callback is None else Callback(callback, posed.names, feasibility)
    result = None
    with running(verbose, "minimize") as run:

        def perform(solver: dict, start: np.ndarray, how: dict) -> tuple:
            outcome, told, choice, raised = _core.minimize(posed.core, start, solver, how, run.interrupt, watch, run.on_progress)
            if outcome is None or told is None:
                return None, None, choice, raised
            return outcome, _stop_reason(outcome, told, watch), choice, raised

        outcome, ended, choice, raised = perform({"name": name, **given}, posed.x0, how)
        if outcome is not None and not _assumes_smooth(outcome["solver"]):
            warn_of_equalities(posed, eq_tol, stacklevel=3)
        fallback = None if choice is None else choice[-1]
        if fallback is not None and outcome is not None and raised is None and _needs_fallback(outcome, ended):
            left = _remaining(how["budget"], outcome)
            if left is not None:
                if watch is not None:
                    watch.before = _work(outcome)
                again = perform({"name": fallback}, np.array(outcome["point"]["x"]), {**how, "budget": left})
                raised = again[-1]
                outcome, ended = _better((outcome, ended), again[:2])
                # No single method repeats the two runs.
                outcome["notes"], choice = choice[0] + outcome["notes"], None
    if outcome is not None:
        result = _result(posed, outcome, ended, choice, feasibility)
    if raised is not None:
        raise_with(raised, result)
    assert result is not None and outcome is not None
    if outcome["zeroth_order"] is not None:
        result.certificate_refused = "a zeroth-order method gives no certificate; see zeroth_order"
    elif rho is not None and np.all(np.isfinite(result.x)):
        _certify(posed, result, outcome["ended"], certificate)
    else:
        result.certificate_refused = "no weak-convexity constant was given; set rho, or rho='estimate' to estimate it"
    finish(callback, result)
    return result


def _assumes_smooth(solver: str) -> bool:
    """Return whether a method assumes smooth functions, and therefore takes equality constraints."""
    return _core.solver_needs(solver) == "smooth-functions"


def _stop_reason(outcome: dict, told: tuple, watch: Optional[Callback]) -> StopReason:
    """Return why a run ended. A run whose line search stalled has not met its stopping criterion."""
    if _assumes_smooth(outcome["solver"]) and outcome["ended"] == "finished":
        if any(note["kind"] == "line-search-stalled" for note in outcome["notes"]):
            told = ("the line search stalled before convergence", "unfinished")
        elif not outcome["point"]["feasible"]:
            told = ("no step reduces the violation", "unfinished")
    return StopReason(outcome["ended"], told, watch is not None and watch.stopped)


def _needs_fallback(outcome: dict, ended: StopReason) -> bool:
    """Return whether a run ended by itself without convergence or a proof that constraints conflict."""
    return ended.unfinished and ended.kind == "finished" and bool(np.all(np.isfinite(outcome["point"]["x"])))


def _work(outcome: dict) -> dict:
    """Return the work of a run by the names of a row of its trace."""
    passes = outcome["passes"]
    samples = outcome["trace"][-1]["samples"] if outcome["trace"] else 0
    return {
        "iteration": outcome["iterations"],
        "passes_f": passes["objective"],
        "passes_g": passes["constraints"],
        "samples": samples,
        "seconds": outcome["seconds"],
    }


def _remaining(budget: dict, outcome: dict) -> Optional[dict]:
    """Return the budget that a run left; None if there is nothing left of some limit."""
    work = _work(outcome)
    used = {
        "iterations": work["iteration"],
        "passes": work["passes_f"] + work["passes_g"],
        "samples": work["samples"],
        "seconds": work["seconds"],
    }
    left = {key: limit - used[key] for key, limit in budget.items() if limit is not None}
    return left if all(limit > 0 for limit in left.values()) else None


def _better(first: tuple, second: tuple) -> tuple:
    """Return outcome and stop reason of the run with the better point, with the work and the notes of both.

    A feasible point is better than an infeasible one, then the smaller objective decides, for infeasible ones the violation.
    """
    (before, _), (after, _) = first, second
    if after is None:
        return first

    def score(outcome: dict) -> tuple:
        point = outcome["point"]
        if not point["feasible"] and outcome["best_feasible"] is not None:
            point = outcome["best_feasible"]
        feasible = bool(point["feasible"])
        return (not feasible, point["objective"] if feasible else point["violation"])

    kept = second if score(after) <= score(before) else first
    work = _work(before)
    solver, fallback = before["solver"], after["solver"]
    of = "its point" if kept is second else f"the point of {solver}, which is better,"
    text = f"{solver} ended without convergence ({first[1].reason}); {fallback} continued, and {of} is returned"
    trace = before["trace"] + [{**row, **{key: row[key] + offset for key, offset in work.items()}} for row in after["trace"]]
    both = {
        **kept[0],
        "notes": [*before["notes"], Note(text, "continued"), *after["notes"]],
        "trace": trace,
        "iterations": before["iterations"] + after["iterations"],
        "passes": {key: value + after["passes"][key] for key, value in before["passes"].items()},
        "seconds": before["seconds"] + after["seconds"],
    }
    return both, kept[1]


def _reasons(choice: Optional[tuple]) -> list:
    """Return why a solver was chosen, and the arguments that repeat the run."""
    if choice is None:
        return []
    sentences, name, changed, _ = choice
    options = ", ".join(f"{json.dumps(key)}: {value!r}" for key, value in changed.items())
    return [*sentences, f"to repeat: method={json.dumps(name)}" + (f", options={{{options}}}" if options else "")]


def _result(posed: Problem, outcome: dict, ended: StopReason, choice: Optional[tuple], feasibility: float) -> MinimizeResult:
    point, multipliers, zeroth_order = outcome["point"], outcome["multipliers"], outcome["zeroth_order"]
    notes = notes_of(posed.notes + _reasons(choice) + outcome["notes"])
    best = outcome["best_feasible"]
    if best is not None and not point["feasible"]:
        point, multipliers, zeroth_order = best, None, None
        text = "the output of the method is not feasible; the best feasible recorded iterate is returned instead"
        notes.append(Note(text, "best-feasible"))
    if (
        posed.equalities
        and not _assumes_smooth(outcome["solver"])
        and ended.kind == "budget"
        and not ended.success(point["feasible"])
    ):
        text = (
            "the solver converges slowly on equalities, which it treats as two inequalities each; for smooth functions use "
            + " or ".join(f'method="{name}"' for name in METHODS[1:] if _assumes_smooth(name))
        )
        notes.append(Note(text, "equalities-unfinished", {"constraints": posed.equalities}))
    signed = {c["name"]: c["value"] for c in point["constraints"]}
    x = np.array(point["x"])
    nfev, njev = posed.calls()
    try:
        constr = posed.core.function_values(x)
    except Exception:  # the cause of a failed run may fail here too
        constr = [np.full(size, np.nan) for size in posed.sizes]
    return MinimizeResult(
        x=x,
        fun=point["objective"],
        success=ended.success(point["feasible"]),
        status=ended.status,
        message=ended.headline(point["feasible"]),
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
        feasibility=feasibility,
        notes=notes,
    )


def _certify(posed: Problem, result: MinimizeResult, ended: Any, how: dict) -> None:
    try:
        # The tolerances of the run, which knows where it started.
        length = _core.length_at(result.x, posed.x0)
        found = _core.certify(posed.core, result.x, {"feasibility": result.feasibility, "length": length, **how})
    except ValueError as refused:
        result.certificate_refused = str(refused)
    else:
        result.certificate = Certificate.of(found, differences=bool(posed.differences))
        contradicted = _core.compare(result.method, ended, found)
        if contradicted is not None:
            reason = StopReason(*contradicted)
            result.success, result.status = reason.success(found["point"]["feasible"]), reason.status
            result.message = reason.headline(found["point"]["feasible"])
