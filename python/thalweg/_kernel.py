"""Classifier under constraints with a Gaussian kernel: a linear model on kernel values."""

from __future__ import annotations

import math
from typing import Any, Dict, Optional, Tuple

import numpy as np
from scipy import sparse

from thalweg import _core, _rows
from thalweg._classifier import GroupConstrainedBase, Rows, documented

#: Memory limit of the kernel values of the training rows, in bytes.
_MEMORY = 4 * 2**30
#: Number of kernel values that are computed at once for a prediction.
_BLOCK = 2**22


def _distinct(X: Any) -> Tuple[np.ndarray, np.ndarray]:
    """Return the index of the first of each distinct row, in an order independent of theirs, and the kind of each row."""
    if sparse.issparse(X):
        X = X.copy()
        X.sum_duplicates()
        X.eliminate_zeros()
        ends = X.indptr
        keys = [X.indices[a:b].tobytes() + b"|" + X.data[a:b].tobytes() for a, b in zip(ends, ends[1:])]
    else:
        # Adding 0 turns -0 into 0.
        keys = [row.tobytes() for row in np.ascontiguousarray(X) + 0.0]
    first: Dict[bytes, int] = {}
    for place, key in enumerate(keys):
        first.setdefault(key, place)
    order = sorted(first)
    kinds = {key: kind for kind, key in enumerate(order)}
    return np.array([first[key] for key in order]), np.array([kinds[key] for key in keys])


@documented
class KernelConstrainedClassifier(GroupConstrainedBase):
    """Gaussian-kernel classifier that minimises a sum of terms subject to bounds on other terms.

    The score of a row x is an intercept plus the weighted sum of ``exp(-gamma ||x - c||^2)`` over centres c, which are training
    rows. The model is linear in the kernel values, so every term of the linear classifiers can be objective or constraint.

    Parameters
    ----------
    objective : Term or str, default="logistic + 0.001 * l2"
        Objective; see :mod:`thalweg.learn` for the terms. Penalties apply to the weights of the centres. Without one the model
        can overfit single rows.
    subject_to : constraint, str, or a list or tuple of them, default=()
        Constraints, such as ``"false_positive_rate <= 0.1"``.
    gamma : {"scale", "auto"} or float, default="scale"
        Kernel coefficient: ``1 / (n_features * X.var())``, ``1 / n_features``, or a positive number.
    n_components : int, default=None
        Number of centres, drawn from the distinct training rows; all of them if None. Kernel values take 8 bytes for each row and
        centre.
    {intercept}
    {solver}
    {enforce}
    {promise}
    {threads}
    random_state : int, RandomState or None, default=None
        Random seed, also for the centres; None is 0.
    {verbose}

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        Labels.
    centers_ : ndarray or sparse matrix of shape (n_centers, n_features)
        Centres.
    gamma_ : float
        Kernel coefficient.
    dual_coef_ : ndarray of shape (1, n_centers)
        Weights of the centres.
    intercept_ : ndarray of shape (1,)
        Intercept of the scores.
    {outcome}
    {promised}
    {features}

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from thalweg import ConstrainedClassifier, KernelConstrainedClassifier
    >>> X, y = make_moons(400, noise=0.2, random_state=0)
    >>> bound = "false_positive_rate <= 0.02"
    >>> linear = ConstrainedClassifier(subject_to=bound).fit(X, y)
    >>> kernel = KernelConstrainedClassifier(subject_to=bound).fit(X, y)
    >>> bool((kernel.predict(X)[y == 0] == 1).mean() <= 0.02), bool(kernel.score(X, y) > linear.score(X, y) + 0.1)
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
        holds_on: str = "training",
        confidence: float = 0.95,
        safety_fraction: float = 1.0 / 3.0,
        max_iter: Optional[int] = 3000,
        max_time: Optional[float] = None,
        feasibility: float = 1e-6,
        n_threads: int = 1,
        random_state: Any = None,
        verbose: int = 0,
    ):
        self._store(locals())

    def _prepare(self, rows: Rows, sensitive: Any) -> None:
        # Centres and gamma depend neither on the order of the rows nor on whether a row is repeated or has weight 2.
        first, kinds = _distinct(rows.X)
        weights = np.bincount(kinds, rows.weights, len(first)).astype(np.float64)
        first, weights = first[weights > 0], weights[weights > 0]
        count = len(first) if self.n_components is None else self.n_components
        if isinstance(count, bool) or not isinstance(count, (int, np.integer)) or count < 1:
            raise ValueError(f"n_components must be a positive integer or None, got {self.n_components!r}")
        centres = min(int(count), len(first))
        if 8 * rows.count * centres > _MEMORY:
            raise ValueError(
                f"the kernel values of {rows.count} rows and {centres} centres take {8e-9 * rows.count * centres:.1f} GB; set "
                f"n_components to at most {max(1, _MEMORY // (8 * rows.count))}"
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
            raise ValueError(f"gamma must be 'scale', 'auto' or a positive number, got {self.gamma!r}")
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
