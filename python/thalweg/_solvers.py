"""``thalweg.solvers``: the names of the solvers."""

from __future__ import annotations

from typing import Optional, Tuple

from thalweg import _core


def solvers(interface: str = "solve", *, constraints: Optional[bool] = None) -> Tuple[str, ...]:
    """The names of the solvers that can be asked for. Where one is chosen automatically, "auto" is a name too.

    Parameters
    ----------
    interface : {"solve", "fit", "minimize", "blackbox", "plan", "ipp"}
        What offers them: experiments and ``thalweg solve``, the estimators, :func:`thalweg.minimize`,
        :func:`thalweg.blackbox.minimize`, :func:`thalweg.plan`, or the inner solver of "ipp".
    constraints : bool, optional
        Only those that take constraints, or only those that do not.

    Returns
    -------
    tuple of str
        The names.

    Examples
    --------
    >>> import thalweg
    >>> thalweg.solvers("fit", constraints=True)
    ('ssg', 'bundle')
    """
    return tuple(_core.solvers(interface, constraints))
