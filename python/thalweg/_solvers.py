"""``thalweg.solvers``: names of the solvers."""

from __future__ import annotations

from typing import Optional, Tuple

from thalweg import _core


def solvers(interface: str = "solve", *, constraints: Optional[bool] = None) -> Tuple[str, ...]:
    """Return the names of the solvers of an interface. "auto" is also accepted where a solver can be chosen automatically.

    Parameters
    ----------
    interface : {"solve", "fit", "minimize", "blackbox", "plan", "ipp"}
        Interface: experiments and ``thalweg solve``, the estimators, :func:`thalweg.minimize`,
        :func:`thalweg.blackbox.minimize`, :func:`thalweg.plan`, or the inner solver of "ipp".
    constraints : bool, optional
        Restrict the names to solvers that handle constraints, or to those that do not.

    Returns
    -------
    tuple of str
        Names.

    Examples
    --------
    >>> import thalweg
    >>> "bundle" in thalweg.solvers("fit", constraints=True), "lbfgs" in thalweg.solvers("fit", constraints=True)
    (True, False)
    """
    return tuple(_core.solvers(interface, constraints))
