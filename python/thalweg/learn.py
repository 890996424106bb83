"""Linear classifiers under constraints: terms of a model's scores on data, each usable as objective or as constraint.

>>> from thalweg.learn import demographic_parity, hinge, l2
>>> hinge() + 0.01 * l2()
<hinge + 0.01 * l2>
>>> demographic_parity() <= 0.02
<demographic_parity <= 0.02>

Rates and gaps of rates are trained on a smooth form, whose bound is moved until the counted rates on the training rows keep the
bound that was asked for (``enforce="measured"``).
"""

from __future__ import annotations

from typing import Any, Callable, Optional, Union

import numpy as np

from thalweg import _rows
from thalweg._result import Result, finish
from thalweg._terms import Bound, Constraint, Term, _call, as_term, one_loss
from thalweg._train import Posed, constraint_rows, fit_html, train

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
    """A term from text, as the command and specs write it.

    Examples
    --------
    >>> from thalweg.learn import term
    >>> term("hinge + 0.02 * scad")
    <hinge + 0.02 * scad>
    """
    return as_term(text, "term")


def best(smallest: Union[Term, str]) -> Bound:
    """The smallest value of a convex term on the training rows, for use in a bound.

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
    """Mean of ``c^2 (1 - exp(-(y - s)^2 / c^2))``, a squared error that no row can make larger than ``c^2``.

    Parameters
    ----------
    scale : float, optional
        c; 1 if absent.
    on : {"positives", "negatives"}, optional
        The rows of the mean; all if absent.

    Examples
    --------
    >>> from thalweg.learn import welsch
    >>> welsch(scale=2)
    <welsch(scale = 2.0)>
    """
    return _call("welsch", scale=scale, on=on)


def truncated_logistic(scale: Optional[float] = None, on: Optional[str] = None) -> Term:
    """Mean of ``A log(1 + l / A)`` with l the logistic loss: that loss where it is small next to A, its logarithm where a row is
    hopelessly wrong.

    Parameters
    ----------
    scale : float, optional
        A; ``sqrt(10 n)`` for n rows if absent.
    on : {"positives", "negatives"}, optional
        The rows of the mean; all if absent.

    Examples
    --------
    >>> from thalweg.learn import truncated_logistic
    >>> truncated_logistic() + 0.1 * truncated_logistic(scale=5)
    <truncated_logistic + 0.1 * truncated_logistic(scale = 5.0)>
    """
    return _call("truncated_logistic", scale=scale, on=on)


def variance(loss: Union[Term, str] = "logistic", form: Optional[str] = None) -> Term:
    """Variance of a loss over the rows: what a model pays for being wrong by much on some of them.

    Parameters
    ----------
    loss : Term or str
        :func:`hinge`, :func:`logistic`, :func:`welsch` or :func:`truncated_logistic`, with its own arguments.
    form : {"plain", "sqrt"}, optional
        The mean of ``(l - mean l)^2``, or the root of that divided by the number of rows; the first if absent.

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
    """Mean of the smallest ``v l - v / age + softness v^2 / 2`` over weights v from 0 to 1: easy rows count first.

    Parameters
    ----------
    loss : Term or str
        As in :func:`variance`.
    age : float, optional
        A row counts nothing while its loss is above ``1 / age``; 1 if absent.
    softness : float, optional
        It counts in full once its loss is below ``1 / age - softness``; 1 if absent.

    Examples
    --------
    >>> from thalweg.learn import self_paced
    >>> self_paced("hinge", age=0.5)
    <self_paced(hinge, age = 0.5)>
    """
    return _call("self_paced", of=one_loss(loss), age=age, softness=softness)


def false_positive_rate(temperature: Optional[float] = None) -> Term:
    """Share of the negative rows that the model calls positive."""
    return _call("false_positive_rate", temperature=temperature)


def false_negative_rate(temperature: Optional[float] = None) -> Term:
    """Share of the positive rows that the model calls negative."""
    return _call("false_negative_rate", temperature=temperature)


def demographic_parity(sensitive: Any = None, *, temperature: Optional[float] = None) -> Term:
    """By how much the share of rows that the model calls positive differs between groups.

    Parameters
    ----------
    sensitive : array_like, optional
        The group of each row; by default that of the fit.
    temperature : float, optional
        Of the smooth form that is trained; 1 if absent.
    """
    return _call("demographic_parity", sensitive, temperature=temperature)


def equal_opportunity(sensitive: Any = None, *, temperature: Optional[float] = None) -> Term:
    """As :func:`demographic_parity`, among the rows with a positive label."""
    return _call("equal_opportunity", sensitive, temperature=temperature)


def equalised_odds(sensitive: Any = None, *, temperature: Optional[float] = None) -> Term:
    """The larger of the gaps among the rows with a positive and with a negative label."""
    return _call("equalised_odds", sensitive, temperature=temperature)


#: The same, as it is spelt in America.
equalized_odds = equalised_odds


def roc_gap(
    sensitive: Any = None,
    *,
    low: Union[float, str] = -3.0,
    high: Union[float, str] = 3.0,
    thresholds: Optional[int] = None,
    temperature: Optional[float] = None,
) -> Term:
    """The largest gap between groups over a grid of thresholds of the score: no choice of threshold is unfair by more.

    Parameters
    ----------
    sensitive : array_like, optional
        The group of each row; by default that of the fit.
    low, high : float or "erm"
        Range of the thresholds. From -3 to 3 are log-odds of probabilities from 5% to 95%; "erm" is the range of the scores of
        the unconstrained model, which has to be trained for it first.
    thresholds : int, optional
        How many; 400 if absent.
    temperature : float, optional
        Of the smooth steps; 1 if absent.
    """
    return _call("roc_gap", sensitive, thresholds=thresholds, low=low, high=high, temperature=temperature)


def wasserstein_gap(sensitive: Any = None) -> Term:
    """Distance between the distributions of the scores of two groups: the area between their distribution functions.

    It is the smallest sum of ``P_ij |s_i - s_j|`` over all transport plans P between the rows of the groups. The plan is
    eliminated: it is no variable, the best one for the scores at hand is taken at every step, which sorting finds. Where it
    changes the gap has concave kinks, so there is no weak-convexity constant: the method is "ssg", and there is no certificate.

    Parameters
    ----------
    sensitive : array_like, optional
        The group of each row, exactly two; by default that of the fit.

    Notes
    -----
    It is in the units of the scores and shrinks with them: bound it beside a loss. Nothing in it is smoothed or counted, so the
    bound is kept as it is written.

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


def l1() -> Term:
    """Sum of the absolute weights."""
    return _call("l1")


def scad() -> Term:
    """Smoothly clipped absolute deviation of the weights: as `l1` near 0, constant far from it."""
    return _call("scad")


class FitResult(Result):
    """What :func:`fit` returns: the model, what was measured, and whether it keeps the bounds.

    Attributes
    ----------
    coef : ndarray
        A weight for each column of X.
    intercept : float
        Added to every score.
    classes : ndarray
        The two labels; the model says the second where the score is above 0.
    success : bool
        Every bound is kept on the training rows, on the side that was to be enforced.
    message : str
        The same in words, with why training ended.
    fun : float
        The objective on the training rows.
    maxcv : float
        By how much the worst bound is missed; 0 if none is.
    accuracy : float
        Share of the training rows whose label is predicted right.
    constraints : list of dict
        For each constraint its name, the bound, the counted rate (``measured``), the smooth form (``surrogate``), and whether it
        is kept.
    signed : dict
        By how much each constraint exceeds its bound, by name, on the side that was to be enforced; below 0 it is kept.
    multipliers : ndarray or None
        Of the constraints of the problem that was trained.
    dual : dict or None
        The same by name.
    stationary : dict or None
        What the solver proved: the proximal point lies within ``upper``. :func:`thalweg.certify` proves it anew.
    nit : int
        Iterations of all runs.
    history : History
        The measured iterates.
    notes : list of Note
        What a careful reader should know.
    """

    _shown = ("success", "message", "fun", "accuracy", "maxcv", "nit", "solver", "seconds")

    def decision_function(self, X: Any) -> np.ndarray:
        """The score of each row; the model says the second class where it is above 0."""
        payload, _, columns = _rows.features(X)
        if columns != len(self.coef):
            raise ValueError(f"X has {columns} columns: wanted {len(self.coef)}, as in the fit")
        if isinstance(payload, tuple):
            return np.asarray(X @ self.coef).ravel() + self.intercept
        return payload.astype(np.float64, copy=False) @ self.coef + self.intercept

    def predict(self, X: Any) -> np.ndarray:
        """The label of each row."""
        return self.classes[(self.decision_function(X) > 0).astype(int)]

    def _repr_html_(self) -> str:
        return fit_html([(key, self[key]) for key in self._shown if key in self], self.constraints)

    def __repr__(self) -> str:
        lines = [f"{self.message}", f"objective {self.fun:.6g}, accuracy {self.accuracy:.2%} on the training rows"]
        lines += [f"{name} <= {bound}: {value} ({kept})" for name, bound, value, kept in constraint_rows(self.constraints)]
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
    """Trains a linear classifier that minimises one sum of terms subject to bounds on others.

    Parameters
    ----------
    objective : Term or str
        What to minimise, such as ``hinge() + 0.02 * scad()``.
    subject_to : constraint, str, or a list of them
        Such as ``demographic_parity(sex) <= 0.02`` or ``"false_positive_rate <= 0.1"``.
    X : array, sparse matrix or frame
        A row of numbers for each example: numpy, scipy, pandas or polars. It is copied once, into our own memory.
    y : array_like
        Labels of two classes.
    sensitive : array_like, optional
        The group of each row, for terms that compare groups and do not bring their own. Of several columns the combinations
        count.
    sample_weight : array_like, optional
        A weight for each row, in every term.
    intercept : bool
        Whether a constant is added to the scores.
    solver : str
        'auto' chooses, and says why in ``notes``; or one of ``thalweg.solvers("fit")``. For problems without constraints, 'lbfgs'
        takes smooth objectives, and 'st-spg' and 'mspg', which step on single rows, a loss with its variance: they make 30 passes
        if no limit is changed.
    options : dict, optional
        Settings of the solver by their names in specs.
    enforce : {'measured', 'surrogate'}
        Whether the counted rates on the training rows must keep the bounds, or their smooth forms.
    seed : int, optional
        Seed of everything that is drawn; 0 if absent.
    max_iter : int, optional
        Iterations of all rounds of training.
    max_passes : float, optional
        Passes over the rows of all rounds of training; for methods that step on single rows with ``max_iter=None``.
    max_time : float, optional
        Seconds of all rounds of training. Results that end by it differ between machines.
    feasibility : float
        What a constraint may exceed its bound by, times the bound if that is above 1.
    n_threads : int
        Threads for sums over rows; the numbers do not depend on it.
    start : array_like, optional
        Weights and intercept to start from.
    callback : callable, optional
        Called with each measured iterate, as in :func:`thalweg.minimize`; ``StopIteration`` ends training. Constraints are those
        of the smooth forms against your bounds, multipliers those of the problem that is being trained.
    verbose : int
        1 shows progress.

    Returns
    -------
    FitResult
        The model and what was measured.

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
    posed = Posed(
        objective,
        subject_to,
        payload,
        rows,
        labels,
        sensitive=sensitive,
        weights=_rows.weights(sample_weight, rows),
        intercept=intercept,
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
    quality = posed.core.quality(trained.x)
    fitted = trained.fitted
    result = FitResult(
        x=trained.x,
        coef=trained.coef,
        intercept=trained.intercept,
        classes=found,
        feature_names=_rows.feature_names(X),
        success=trained.feasible,
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
        ctol=feasibility,
    )
    finish(callback, result)
    return result
