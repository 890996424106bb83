"""Pessimistic bilevel problems: a leader chooses x, a follower answers with any of its best y, and the worst of them counts.

Here are the words and conventions of Python; the mathematics is in ``docs/bilevel.md``.
"""

from __future__ import annotations

import time
from typing import Any, Callable, Optional, Tuple

import numpy as np
from scipy.optimize import Bounds

from thalweg import _core
from thalweg._derivatives import LIBRARIES, derived, precision
from thalweg._functions import DIFFERENCES, Ball, Simplex, domain, vector
from thalweg._result import Callback, Certificate, History, Note, Result, finish, notes_of, raise_with, settings
from thalweg._running import conduct, running, status_of

__all__ = ["BilevelResult", "minimize_pessimistic"]

#: With a callback every so many iterates are measured, unless the options say otherwise.
EVERY = 100


class BilevelResult(Result):
    """What :func:`minimize_pessimistic` returns. Believe ``worst`` more than ``fun``: it is computed anew at ``x``.

    Attributes
    ----------
    x, y : ndarray
        The leader's choice, and the answer that came with it.
    fun : float
        f(x, y): what the leader counts on. It is off by the slack of the follower and by ``beta``.
    worst, best : OptimizeResult or None
        What x is worth if the follower answers at its worst, and at its best: ``value``, ``y``, ``feasible``, ``violation`` and
        ``finished`` (the search ended because nothing better is near). Where no inner solution was found that keeps the
        constraints, ``feasible`` is False and ``value`` None. None if they were not computed: ``notes`` say why.
    violation, beta : float
        The largest row of the reformulation, and what rows may be at most.
    inner_gap : float
        By how much g(x, y) is above its regularised minimum: at most about xi + beta.
    inner_multipliers : ndarray
        Of the constraints and, last, of the follower; empty for an optimist.
    success : bool
        Every row is kept within ``beta``, and the run did not fail. It does not say that x is optimal.
    status : int
        0 the solver finished or reached its target, 1 a limit was reached, 3 stopped by the callback, 4 interrupted, 5 it
        failed.
    message : str
        The same in words.
    nit : int
        Iterations of the run, without those of the short runs before it that choose settings.
    nfev, njev, inner_nfev, inner_njev, nhev : int
        Calls of `outer` and its gradient, of `inner` and its gradient, and products with second derivatives of all functions;
        with everything before and after the run.
    certificate : Certificate or None
        Near-stationarity in the problem relaxed by ``beta``, if it was asked for.
    derivatives : {'exact', 'differences'}
        How second derivatives were computed.
    settings : dict
        What the solver ran with: `options` for another run.
    start_violation : float
        The largest row at the start.
    history : History
        The measured iterates; its constraints are the rows.
    notes : list of Note
        What a careful reader should know, and why settings were chosen.
    seconds : float
        From the call to the result.
    """

    _shown: Tuple[str, ...] = (
        *("success", "message", "x", "fun", "worst", "best", "violation", "beta", "inner_gap", "nit", "derivatives"),
        *("certificate", "seconds"),
    )


class _Extreme(Result):
    def __str__(self) -> str:
        return f"{self.value:.6g}" if self.feasible else "no inner solution was found that keeps the constraints"


class _Callback(Callback):
    """Shows the point in parts."""

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
    second: Optional[dict] = None,
    derivatives: Optional[str] = None,
    optimistic: bool = False,
    check_gradients: bool = True,
    certificate: Any = None,
    callback: Optional[Callable] = None,
    options: Optional[dict] = None,
    seed: Optional[int] = None,
    verbose: int = 0,
) -> BilevelResult:
    """Minimises over x the largest ``outer(x, y)`` over all y that minimise ``inner(x, y)`` and keep ``constraints(x, y) <= 0``.

    The follower's answer need not be unique, and nobody knows which one it will be: the worst counts. What is solved is a
    reformulation with a small slack for the follower, by the method AdaProx.

    Parameters
    ----------
    outer, inner : callable
        ``outer(x, y)``, the leader's cost f, and ``inner(x, y)``, the follower's g, which is minimised over **all** y. Both are
        to have two continuous derivatives; f is to be concave and g convex in y. Arguments are new arrays at each call.
    x0 : array_like
        Where to start. It is moved into `outer_bounds`.
    outer_bounds, inner_bounds : Bounds, pairs (low, high), Ball or Simplex
        Bounded sets. `inner_bounds` is no constraint of the follower, only a place to look in: it has room for every answer and
        for those that are a little worse than best, and it says how many inner variables there are.
    constraints : callable, optional
        ``constraints(x, y)``, a number or a vector C. The leader reckons with answers that have ``C <= 0``; the follower is not
        bound by it.
    outer_grad, inner_grad : callable or True
        ``outer_grad(x, y)`` returns the pair of gradients by x and by y. True if ``outer`` itself returns ``(value, (dx, dy))``.
    constraints_jac : callable or True
        The same for constraints: the pair of Jacobians, one row for each constraint.
    second : dict, optional
        Products with second derivatives, of all or some functions, by the names 'outer', 'inner' and 'constraints':
        ``second['inner'](x, y, b)`` returns the pair of gradients by x and by y of ``b @ (gradient of inner by y)``;
        ``second['constraints'](x, y, b, w)`` the same of ``w @ constraints``. Where one is missing, it is central differences of
        gradients, exact to about eight digits.
    derivatives : {'jax', 'autograd'}, optional
        The functions are written with jax.numpy or autograd.numpy, and all derivatives come from there, exact to rounding. With
        jax they are compiled, and run with 64 bits, whatever is configured elsewhere.
    optimistic : bool
        The best answer in place of the worst: what an optimist believes.
    check_gradients : bool
        Compares all derivatives with differences once, near `x0` along random directions, and refuses those that are wrong.
    certificate : True or dict, optional
        Asks for near-stationarity of the result, with the settings mu, width, target, evaluations.
    callback : callable, optional
        Called as ``callback(intermediate)`` with one object that has x, y, fun, violation, nit, seconds, for every 100th iterate
        unless ``options['record']`` says otherwise. ``StopIteration`` ends the run. :mod:`thalweg.callbacks` has some.
    options : dict, optional
        ``form`` (a dict with alpha, xi, multiplier_bound, multiplier_unit, inner_steps, inner_accuracy, inner_limit), ``slack``
        (of the inner solutions in ``worst`` and ``best``), settings of AdaProx by their names in specs (sigma, outer,
        inner_iterations, beta, shrink, settled, output, and ``inner``, which is 'sg', 'pd', or a dict with such a name and its
        settings), ``maxiter``, ``budget`` (iterations, seconds), ``record``, ``stop``. Without settings of AdaProx other than
        ``inner`` short runs choose them.
    seed : int, optional
        Seed of everything that is drawn. Without one it is 0.
    verbose : int
        1 shows progress.

    Returns
    -------
    BilevelResult
        With ``x``, ``y``, ``fun``, ``worst``, ``best``, ``violation``, ``success``, ``notes`` and more.

    Notes
    -----
    An exception that a function raises ends the run and is raised again, unchanged; what was reached is its attribute ``result``,
    None if nothing was. Ctrl-C ends the run, or the short runs before it, once the function that is being called returns.

    The solution is local: start from several x0 and compare ``worst``.

    Examples
    --------
    A leader wants ``-x y`` to be small. The follower is content with every y from ``-abs(x)`` to ``abs(x)``, and some of
    these cost the leader ``x ** 2``: the cautious choice is 0.

    >>> import numpy as np
    >>> from thalweg.bilevel import minimize_pessimistic
    >>> def content(x, y):
    ...     too_far = max(abs(y[0]) - abs(x[0]), 0.0)
    ...     return too_far**3, (-3 * too_far**2 * np.sign(x), 3 * too_far**2 * np.sign(y))
    >>> found = minimize_pessimistic(
    ...     lambda x, y: (-x[0] * y[0], (-y, -x)), content, [0.3],
    ...     outer_grad=True, inner_grad=True, outer_bounds=[(-2, 2)], inner_bounds=[(-2, 2)],
    ...     options={"sigma": 20, "outer": 60, "inner_iterations": 200, "beta": 0.05, "inner": {"name": "sg", "eps": 0.02}},
    ... )
    >>> found.success, found.worst.value < 0.01
    (True, True)
    >>> found.derivatives
    'differences'
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
    _check(levels, constraints_jac, products, derivatives)
    form = settings(given.pop("form", None), "options['form']")
    if optimistic:
        form["optimistic"] = True
    if "slack" in given:
        form["slack"] = float(given.pop("slack"))
    if isinstance(given.get("inner"), str):
        given["inner"] = {"name": given["inner"]}
    how = conduct(given, seed, record=None if callback is None else {"every": EVERY}, maxiter=None)
    bounds = {} if certificate is True else None if certificate in (None, False) else settings(certificate, "certificate")
    watch = None if callback is None else _Callback(callback, sizes)

    with running(verbose, "minimize_pessimistic") as run, precision(derivatives or ""):
        try:
            functions = _levels(levels, products, derivatives, start, domains)
            core = _core.BilevelCallables(sizes, domains, *functions, interrupt=run.interrupt)
            if check_gradients:
                core.check(start, how["seed"])
        except Exception as early:
            raise_with(early, None)
        found, ended, raised = core.solve(start, form, given, how, bounds, watch, run.on_progress)
        extremes, refused = None, "interrupted"
        stopped = watch is not None and watch.stopped
        if found is not None and raised is None and not run.interrupted:
            if stopped:
                run.interrupt.clear()
            extremes, refused, raised = core.extremes(np.array(found["x"]), form)
    result = None
    if found is not None:
        if extremes is None:
            text = f"the worst and the best inner solution were not computed: {refused}"
            found["notes"].append({"kind": "extremes-failed", "reason": refused, "text": text})
        result = _result(found, ended, extremes, core.calls(), stopped, raised)
        result.seconds = time.perf_counter() - began
    if raised is not None:
        raise_with(raised, result)
    assert result is not None
    finish(callback, result)
    return result


def _count(bounds: Any) -> int:
    """How many inner variables there are."""
    if bounds is None:
        raise ValueError("inner_bounds = None: wanted Bounds, pairs (low, high) or a Ball with a center: a bounded set")
    if isinstance(bounds, (Ball, Simplex)):
        center = getattr(bounds, "center", None)
        if center is None:
            what = "does not say how many inner variables there are"
            raise ValueError(f"inner_bounds = {bounds!r} {what}: wanted Bounds, pairs (low, high) or a Ball with a center")
        return len(center)
    return np.broadcast(bounds.lb, bounds.ub).size if isinstance(bounds, Bounds) else len(bounds)


def _bounded(bounds: Any, dim: int, what: str) -> dict:
    """A set that is bounded."""
    found = domain(bounds, dim, what)
    if found is None:
        raise ValueError(f"{what} = None: wanted Bounds, pairs (low, high), a Ball or a Simplex: a bounded set")
    if "low" in found:
        free = ~(np.isfinite(found["low"]) & np.isfinite(found["high"]))
        if np.any(free):
            i = int(np.argmax(free))
            low, high = found["low"][i], found["high"][i]
            raise ValueError(f"variable {i + 1} has the {what} {low:g} and {high:g}: wanted finite numbers, for a bounded set")
    return found


def _check(levels: dict, constraints_jac: Any, products: dict, derivatives: Any) -> None:
    """Refuses what cannot be meant."""
    if "constraints" not in levels and constraints_jac is not None:
        raise ValueError("constraints_jac is given without constraints: wanted both")
    unknown = [name for name in products if name not in levels]
    if unknown:
        raise ValueError(f"second has the key {unknown[0]!r}: wanted one of {', '.join(levels)}")
    for name, function in products.items():
        if not callable(function):
            raise TypeError(f"second['{name}'] is of type {type(function).__name__}: wanted a function")
    if derivatives in DIFFERENCES:
        raise ValueError(
            f"derivatives = {derivatives!r}: wanted 'jax' or 'autograd'; second derivatives by differences of differences would "
            "have four digits at best, which the method cannot work with"
        )
    if derivatives is not None and derivatives not in LIBRARIES:
        raise ValueError(f"derivatives = {derivatives!r}: wanted one of {', '.join(LIBRARIES)}")
    for name, (function, slope) in levels.items():
        called = f"{name}_jac" if name == "constraints" else f"{name}_grad"
        if not callable(function):
            raise TypeError(f"{name} is of type {type(function).__name__}: wanted a function of x and y")
        if derivatives is not None and (slope is not None or name in products):
            given = called if slope is not None else f"second['{name}']"
            raise ValueError(f"{given} and derivatives = {derivatives!r} are both given: wanted one of them")
        if derivatives is None and slope is None:
            raise ValueError(
                f"{name} has no gradient: wanted {called}, {called}=True if {name} returns value and gradients together, or "
                "derivatives='jax' or 'autograd' for functions that are written with one of these"
            )
        if slope is not None and slope is not True and not callable(slope):
            raise TypeError(f"{called} is of type {type(slope).__name__}: wanted a function of x and y, or True")


def _levels(
    levels: dict, products: dict, derivatives: Optional[str], start: np.ndarray, domains: tuple
) -> Tuple[tuple, tuple, Optional[tuple]]:
    """The functions as the core takes them: function, gradient, product; of the constraints also how many they are."""
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
    """A point of a bounded set that is not far from 0."""
    if "low" in found:
        return np.clip(0.0, found["low"], found["high"])
    return np.array(found["center"])


def _without_none(given: dict) -> dict:
    return {key: _without_none(v) if isinstance(v, dict) else v for key, v in given.items() if v is not None}


def _extreme(found: dict, slack: float) -> _Extreme:
    # A tenth of the slack: the search itself keeps a hundredth.
    feasible = found["violation"] <= 0.1 * slack
    return _Extreme(
        value=found["value"] if feasible else None,
        y=np.array(found["y"]),
        feasible=feasible,
        violation=max(found["violation"], 0.0),
        finished=found["finished"],
    )


def _result(
    found: dict, ended: str, extremes: Optional[dict], calls: dict, stopped: bool, raised: Optional[BaseException]
) -> BilevelResult:
    outcome = found["outcome"]
    point = outcome["point"]
    # An exception in the short runs ends the run before its first step.
    status = 5 if raised is not None else status_of(outcome["ended"], stopped)
    failed = isinstance(outcome["ended"], dict) and "failed" in outcome["ended"]
    words = "stopped by the callback" if status == 3 else str(raised) if status == 5 and not failed else ended
    names = [c["name"] for c in point["constraints"]]
    sides = {} if extremes is None else {"worst": extremes["pessimistic"], "best": extremes["optimistic"]}
    worst, best = (_extreme(sides[key], extremes["slack"]) if extremes else None for key in ("worst", "best"))
    notes = notes_of(found["notes"] + outcome["notes"])
    if worst is not None and not worst.feasible:
        notes.append(
            Note("no feasible inner solution was found; worst and best have the nearest y and no value", "no-feasible-inner")
        )
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
        success=bool(point["feasible"] and status != 5),
        status=status,
        message=f"rows are {'kept' if point['feasible'] else 'not kept'} within beta; {words}",
        nit=outcome["iterations"],
        nfev=nfev,
        njev=njev,
        inner_nfev=inner_nfev,
        inner_njev=inner_njev,
        nhev=sum(products for _, _, products in calls.values()),
        certificate=None if found["certificate"] is None else Certificate.of(found["certificate"]),
        derivatives=found["derivatives"],
        settings=_without_none(found["settings"]),
        start_violation=found["start_violation"],
        history=History(outcome["trace"], names),
        signed={c["name"]: c["value"] for c in point["constraints"]},
        ctol=found["beta"],
        notes=notes,
        seed=outcome["seed"],
    )
