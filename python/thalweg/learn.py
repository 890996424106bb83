"""Linear classifiers under constraints, built from terms of a model's scores; each term can be objective or constraint.

>>> from thalweg.learn import demographic_parity, hinge, l2
>>> hinge() + 0.01 * l2()
<hinge + 0.01 * l2>
>>> demographic_parity() <= 0.02
<demographic_parity <= 0.02>

Rates and gaps of rates are trained on a smooth surrogate, whose bound is adjusted until the measured 0/1 rates on the training
rows satisfy the given bound (``enforce="measured"``).
"""

from __future__ import annotations

from typing import Any, Callable, Optional, Union

import numpy as np

from thalweg import _rows
from thalweg._result import Result, finish
from thalweg._terms import Bound, Constraint, Term, _call, as_term, one_loss
from thalweg._train import TrainingProblem, constraint_rows, fit_html, train

__all__ = [
    "Bound",
    "Constraint",
    "FitResult",
    "Term",
    "best",
    "demographic_parity",
    "equal_opportunity",
    "equalised_odds",
    "equalized_odds",
    "false_negative_rate",
    "false_positive_rate",
    "fit",
    "hinge",
    "l1",
    "l2",
    "logistic",
    "ridge",
    "roc_gap",
    "scad",
    "self_paced",
    "term",
    "truncated_logistic",
    "variance",
    "wasserstein_gap",
    "welsch",
]


def term(text: str) -> Term:
    """Parse a term in the syntax of the command and of specs.

    Examples
    --------
    >>> from thalweg.learn import term
    >>> term("hinge + 0.02 * scad")
    <hinge + 0.02 * scad>
    """
    return as_term(text, "term")


def best(smallest: Union[Term, str]) -> Bound:
    """Return a bound at the smallest value of a convex term on the training rows.

    Examples
    --------
    >>> from thalweg.learn import best, hinge
    >>> hinge() <= 1.001 * best(hinge())
    <hinge <= 1.001 * best(hinge)>
    """
    return Bound((1.0, as_term(smallest, "term of best(…)")), 0.0)


def hinge(on: Optional[str] = None) -> Term:
    """Mean of ``max(0, 1 - y s)`` over all rows, or over the "positives" or "negatives"."""
    return _call("hinge", on=on)


def logistic(on: Optional[str] = None) -> Term:
    """Mean of ``log(1 + exp(-y s))`` over all rows, or over the "positives" or "negatives"."""
    return _call("logistic", on=on)


def welsch(scale: Optional[float] = None, on: Optional[str] = None) -> Term:
    """Mean of ``c^2 (1 - exp(-(y - s)^2 / c^2))``, a squared error bounded by ``c^2`` for each row.

    Parameters
    ----------
    scale : float, optional
        c; 1 by default.
    on : {"positives", "negatives"}, optional
        Rows of the mean; all by default.

    Examples
    --------
    >>> from thalweg.learn import welsch
    >>> welsch(scale=2)
    <welsch(scale = 2.0)>
    """
    return _call("welsch", scale=scale, on=on)


def truncated_logistic(scale: Optional[float] = None, on: Optional[str] = None) -> Term:
    """Mean of ``A log(1 + l / A)`` with l the logistic loss, which grows logarithmically for large l.

    Parameters
    ----------
    scale : float, optional
        A; ``sqrt(10 n)`` for n rows by default.
    on : {"positives", "negatives"}, optional
        Rows of the mean; all by default.

    Examples
    --------
    >>> from thalweg.learn import truncated_logistic
    >>> truncated_logistic() + 0.1 * truncated_logistic(scale=5)
    <truncated_logistic + 0.1 * truncated_logistic(scale = 5.0)>
    """
    return _call("truncated_logistic", scale=scale, on=on)


def variance(loss: Union[Term, str] = "logistic", form: Optional[str] = None) -> Term:
    """Variance of a loss over the rows.

    Parameters
    ----------
    loss : Term or str
        :func:`hinge`, :func:`logistic`, :func:`welsch` or :func:`truncated_logistic`, with its own arguments.
    form : {"plain", "sqrt"}, optional
        Mean of ``(l - mean l)^2``, or the square root of that divided by the number of rows; "plain" by default.

    Examples
    --------
    >>> from thalweg.learn import logistic, variance
    >>> logistic() + 0.1 * variance(logistic())
    <logistic + 0.1 * variance(logistic)>
    >>> variance("hinge", form="sqrt")
    <variance(hinge, form = "sqrt")>
    """
    return _call("variance", of=one_loss(loss), form=form)


def self_paced(loss: Union[Term, str] = "logistic", *, age: Optional[float] = None, softness: Optional[float] = None) -> Term:
    """Self-paced loss: mean of the minimum of ``v l - v / age + softness v^2 / 2`` over weights v in [0, 1].

    Parameters
    ----------
    loss : Term or str
        As in :func:`variance`.
    age : float, optional
        Rows with a loss above ``1 / age`` have weight 0; 1 by default.
    softness : float, optional
        Rows with a loss below ``1 / age - softness`` have weight 1; 1 by default.

    Examples
    --------
    >>> from thalweg.learn import self_paced
    >>> self_paced("hinge", age=0.5)
    <self_paced(hinge, age = 0.5)>
    """
    return _call("self_paced", of=one_loss(loss), age=age, softness=softness)


def false_positive_rate(temperature: Optional[float] = None) -> Term:
    """Fraction of the negative rows with a positive prediction."""
    return _call("false_positive_rate", temperature=temperature)


def false_negative_rate(temperature: Optional[float] = None) -> Term:
    """Fraction of the positive rows with a negative prediction."""
    return _call("false_negative_rate", temperature=temperature)


def demographic_parity(sensitive: Any = None, *, temperature: Optional[float] = None, compare: Optional[str] = None) -> Term:
    """Largest difference between groups in the rate of positive predictions.

    Parameters
    ----------
    sensitive : array_like, optional
        Group of each row; by default as given to the fit.
    temperature : float, optional
        Temperature of the surrogate; 1 by default.
    compare : {"between_groups", "to_overall"}, optional
        Which differences count: those between two groups, so that the gap is the largest rate minus the smallest (default), or
        those between a group and all rows. Both have the meaning that they have in fairlearn.

    Examples
    --------
    >>> from thalweg.learn import demographic_parity
    >>> demographic_parity(compare="to_overall") <= 0.02
    <demographic_parity(compare = "to-overall") <= 0.02>
    """
    return _call("demographic_parity", sensitive, temperature=temperature, compare=compare)


def equal_opportunity(sensitive: Any = None, *, temperature: Optional[float] = None, compare: Optional[str] = None) -> Term:
    """Like :func:`demographic_parity`, among the rows with a positive label."""
    return _call("equal_opportunity", sensitive, temperature=temperature, compare=compare)


def equalised_odds(sensitive: Any = None, *, temperature: Optional[float] = None, compare: Optional[str] = None) -> Term:
    """Larger of the gaps among the rows with a positive and with a negative label."""
    return _call("equalised_odds", sensitive, temperature=temperature, compare=compare)


#: American spelling.
equalized_odds = equalised_odds


def roc_gap(
    sensitive: Any = None,
    *,
    low: Union[float, str] = -3.0,
    high: Union[float, str] = 3.0,
    thresholds: Optional[int] = None,
    temperature: Optional[float] = None,
    compare: Optional[str] = None,
) -> Term:
    """Largest gap between groups over a grid of thresholds of the score.

    Parameters
    ----------
    sensitive : array_like, optional
        Group of each row; by default as given to the fit.
    low, high : float or "erm"
        Range of the thresholds. -3 and 3 are the log-odds of 5% and 95%; "erm" is the range of the scores of the unconstrained
        model, which is trained first.
    thresholds : int, optional
        Number of thresholds; 400 by default.
    temperature : float, optional
        Temperature of the surrogate; 1 by default.
    compare : {"between_groups", "to_overall"}, optional
        As in :func:`demographic_parity`.
    """
    return _call("roc_gap", sensitive, thresholds=thresholds, low=low, high=high, temperature=temperature, compare=compare)


def wasserstein_gap(sensitive: Any = None) -> Term:
    """Wasserstein distance between the score distributions of two groups, the area between their distribution functions.

    It is the smallest sum of ``P_ij |s_i - s_j|`` over all transport plans P between the rows of the groups. The plan is not a
    variable: sorting gives the optimal plan for the current scores. Where the plan changes, the gap has concave kinks and no
    weak-convexity constant, so the solver is "ssg" and there is no certificate.

    Parameters
    ----------
    sensitive : array_like, optional
        Group of each row, exactly two groups; by default as given to the fit.

    Notes
    -----
    The distance has the units of the scores and shrinks with them, so bound it together with a loss. It has no surrogate: the
    bound applies to the distance itself.

    Examples
    --------
    >>> from thalweg.learn import wasserstein_gap
    >>> wasserstein_gap() <= 0.1
    <wasserstein_gap <= 0.1>
    """
    return _call("wasserstein_gap", sensitive)


def l2() -> Term:
    """Half the squared norm of the weights."""
    return _call("l2")


def ridge() -> Term:
    """Half the squared norm of the weights on standardised columns, so that the units of the columns do not matter.

    It is the sum of ``(d_j w_j)**2 / 2``, where ``d_j`` is the standard deviation of column j over the training rows. The
    intercept is not penalised. A constant column counts with its root mean square, and without an intercept not at all.
    """
    return _call("ridge")


def l1() -> Term:
    """Sum of the absolute weights."""
    return _call("l1")


def scad() -> Term:
    """Smoothly clipped absolute deviation of the weights: like `l1` near 0, constant far from it."""
    return _call("scad")


class FitResult(Result):
    """Result of :func:`fit`: the model, its measured values and their status.

    Attributes
    ----------
    coef : ndarray
        Weights of the columns of X.
    intercept : float
        Intercept of the scores.
    classes : ndarray
        The two labels; the second is predicted where the score is positive.
    success : bool
        Whether every bound is satisfied on the training rows, by the enforced values, and training neither failed nor reached a
        limit before the stopping criterion of its solver was met.
    message : str
        Description of ``success``, and why training stopped.
    fun : float
        Objective on the training rows.
    maxcv : float
        Largest violation of a bound; 0 if all are satisfied.
    accuracy : float
        Accuracy on the training rows.
    constraints : list of dict
        Name, bound, 0/1 rate (``measured``), surrogate (``surrogate``) and status (``satisfied``) of each constraint.
    signed : dict
        Enforced value minus bound of each constraint by name; at most 0 if satisfied.
    multipliers : ndarray or None
        Dual variables of the constraints of the problem that was trained.
    dual : dict or None
        The dual variables by name.
    stationary : dict or None
        What the solver found: the proximal point lies within ``upper``, if the gradients are right and the weak-convexity
        constants hold; not proved if ``estimated``. :func:`thalweg.certify` verifies it independently of the solver.
    nit : int
        Number of iterations over all rounds of training.
    history : History
        Recorded iterates.
    notes : list of Note
        Remarks on the result, such as why a solver was chosen.
    """

    _shown = ("success", "message", "fun", "accuracy", "maxcv", "nit", "solver", "seconds")

    def decision_function(self, X: Any) -> np.ndarray:
        """Return the score of each row; the second class is predicted where it is positive."""
        payload, _, columns = _rows.features(X)
        if columns != len(self.coef):
            raise ValueError(f"X must have {len(self.coef)} columns as in the fit, got {columns}")
        if isinstance(payload, tuple):
            return np.asarray(X @ self.coef).ravel() + self.intercept
        return payload.astype(np.float64, copy=False) @ self.coef + self.intercept

    def predict(self, X: Any) -> np.ndarray:
        """Predict the label of each row."""
        return self.classes[(self.decision_function(X) > 0).astype(int)]

    def _repr_html_(self) -> str:
        return fit_html([(key, self[key]) for key in self._shown if key in self], self.constraints)

    def __repr__(self) -> str:
        lines = [f"{self.message}", f"objective {self.fun:.6g}, accuracy {self.accuracy:.2%} on the training rows"]
        lines += [f"{name} <= {bound}: {value} ({status})" for name, bound, value, status in constraint_rows(self.constraints)]
        return "\n".join(lines)


def fit(
    objective: Union[Term, str],
    subject_to: Any = (),
    *,
    X: Any,
    y: Any,
    sensitive: Any = None,
    sample_weight: Any = None,
    intercept: bool = True,
    solver: str = "auto",
    options: Optional[dict] = None,
    enforce: str = "measured",
    seed: Optional[int] = None,
    max_iter: Optional[int] = 3000,
    max_passes: Optional[float] = None,
    max_time: Optional[float] = 60.0,
    feasibility: float = 1e-6,
    n_threads: int = 1,
    start: Any = None,
    callback: Optional[Callable] = None,
    verbose: int = 0,
) -> FitResult:
    """Train a linear classifier that minimises a sum of terms subject to bounds on other terms.

    Parameters
    ----------
    objective : Term or str
        Objective, such as ``hinge() + 0.02 * scad()``.
    subject_to : constraint, str, or a list of them
        Constraints, such as ``demographic_parity(sex) <= 0.02`` or ``"false_positive_rate <= 0.1"``.
    X : array, sparse matrix or frame
        Training rows as numpy, scipy, pandas or polars object. They are copied once.
    y : array_like
        Labels of two classes.
    sensitive : array_like, optional
        Group of each row, for terms that compare groups and do not have their own. Several columns define groups by their
        combinations.
    sample_weight : array_like, optional
        Weight of each row in every term.
    intercept : bool
        Whether to add an intercept to the scores.
    solver : str
        Solver; one of ``thalweg.solvers("fit")``, or 'auto', which chooses one and gives the reason in ``notes``. Without
        constraints, 'lbfgs' is available for smooth objectives, and the stochastic 'st-spg' and 'mspg' for a loss with its
        variance; they make 30 passes by default.
    options : dict, optional
        Settings of the solver with the names of specs.
    enforce : {'measured', 'surrogate'}
        Whether the measured 0/1 rates on the training rows must satisfy the bounds, or their surrogates.
    seed : int, optional
        Random seed; 0 by default.
    max_iter : int, optional
        Maximum number of iterations over all rounds of training.
    max_passes : float, optional
        Maximum number of passes over the rows, for stochastic solvers with ``max_iter=None``.
    max_time : float, optional
        Time limit in seconds over all rounds of training. Results that stop at it differ between machines.
    feasibility : float
        Feasibility tolerance: a constraint is satisfied if it exceeds its bound by at most ``feasibility * max(1, |bound|)``.
    n_threads : int
        Number of threads for sums over rows. The result does not depend on it.
    start : array_like, optional
        Initial weights and intercept.
    callback : callable, optional
        Called with each recorded iterate, as in :func:`thalweg.minimize`; ``StopIteration`` stops training. Constraint values are
        surrogates minus the given bounds, dual variables those of the problem being trained.
    verbose : int
        1 shows progress.

    Returns
    -------
    FitResult
        Model and measured values.

    Examples
    --------
    >>> import numpy as np
    >>> from thalweg.learn import demographic_parity, fit, logistic
    >>> rng = np.random.default_rng(0)
    >>> group = rng.integers(0, 2, 2000)
    >>> X = np.c_[rng.normal(size=2000) + group, rng.normal(size=2000)]
    >>> y = X @ [1.0, 0.5] + 0.5 * rng.normal(size=2000) > 0.5
    >>> free = fit(logistic(), X=X, y=y)
    >>> fair = fit(logistic(), demographic_parity(group) <= 0.05, X=X, y=y)
    >>> gap = lambda model: abs(model.predict(X)[group == 0].mean() - model.predict(X)[group == 1].mean())
    >>> bool(gap(free) > 0.3), bool(gap(fair) <= 0.05), fair.success
    (True, True, True)
    """
    payload, rows, _ = _rows.features(X)
    found, labels = _rows.classes(y, rows)
    posed = TrainingProblem(
        objective,
        subject_to,
        payload,
        rows,
        labels,
        sensitive=sensitive,
        weights=_rows.weights(sample_weight, rows),
        intercept=intercept,
        names=_rows.feature_names(X),
    )
    trained = train(
        posed,
        solver=solver,
        options=options,
        enforce=enforce,
        seed=seed,
        max_iter=max_iter,
        max_passes=max_passes,
        max_time=max_time,
        feasibility=feasibility,
        n_threads=n_threads,
        start=start,
        callback=callback,
        verbose=verbose,
    )
    quality = posed.quality(trained.x)
    fitted = trained.fitted
    result = FitResult(
        x=trained.x,
        coef=trained.coef,
        intercept=trained.intercept,
        classes=found,
        feature_names=_rows.feature_names(X),
        success=trained.success,
        message=trained.message,
        fun=fitted["point"]["objective"],
        maxcv=trained.violation,
        accuracy=quality["accuracy"],
        groups=quality["groups"],
        constraints=trained.constraints,
        signed=trained.signed,
        multipliers=trained.multipliers,
        dual=trained.dual,
        stationary=trained.stationary,
        solver=fitted["solver"],
        nit=fitted["iterations"],
        passes=fitted["passes"],
        passes_f=fitted["passes"]["objective"],
        passes_g=fitted["passes"]["constraints"],
        seconds=fitted["seconds"],
        history=trained.history,
        notes=trained.notes,
        objective=posed.objective,
        subject_to=posed.subject_to,
        enforce=enforce,
        feasibility=feasibility,
    )
    finish(callback, result)
    return result
