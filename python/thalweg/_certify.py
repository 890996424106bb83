"""``thalweg.certify``: independent verification of a point, whatever solver it comes from."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any, Optional, Union

from scipy.optimize import OptimizeResult

from thalweg import _core, _rows
from thalweg._functions import problem, vector
from thalweg._result import Certificate
from thalweg._train import TrainingProblem, certificate_of


class ModelCertificate(Certificate):
    """Certificate of a model, with its constraints measured on the given rows.

    Attributes
    ----------
    constraints : list of dict
        Name, bound, surrogate (``value``), 0/1 rate (``measured``) and status (``satisfied``) of each constraint.
    feasible : bool
        Whether all of them are satisfied, by the measured rate or the surrogate as trained.
    intervals : list of dict or None
        With `confidence`: confidence intervals of the constraints on unseen rows, valid if the model was not trained on the rows
        and unseen rows are drawn like them.
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
    eq_tol: Optional[float] = None,
    feasibility: float = 1e-6,
    sensitive_features: Any = None,
    sample_weight: Any = None,
    confidence: Optional[float] = None,
    together: bool = False,
    mu: Optional[float] = None,
    width: float = 0.1,
    evaluations: int = 500,
    record: bool = False,
) -> Certificate:
    """Measure a point and bound its distance from stationarity, independently of the solver.

    Parameters
    ----------
    target : callable, fitted classifier or FitResult
        Objective as in :func:`thalweg.minimize`, or a model of :mod:`thalweg.learn` or of the classifiers.
    x : array_like
        Point; for a model, the rows X.
    y : array_like, optional
        Labels, for a model.
    jac, constraints, bounds, args, n_samples, rho, eq_tol
        Problem as in :func:`thalweg.minimize`. `rho` is required.
    feasibility : float
        Feasibility tolerance.
    sensitive_features, sample_weight : array_like, optional
        Groups and weights of the rows, for a model.
    confidence : float, optional
        Confidence level of intervals for the constraints on unseen rows drawn like these, for a model that was not trained on
        them.
    together : bool
        Whether all intervals hold at once with that confidence, instead of each of them.
    mu : float, optional
        Proximal coefficient beyond the weak-convexity constant of the objective.
    width : float
        Target length of the interval as a fraction of its upper end.
    evaluations : int
        Maximum number of evaluations.
    record : bool
        Keep the values, cuts and multipliers that the bounds, and a proof that the constraints conflict, follow from, and for a
        model its rows, so that :meth:`Certificate.save` can write them for :func:`thalweg.check`.

    Returns
    -------
    Certificate
        With ``lower``, ``upper``, ``feasible`` and more.

    Examples
    --------
    ``|x^2 - 1|`` subject to ``x <= 0.5``. The proximal point of 0.25 with coefficient 4 is 0.5, at distance 0.25:

    >>> import numpy as np, thalweg
    >>> from scipy.optimize import LinearConstraint
    >>> found = thalweg.certify(
    ...     lambda x: abs(x[0] ** 2 - 1), [0.25], jac=lambda x: [2 * x[0] * np.sign(x[0] ** 2 - 1)],
    ...     constraints=LinearConstraint([[1.0]], -np.inf, 0.5), rho=(2.0, 0.0), mu=2.0,
    ... )
    >>> found.feasible, found.lower <= 0.25 <= found.upper
    (True, True)
    """
    how = {"mu": mu, "width": float(width), "evaluations": evaluations, "feasibility": float(feasibility)}
    if x is None:
        raise TypeError("certify needs a point: certify(fun, x, …) or certify(model, X, y, …)")
    if hasattr(target, "_pose_on") or (hasattr(target, "subject_to") and hasattr(target, "coef")):
        if y is None:
            raise TypeError("a model is certified on rows; call certify(model, X, y, …)")
        return _model(target, x, y, sensitive_features, sample_weight, how, confidence, together, record)
    if rho is None:
        raise ValueError("rho is required: a weak-convexity constant (0 for convex functions), or 'estimate' to estimate it")
    posed = problem(
        target,
        x,
        args=args,
        jac=jac,
        constraints=constraints,
        bounds=bounds,
        n_samples=n_samples,
        rho=rho,
        eq_tol=eq_tol,
        feasibility=feasibility,
    )
    return Certificate.of(_core.certify(posed.core, posed.x0, how, bool(record)), differences=bool(posed.differences))


class Verdict(OptimizeResult):
    """Result of :func:`thalweg.check`.

    Attributes
    ----------
    confirmed : bool
        Whether every claim follows from the file.
    sentence : str
        The result in one sentence: what is confirmed and what is assumed, or why not.
    assumed, refusals : list of str
        Assumptions that the file cannot prove; what contradicts the claims.
    proximity : dict or None
        The claimed interval, the one that follows, and how much was recomputed.
    conflict : dict or None
        The claimed distance within which no point satisfies all constraints, and how much was recomputed.
    references : list of dict
        Claimed and derived lower bounds of reference values.
    """

    def __repr__(self) -> str:
        return f"<{self.sentence}>"


def check(file: Union[str, PathLike]) -> Verdict:
    """Check a certificate that :meth:`Certificate.save` or ``thalweg certify --out`` wrote.

    The checker shares no code with the solver. It derives the claims again in exact arithmetic: from the rows for models, from
    the recorded values and subgradients for other functions, which ``sentence`` then names as an assumption.

    Parameters
    ----------
    file : str or path
        File of the certificate. One that cannot be read as a certificate is a ``ValueError``.

    Returns
    -------
    Verdict
        With ``confirmed``, ``sentence`` and more.

    Examples
    --------
    >>> import os, tempfile, thalweg
    >>> proof = thalweg.certify(lambda x: abs(x[0]), [0.5], jac=lambda x: [1.0 if x[0] > 0 else -1.0], rho=0.0, record=True)
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     proof.save(os.path.join(directory, "certificate.json"))
    ...     verdict = thalweg.check(os.path.join(directory, "certificate.json"))
    >>> verdict.confirmed
    True
    """
    return Verdict(_core.check(Path(file).read_bytes()))


def _model(
    model: Any,
    X: Any,
    y: Any,
    sensitive: Any,
    weights: Any,
    how: dict,
    confidence: Optional[float],
    together: bool,
    record: bool,
) -> ModelCertificate:
    if hasattr(model, "_pose_on"):
        posed = model._pose_on(X, y, weights, sensitive)
        point, trained, enforce = model._point(), model._trained, getattr(model, "enforce", "surrogate")
    else:
        payload, rows, _ = _rows.features(X)
        posed = TrainingProblem(
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
    found = ModelCertificate(certificate_of(posed, point, trained, how, bool(record)))
    quality = posed.quality(point)
    found.constraints = []
    for named, value, measured in zip(posed.core.constraints(), quality["constraints"], quality["measured"]):
        enforced = value if measured is None or enforce == "surrogate" else measured
        satisfied = bool(enforced <= named["bound"] + how["feasibility"] * max(1.0, abs(named["bound"])))
        found.constraints.append({**named, "value": value, "measured": measured, "enforced": enforced, "satisfied": satisfied})
    found.feasible = all(c["satisfied"] for c in found.constraints)
    excess = [(c["enforced"] - c["bound"], c["name"]) for c in found.constraints]
    found.maxcv, found.worst = max([(0.0, None), *excess], key=lambda e: e[0])
    found.accuracy = quality["accuracy"]
    found.intervals = None if confidence is None else posed.core.intervals(point, float(confidence), bool(together))
    return found
