"""Reference values: ``best(term)`` on columns in other units.

The smallest loss over all weights does not depend on the units of the columns. The truth is found in natural units: by linear
programming for the hinge loss, by Newton's method for logistic ones. It is the loss at a point and refutes larger lower bounds.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Iterator, Tuple

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_matrix, eye, hstack

from ._judge import Row, interval, no_claim

#: Seconds after which a run of the command is given up.
TIMEOUT = 20

_SPEC = """
[data]
file = "rows.svm"
columns = {columns}
split = "shared"

[problem]
minimize = "l2"
subject_to = ["{term} <= 1.001 * best({term})"]

[solver]
name = "bundle"

[budget]
iterations = 1
"""


def reference_values(seed: int, quick: bool) -> Iterator[Row]:
    """Compare the value and the proved lower bound that the command reports with the smallest loss."""
    for factor in (1e-6,) if quick else (1e-6, 1e-5, 1e-4, 1e-3):
        rng = np.random.default_rng([seed, 1000])
        rows, labels = _two_columns(rng)
        for term in ("hinge", "logistic"):
            yield _check(f"{term}, columns 1 and {factor:g} u (seed {seed})", term, rows, labels, np.array([1.0, factor]))
    for draw in range(5 if quick else 60):
        rng = np.random.default_rng([seed, draw])
        columns, count = int(rng.integers(1, 6)), int(rng.integers(15, 80))
        rows = rng.normal(size=(count, columns))
        labels = np.where(rows @ rng.normal(size=columns) + rng.normal(size=count) > 0, 1.0, -1.0)
        if abs(labels.sum()) == count:
            labels[0] = -labels[0]
        units = 10.0 ** rng.uniform(-4, 4, size=columns)
        term = str(rng.choice(["hinge", "logistic", "logistic + 0.01 * l2"]))
        yield _check(f"{term}, random units (seed {seed}, draw {draw})", term, rows, labels, units)
    for draw in range(1 if quick else 3):
        for term in ("hinge", "hinge + 0.01 * l1"):
            yield _wide(seed, draw, term)


def _wide(seed: int, draw: int, term: str) -> Row:
    """Draw 300 sparse rows with 1,500 columns in random units; noise in the labels makes some rows repeat with both."""
    rng = np.random.default_rng([seed, 2000, draw])
    count, columns = 300, 1500
    rows = np.where(rng.uniform(size=(count, columns)) < 0.01, rng.normal(size=(count, columns)), 0.0)
    rows[:60] = rows[60:120]
    labels = np.where(rows @ rng.normal(size=columns) > 0, 1.0, -1.0)
    labels[:60] *= np.where(rng.uniform(size=60) < 0.5, 1.0, -1.0)
    labels[:2] = 1.0, -1.0
    units = 10.0 ** rng.uniform(-1 if "l1" in term else -4, 1 if "l1" in term else 4, size=columns)
    return _check(f"{term}, 300 rows and 1,500 columns (seed {seed}, draw {draw})", term, rows, labels, units)


def _two_columns(rng: np.random.Generator) -> Tuple[np.ndarray, np.ndarray]:
    """Return rows that no weights separate, with a column of ones."""
    u = rng.normal(size=20)
    return np.column_stack([np.ones(20), u]), np.where(u + rng.normal(size=20) > 0, 1.0, -1.0)


def _check(name: str, term: str, rows: np.ndarray, labels: np.ndarray, units: np.ndarray) -> Row:
    if term.startswith("hinge"):
        truth = _smallest_hinge(rows, labels, 0.01 * ("l1" in term) / units)
    else:
        truth = _smallest_logistic(rows, labels, units, 0.01 * ("l2" in term))
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        lines = (
            f"{int(label):+d} " + " ".join(f"{j + 1}:{value!r}" for j, value in enumerate((row * units).tolist()) if value)
            for label, row in zip(labels, rows)
        )
        (folder / "rows.svm").write_text("\n".join(lines) + "\n")
        (folder / "spec.toml").write_text(_SPEC.format(columns=rows.shape[1], term=term))
        command = [sys.executable, "-m", "thalweg", "solve", str(folder / "spec.toml"), "--json"]
        try:
            ran = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT)
        except subprocess.TimeoutExpired:
            return no_claim(name, "reference value", f"no answer within {TIMEOUT} s")
    try:
        found = json.loads(ran.stdout)["references"][0]
    except (ValueError, KeyError, IndexError):
        return no_claim(name, "reference value", ran.stderr.strip() or f"exit code {ran.returncode}")
    lower = -np.inf if found["lower"] is None else found["lower"]
    # "Proved to 1e-7" allows that much above the smallest value, and the truth has an error of its own.
    return interval(name, lower, found["value"], truth, 1e-7 * max(abs(truth), 1e-3), "reference value")


def _smallest_hinge(rows: np.ndarray, labels: np.ndarray, l1: np.ndarray) -> float:
    """Return the smallest mean hinge loss plus the absolute weights times `l1`, by a linear program."""
    count, columns = rows.shape
    signed = csr_matrix(labels[:, None] * rows)
    cost = np.concatenate([l1, l1, np.full(count, 1.0 / count)])
    system = hstack([-signed, signed, -eye(count)], format="csr")
    found = linprog(cost, A_ub=system, b_ub=-np.ones(count), bounds=(0.0, None), method="highs")
    weights = found.x[:columns] - found.x[columns : 2 * columns]
    return float(np.maximum(0.0, 1.0 - signed @ weights).mean() + l1 @ np.abs(weights))


def _smallest_logistic(rows: np.ndarray, labels: np.ndarray, units: np.ndarray, l2: float) -> float:
    """Return the smallest mean logistic loss plus l2 times half the squared norm of the weights, by Newton's method."""
    count, columns = rows.shape
    signed = labels[:, None] * rows
    # The weight of a column in natural units is that of the scaled one times its unit.
    penalty = l2 / units**2

    def loss(w: np.ndarray) -> float:
        return float(np.logaddexp(0.0, -signed @ w).mean() + 0.5 * penalty @ (w * w))

    w = np.zeros(columns)
    for _ in range(200):
        share = 1.0 / (1.0 + np.exp(np.clip(signed @ w, -500, 500)))
        gradient = -(signed * share[:, None]).mean(axis=0) + penalty * w
        hessian = (signed.T * (share * (1.0 - share))) @ signed / count + np.diag(penalty + 1e-14)
        step, length = np.linalg.solve(hessian, gradient), 1.0
        while loss(w - length * step) > loss(w) and length > 1e-10:
            length *= 0.5
        if length <= 1e-10:
            break
        w = w - length * step
    return loss(w)
