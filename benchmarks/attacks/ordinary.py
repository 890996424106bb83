"""Control group: well-scaled problems, whose claims should all be right, and statements about unseen rows in simulation."""

from __future__ import annotations

from statistics import NormalDist
from typing import Iterator

import numpy as np
import thalweg
from scipy.optimize import LinearConstraint, linprog
from thalweg.learn import fit, l2, logistic

from ._judge import Row, no_claim, probability
from ._planted import CONVEX, WEAKLY_CONVEX, plant
from ._run import Truth, attempt, certificate, minimize, planted

_NORMAL = NormalDist()


def ordinary(seed: int, quick: bool) -> Iterator[Row]:
    """Certify random points of random problems, solve random problems, and simulate unseen rows."""
    kinds = (*CONVEX, *WEAKLY_CONVEX)
    for draw in range(40 if quick else 400):
        rng = np.random.default_rng([seed, draw])
        kind = kinds[draw % len(kinds)]
        constrained = bool(rng.random() < 0.5)
        problem = plant(rng, kind, size=int(rng.integers(1, 9)), constrained=constrained, distance=10.0 ** rng.uniform(-3, 1))
        name = f"{kind.__name__}{', constrained' if constrained else ''} (seed {seed}, draw {draw})"
        yield planted(name, problem)
    for draw in range(5 if quick else 40):
        yield from _linear_program(seed, draw)
    for draw in range(3 if quick else 30):
        yield _model(seed, draw)
    yield _neyman_pearson(seed, 40 if quick else 300)
    yield from _held_out(seed, 40 if quick else 300)


def _linear_program(seed: int, draw: int) -> Iterator[Row]:
    """Minimise an l1 norm under linear constraints, which HiGHS solves as a linear program."""
    rng = np.random.default_rng([seed, 1, draw])
    n, m = int(rng.integers(2, 6)), int(rng.integers(1, 6))
    inside, rows = rng.normal(size=n), rng.normal(size=(m, n))
    limit = rows @ inside + rng.uniform(0.0, 1.0, size=m)
    # |x_i| <= t_i as two rows each.
    system = np.block([[rows, np.zeros((m, n))], [np.eye(n), -np.eye(n)], [-np.eye(n), -np.eye(n)]])
    right = np.concatenate([limit, np.zeros(2 * n)])
    solved = linprog(np.repeat([0.0, 1.0], n), A_ub=system, b_ub=right, bounds=[(None, None)] * (2 * n), method="highs")
    truth = Truth(
        lambda x: float((rows @ x - limit).max()),
        True,
        lambda x: float(np.abs(x).sum()),
        lambda _: float(solved.fun),
        max(1.0, solved.fun),
    )
    yield from minimize(
        f"l1 norm under linear constraints (seed {seed}, draw {draw})",
        truth,
        lambda x: float(np.abs(x).sum()),
        3.0 * rng.normal(size=n),
        jac=np.sign,
        constraints=LinearConstraint(rows, -np.inf, limit),
        rho=0.0,
    )


def _model(seed: int, draw: int) -> Row:
    """Certify a logistic model with constants that follow from its terms; the proximal point is found by Newton's method."""
    rng = np.random.default_rng([seed, 2, draw])
    count, columns = 60, int(rng.integers(1, 5))
    rows = rng.normal(size=(count, columns))
    labels = np.where(rows @ rng.normal(size=columns) + rng.normal(size=count) > 0, 1, -1)
    name = f"logistic model (seed {seed}, draw {draw})"
    model = attempt(fit, logistic() + 0.1 * l2(), X=rows, y=labels, intercept=False, max_iter=200)
    if isinstance(model, Exception):
        return no_claim(name, "interval", model)
    model.x = model.x + 10.0 ** rng.uniform(-4, 0) * rng.normal(size=columns)
    found = attempt(thalweg.certify, model, rows, labels)

    def distance(claimed: thalweg.Certificate) -> float:
        signed, z, coefficient = labels[:, None] * rows, model.x.copy(), claimed.rho_f + claimed.mu
        for _ in range(50):
            share = 1.0 / (1.0 + np.exp(signed @ z))
            gradient = -(signed * share[:, None]).mean(axis=0) + 0.1 * z + coefficient * (z - model.x)
            hessian = (signed.T * (share * (1.0 - share))) @ signed / count + (0.1 + coefficient) * np.eye(columns)
            z = z - np.linalg.solve(hessian, gradient)
        return float(np.linalg.norm(z - model.x))

    return certificate(name, found, distance, lambda _: 1e-12)


def _neyman_pearson(seed: int, draws: int) -> Row:
    """Train on Gaussian classes and compute the false-positive rate on unseen rows in closed form."""
    max_fpr = delta = 0.1
    failures = guaranteed = 0
    for draw in range(draws):
        rng = np.random.default_rng([seed, 3, draw])
        rows = rng.normal(size=(240, 2))
        labels = np.repeat([-1, 1], 120)
        rows[labels > 0] += [1.5, 0.5]
        model = thalweg.NeymanPearsonClassifier(max_fpr=max_fpr, delta=delta, max_iter=300, random_state=draw)
        model = attempt(model.fit, rows, labels)
        if isinstance(model, Exception) or model.failure_probability_ > delta:
            continue
        guaranteed += 1
        weights = model.coef_.ravel()
        rate = _NORMAL.cdf(float(model.intercept_[0]) / max(float(np.linalg.norm(weights)), 1e-300))
        failures += rate > max_fpr
    name = f"Neyman-Pearson on Gaussian classes (seed {seed})"
    if guaranteed == 0:
        return no_claim(name, "probability", "no model is guaranteed")
    return probability(name, failures, guaranteed, delta, f"the rate exceeds {max_fpr} with probability at most {delta}")


def _held_out(seed: int, draws: int) -> Iterator[Row]:
    """Draw rows from Gaussian groups and classes, and compare intervals for unseen rows with the rates in closed form."""
    confidence = 0.9
    rng = np.random.default_rng([seed, 4])
    rows, labels, groups = _groups(rng, 600)
    for title, bound in (
        ("demographic_parity", "demographic_parity <= 0.1"),
        ("false_positive_rate", "false_positive_rate <= 0.2"),
    ):
        model = thalweg.ConstrainedClassifier("logistic", [bound], max_iter=500).fit(rows, labels, sensitive_features=groups)
        weights, intercept = model.coef_.ravel(), float(model.intercept_[0])
        # The rate of positive predictions in each group with each label; all four are equally likely.
        scores = {(g, s): (weights @ _mean(g, s) + intercept) / np.linalg.norm(weights) for g in (0, 1) for s in (-1, 1)}
        rate = {key: _NORMAL.cdf(float(score)) for key, score in scores.items()}
        parity = abs(rate[0, -1] + rate[0, 1] - rate[1, -1] - rate[1, 1]) / 2
        truth = parity if title == "demographic_parity" else (rate[0, -1] + rate[1, -1]) / 2
        failures = stated = 0
        for draw in range(draws):
            unseen, signs, members = _groups(np.random.default_rng([seed, 5, draw]), 200)
            found = attempt(
                thalweg.certify, model, unseen, signs, sensitive_features=members, confidence=confidence, evaluations=1
            )
            measured = None if isinstance(found, Exception) else found.intervals[0]["measured"]
            if measured is None or measured["low"] is None or measured["high"] is None:
                continue
            stated += 1
            failures += not measured["low"] - 1e-12 <= truth <= measured["high"] + 1e-12
        name = f"held-out interval of {title} (seed {seed})"
        if stated == 0:
            yield no_claim(name, "probability", "no interval")
        else:
            yield probability(name, failures, stated, 1.0 - confidence, f"the interval holds with probability {confidence}")


def _mean(group: int, label: int) -> np.ndarray:
    return np.array([0.8 * label, 0.7 * group])


def _groups(rng: np.random.Generator, count: int) -> tuple:
    """Draw rows of two groups and two labels, all four equally likely."""
    groups, labels = rng.integers(0, 2, size=count), np.where(rng.random(count) < 0.5, 1, -1)
    means = np.array([_mean(g, s) for g, s in zip(groups, labels)])
    return means + rng.normal(size=(count, 2)), labels, groups
