"""Pessimistic bilevel problems: a leader chooses x against the worst of the follower's optimal responses y.

The mathematics is in ``docs/bilevel.md``.
"""

from __future__ import annotations

import time
from typing import Any, Callable, List, Optional, Tuple

import numpy as np
from scipy.optimize import Bounds, LinearConstraint

from thalweg import _core
from thalweg._derivatives import LIBRARIES, derived, precision
from thalweg._functions import Ball, Simplex, domain, vector
from thalweg._result import Callback, Certificate, History, Note, Result, finish, notes_of, raise_with, settings
from thalweg._running import StopReason, name_of, run_options, running

__all__ = ["BilevelResult", "minimize_pessimistic"]

#: Methods.
METHODS = ("auto", "direct", "adaprox", "sipba")
#: Default interval between recorded iterates with a callback.
EVERY = 100


class BilevelResult(Result):
    """Result of :func:`minimize_pessimistic`. ``worst`` is more reliable than ``fun``, because it is computed anew at ``x``.

    Attributes
    ----------
    x, y : ndarray
        The leader's choice, and the follower's response found with it.
    fun : float
        f(x, y), accurate up to the slack of the follower and ``beta``.
    worst, best : OptimizeResult or None
        Pessimistic and optimistic value at x: ``value``, ``y``, ``feasible``, ``violation`` and ``finished`` (whether the search
        converged). If no inner solution was found that satisfies the constraints, ``feasible`` is False and ``value`` None. None
        if they were not computed; ``notes`` give the reason.
    method : str
        The method: 'direct', 'adaprox' or 'sipba'.
    violation, beta : float
        Largest constraint of the reformulation, and its tolerance; for the direct search, the excess of g(x, y) over its minimum.
    inner_gap : float
        Excess of g(x, y) over its (for 'adaprox' and 'sipba' regularised) minimum.
    inner_multipliers : ndarray
        Dual variables of the constraints and, last, of the follower; empty unless 'adaprox' solves the pessimistic form.
    success : bool
        Whether every constraint is satisfied within ``beta``, the run neither failed nor reached a limit before the solver
        finished, and ``fun``, the value that the leader counts on, agrees with ``worst`` (``best`` in the optimistic form):
        within a tenth of the gap between the two, and ``beta``. Not a statement about optimality of x.
    status : int
        0 finished or reached the target, 3 stopped by the callback, 4 interrupted, 5 failed, 6 reached a limit before the solver
        finished.
    message : str
        Description of ``success`` and ``status``.
    nit : int
        Number of iterations of the run, without those of pilot runs.
    nfev, njev, inner_nfev, inner_njev, nhev : int
        Number of calls of `outer` and its gradient, of `inner` and its gradient, and of second-derivative products of all
        functions, including those before and after the run.
    certificate : Certificate or None
        Bounds on the distance from stationarity in the problem relaxed by ``beta``, if requested. They assume that the gradients
        are right and the constants hold, and are not proved if second derivatives are differences.
    derivatives : {'exact', 'differences'}
        How second derivatives are computed. If gradients are differences too, a note says so.
    settings : dict
        Settings of AdaProx, usable as `options` of another run; empty for the other methods.
    start_violation : float
        Largest constraint of the reformulation at the starting point.
    history : History
        Recorded iterates, with the constraints of the reformulation.
    notes : list of Note
        Remarks on the result, such as why settings were chosen.
    seconds : float
        Elapsed time of the call.
    """

    _shown: Tuple[str, ...] = (
        *("success", "message", "method", "x", "fun", "worst", "best", "violation", "beta", "inner_gap", "nit", "derivatives"),
        *("certificate", "seconds"),
    )


class _Extreme(Result):
    def __str__(self) -> str:
        return f"{self.value:.6g}" if self.feasible else "no inner solution satisfies the constraints"


class _Callback(Callback):
    """Callback adapter that splits the point into x and y."""

    def __init__(self, call: Callable, sizes: Tuple[int, int]):
        super().__init__(call, (), 0.0)
        self._sizes = sizes

    def _intermediate(self, row: dict, x: np.ndarray, multipliers: Optional[np.ndarray], upper: Optional[float]) -> Result:
        n, m = self._sizes
        seen = super()._intermediate(row, x, multipliers, upper)
        seen.update(x=x[:n], y=x[n : n + m], violation=row["violation"])
        return seen


def minimize_pessimistic(
    outer: Callable,
    inner: Callable,
    x0: Any,
    *,
    outer_bounds: Any,
    inner_bounds: Any,
    constraints: Optional[Callable] = None,
    outer_grad: Any = None,
    inner_grad: Any = None,
    constraints_jac: Any = None,
    inner_constraints: Any = None,
    second: Optional[dict] = None,
    derivatives: Optional[str] = None,
    method: str = "auto",
    optimistic: bool = False,
    check_gradients: bool = True,
    certificate: Any = None,
    callback: Optional[Callable] = None,
    options: Optional[dict] = None,
    seed: Optional[int] = None,
    verbose: int = 0,
) -> BilevelResult:
    """Minimise over x the largest ``outer(x, y)`` over all minimisers y of ``inner(x, y)`` with ``constraints(x, y) <= 0``.

    The follower's optimal response need not be unique; the worst one counts. For up to five outer variables nothing has to be
    set: x is found by a search in which every point is judged by the worst response to it. For more, a reformulation with a small
    slack for the follower is solved by AdaProx.

    Parameters
    ----------
    outer, inner : callable
        ``outer(x, y)``, the leader's objective f, and ``inner(x, y)``, the follower's objective g, minimised over **all** y,
        unless `inner_constraints` restricts it. Both should be twice continuously differentiable, f concave and g convex in y.
        Arguments are new arrays in each call.
    x0 : array_like
        Starting point. It is projected onto `outer_bounds`.
    outer_bounds, inner_bounds : Bounds, pairs (low, high), Ball or Simplex
        Bounded sets. `inner_bounds` is not a constraint of the follower but a search region: it must contain all optimal and
        nearly optimal responses, and it determines the number of inner variables.
    constraints : callable, optional
        ``constraints(x, y)``, a number or a vector C. The leader considers responses with ``C <= 0``; the follower is not
        constrained by it.
    outer_grad, inner_grad : callable or True
        ``outer_grad(x, y)`` returns the gradients with respect to x and y. True if ``outer`` itself returns
        ``(value, (dx, dy))``. Without a gradient, the direct search uses differences of values, and a note says so.
    inner_constraints : LinearConstraint, Bounds or a list of them, optional
        Constraints of the follower: ``LinearConstraint(A, lb, ub)`` on y, or on x and y together if A has a column for each, and
        Bounds on y. They are covered by the direct search only; for more than five outer variables, write them as a penalty in
        ``inner``.
    constraints_jac : callable or True
        The pair of Jacobians of the constraints, with one row for each constraint.
    second : dict, optional
        Second-derivative products of all or some functions, with keys 'outer', 'inner' and 'constraints':
        ``second['inner'](x, y, b)`` returns the gradients with respect to x and y of ``b @ (gradient of inner by y)``;
        ``second['constraints'](x, y, b, w)`` the same for ``w @ constraints``. Missing products are central differences of
        gradients, accurate to about eight digits.
    derivatives : {'jax', 'autograd'}, optional
        Library for automatic differentiation, if the functions are written with jax.numpy or autograd.numpy. With jax they are
        compiled and run with 64 bits, whatever the global configuration.
    method : {'auto', 'direct', 'adaprox', 'sipba'}
        'direct' searches over x by the worst response to each point, without any setting, for up to five outer variables;
        'adaprox' solves a reformulation; 'sipba' takes first-order steps in one loop, for problems without `constraints`. 'auto'
        is 'direct' if there are at most five outer variables and no settings of the reformulation, of AdaProx or of a
        certificate, otherwise 'adaprox'.
    optimistic : bool
        Whether to solve the optimistic form, with the best response in place of the worst.
    check_gradients : bool
        Whether to compare all derivatives with finite differences once, near `x0` along random directions.
    certificate : True or dict, optional
        Whether to certify the result; a dict gives the settings mu, width, target, evaluations.
    callback : callable, optional
        Called as ``callback(intermediate)`` with an object that has x, y, fun, violation, nit, seconds, for every 100th iterate
        unless ``options['record']`` says otherwise. ``StopIteration`` stops the run. See :mod:`thalweg.callbacks`.
    options : dict, optional
        ``form`` (a dict with alpha, xi, multiplier_bound, multiplier_unit, inner_steps, inner_accuracy, inner_limit), ``slack``
        (of the inner solutions in ``worst`` and ``best``), settings of AdaProx with the names of specs (sigma, outer,
        inner_iterations, beta, shrink, settled, output, and ``inner``, which is 'sg', 'pd', or a dict with such a name and its
        settings), ``maxiter``, ``budget`` (iterations, seconds), ``record``, ``stop``. Without settings of AdaProx other than
        ``inner``, pilot runs choose them. For 'sipba': rho, sigma, beta, alpha, p, q, s, steps and tolerance. The direct search
        takes none of these except ``slack``.
    seed : int, optional
        Random seed, 0 by default.
    verbose : int
        1 shows progress.

    Returns
    -------
    BilevelResult
        With ``x``, ``y``, ``fun``, ``worst``, ``best``, ``violation``, ``success``, ``notes`` and more.

    Notes
    -----
    An exception in a function stops the run and is raised again, unchanged, with the result so far, or None, as its attribute
    ``result``. Ctrl-C stops the run, or the pilot runs, after the current function call.

    The direct search samples all of `outer_bounds` first; the solutions of the other methods are local: start from several x0 and
    compare ``worst``.

    Examples
    --------
    The leader minimises ``-x y``. Every y from ``-abs(x)`` to ``abs(x)`` is optimal for the follower, and the worst of them gives
    ``x ** 2``, so the pessimistic solution is 0.

    >>> import numpy as np
    >>> from thalweg.bilevel import minimize_pessimistic
    >>> def follower(x, y):
    ...     excess = max(abs(y[0]) - abs(x[0]), 0.0)
    ...     return excess**3, (-3 * excess**2 * np.sign(x), 3 * excess**2 * np.sign(y))
    >>> found = minimize_pessimistic(
    ...     lambda x, y: (-x[0] * y[0], (-y, -x)), follower, [0.3],
    ...     outer_grad=True, inner_grad=True, outer_bounds=[(-2, 2)], inner_bounds=[(-2, 2)],
    ... )
    >>> found.success, found.worst.value < 1e-4, bool(abs(found.x[0]) < 0.01)
    (True, True, True)
    >>> found.method, found.derivatives
    ('direct', 'differences')
    """
    began = time.perf_counter()
    given = settings(options)
    start = vector(x0, "x0")
    inner_bounds = inner_bounds if isinstance(inner_bounds, (Ball, Simplex, Bounds, type(None))) else list(inner_bounds)
    sizes = (len(start), _count(inner_bounds))
    domains = (_bounded(outer_bounds, sizes[0], "outer_bounds"), _bounded(inner_bounds, sizes[1], "inner_bounds"))
    levels = {
        "outer": (outer, outer_grad),
        "inner": (inner, inner_grad),
        **({} if constraints is None else {"constraints": (constraints, constraints_jac)}),
    }
    products = settings(second, "second")
    chosen = name_of(method, METHODS)
    _check(levels, constraints_jac, products, derivatives)
    rows = _rows(inner_constraints, sizes)
    form = settings(given.pop("form", None), "options['form']")
    if optimistic:
        form["optimistic"] = True
    if "slack" in given:
        form["slack"] = float(given.pop("slack"))
    if isinstance(given.get("inner"), str):
        given["inner"] = {"name": given["inner"]}
    how = run_options(given, seed, record=None if callback is None else {"every": EVERY}, maxiter=None)
    bounds = {} if certificate is True else None if certificate in (None, False) else settings(certificate, "certificate")
    watch = None if callback is None else _Callback(callback, sizes)

    with running(verbose, "minimize_pessimistic") as run, precision(derivatives or ""):
        try:
            functions = _levels(levels, products, derivatives, start, domains)
            core = _core.BilevelCallables(sizes, domains, *functions, rows, interrupt=run.interrupt)
            if check_gradients:
                core.check(start, how["seed"])
        except Exception as early:
            raise_with(early, None)
        found, told, raised = core.solve(start, form, chosen, given, how, bounds, watch, run.on_progress)
        extremes, refused = None if found is None else found["extremes"], "interrupted"
        stopped = watch is not None and watch.stopped
        if found is not None and extremes is None and raised is None and not run.interrupted:
            if stopped:
                run.interrupt.clear()
            extremes, refused, raised = core.extremes(np.array(found["x"]), form)
    result = None
    if found is not None and told is not None:
        if extremes is None and not any(note["kind"] == "extremes-failed" for note in found["notes"]):
            text = f"the pessimistic and optimistic values were not computed: {refused}"
            found["notes"].append({"kind": "extremes-failed", "reason": refused, "text": text})
        # An exception in the pilot runs stops the run before its first step.
        ended = StopReason(found["outcome"]["ended"], told, stopped, raised)
        result = _result(found, ended, extremes, core.calls(), optimistic or bool(form.get("optimistic")))
        result.seconds = time.perf_counter() - began
    if raised is not None:
        raise_with(raised, result)
    assert result is not None
    finish(callback, result)
    return result


def _count(bounds: Any) -> int:
    """Return the number of inner variables."""
    if bounds is None:
        raise ValueError("inner_bounds must be a bounded set (Bounds, pairs (low, high) or a Ball with a center), got None")
    if isinstance(bounds, (Ball, Simplex)):
        center = getattr(bounds, "center", None)
        if center is None:
            known = "Bounds, pairs (low, high) or a Ball with a center"
            raise ValueError(f"inner_bounds must determine the number of inner variables; use {known}, got {bounds!r}")
        return len(center)
    return np.broadcast(bounds.lb, bounds.ub).size if isinstance(bounds, Bounds) else len(bounds)


def _bounded(bounds: Any, dim: int, what: str) -> dict:
    """Return the set, which must be bounded."""
    found = domain(bounds, dim, what)
    if found is None:
        raise ValueError(f"{what} must be a bounded set (Bounds, pairs (low, high), a Ball or a Simplex), got None")
    if "low" in found:
        free = ~(np.isfinite(found["low"]) & np.isfinite(found["high"]))
        if np.any(free):
            i = int(np.argmax(free))
            low, high = found["low"][i], found["high"][i]
            raise ValueError(f"the {what} of variable {i + 1} must be finite, got {low:g} and {high:g}")
    return found


def _check(levels: dict, constraints_jac: Any, products: dict, derivatives: Any) -> None:
    """Check that functions and derivatives are consistent."""
    if "constraints" not in levels and constraints_jac is not None:
        raise ValueError("constraints_jac is given without constraints")
    unknown = [name for name in products if name not in levels]
    if unknown:
        raise ValueError(f"the keys of second must be among {', '.join(levels)}, got {unknown[0]!r}")
    for name, function in products.items():
        if not callable(function):
            raise TypeError(f"second['{name}'] must be a function, got {type(function).__name__}")
    if derivatives is not None and derivatives not in LIBRARIES:
        raise ValueError(f"derivatives must be one of {', '.join(LIBRARIES)}, got {derivatives!r}")
    for name, (function, slope) in levels.items():
        called = f"{name}_jac" if name == "constraints" else f"{name}_grad"
        if not callable(function):
            raise TypeError(f"{name} must be a function of x and y, got {type(function).__name__}")
        if derivatives is not None and (slope is not None or name in products):
            given = called if slope is not None else f"second['{name}']"
            raise ValueError(f"{given} and derivatives = {derivatives!r} are both given; give one of them")
        if slope is not None and slope is not True and not callable(slope):
            raise TypeError(f"{called} must be a function of x and y or True, got {type(slope).__name__}")


def _rows(given: Any, sizes: Tuple[int, int]) -> List[tuple]:
    """Return the follower's linear constraints: coefficients of x and of y, and the bound."""
    n, m = sizes
    rows: List[tuple] = []
    listed = given if isinstance(given, (list, tuple)) else [] if given is None else [given]
    for one in listed:
        if isinstance(one, Bounds):
            matrix = np.hstack([np.zeros((m, n)), np.eye(m)])
        elif isinstance(one, LinearConstraint):
            matrix = np.atleast_2d(np.asarray(one.A.toarray() if hasattr(one.A, "toarray") else one.A, dtype=float))
            if matrix.shape[1] == m:
                matrix = np.hstack([np.zeros((len(matrix), n)), matrix])
            if matrix.shape[1] != n + m:
                raise ValueError(
                    f"inner_constraints must have {m} columns, for y, or {n + m}, for x and y, got {matrix.shape[1]}"
                )
        else:
            raise TypeError(
                "inner_constraints must be a LinearConstraint, Bounds or a list of them, got "
                f"{type(one).__name__}; write other constraints as a penalty in inner"
            )
        low, high = (np.broadcast_to(np.asarray(side, dtype=float), len(matrix)) for side in (one.lb, one.ub))
        if np.isnan(low).any() or np.isnan(high).any() or not np.isfinite(matrix).all():
            raise ValueError("inner_constraints must have finite coefficients and bounds that are numbers")
        for row, lowest, highest in zip(matrix, low, high):
            for sign, bound in ((1.0, highest), (-1.0, -lowest)):
                if np.isfinite(bound):
                    rows.append(((sign * row[:n]).tolist(), (sign * row[n:]).tolist(), float(bound)))
    return rows


def _levels(
    levels: dict, products: dict, derivatives: Optional[str], start: np.ndarray, domains: tuple
) -> Tuple[tuple, tuple, Optional[tuple]]:
    """Return function, gradient and product of each level for the core, and the number of constraints."""
    sizes = (len(start), _inside(domains[1]).size)
    count = None
    if "constraints" in levels:
        function, slope = levels["constraints"]
        values = function(start.copy(), _inside(domains[1]))
        if slope is True:
            values = values[0] if isinstance(values, (tuple, list)) and len(values) == 2 else values
        count = int(np.size(values))
    given = []
    for name, (function, slope) in levels.items():
        several = count if name == "constraints" else None
        product = products.get(name)
        if derivatives is not None and several != 0:
            function, product = derived(derivatives, name, function, sizes, several)
            slope = True
        given.append((function, slope, product))
    return (given[0], given[1], None if not count else (given[2], count))


def _inside(found: dict) -> np.ndarray:
    """Return a point of a bounded set near 0."""
    if "low" in found:
        return np.clip(0.0, found["low"], found["high"])
    return np.array(found["center"])


def _without_none(given: dict) -> dict:
    return {key: _without_none(v) if isinstance(v, dict) else v for key, v in given.items() if v is not None}


def _extreme(found: dict, slack: float) -> _Extreme:
    # A tenth of the slack; the search itself uses a hundredth.
    feasible = found["violation"] <= 0.1 * slack
    return _Extreme(
        value=found["value"] if feasible else None,
        y=np.array(found["y"]),
        feasible=feasible,
        violation=max(found["violation"], 0.0),
        finished=found["finished"],
    )


def _agrees(found: dict, extremes: dict, optimistic: bool) -> bool:
    """Whether the value that the leader counts on agrees with the value measured, see ``BilevelSolution::agrees`` in Rust."""
    meant = extremes["optimistic" if optimistic else "pessimistic"]["value"]
    gap = abs(extremes["pessimistic"]["value"] - extremes["optimistic"]["value"])
    rounding = 1e-6 * (abs(found["objective"]) + gap)
    return abs(found["objective"] - meant) <= 0.1 * gap + found["beta"] + rounding


def _result(found: dict, ended: StopReason, extremes: Optional[dict], calls: dict, optimistic: bool) -> BilevelResult:
    outcome = found["outcome"]
    point = outcome["point"]
    names = [c["name"] for c in point["constraints"]]
    sides = {} if extremes is None else {"worst": extremes["pessimistic"], "best": extremes["optimistic"]}
    worst, best = (_extreme(sides[key], extremes["slack"]) if extremes else None for key in ("worst", "best"))
    notes, certificate = notes_of(found["notes"] + outcome["notes"]), found["certificate"]
    differences = found["derivatives"] == "differences"
    if worst is not None and not worst.feasible:
        text = "no inner solution was found that satisfies the constraints; worst and best have the nearest y and no value"
        notes.append(Note(text, "no-feasible-inner"))
    success = ended.success(point["feasible"])
    if extremes is not None and success and not _agrees(found, extremes, optimistic):
        success = False
        text = (
            f"not a success: the leader counts on {found['objective']:.6g}, but the {'best' if optimistic else 'worst'} response "
            f"measured gives {extremes['optimistic' if optimistic else 'pessimistic']['value']:.6g}"
        )
        notes.append(Note(text, "values-disagree"))
    (nfev, njev, _), (inner_nfev, inner_njev, _) = calls["outer"], calls["inner"]
    return BilevelResult(
        x=np.array(found["x"]),
        y=np.array(found["y"]),
        fun=found["objective"],
        worst=worst,
        best=best,
        violation=found["violation"],
        maxcv=max(found["violation"], 0.0),
        beta=found["beta"],
        inner_gap=found["inner_gap"],
        inner_multipliers=np.array(found["inner_multipliers"]),
        success=success,
        method=found["method"],
        status=ended.status,
        message=ended.headline(point["feasible"], within=" within beta" if found["method"] == "adaprox" else ""),
        nit=outcome["iterations"],
        nfev=nfev,
        njev=njev,
        inner_nfev=inner_nfev,
        inner_njev=inner_njev,
        nhev=sum(products for _, _, products in calls.values()),
        certificate=None if certificate is None else Certificate.of(certificate, differences),
        derivatives=found["derivatives"],
        settings=_without_none(found["settings"] or {}),
        start_violation=found["start_violation"],
        history=History(outcome["trace"], names),
        signed={c["name"]: c["value"] for c in point["constraints"]},
        feasibility=found["beta"],
        notes=notes,
        seed=outcome["seed"],
    )
