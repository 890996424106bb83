"""The classifier under constraints whose scores are sums of Gaussian bumps: a linear one on kernel values."""

from __future__ import annotations

import math
from typing import Any, Dict, Optional, Tuple

import numpy as np
from scipy import sparse

from thalweg import _core, _rows
from thalweg._classifier import Constrained, Rows

#: The most that kernel values of the training rows may take, in bytes.
_MOST = 4 * 2**30
#: Kernel values that are computed at once for an answer.
_BLOCK = 2**22


def _distinct(X: Any) -> Tuple[np.ndarray, np.ndarray]:
    """The places of the first of each kind of row, in an order that does not depend on theirs, and the kind of each row."""
    if sparse.issparse(X):
        X = X.copy()
        X.sum_duplicates()
        X.eliminate_zeros()
        ends = X.indptr
        keys = [X.indices[a:b].tobytes() + b"|" + X.data[a:b].tobytes() for a, b in zip(ends, ends[1:])]
    else:
        # Adding 0 makes one of the two zeros.
        keys = [row.tobytes() for row in np.ascontiguousarray(X) + 0.0]
    first: Dict[bytes, int] = {}
    for place, key in enumerate(keys):
        first.setdefault(key, place)
    order = sorted(first)
    kinds = {key: kind for kind, key in enumerate(order)}
    return np.array([first[key] for key in order]), np.array([kinds[key] for key in keys])


class KernelConstrainedClassifier(Constrained):
    """A classifier that minimises any sum of terms subject to bounds on others, with a Gaussian kernel in place of the columns.

    The score of a row x is an intercept plus the sum of weighted ``exp(-gamma ||x - c||^2)`` over centres c, which are training
    rows: a linear model on kernel values. So every term of the linear classifiers can be the objective and a constraint.

    Parameters
    ----------
    objective : Term or str, default="logistic + 0.001 * l2"
        What to minimise, see :mod:`thalweg.learn`. Penalties are of the weights of the centres; without one the model can follow
        single rows.
    subject_to : constraint, str, or a list or tuple of them, default=()
        The constraints, such as ``"false_positive_rate <= 0.1"``.
    gamma : {"scale", "auto"} or float, default="scale"
        How narrow the kernel is: 1 / (n_features * variance of all entries of X), 1 / n_features, or a number above 0.
    n_components : int, default=None
        Centres, drawn from the distinct training rows; all of them if None. Kernel values take 8 bytes for each row and centre.
    fit_intercept : bool, default=True
        Whether a constant is added to the scores.
    solver : str, default="auto"
        The method: "auto" chooses, and says why in ``notes_``; or one of ``thalweg.solvers("fit")``. Those in
        ``thalweg.solvers("fit", constraints=False)`` are for objectives without constraints.
    options : dict, default=None
        Settings of the solver.
    enforce : {"measured", "surrogate"}, default="measured"
        Whether counted rates on the training rows must keep the bounds, or their smooth forms.
    max_iter : int, default=3000
        Iterations of all rounds of training.
    max_time : float, default=None
        Seconds of all rounds of training; a result that ends by it differs between machines.
    feasibility : float, default=1e-6
        What a constraint may exceed its bound by, times the bound if that is above 1.
    n_threads : int, default=1
        Threads for sums over rows; the numbers do not depend on it.
    random_state : int, RandomState or None, default=None
        Seed of everything that is drawn, the centres among it; None is 0.
    verbose : int, default=0
        1 shows progress.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        The labels.
    centers_ : ndarray or sparse matrix of shape (n_centers, n_features)
        The centres.
    gamma_ : float
        The number that `gamma` has come to.
    dual_coef_ : ndarray of shape (1, n_centers)
        The weight of each centre.
    intercept_ : ndarray of shape (1,)
        Added to every score.
    n_iter_, violation_, constraints_, multipliers_, certificate_, history_
        As of :class:`ConstrainedClassifier`.
    n_features_in_ : int
        Columns of X.
    feature_names_in_ : ndarray
        Their names, if X had any.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from thalweg import ConstrainedClassifier, KernelConstrainedClassifier
    >>> X, y = make_moons(400, noise=0.2, random_state=0)
    >>> bound = "false_positive_rate <= 0.02"
    >>> straight = ConstrainedClassifier(subject_to=bound).fit(X, y)
    >>> bent = KernelConstrainedClassifier(subject_to=bound).fit(X, y)
    >>> bool((bent.predict(X)[y == 0] == 1).mean() <= 0.02), bool(bent.score(X, y) > straight.score(X, y) + 0.1)
    (True, True)
    """

    def __init__(
        self,
        objective: Any = "logistic + 0.001 * l2",
        subject_to: Any = (),
        *,
        gamma: Any = "scale",
        n_components: Optional[int] = None,
        fit_intercept: bool = True,
        solver: str = "auto",
        options: Optional[dict] = None,
        enforce: str = "measured",
        max_iter: Optional[int] = 3000,
        max_time: Optional[float] = None,
        feasibility: float = 1e-6,
        n_threads: int = 1,
        random_state: Any = None,
        verbose: int = 0,
    ):
        self.objective = objective
        self.subject_to = subject_to
        self.gamma = gamma
        self.n_components = n_components
        self.fit_intercept = fit_intercept
        self.solver = solver
        self.options = options
        self.enforce = enforce
        self.max_iter = max_iter
        self.max_time = max_time
        self.feasibility = feasibility
        self.n_threads = n_threads
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any, sample_weight: Any = None, sensitive_features: Any = None) -> KernelConstrainedClassifier:
        """Chooses the centres, and trains.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (n_samples, n_features)
            The rows.
        y : array_like of shape (n_samples,)
            Labels of two classes.
        sample_weight : array_like of shape (n_samples,), default=None
            A weight for each row, in every term.
        sensitive_features : array_like of shape (n_samples,), default=None
            The group of each row, for terms that compare groups.

        Returns
        -------
        self
        """
        rows = self._read(X, y, sample_weight)
        self._choose(rows)
        self._train(rows, self.subject_to, sensitive_features)
        return self

    def _choose(self, rows: Rows) -> None:
        """Sets centres and gamma. Neither depends on the order of the rows, nor on whether a row comes twice or has weight 2."""
        first, kinds = _distinct(rows.X)
        weights = np.bincount(kinds, rows.weights, len(first)).astype(np.float64)
        first, weights = first[weights > 0], weights[weights > 0]
        wanted = len(first) if self.n_components is None else self.n_components
        if isinstance(wanted, bool) or not isinstance(wanted, (int, np.integer)) or wanted < 1:
            raise ValueError(f"n_components = {self.n_components!r}: wanted a whole number of at least 1, or None for all rows")
        centres = min(int(wanted), len(first))
        if 8 * rows.count * centres > _MOST:
            raise ValueError(
                f"kernel values of {rows.count} rows with {centres} centres take {8e-9 * rows.count * centres:.1f} GB: wanted "
                f"n_components of at most {max(1, _MOST // (8 * rows.count))}"
            )
        chosen = np.arange(len(first))
        if centres < len(first):
            chosen = np.sort(np.random.RandomState(self._seed()).permutation(len(first))[:centres])
        self.centers_ = rows.X[first[chosen]]
        self.gamma_ = self._gamma(rows.X[first], weights)

    def _gamma(self, X: Any, weights: np.ndarray) -> float:
        if self.gamma == "auto":
            return 1.0 / X.shape[1]
        if self.gamma == "scale":
            X = X.astype(np.float64)
            total = weights.sum() * X.shape[1]
            mean = float(np.sum(weights @ X)) / total
            spread = float(np.sum(weights @ X.multiply(X) if sparse.issparse(X) else weights @ (X * X))) / total - mean * mean
            return 1.0 / (X.shape[1] * spread) if spread > 0 else 1.0
        if isinstance(self.gamma, str) or not 0 < self.gamma < math.inf:
            raise ValueError(f"gamma = {self.gamma!r}: wanted 'scale', 'auto' or a finite number above 0")
        return float(self.gamma)

    def _constraints(self, sensitive: Any) -> Any:
        return self.subject_to

    def _space(self) -> dict:
        return {"kernel": (_rows.features(self.centers_)[0], self.gamma_)}

    def _keep_weights(self, x: np.ndarray) -> None:
        self.dual_coef_, self.intercept_ = self._parts(x)

    def _weights(self) -> np.ndarray:
        return self.dual_coef_[0]

    def _scores(self, X: Any) -> np.ndarray:
        centres, gamma = self._space()["kernel"]
        rows = X.shape[0]
        block = max(1, _BLOCK // len(self._weights()))
        scores = np.empty(rows)
        for begin in range(0, rows, block):
            values = _core.gaussian_kernel(_rows.features(X[begin : begin + block])[0], centres, gamma)
            scores[begin : begin + block] = values @ self._weights()
        return scores + self.intercept_[0]
