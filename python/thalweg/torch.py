"""Constrained optimisation in PyTorch: a ``torch.optim`` optimiser with the steps of two methods of the library.

Parameters, graph and batches belong to PyTorch. For runs with limits, projections and certificates, use
:func:`thalweg.minimize`.

The module can be imported without PyTorch. :class:`ConstrainedOptimizer` then takes any tensors that have ``grad``,
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

#: Name of the step size, default settings and step of each method; names and settings are those of the library.
_METHODS: Dict[str, Tuple[str, Dict[str, Any], str]] = {
    "ssg": ("eta", {"eta": 0.01, "tol": 1e-5, "infeasible_step": "fixed"}, "_switch"),
    "threes-econ": ("alpha", {"alpha": 0.01, "beta": 10.0, "nu": 1e-5, "q": 1, "s1": None, "s2": None}, "_penalise"),
}
_DEFAULT = next(iter(_METHODS))


class _PlainOptimizer:
    """Subset of ``torch.optim.Optimizer`` for other tensors than PyTorch's."""

    def __init__(self, params: Iterable, defaults: dict):
        self.defaults = defaults
        self.state: Any = defaultdict(dict)
        self.param_groups: List[dict] = []
        groups = list(params)
        if not groups:
            raise ValueError("params must have parameters or groups of them, got none")
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
            raise ValueError(f"state_dict must have groups of {ours} parameters, got {theirs}")
        params = self._params()
        self.state = defaultdict(dict, {params[int(i)]: kept for i, kept in saved["state"].items()})
        for group, kept in zip(self.param_groups, saved["param_groups"]):
            group.update({key: value for key, value in kept.items() if key != "params"})

    def _params(self) -> list:
        return [param for group in self.param_groups for param in group["params"]]


_Base: Any = _PlainOptimizer if torch is None else torch.optim.Optimizer
_no_grad: Callable[[], Any] = contextlib.nullcontext if torch is None else torch.no_grad
_enable_grad: Callable[[], Any] = contextlib.nullcontext if torch is None else torch.enable_grad


class ConstrainedOptimizer(_Base):
    """Optimiser for an objective subject to constraints ``g_j <= 0``.

    "ssg", the switching subgradient method, takes a step on the largest constraint if it is above ``tol``, and otherwise on
    the objective. "threes-econ", 3S-Econ, takes a step on the objective plus ``beta * clip(u / nu, 0, 1)`` times the largest
    constraint, where u is a SPIDER estimate of its value: recomputed every ``q`` steps, and updated in between by differences on
    the same batch at two points.

    Parameters
    ----------
    params : iterable
        Parameters or groups of them, as in ``torch.optim``. A group may have its own ``lr``.
    method : {'ssg', 'threes-econ'}
        Method.
    **settings
        Settings with the names and defaults of the library. For "ssg": eta (0.01), tol (1e-5) and infeasible_step, "fixed" or
        "polyak" (a step to the zero of the linearised constraint). For "threes-econ": alpha (0.01), beta (10), nu (1e-5), q (1),
        s1 (all rows) and s2 (q).

    Notes
    -----
    The step size eta or alpha is ``lr`` in ``param_groups``, so that any ``lr_scheduler`` can change it. The other settings are
    in ``param_groups`` too and are the same for all groups. A run continued from its ``state_dict`` takes the same steps bit for
    bit.

    Several constraints are replaced by the largest of them, the first if several are equal. Only the function of the step is
    differentiated.

    Differences from the library: there is no projection, and the output is the last point. With "threes-econ", one batch serves
    the estimate and both subgradients; constraints are tracked by their values, so each should be a mean over rows; beta and q
    are numbers.

    In single precision, ``nu`` should be well above the rounding errors of the constraints: 1e-3 rather than 1e-5.

    Examples
    --------
    The closure returns objective and constraints and does not call ``backward``::

        optimizer = ConstrainedOptimizer(model.parameters(), "ssg", eta=0.05, tol=1e-3)
        for X, y, group in loader:

            def closure():
                scores = model(X)
                return loss(scores, y), [gap(scores, group) - 0.05]

            objective, constraints = optimizer.step(closure)

    3S-Econ gives the batch size of the next step, and calls the closure at two points where it needs a difference::

        optimizer = ConstrainedOptimizer(model.parameters(), "threes-econ", nu=1e-3, q=32)
        for _ in range(1000):
            size = optimizer.batch_size
            rows = torch.arange(n) if size is None else torch.randint(n, (size,))
            optimizer.step(lambda: parts(model, X[rows], y[rows]))
    """

    def __init__(self, params: Iterable, method: str = _DEFAULT, **settings: Any):
        if method not in _METHODS:
            raise ValueError(f"method must be {' or '.join(map(repr, _METHODS))}, got {method!r}")
        step, defaults, _ = _METHODS[method]
        for name in settings:
            if name not in defaults:
                hint = f", and its step size is {step}" if name == "lr" else ""
                raise TypeError(f"'{method}' has no setting {name}; it has {', '.join(defaults)}{hint}")
        chosen = {**defaults, **settings}
        _check(chosen)
        super().__init__(params, {"method": method, "lr": chosen.pop(step), **chosen})

    @property
    def _estimates(self) -> bool:
        """Whether the method has batches and an estimate of the constraints."""
        return "q" in self.defaults

    @property
    def resets(self) -> bool:
        """Whether the next step of "threes-econ" recomputes its estimate."""
        if not self._estimates:
            return False
        if self._of("q") == 1:
            return True
        kept = [self.state.get(param, {}) for param in _all(self.param_groups)]
        return any("previous" not in one for one in kept) or kept[0]["k"] % self._of("q") == 0

    @property
    def batch_size(self) -> Optional[int]:
        """Batch size of the next step: s1 if the estimate is recomputed, otherwise s2. None means all rows, or any for "ssg"."""
        if not self._estimates:
            return None
        if self.resets:
            return self._of("s1")
        return self._of("q") if self._of("s2") is None else self._of("s2")

    def add_param_group(self, param_group: dict) -> None:
        """Add a group. Only its ``lr`` may differ from those of the other groups."""
        super().add_param_group(param_group)
        added = self.param_groups[-1]
        try:
            _number("lr", added["lr"])
            for name in self.defaults:
                if name != "lr" and added[name] != self._of(name):
                    raise ValueError(f"{name} must be the same for all groups, got {added[name]!r} and {self._of(name)!r}")
        except ValueError:
            self.param_groups.pop()
            raise

    def load_state_dict(self, state_dict: dict) -> None:
        """Load a saved state of the same method."""
        for group in state_dict["param_groups"]:
            if group.get("method") != self._of("method"):
                raise ValueError(f"state_dict must have the method {self._of('method')!r}, got {group.get('method')!r}")
        super().load_state_dict(state_dict)

    def step(self, closure: Optional[Callable[[], Tuple[Any, Any]]] = None) -> Tuple[Any, Any]:
        """Take one step.

        Parameters
        ----------
        closure : callable
            ``closure()`` returns ``(objective, constraints)`` at the current parameters without calling ``backward``: a tensor
            with one number, and a list of such tensors or a tensor with one number for each constraint ``g_j <= 0``.
            "threes-econ" with ``q`` above 1 calls it twice in most steps, at the old and at the new parameters; it must use the
            same batch.

        Returns
        -------
        tuple
            Return value of `closure` at the parameters before the step.

        Notes
        -----
        Existing gradients are discarded, and those of the step remain in ``grad``. After an exception the parameters are
        unchanged.
        """
        if closure is None:
            raise TypeError("step() needs a closure that returns objective and constraints")
        with _no_grad():
            _, _, step = _METHODS[self._of("method")]
            return getattr(self, step)(closure)

    def _switch(self, closure: Callable) -> Tuple[Any, Any]:
        objective, constraints, given = _ask(closure)
        worst, value = _worst(_values(constraints))
        eta = None
        if value > self._of("tol"):
            square = self._differentiate(constraints[worst])
            if self._of("infeasible_step") == "polyak":
                if square == 0.0:
                    raise ValueError(
                        f"the gradient of the largest constraint is zero although its value is {value:.3e}; the Polyak step is "
                        "undefined"
                    )
                eta = value / square
        else:
            self._differentiate(objective)
        self._move(eta)
        return objective, given

    def _penalise(self, closure: Callable) -> Tuple[Any, Any]:
        resets = self.resets
        # State that belongs to no particular parameter is stored with the first, as in torch.optim.LBFGS.
        kept = self.state[self.param_groups[0]["params"][0]]
        before = None if resets else self._values_before(closure)
        objective, constraints, given = _ask(closure)
        u = _values(constraints)
        if before is not None:
            if not len(before) == len(u) == len(kept["u"]):
                raise ValueError(
                    f"the closure must return the same number of constraints each time, got {len(u)} after {len(kept['u'])}"
                )
            u = [old + (now - then) for old, now, then in zip(kept["u"], u, before)]
        worst, value = _worst(u)
        weight = self._of("beta") * min(max(value / self._of("nu"), 0.0), 1.0)
        with _enable_grad():
            penalised = objective + weight * constraints[worst] if weight > 0.0 else objective
        self._differentiate(penalised)
        if self._of("q") > 1:
            # x_k is the previous point of the next step.
            for param in _all(self.param_groups):
                self.state[param]["previous"] = param.detach().clone()
            kept.update(k=1 if resets else kept["k"] + 1, u=u)
        self._move(None)
        return objective, given

    def _values_before(self, closure: Callable) -> List[float]:
        """Return the constraints at the parameters before the last step."""
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
        """Store the gradient of `what` in ``grad`` and return its squared norm."""
        self.zero_grad()
        with _enable_grad():
            what.backward()
        square = sum(_number_in(p.grad.mul(p.grad).sum()) for p in _all(self.param_groups) if p.grad is not None)
        if not math.isfinite(square):
            raise ValueError(f"the squared norm of the gradient must be finite, got {square}")
        return square

    def _move(self, step: Optional[float]) -> None:
        """Move to ``x - step * grad``; the default step is that of the group."""
        for group in self.param_groups:
            for param in group["params"]:
                if param.grad is not None:
                    param.add_(param.grad, alpha=-(group["lr"] if step is None else step))

    def _of(self, name: str) -> Any:
        return self.param_groups[0][name]


def _all(groups: List[dict]) -> list:
    return [param for group in groups for param in group["params"]]


def _ask(closure: Callable) -> Tuple[Any, List[Any], Any]:
    """Evaluate the closure; return objective, list of constraints, and constraints as given."""
    with _enable_grad():
        objective, constraints, given = _split(closure())
    _finite("the objective", objective)
    return objective, constraints, given


def _split(returned: Any) -> Tuple[Any, List[Any], Any]:
    """Split the return value of a closure into objective, list of constraints, and constraints as given."""
    if not isinstance(returned, (tuple, list)) or len(returned) != 2:
        raise TypeError(f"the closure must return the pair (objective, constraints), got {type(returned).__name__}")
    objective, given = returned
    if given is None or isinstance(given, (tuple, list)):
        return objective, list(given or ()), given
    if given.ndim > 1:
        raise ValueError(f"the constraints must be a list of numbers or a tensor with one dimension, got {given.ndim} dimensions")
    return objective, [given] if given.ndim == 0 else list(given), given


def _values(constraints: List[Any]) -> List[float]:
    return [_finite(f"constraint {j + 1}", constraint) for j, constraint in enumerate(constraints)]


def _finite(what: str, tensor: Any) -> float:
    value = _number_in(tensor)
    if not math.isfinite(value):
        raise ValueError(f"{what} must be finite, got {value}")
    return value


def _number_in(tensor: Any) -> float:
    value = tensor.detach().tolist()
    while isinstance(value, list) and len(value) == 1:
        value = value[0]
    if isinstance(value, list):
        raise ValueError(
            f"objective and constraints must be single numbers such as means, got a tensor with {len(value)} entries"
        )
    return float(value)


def _worst(values: List[float]) -> Tuple[int, float]:
    """The largest value, the first of equals, and its place; minus infinity without constraints."""
    worst, largest = -1, -math.inf
    for j, value in enumerate(values):
        if value > largest:
            worst, largest = j, value
    return worst, largest


def _check(settings: Dict[str, Any]) -> None:
    """Check that every setting is in range."""
    for name, value in settings.items():
        if name == "infeasible_step":
            if value not in ("fixed", "polyak"):
                raise ValueError(f"infeasible_step must be 'fixed' or 'polyak', got {value!r}")
        elif name in ("q", "s1", "s2"):
            if (value is None and name != "q") or (isinstance(value, int) and not isinstance(value, bool) and value >= 1):
                continue
            raise ValueError(f"{name} must be a positive integer, got {value!r}")
        else:
            _number(name, value, least=0.0 if name == "tol" else None)


def _number(name: str, value: Any, least: Optional[float] = None) -> None:
    expected = "positive and finite" if least is None else f"finite and at least {least:g}"
    fits = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    if not fits or not (value > 0.0 if least is None else value >= least):
        raise ValueError(f"{name} must be {expected}, got {value!r}")
