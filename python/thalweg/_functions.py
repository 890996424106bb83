"""Conversion of objective, constraints and bounds as in scipy.optimize to ``_core.Callables``."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any, Callable, Optional, Sequence, Tuple

import numpy as np
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, NonlinearConstraint

from thalweg import _core
from thalweg._differences import DEFAULT, SCHEMES, Differences
from thalweg._result import Note

#: Name of the objective in messages.
OBJECTIVE = "fun"
#: Number of functions that a remark names.
SHOWN = 5


class Ball:
    """Euclidean ball, for ``bounds`` of :func:`thalweg.minimize`.

    Parameters
    ----------
    radius : float
        Radius.
    center : array_like, optional
        Centre; the origin by default.

    Examples
    --------
    >>> import thalweg
    >>> thalweg.Ball(2.0)
    Ball(radius=2.0)
    """

    def __init__(self, radius: float, center: Optional[Sequence[float]] = None):
        self.radius = float(radius)
        self.center = None if center is None else vector(center, "the center of the ball")

    def __repr__(self) -> str:
        centre = "" if self.center is None else f", center={self.center.tolist()}"
        return f"Ball(radius={self.radius}{centre})"

    def _domain(self, dim: int) -> dict:
        if self.center is None:
            return {"radius": self.radius}
        if len(self.center) != dim:
            raise ValueError(f"the center of the ball must have {dim} entries, one for each variable, got {len(self.center)}")
        return {"radius": self.radius, "center": self.center}


class Simplex:
    """Simplex of non-negative points whose entries sum to ``total``, for ``bounds`` of :func:`thalweg.minimize`."""

    def __init__(self, total: float = 1.0):
        self.total = float(total)

    def __repr__(self) -> str:
        return f"Simplex(total={self.total})"

    def _domain(self, _dim: int) -> dict:
        return {"total": self.total}


@dataclass
class Problem:
    """Validated problem with the names of its constraints."""

    core: Any
    x0: np.ndarray
    #: Number of values of each constraint, in the given order.
    sizes: list = field(default_factory=list)
    #: Name, constraint, value and sign of each inequality.
    inequalities: list = field(default_factory=list)
    #: Gradients by finite differences, the objective's first.
    differences: list = field(default_factory=list)
    #: Names of the constraints with equalities.
    equalities: list = field(default_factory=list)

    @property
    def names(self) -> list:
        return [i[0] for i in self.inequalities]

    @property
    def notes(self) -> list:
        """Remarks for the result."""
        return [differences_note(scheme, self.differences) for scheme in dict.fromkeys(d.scheme for d in self.differences)]

    def calls(self) -> Tuple[int, int]:
        """Return how often the objective and its gradient were evaluated."""
        values, slopes = self.core.calls()
        return values + sum(d.calls for d in self.differences if d.name == OBJECTIVE), slopes

    def by_constraint(self, numbers: Sequence[float]) -> list:
        """Sum numbers of inequalities, with their signs, for each value of each constraint."""
        arrays = [np.zeros(size) for size in self.sizes]
        for (_, k, i, sign), number in zip(self.inequalities, numbers):
            arrays[k][i] += sign * number
        return arrays


def vector(values: Any, what: str) -> np.ndarray:
    """Copy values to a vector of float64."""
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"{what} must be a vector of numbers, got {type(values).__name__}") from None
    if array.ndim == 0:
        array = array.reshape(1)
    if array.ndim != 1:
        raise ValueError(f"{what} must be a vector, got shape {array.shape}")
    return array


def count(given: Any, what: str) -> int:
    """Validate a positive integer."""
    if not isinstance(given, (int, np.integer)) or isinstance(given, bool) or given < 1:
        raise ValueError(f"{what} must be a positive integer, got {given!r}")
    return int(given)


def with_arguments(function: Callable, args: tuple) -> Callable:
    """Return the function with `args` appended to its arguments."""
    if not args:
        return function
    return lambda *given: function(*given, *args)


def differences_note(scheme: str, all_differences: Sequence[Differences]) -> Note:
    """Return the remark on gradients that are differences by this scheme."""
    names = [d.name for d in all_differences if d.scheme == scheme]
    shown = ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")
    text = (
        f"gradients of {shown} are {scheme} finite differences, which are approximate and wrong at kinks; "
        "certificates that depend on them are not proved"
    )
    return Note(text, "finite-difference-gradients", {"scheme": scheme, "functions": names})


def problem(
    fun: Callable,
    x0: Any,
    *,
    args: tuple = (),
    jac: Any = None,
    constraints: Any = (),
    bounds: Any = None,
    n_samples: Optional[int] = None,
    rho: Any = None,
    eq_tol: Optional[float] = None,
    feasibility: float = 1e-6,
    values_only: bool = False,
    warn: bool = True,
) -> Problem:
    """Validate the description of a problem and build it.

    Functions without a gradient get finite differences, unless the solver uses `values_only`. `warn` is whether to warn of
    equalities.
    """
    if not callable(fun):
        raise TypeError(f"fun must be a function of x, got {type(fun).__name__}")
    if eq_tol is not None and not (isinstance(eq_tol, (int, float)) and 0 < eq_tol < np.inf):
        raise ValueError(f"eq_tol must be positive and finite, got {eq_tol}")
    x0 = vector(x0, "x0")
    if not isinstance(args, tuple):
        args = (args,)
    fun = with_arguments(fun, args)
    within = domain(bounds, len(x0))
    if isinstance(jac, str) and jac not in SCHEMES:
        raise ValueError(f"jac must be a function, True, or one of {', '.join(SCHEMES)} for finite differences, got {jac!r}")
    if not (jac is None or callable(jac) or isinstance(jac, (bool, str))):
        raise TypeError(f"jac must be a function, True, or one of {', '.join(SCHEMES)}, got {type(jac).__name__}")
    if n_samples is not None:
        count(n_samples, "n_samples")
    built = Problem(core=None, x0=x0)

    def slope(name: str, function: Callable, given: Any) -> Any:
        """Return the gradient of a function: the one that is given, or finite differences."""
        if callable(given) or values_only:
            return given if callable(given) else None
        scheme = given or (jac if isinstance(jac, str) else DEFAULT)
        built.differences.append(Differences(name, function, scheme, within))
        return built.differences[-1]

    objective_slope = True if jac is True else slope(OBJECTIVE, fun, with_arguments(jac, args) if callable(jac) else None)
    functions: list = []
    rest = () if n_samples is None else (np.arange(n_samples),)
    equalities = 0
    # Functions are not evaluated outside the bounds.
    inside = np.clip(x0, within["low"], within["high"]) if within is not None and "low" in within else x0
    for k, constraint in enumerate(as_list(constraints)):
        function, size, low, high, name = parse_constraint(constraint, k, inside, rest, slope)
        functions.append(function)
        built.sizes.append(size)
        low, high = limits(low, high, name, size)
        equal = (low == high) & np.isfinite(low)
        if np.any(equal):
            built.equalities.append(name)
            equalities += int(np.sum(equal))
        slacks = (
            _room(constraint, np.where(equal, high, 0.0), within, feasibility) if eq_tol is None else np.where(equal, eq_tol, 0.0)
        )
        for i in range(size):
            label = name if size == 1 else f"{name}[{i}]"
            slack = float(slacks[i])
            both = np.isfinite(low[i]) and np.isfinite(high[i])
            if np.isfinite(high[i]):
                built.inequalities.append((label + (" <= ub" if both else ""), k, i, 1.0, -high[i] - slack, abs(high[i])))
            if np.isfinite(low[i]):
                built.inequalities.append((label + (" >= lb" if both else ""), k, i, -1.0, low[i] - slack, abs(low[i])))
    given = [(name, k, i, sign, shift, max(1.0, scale)) for name, k, i, sign, shift, scale in built.inequalities]
    built.inequalities = [(name, k, i, sign) for name, k, i, sign, _, _ in built.inequalities]
    if warn:
        warn_of_equalities(built, eq_tol, stacklevel=4)
    built.core = _core.Callables(len(x0), (fun, objective_slope), functions, given, within, n_samples, constants(rho), equalities)
    return built


def _room(constraint: Any, right: np.ndarray, within: Optional[dict], feasibility: float) -> np.ndarray:
    """Return how far each equality may be from its right side, for methods that need some room.

    A solution of ``a @ x = b`` has at least the norm ``|b| / |a|``. So the change of ``a @ x`` over that length within the bounds
    is no larger than the unit of the equality at any solution, and the room no larger than the tolerance there. The units of
    other functions have no such bound.
    """
    # The core refuses a wrong tolerance.
    tolerance = feasibility if isinstance(feasibility, (int, float)) and 0 < feasibility < np.inf else 0.0
    if not isinstance(constraint, LinearConstraint) or not (within is None or "low" in within):
        return np.zeros(len(right))
    rows = constraint.A.toarray() if sparse.issparse(constraint.A) else np.atleast_2d(np.asarray(constraint.A, dtype=np.float64))
    widths = np.full(rows.shape[1], np.inf) if within is None else within["high"] - within["low"]
    norms = np.linalg.norm(rows, axis=1)
    lengths = np.divide(np.abs(right), norms, out=np.zeros(len(rows)), where=norms > 0.0)
    units = np.linalg.norm(rows * np.minimum(lengths[:, None], widths), axis=1)
    return np.asarray(tolerance * np.minimum(1.0, units))


def warn_of_equalities(posed: Problem, eq_tol: Optional[float], stacklevel: int) -> None:
    """Warn that equalities become inequalities, for methods that do not assume smooth functions."""
    given = ", which leave almost no" if eq_tol is None else f" with tolerance {eq_tol:g} (eq_tol), which leave almost no"
    for name in posed.equalities:
        warnings.warn(
            f"the equality {name} becomes two inequalities{given} interior; methods whose theory needs a strictly feasible "
            "point then have no guarantee",
            stacklevel=stacklevel,
        )


def constants(rho: Any) -> Optional[tuple]:
    """Return the weak-convexity constants of objective and constraints; None if they are to be estimated."""
    if rho is None or (isinstance(rho, str) and rho == "estimate"):
        return None
    pair = (rho, rho) if np.ndim(rho) == 0 else tuple(rho)
    try:
        pair = tuple(float(r) for r in pair)
    except (TypeError, ValueError):
        pair = ()
    if len(pair) != 2 or not all(np.isfinite(r) and r >= 0 for r in pair):
        raise ValueError(f"rho must be a non-negative number, a pair (objective, constraints) or 'estimate', got {rho!r}")
    return pair


def as_list(constraints: Any) -> list:
    """Return one or several constraints as a list."""
    if constraints is None:
        return []
    if isinstance(constraints, (dict, LinearConstraint, NonlinearConstraint)):
        return [constraints]
    return list(constraints)


def parse_constraint(constraint: Any, k: int, x0: np.ndarray, rest: tuple, slope: Callable) -> tuple:
    """Return the function of a constraint for the core, its number of values, both sides and its name.

    `slope` returns the gradient of a function from its name, the function, and what is given: a function, a scheme or None.
    """
    name = f"constraint {k + 1}"
    if isinstance(constraint, LinearConstraint):
        rows = linear_rows(constraint.A, len(x0), name)
        return (for_core(rows),), rows.shape[0], constraint.lb, constraint.ub, name
    if isinstance(constraint, NonlinearConstraint):
        fun, jac, low, high = constraint.fun, constraint.jac, constraint.lb, constraint.ub
        # The default of scipy, which cannot be told from the same choice by the caller.
        jac = None if isinstance(jac, str) and jac == "2-point" else jac
    elif isinstance(constraint, dict):
        kind = constraint.get("type")
        if kind not in ("ineq", "eq"):
            raise ValueError(f"the type of {name} must be 'ineq' (fun(x) >= 0) or 'eq' (fun(x) = 0), got {kind!r}")
        unknown = set(constraint) - {"type", "fun", "jac", "args", "name"}
        if unknown or not callable(constraint.get("fun")):
            raise ValueError(f"{name} must have type, a function fun, and optionally jac, args, name, got {sorted(constraint)}")
        name = str(constraint.get("name", name))
        args = tuple(constraint.get("args", ()))
        fun, jac = with_arguments(constraint["fun"], args), constraint.get("jac")
        jac = with_arguments(jac, args) if callable(jac) else jac
        low, high = 0.0, (0.0 if kind == "eq" else np.inf)
    else:
        what = "a NonlinearConstraint, a LinearConstraint or a dict as in scipy.optimize"
        raise TypeError(f"{name} must be {what}, got {type(constraint).__name__}")
    if not (jac is None or callable(jac) or (isinstance(jac, str) and jac in SCHEMES)):
        raise ValueError(f"jac of {name} must be a function or one of {', '.join(SCHEMES)} for finite differences, got {jac!r}")
    values = np.asarray(fun(x0.copy(), *rest), dtype=np.float64)
    if values.ndim > 1:
        raise ValueError(f"{name} must return a number or a vector, got an array of shape {values.shape}")
    return (name, fun, slope(name, fun, jac), values.size), values.size, low, high, name


def linear_rows(matrix: Any, dim: int, name: str) -> Any:
    """Return the matrix of a LinearConstraint, dense or as CSR."""
    rows: Any = sparse.csr_array(matrix) if sparse.issparse(matrix) else np.atleast_2d(matrix)
    rows = rows.astype(np.float64)
    if rows.ndim != 2 or rows.shape[1] != dim:
        raise ValueError(f"the matrix of {name} must have {dim} columns, one for each variable, got shape {rows.shape}")
    return rows


def for_core(rows: Any) -> Any:
    """Return a matrix for the core: a dense array, or the parts of a CSR matrix with the number of columns."""
    if not sparse.issparse(rows):
        return rows
    rows.sum_duplicates()
    return rows.indptr, rows.indices, rows.data, rows.shape[1]


def limits(lb: Any, ub: Any, name: str, size: int, entry: str = "row") -> Tuple[np.ndarray, np.ndarray]:
    """Return both sides for each value of a constraint, or for each entry of something else."""
    both = []
    for side, given, none in (("lb", lb, -np.inf), ("ub", ub, np.inf)):
        try:
            array = np.broadcast_to(np.asarray(given, dtype=np.float64), (size,))
        except (TypeError, ValueError):
            raise ValueError(f"{side} of {name} must be a number or {size} numbers, got shape {np.shape(given)}") from None
        wrong = np.isnan(array) | (array == -none)
        if np.any(wrong):
            i = int(np.argmax(wrong))
            raise ValueError(f"{side} of {entry} {i + 1} of {name} must be a finite number or {none}, got {array[i]}")
        both.append(array)
    low, high = both
    if np.any(low > high):
        i = int(np.argmax(low > high))
        raise ValueError(f"lb of {entry} {i + 1} of {name} must be at most ub, got lb = {low[i]:g} and ub = {high[i]:g}")
    return low, high


def domain(bounds: Any, dim: int, what: str = "bounds") -> Optional[dict]:
    """Return the simple set that contains x."""
    if bounds is None:
        return None
    if isinstance(bounds, (Ball, Simplex)):
        return bounds._domain(dim)
    if isinstance(bounds, Bounds):
        low, high = bounds.lb, bounds.ub
    else:
        pairs = list(bounds)
        if len(pairs) != dim or any(np.size(pair) != 2 for pair in pairs):
            raise ValueError(f"{what} must have {dim} pairs (low, high), one for each variable, got {len(pairs)} entries")
        low = [-np.inf if pair[0] is None else pair[0] for pair in pairs]
        high = [np.inf if pair[1] is None else pair[1] for pair in pairs]
    low, high = limits(low, high, what, dim, "variable")
    return {"low": np.array(low), "high": np.array(high)}
