"""``thalweg.certify``: is it true? A point is measured anew, whatever a result says about it."""

from __future__ import annotations

from typing import Any, Optional

from thalweg import _core, _rows
from thalweg._functions import problem, vector
from thalweg._result import Certificate
from thalweg._train import Posed, certificate_of


class ModelCertificate(Certificate):
    """What holds of a model: as :class:`Certificate`, and each constraint on the rows that were given.

    Attributes
    ----------
    constraints : list of dict
        For each its name, the bound that was asked for, the smooth form (``value``), the counted rate (``counted``) and ``kept``.
    feasible : bool
        All of them are kept, on the side that was to be enforced.
    intervals : list of dict or None
        With `confidence`: bounds on each constraint on unseen rows, if these rows were not trained on.
    """


def certify(
    target: Any,
    x: Any = None,
    y: Any = None,
    *,
    jac: Any = None,
    constraints: Any = (),
    bounds: Any = None,
    args: tuple = (),
    n_samples: Optional[int] = None,
    rho: Any = None,
    eq_tol: float = 1e-6,
    ctol: float = 1e-6,
    sensitive_features: Any = None,
    sample_weight: Any = None,
    confidence: Optional[float] = None,
    mu: Optional[float] = None,
    width: float = 0.1,
    evaluations: int = 500,
) -> Certificate:
    """Measures a point anew and bounds its distance to stationary, whatever solver it comes from.

    Parameters
    ----------
    target : callable, fitted classifier or FitResult
        The objective, as in :func:`thalweg.minimize`; or a model of :mod:`thalweg.learn` or of the classifiers.
    x : array_like
        The point; for a model the rows X.
    y : array_like, optional
        The labels, for a model.
    jac, constraints, bounds, args, n_samples, rho, eq_tol
        The problem, as in :func:`thalweg.minimize`. `rho` must be given: without it nothing can be proved.
    ctol : float
        What a constraint may be violated by.
    sensitive_features, sample_weight : array_like, optional
        Groups and weights of the rows, for a model.
    confidence : float, optional
        For a model on rows that it was not trained on: adds confidence intervals of the constraints on unseen rows.
    mu : float, optional
        Proximal coefficient beyond the weak-convexity constant of the objective.
    width : float
        The interval is made as short as this share of its upper end.
    evaluations : int
        Evaluations at most.

    Returns
    -------
    Certificate
        With ``lower``, ``upper``, ``feasible`` and more.

    Examples
    --------
    ``|x^2 - 1|`` subject to ``x <= 0.5``. At 0.25 the proximal point with coefficient 4 is 0.5, a quarter away:

    >>> import numpy as np, thalweg
    >>> from scipy.optimize import LinearConstraint
    >>> found = thalweg.certify(
    ...     lambda x: abs(x[0] ** 2 - 1), [0.25], jac=lambda x: [2 * x[0] * np.sign(x[0] ** 2 - 1)],
    ...     constraints=LinearConstraint([[1.0]], -np.inf, 0.5), rho=(2.0, 0.0), mu=2.0,
    ... )
    >>> found.feasible, found.lower <= 0.25 <= found.upper
    (True, True)
    """
    how = {"mu": mu, "width": float(width), "evaluations": evaluations, "feasibility": float(ctol)}
    if x is None:
        raise TypeError("certify needs a point: certify(fun, x, …), or certify(model, X, y, …)")
    if hasattr(target, "_posed_on") or (hasattr(target, "subject_to") and hasattr(target, "coef")):
        if y is None:
            raise TypeError("a model is certified on rows: certify(model, X, y, …)")
        return _model(target, x, y, sensitive_features, sample_weight, how, confidence)
    if rho is None:
        raise ValueError(
            "no weak-convexity constant was given: rho=… claims one (0 for convex functions), rho='estimate' estimates it"
        )
    posed = problem(
        target, x, args=args, jac=jac, constraints=constraints, bounds=bounds, n_samples=n_samples, rho=rho, eq_tol=eq_tol
    )
    return Certificate.of(_core.certify(posed.core, posed.x0, how))


def _model(model: Any, X: Any, y: Any, sensitive: Any, weights: Any, how: dict, confidence: Optional[float]) -> ModelCertificate:
    if hasattr(model, "_posed_on"):
        posed = model._posed_on(X, y, weights, sensitive)
        point, trained, enforce = model._point(), model._trained, getattr(model, "enforce", "surrogate")
    else:
        payload, rows, _ = _rows.features(X)
        posed = Posed(
            model.objective,
            model.subject_to,
            payload,
            rows,
            _rows.signs(y, rows, model.classes),
            sensitive=sensitive,
            weights=_rows.weights(weights, rows),
            intercept=len(model.x) > len(model.coef),
        )
        point, enforce = model.x, model.enforce
        trained = [(c["surrogate_bound"], c["sharpened"]) for c in model.constraints]
    point = vector(point, "the model")
    found = ModelCertificate(certificate_of(posed, point, trained, how))
    quality = posed.core.quality(point)
    found.constraints = []
    for named, value, counted in zip(posed.core.constraints(), quality["constraints"], quality["counted"]):
        enforced = value if counted is None or enforce == "surrogate" else counted
        kept = enforced <= named["bound"] + how["feasibility"] * max(1.0, abs(named["bound"]))
        found.constraints.append({**named, "value": value, "counted": counted, "enforced": enforced, "kept": bool(kept)})
    found.feasible = all(c["kept"] for c in found.constraints)
    excess = [(c["enforced"] - c["bound"], c["name"]) for c in found.constraints]
    found.maxcv, found.worst = max([(0.0, None), *excess], key=lambda e: e[0])
    found.accuracy = quality["accuracy"]
    found.intervals = None if confidence is None else posed.core.intervals(point, float(confidence))
    return found
