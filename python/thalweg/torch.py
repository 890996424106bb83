"""Constraints for PyTorch: an optimiser in the shape of ``torch.optim`` that makes the steps of two methods of the library.

The parameters, the graph and the batches stay PyTorch's; here is only what one step does. Runs, budgets, sets to project onto and
certificates are :func:`thalweg.minimize`'s.

The module can be imported without PyTorch: then :class:`ConstrainedOptimizer` takes any tensors that have ``grad``,
``backward``, ``detach``, ``clone``, ``copy_``, ``add_``, ``mul``, ``sum``, ``tolist``, ``ndim``, ``+`` and ``*``. With PyTorch it
is a ``torch.optim.Optimizer``.
"""

from __future__ import annotations

import contextlib
import copy
import math
from collections import defaultdict
from typing import Any, Callable, Dict, Iterable, List, Optional, Tuple

try:
    import torch
except ImportError:
    torch = None

__all__ = ["ConstrainedOptimizer"]

#: For each method the name of its step size, and its settings; the values are the library's.
_METHODS: Dict[str, Tuple[str, Dict[str, Any]]] = {
    "ssg": ("eta", {"eta": 0.01, "tol": 1e-5, "infeasible_step": "fixed"}),
    "threes-econ": ("alpha", {"alpha": 0.01, "beta": 10.0, "nu": 1e-5, "q": 1, "s1": None, "s2": None}),
}


class _Plain:
    """What of ``torch.optim.Optimizer`` is needed, for tensors that are not PyTorch's."""

    def __init__(self, params: Iterable, defaults: dict):
        self.defaults = defaults
        self.state: Any = defaultdict(dict)
        self.param_groups: List[dict] = []
        groups = list(params)
        if not groups:
            raise ValueError("params is empty: wanted parameters, or groups of them")
        for group in groups if isinstance(groups[0], dict) else [{"params": groups}]:
            self.add_param_group(group)

    def add_param_group(self, param_group: dict) -> None:
        params = param_group["params"]
        self.param_groups.append({**self.defaults, **param_group, "params": params if isinstance(params, list) else list(params)})

    def zero_grad(self, set_to_none: bool = True) -> None:
        for param in self._params():
            if set_to_none:
                param.grad = None
            elif param.grad is not None:
                param.grad = param.grad.mul(0.0)

    def state_dict(self) -> dict:
        place = {id(param): i for i, param in enumerate(self._params())}
        groups = [{**group, "params": [place[id(param)] for param in group["params"]]} for group in self.param_groups]
        return {"state": {place[id(param)]: kept for param, kept in self.state.items()}, "param_groups": groups}

    def load_state_dict(self, state_dict: dict) -> None:
        saved = copy.deepcopy(state_dict)
        theirs, ours = [[len(group["params"]) for group in groups] for groups in (saved["param_groups"], self.param_groups)]
        if theirs != ours:
            raise ValueError(f"state_dict has groups of {theirs} parameters: wanted {ours}")
        params = self._params()
        self.state = defaultdict(dict, {params[int(i)]: kept for i, kept in saved["state"].items()})
        for group, kept in zip(self.param_groups, saved["param_groups"]):
            group.update({key: value for key, value in kept.items() if key != "params"})

    def _params(self) -> list:
        return [param for group in self.param_groups for param in group["params"]]


_Base: Any = _Plain if torch is None else torch.optim.Optimizer
_no_grad: Callable[[], Any] = contextlib.nullcontext if torch is None else torch.no_grad
_enable_grad: Callable[[], Any] = contextlib.nullcontext if torch is None else torch.enable_grad


class ConstrainedOptimizer(_Base):
    """Minimises an objective subject to constraints ``g_j <= 0``, a step at a time.

    "ssg", the switching subgradient method: where the largest constraint is above ``tol``, a step on that constraint, else a step
    on the objective. "threes-econ", 3S-Econ: a step on the objective plus ``beta`` times the largest constraint, whose slope is
    ``clip(u / nu, 0, 1)``; u is an estimate of its value by SPIDER, made anew every ``q`` steps and in between moved by
    differences on the same batch at two points.

    Parameters
    ----------
    params : iterable
        Parameters, or groups of them as in ``torch.optim``. A group may have an ``lr`` of its own.
    method : {'ssg', 'threes-econ'}
        Which steps.
    **settings
        By their names in the library, with its defaults. Of "ssg": eta (0.01), tol (1e-5) and infeasible_step, "fixed" or
        "polyak", which steps to where the linearised constraint is 0. Of "threes-econ": alpha (0.01), beta (10), nu (1e-5),
        q (1), s1 (all rows) and s2 (q).

    Notes
    -----
    The step size eta or alpha is ``lr`` in ``param_groups``, so that every ``lr_scheduler`` changes it. The other settings are in
    ``param_groups`` too and the same for all groups. ``state_dict`` has all that a continuation needs to make the same steps, bit
    for bit.

    Several constraints count as the largest of them, the first of equals. Only what the step needs is differentiated.

    Differences from the library: there is no set to project onto, and the last point is what there is. With "threes-econ" one
    batch serves the estimate and both subgradients; constraints are tracked by their values, so that each should be a mean over
    rows; beta and q are numbers.

    In single precision ``nu`` should not be near the rounding of the constraints: 1e-3 rather than 1e-5.

    Examples
    --------
    The closure returns objective and constraints, and does not call ``backward``::

        optimizer = ConstrainedOptimizer(model.parameters(), "ssg", eta=0.05, tol=1e-3)
        for X, y, group in loader:

            def closure():
                scores = model(X)
                return loss(scores, y), [gap(scores, group) - 0.05]

            objective, constraints = optimizer.step(closure)

    3S-Econ says how many rows the next step wants, and calls the closure at two points where it needs a difference::

        optimizer = ConstrainedOptimizer(model.parameters(), "threes-econ", nu=1e-3, q=32)
        for _ in range(1000):
            size = optimizer.batch_size
            rows = torch.arange(n) if size is None else torch.randint(n, (size,))
            optimizer.step(lambda: parts(model, X[rows], y[rows]))
    """

    def __init__(self, params: Iterable, method: str = "ssg", **settings: Any):
        if method not in _METHODS:
            raise ValueError(f"method = {method!r}: wanted 'ssg' or 'threes-econ'")
        step, defaults = _METHODS[method]
        for name in settings:
            if name not in defaults:
                hint = f"; the step size of '{method}' is called {step}" if name == "lr" else ""
                raise TypeError(f"{name} is no setting of '{method}': wanted some of {', '.join(defaults)}{hint}")
        chosen = {**defaults, **settings}
        _check(chosen)
        super().__init__(params, {"method": method, "lr": chosen.pop(step), **chosen})

    @property
    def resets(self) -> bool:
        """Whether the next step of "threes-econ" makes its estimate anew."""
        if self._of("method") != "threes-econ":
            return False
        if self._of("q") == 1:
            return True
        kept = [self.state.get(param, {}) for param in _all(self.param_groups)]
        return any("previous" not in one for one in kept) or kept[0]["k"] % self._of("q") == 0

    @property
    def batch_size(self) -> Optional[int]:
        """Rows that the next step wants: s1 where the estimate is made anew, else s2. None asks for all; "ssg" takes any."""
        if self._of("method") != "threes-econ":
            return None
        if self.resets:
            return self._of("s1")
        return self._of("q") if self._of("s2") is None else self._of("s2")

    def add_param_group(self, param_group: dict) -> None:
        """Adds a group; of its settings only ``lr`` may differ from those of the others."""
        super().add_param_group(param_group)
        added = self.param_groups[-1]
        try:
            _number("lr", added["lr"])
            for name in self.defaults:
                if name != "lr" and added[name] != self._of(name):
                    raise ValueError(f"{name} = {added[name]!r} in one group, {self._of(name)!r} in another: wanted one for all")
        except ValueError:
            self.param_groups.pop()
            raise

    def load_state_dict(self, state_dict: dict) -> None:
        """Takes up a saved state, of the same method."""
        for group in state_dict["param_groups"]:
            if group.get("method") != self._of("method"):
                raise ValueError(f"state_dict has the method {group.get('method')!r}: wanted {self._of('method')!r}")
        super().load_state_dict(state_dict)

    def step(self, closure: Optional[Callable[[], Tuple[Any, Any]]] = None) -> Tuple[Any, Any]:
        """Makes one step.

        Parameters
        ----------
        closure : callable
            ``closure()`` returns ``(objective, constraints)`` at the current parameters, which are not differentiated yet: a
            tensor with one number, and a list of such tensors or a tensor with one number for each constraint ``g_j <= 0``.
            "threes-econ" with ``q`` above 1 calls it twice in most steps, at the old parameters and at the new ones: it must
            take the same batch.

        Returns
        -------
        tuple
            What `closure` returned at the parameters that the step was made from.

        Notes
        -----
        Gradients that are there are dropped, and those of the step are left in ``grad``. After an exception the parameters are as
        before.
        """
        if closure is None:
            raise TypeError("step() without a closure: wanted a function that returns objective and constraints")
        with _no_grad():
            return self._switch(closure) if self._of("method") == "ssg" else self._penalise(closure)

    def _switch(self, closure: Callable) -> Tuple[Any, Any]:
        objective, constraints, given = _ask(closure)
        worst, value = _worst(_values(constraints))
        eta = None
        if value > self._of("tol"):
            square = self._differentiate(constraints[worst])
            if self._of("infeasible_step") == "polyak":
                if square == 0.0:
                    raise ValueError(
                        f"the gradient of the worst constraint is zero although its value is {value:.3e}: the constraint cannot "
                        "be lowered from here, and a Polyak step is not defined"
                    )
                eta = value / square
        else:
            self._differentiate(objective)
        self._move(eta)
        return objective, given

    def _penalise(self, closure: Callable) -> Tuple[Any, Any]:
        resets = self.resets
        # State that belongs to no parameter in particular is with the first, as that of torch.optim.LBFGS.
        kept = self.state[self.param_groups[0]["params"][0]]
        before = None if resets else self._values_before(closure)
        objective, constraints, given = _ask(closure)
        u = _values(constraints)
        if before is not None:
            if not len(before) == len(u) == len(kept["u"]):
                raise ValueError(
                    f"the closure returned {len(u)} constraints, before it was {len(kept['u'])}: wanted as many each time"
                )
            u = [old + (now - then) for old, now, then in zip(kept["u"], u, before)]
        worst, value = _worst(u)
        weight = self._of("beta") * min(max(value / self._of("nu"), 0.0), 1.0)
        with _enable_grad():
            penalised = objective + weight * constraints[worst] if weight > 0.0 else objective
        self._differentiate(penalised)
        if self._of("q") > 1:
            # x_k is the point before for the next step.
            for param in _all(self.param_groups):
                self.state[param]["previous"] = param.detach().clone()
            kept.update(k=1 if resets else kept["k"] + 1, u=u)
        self._move(None)
        return objective, given

    def _values_before(self, closure: Callable) -> List[float]:
        """The constraints at the parameters before the last step."""
        params = _all(self.param_groups)
        now = [param.detach().clone() for param in params]
        try:
            for param in params:
                param.copy_(self.state[param]["previous"])
            return _values(_split(closure())[1])
        finally:
            for param, value in zip(params, now):
                param.copy_(value)

    def _differentiate(self, what: Any) -> float:
        """The gradient of `what` into ``grad``; returns its squared norm."""
        self.zero_grad()
        with _enable_grad():
            what.backward()
        square = sum(_number_in(p.grad.mul(p.grad).sum()) for p in _all(self.param_groups) if p.grad is not None)
        if not math.isfinite(square):
            raise ValueError(f"the squared norm of the gradient is {square}: wanted a finite number")
        return square

    def _move(self, step: Optional[float]) -> None:
        """``x - step * grad``; by default the step is that of the group."""
        for group in self.param_groups:
            for param in group["params"]:
                if param.grad is not None:
                    param.add_(param.grad, alpha=-(group["lr"] if step is None else step))

    def _of(self, name: str) -> Any:
        return self.param_groups[0][name]


def _all(groups: List[dict]) -> list:
    return [param for group in groups for param in group["params"]]


def _ask(closure: Callable) -> Tuple[Any, List[Any], Any]:
    """Objective, constraints one by one, and constraints as they were given; with their graphs."""
    with _enable_grad():
        objective, constraints, given = _split(closure())
    _finite("the objective", objective)
    return objective, constraints, given


def _split(returned: Any) -> Tuple[Any, List[Any], Any]:
    """The same of what a closure returned."""
    if not isinstance(returned, (tuple, list)) or len(returned) != 2:
        raise TypeError(f"the closure returned {type(returned).__name__}: wanted the pair (objective, constraints)")
    objective, given = returned
    if given is None or isinstance(given, (tuple, list)):
        return objective, list(given or ()), given
    if given.ndim > 1:
        raise ValueError(
            f"the constraints have {given.ndim} dimensions: wanted a list of numbers, or a tensor with one dimension"
        )
    return objective, [given] if given.ndim == 0 else list(given), given


def _values(constraints: List[Any]) -> List[float]:
    return [_finite(f"constraint {j + 1}", constraint) for j, constraint in enumerate(constraints)]


def _finite(what: str, tensor: Any) -> float:
    value = _number_in(tensor)
    if not math.isfinite(value):
        raise ValueError(f"{what} is {value}: wanted a finite number")
    return value


def _number_in(tensor: Any) -> float:
    value = tensor.detach().tolist()
    while isinstance(value, list) and len(value) == 1:
        value = value[0]
    if isinstance(value, list):
        raise ValueError(f"a tensor with {len(value)} entries: wanted one number, such as a mean")
    return float(value)


def _worst(values: List[float]) -> Tuple[int, float]:
    """The largest value, the first of equals, and its place; minus infinity without constraints."""
    worst, largest = -1, -math.inf
    for j, value in enumerate(values):
        if value > largest:
            worst, largest = j, value
    return worst, largest


def _check(settings: Dict[str, Any]) -> None:
    """Refuses what cannot be meant."""
    for name, value in settings.items():
        if name == "infeasible_step":
            if value not in ("fixed", "polyak"):
                raise ValueError(f"infeasible_step = {value!r}: wanted 'fixed' or 'polyak'")
        elif name in ("q", "s1", "s2"):
            if (value is None and name != "q") or (isinstance(value, int) and not isinstance(value, bool) and value >= 1):
                continue
            raise ValueError(f"{name} = {value!r}: wanted a whole number, 1 or larger")
        else:
            _number(name, value, least=0.0 if name == "tol" else None)


def _number(name: str, value: Any, least: Optional[float] = None) -> None:
    wanted = "a finite number above 0" if least is None else f"a finite number of at least {least:g}"
    fits = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    if not fits or not (value > 0.0 if least is None else value >= least):
        raise ValueError(f"{name} = {value!r}: wanted {wanted}")
