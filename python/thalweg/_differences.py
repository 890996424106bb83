"""Gradients by finite differences that stay within bounds."""

from __future__ import annotations

from typing import Any, Callable, Optional

import numpy as np

#: Names of the schemes, as in scipy.
SCHEMES = ("2-point", "3-point", "cs")
#: Scheme of functions without a gradient: central differences.
DEFAULT = "3-point"


class Differences:
    """Gradient, or Jacobian, of a function by finite differences.

    The step in each variable is relative to ``max(1, |x_i|)``, as in ``scipy.optimize``. Steps that would leave a box become
    one-sided or shorter, and variables with equal bounds have derivative 0.

    Parameters
    ----------
    name : str
        Name of the function in notes.
    function : callable
        ``function(x, *rest)``; returns a number or a vector.
    scheme : {'2-point', '3-point', 'cs'}
        Scheme.
    domain : dict, optional
        Set that contains x, in the form of the core. Only boxes restrict the steps.
    """

    def __init__(self, name: str, function: Callable, scheme: str, domain: Optional[dict] = None):
        self.name, self.scheme, self._function = name, scheme, function
        box = domain if domain is not None and "low" in domain else {"low": -np.inf, "high": np.inf}
        self._low, self._high = box["low"], box["high"]
        #: Number of calls of the function.
        self.calls = 0

    def __call__(self, x: np.ndarray, *rest: Any) -> np.ndarray:
        # The only implementation in scipy that respects bounds.
        from scipy.optimize._numdiff import approx_derivative

        low, high = np.broadcast_to(self._low, x.shape), np.broadcast_to(self._high, x.shape)
        x, free = np.clip(x, low, high), low < high

        def values(moved: np.ndarray) -> np.ndarray:
            self.calls += 1
            point = x.astype(moved.dtype)
            point[free] = moved
            return np.ravel(self._function(point, *rest))

        if not np.any(free):
            return np.zeros((len(values(x[free])), len(x)))
        slopes = np.atleast_2d(approx_derivative(values, x[free], method=self.scheme, bounds=(low[free], high[free])))
        if np.all(free):
            return slopes
        jacobian = np.zeros((len(slopes), len(x)))
        jacobian[:, free] = slopes
        return jacobian
