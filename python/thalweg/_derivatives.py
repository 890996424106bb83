"""Gradients and second-derivative products of functions ``F(x, y)`` written with jax.numpy or autograd.numpy.

Each library is loaded only on request. The results are plain functions of numpy arrays that return float64.
"""

from __future__ import annotations

import contextlib
from typing import Any, Callable, ContextManager, List, Optional, Tuple

import numpy as np

from thalweg._result import need

#: Supported libraries.
LIBRARIES = ("jax", "autograd")

#: A function that returns values and gradients, and one that returns second-derivative products.
Derivatives = Tuple[Callable, Callable]


def precision(how: str) -> ContextManager:
    """Return a context in which functions compute with 64 bits; needed for jax, and limited to this thread."""
    if how != "jax":
        return contextlib.nullcontext()
    jax = need("jax", "derivatives='jax'")
    if hasattr(jax, "enable_x64"):
        return jax.enable_x64(True)
    from jax.experimental import enable_x64

    return enable_x64()


def derived(how: str, name: str, function: Callable, sizes: Tuple[int, int], several: Optional[int] = None) -> Derivatives:
    """Differentiate a function of ``sizes`` variables with one value, or with `several`."""
    return {"jax": _by_jax, "autograd": _by_autograd}[how](name, function, sizes, several)


def _values(name: str, values: Any, several: Optional[int]) -> Any:
    """Reshape values for differentiation; a function with one value may return it in an array."""
    size = int(np.prod(np.shape(values)))
    if size != (several or 1):
        raise ValueError(f"{name} must return {'one number' if several is None else f'{several} numbers'}, got {size}")
    return values.reshape(() if several is None else (several,))


def _parts(numbers: Any, lengths: List[int]) -> List[np.ndarray]:
    return np.split(np.asarray(numbers), np.cumsum(lengths)[:-1])


def _by_jax(name: str, function: Callable, sizes: Tuple[int, int], several: Optional[int]) -> Derivatives:
    jax = need("jax", "derivatives='jax'")
    jnp = jax.numpy
    (n, m), rows = sizes, several or 1

    def values(x: Any, y: Any) -> Any:
        return _values(name, jnp.asarray(function(x, y)), several)

    # One array for each call, because passing several takes longer than most functions.
    @jax.jit
    def all_at_once(x: Any, y: Any) -> Any:
        slopes = jax.jacrev(values, (0, 1))(x, y) if several else jax.grad(values, (0, 1))(x, y)
        return jnp.concatenate([values(x, y).reshape(-1), slopes[0].reshape(-1), slopes[1].reshape(-1)])

    @jax.jit
    def along(x: Any, y: Any, b: Any, *weights: Any) -> Any:
        scalar = (lambda x, y: jnp.vdot(weights[0], values(x, y))) if weights else values
        return jnp.concatenate(jax.jvp(lambda y: jax.grad(scalar, (0, 1))(x, y), (y,), (b,))[1])

    def both(x: np.ndarray, y: np.ndarray) -> tuple:
        value, dx, dy = _parts(all_at_once(x, y), [rows, rows * n, rows * m])
        return (value, (dx.reshape(rows, n), dy.reshape(rows, m))) if several else (value[0], (dx, dy))

    return both, lambda *at: tuple(_parts(along(*at), [n, m]))


def _by_autograd(name: str, function: Callable, sizes: Tuple[int, int], several: Optional[int]) -> Derivatives:
    autograd = need("autograd", "derivatives='autograd'")
    anp = need("autograd.numpy", "derivatives='autograd'")

    # Adds 0, so that everything depends on x and y: autograd warns otherwise, although independence is valid here.
    def nothing(x: Any, y: Any) -> Any:
        return 0.0 * (anp.sum(x) + anp.sum(y))

    def values(x: Any, y: Any) -> Any:
        return _values(name, anp.array(function(x, y)) + nothing(x, y), several)

    def along(x: Any, y: Any, b: Any, *weights: Any) -> Any:
        scalar = (lambda x, y: anp.dot(weights[0], values(x, y))) if weights else values
        return anp.dot(b, autograd.grad(scalar, 1)(x, y)) + nothing(x, y)

    if several:
        by_x, by_y = autograd.jacobian(values, 0), autograd.jacobian(values, 1)
        both = lambda x, y: (values(x, y), (by_x(x, y), by_y(x, y)))
    else:
        both = autograd.value_and_grad(values, (0, 1))
    return both, autograd.grad(along, (0, 1))
