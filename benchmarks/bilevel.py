"""Time of one inner iteration of AdaProx on robust hyper-representation, compared with NumPy, with one thread each.

Both start at the same point with the same data (200 validation and 200 training rows, 50 features, 512 and 1024 inner variables),
take five gradient steps on the inner problem at each point, and make fifty iterations on each of two subproblems. The constraints
of the first are relaxed until the starting point satisfies them; those of the second bind. The final objectives must agree to
1e-8. The NumPy version is optimised: sums over the rows are computed once, matrix products use BLAS, a gradient of rank three is
one product, and vectors are updated in place. The two run alternately, and medians are compared.

    python benchmarks/bilevel.py

builds the benchmark ``hyper_representation`` of the Rust crate with cargo; ``--program`` names a compiled one.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

# One thread, as in the Rust benchmark. BLAS reads this when it is loaded.
for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import numpy as np  # noqa: E402

ROWS, FEATURES, STEPS, ITERATIONS = 200, 50, 5, 50
SIZES = (512, 1024)
PARTS = ("relaxed", "binding")
# As in the Rust benchmark; the last four are defaults of pd.
ALPHA, XI, SIGMA, BETA, OUTER, MULTIPLIER = 0.01, 0.01, 100.0, 0.2, 100, 10.0
T0, C_TAU, BOUND = 10, 40.0, 50.0


class Problem:
    """Single-level reformulation with its buffers."""

    def __init__(self, folder: Path, m: int) -> None:
        def read(name: str) -> np.ndarray:
            return np.fromfile(folder / f"{name}-{m}")

        self.m, self.start, (self.smoothness,) = m, read("z"), read("smoothness")
        x1, x2 = (read(name).reshape(ROWS, FEATURES) for name in ("x1", "x2"))
        y1, y2 = read("y1"), read("y2")
        # Values are w . gram w / 2 - linear . w + constant with w = Lambda u; both Grams in one matrix, for one product.
        self.grams = np.vstack([x1.T @ x1, x2.T @ x2]) / ROWS
        self.gram_f, self.gram_g = self.grams[:FEATURES], self.grams[FEATURES:]
        self.linear_f, self.linear_g = x1.T @ y1 / ROWS, x2.T @ y2 / ROWS
        self.constant_f, self.constant_g = y1 @ y1 / (2 * ROWS), y2 @ y2 / (2 * ROWS)
        n = FEATURES * m
        self.parts = slice(0, n), slice(n, n + m), n + m
        lam = self.start[:n]
        self.radius_x = 10.0 * np.sqrt(lam @ lam)
        # The least-norm solution at the starting point.
        w = np.linalg.solve(self.gram_g, self.linear_g)
        least = np.linalg.lstsq(lam.reshape(FEATURES, m), w, rcond=None)[0]
        self.radius_y = 10.0 * max(1.0, float(np.linalg.norm(least)))
        self.yhat = np.zeros(m)
        self.w, self.t, self.e = np.empty(FEATURES), np.empty(FEATURES), np.empty(FEATURES)
        self.f_w, self.g_w, self.hat_w = np.empty(FEATURES), np.empty(FEATURES), np.empty(FEATURES)
        self.both = np.empty(2 * FEATURES)
        self.slope, self.b, self.rows = np.empty(m), np.empty(m), np.empty(2 * m + 3)
        self.left, self.right = np.empty((FEATURES, 3)), np.empty((3, m))
        self.grad, self.away, self.work = (np.empty(n + m + 1) for _ in range(3))
        self.value = 0.0

    def refresh(self, lam: np.ndarray) -> None:
        """Update the value function by gradient steps from the last inner solution."""
        yhat, w, t, slope = self.yhat, self.w, self.t, self.slope
        rate = 2.0 / (self.smoothness + 2.0 * ALPHA)
        keep = 1.0 - rate * ALPHA
        for _ in range(STEPS):
            np.dot(lam, yhat, out=w)
            np.dot(self.gram_g, w, out=t)
            t -= self.linear_g
            t *= rate
            np.dot(t, lam, out=slope)
            np.multiply(yhat, keep, out=yhat)
            yhat -= slope
        np.dot(lam, yhat, out=w)
        np.dot(self.gram_g, w, out=self.hat_w)
        value = 0.5 * (w @ self.hat_w) - self.linear_g @ w + self.constant_g
        self.hat_w -= self.linear_g
        self.value = value + 0.5 * ALPHA * (yhat @ yhat)

    def visit(self, z: np.ndarray) -> tuple:
        x, y, last = self.parts
        lam, u, v = z[x].reshape(FEATURES, self.m), z[y], z[last]
        self.refresh(lam)
        w = np.dot(lam, u, out=self.w)
        np.dot(self.grams, w, out=self.both)
        np.subtract(self.both[:FEATURES], self.linear_f, out=self.f_w)
        np.subtract(self.both[FEATURES:], self.linear_g, out=self.g_w)
        g = 0.5 * ((self.g_w - self.linear_g) @ w) + self.constant_g
        # Constraint rows.
        m, h, s = self.m, self.rows, g - self.value - XI
        h[0] = s
        np.multiply(self.g_w, v, out=self.e)
        self.e -= self.f_w
        np.dot(self.e, lam, out=h[1 : m + 1])
        np.negative(h[1 : m + 1], out=h[m + 1 : 2 * m + 1])
        h[2 * m + 1], h[2 * m + 2] = v * s, -v * s
        return lam, u, v, s

    def objective(self, z: np.ndarray) -> float:
        x, y, _ = self.parts
        w = z[x].reshape(FEATURES, self.m) @ z[y]
        return float(0.5 * (w @ self.gram_f @ w) - self.linear_f @ w + self.constant_f)

    def pull(self, lam: np.ndarray, u: np.ndarray, v: float, s: float, multipliers: np.ndarray, with_f: bool, divisor: float):
        """Return J^T multipliers, with the gradient of f if `with_f`, divided by `divisor`: one product of rank three."""
        m, (x, y, last), grad = self.m, self.parts, self.grad
        net = multipliers[2 * m + 1] - multipliers[2 * m + 2]
        inner = multipliers[0] + v * net
        b = np.subtract(multipliers[1 : m + 1], multipliers[m + 1 : 2 * m + 1], out=self.b)
        w_b = np.dot(lam, b, out=self.w)
        np.dot(self.grams, w_b, out=self.both)
        left, right = self.left, self.right
        first = self.e
        np.multiply(self.g_w, v, out=first)
        np.subtract(first, self.f_w, out=left[:, 1])
        np.multiply(self.both[FEATURES:], v, out=first)
        first -= self.both[:FEATURES]
        np.multiply(self.g_w, inner, out=self.t)
        first += self.t
        if with_f:
            first += self.f_w
        first *= 1.0 / divisor
        left[:, 0] = first
        left[:, 1] *= 1.0 / divisor
        np.multiply(self.hat_w, -inner / divisor, out=left[:, 2])
        right[0], right[1], right[2] = u, b, self.yhat
        np.dot(left, right, out=grad[x].reshape(FEATURES, m))
        np.dot(first, lam, out=grad[y])
        grad[last] = (w_b @ self.g_w + net * s) / divisor
        return grad

    def row(self, lam: np.ndarray, u: np.ndarray, v: float, j: int, sign: float, divisor: float) -> np.ndarray:
        """Return one row of c or -c divided by `divisor`: a product of rank one and a column."""
        (x, y, last), grad = self.parts, self.grad
        w_b = np.multiply(lam[:, j], sign / divisor, out=self.w)
        np.dot(self.grams, w_b, out=self.both)
        e = np.multiply(self.both[FEATURES:], v, out=self.e)
        e -= self.both[:FEATURES]
        of_lambda = grad[x].reshape(FEATURES, self.m)
        np.multiply(e[:, None], u, out=of_lambda)
        of_lambda[:, j] += (v * self.g_w - self.f_w) * (sign / divisor)
        np.dot(e, lam, out=grad[y])
        grad[last] = w_b @ self.g_w
        return grad

    def outer_gradient(self, lam: np.ndarray, u: np.ndarray, divisor: float) -> np.ndarray:
        x, y, last = self.parts
        np.multiply(self.f_w, 1.0 / divisor, out=self.e)
        np.multiply(self.e[:, None], u, out=self.grad[x].reshape(FEATURES, self.m))
        np.dot(self.e, lam, out=self.grad[y])
        self.grad[last] = 0.0
        return self.grad

    def project(self, z: np.ndarray) -> None:
        x, y, last = self.parts
        for part, radius in ((z[x], self.radius_x), (z[y], self.radius_y)):
            far = np.sqrt(part @ part)
            if far > radius:
                part *= radius / far
        z[last] = min(max(z[last], 0.0), MULTIPLIER)


def average(mean: np.ndarray, z: np.ndarray, share: float, work: np.ndarray) -> None:
    np.subtract(z, mean, out=work)
    work *= share
    mean += work


def simplex(y: np.ndarray, total: float) -> np.ndarray:
    """Project a vector with a larger sum onto the simplex of this sum."""
    ordered = np.sort(y)[::-1]
    levels = (np.cumsum(ordered) - total) / np.arange(1, len(y) + 1)
    return np.maximum(y - levels[np.nonzero(ordered > levels)[0][-1]], 0.0)


def begin(p: Problem) -> float:
    """Return the relaxation of the first subproblem's constraints."""
    p.yhat[:] = 0.0
    p.visit(p.start)
    violation = float(p.rows.max())
    return (violation if violation > 0.5 * BETA / OUTER else 0.0) + BETA / OUTER


def sg(p: Problem, centre: np.ndarray, slack: float, iterations: int) -> tuple:
    """Return the last iterate, the average of the accepted ones, and the number of steps on constraints."""
    z, mean = centre.copy(), np.zeros_like(centre)
    weight, mu, away, work = 0.0, 0.5 * SIGMA, p.away, p.work
    on_constraints, multipliers = 0, np.zeros(2 * p.m + 3)
    for t in range(1, iterations + 1):
        gamma = 0.5 * mu * (t + 1)
        lam, u, v, s = p.visit(z)
        np.subtract(z, centre, out=away)
        worst = int(p.rows.argmax())
        if p.rows[worst] + 0.5 * SIGMA * (away @ away) - slack <= 0.25 * BETA / OUTER:
            weight += gamma
            average(mean, z, gamma / weight, work)
            grad = p.outer_gradient(lam, u, gamma)
        elif 1 <= worst <= 2 * p.m:
            grad = p.row(lam, u, v, (worst - 1) % p.m, 1.0 if worst <= p.m else -1.0, gamma)
            on_constraints += 1
        else:
            multipliers[worst] = 1.0
            grad = p.pull(lam, u, v, s, multipliers, False, gamma)
            multipliers[worst] = 0.0
            on_constraints += 1
        # z - (grad + sigma away) / gamma; grad is divided already.
        away *= SIGMA / gamma
        away += grad
        z -= away
        p.project(z)
    return z, mean if weight > 0.0 else centre, on_constraints


def pd(p: Problem, centre: np.ndarray, slack: float, iterations: int) -> tuple:
    z, mean = centre.copy(), np.zeros_like(centre)
    weight, mu, away = 0.0, 0.5 * SIGMA, p.away
    multipliers, before, now, mean_multipliers, work = (np.zeros(2 * p.m + 3) for _ in range(5))
    for t in range(iterations):
        shifted = t + T0
        eta, theta, step = 0.5 * mu * (shifted + 1), (shifted + 2) / (shifted + 3), (t + 1) / C_TAU
        lam, u, v, s = p.visit(z)
        np.subtract(z, centre, out=away)
        np.add(p.rows, 0.5 * SIGMA * (away @ away) - slack, out=now)
        np.subtract(now, now if t == 0 else before, out=work)
        work *= theta
        work += now
        work *= step
        multipliers += work
        np.maximum(multipliers, 0.0, out=multipliers)
        total = multipliers.sum()
        if total > BOUND:
            multipliers[:] = simplex(multipliers, BOUND)
            total = BOUND
        grad = p.pull(lam, u, v, s, multipliers, True, eta) if total > 0.0 else p.outer_gradient(lam, u, eta)
        away *= SIGMA * (1.0 + total) / eta
        away += grad
        z -= away
        p.project(z)
        weight += shifted + 3
        average(mean, z, (shifted + 3) / weight, away)
        average(mean_multipliers, multipliers, (shifted + 3) / weight, work)
        before, now = now, before
    return z, mean, 0


def run(p: Problem, solver: object) -> list:
    """Run two subproblems; return microseconds per iteration, final objective and steps on constraints of each."""
    centre, slack, parts = p.start, begin(p), []
    for iterations in (ITERATIONS, ITERATIONS - 1):
        began = time.perf_counter()
        last, mean, on_constraints = solver(p, centre, slack, iterations)  # type: ignore[operator]
        seconds = time.perf_counter() - began
        ended = last
        if not parts:
            # The next centre, evaluated once.
            centre, slack, ended = mean, 2.0 * BETA / OUTER, mean
            p.visit(centre)
        parts.append((1e6 * seconds / iterations, p.objective(ended), on_constraints))
    return parts


def ours(program: str, folder: Path) -> dict:
    text = subprocess.run([program, str(folder)], capture_output=True, text=True, check=True).stdout
    lines = [dict(word.split("=") for word in line.split()) for line in text.splitlines()]
    return {(int(line["m"]), line["inner"], int(line["part"])): line for line in lines}


def build() -> str:
    words = ["cargo", "bench", "-p", "thalweg", "--bench", "hyper_representation", "--no-run", "--message-format", "json"]
    text = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True, cwd=Path(__file__).resolve().parents[1]).stdout
    found = [json.loads(line).get("executable") for line in text.splitlines() if '"hyper_representation"' in line]
    return next(path for path in found if path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", help="compiled Rust benchmark; built with cargo by default")
    parser.add_argument("--repeats", type=int, default=5, help="alternating runs of both; medians are compared")
    arguments = parser.parse_args()
    program = arguments.program or build()
    mine: dict = {}
    theirs: dict = {}
    wanted: dict = {}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(arguments.repeats):
            for key, line in ours(program, Path(folder)).items():
                mine.setdefault(key, []).append(float(line["us"]))
                wanted[key] = line
            for m in SIZES:
                problem = Problem(Path(folder), m)
                for name, solver in (("sg", sg), ("pd", pd)):
                    runs = [run(problem, solver) for _ in range(21)]
                    for part in (0, 1):
                        theirs.setdefault((m, name, part), []).append(statistics.median(run[part][0] for run in runs))
                        _, objective, steps = runs[-1][part]
                        line = wanted[m, name, part]
                        if abs(objective - float(line["objective"])) > 1e-8 or (name == "sg" and steps != int(line["steps"])):
                            sys.exit(f"{name}, {m}: {objective} and {steps} steps on constraints by NumPy, {line} by Thalweg")
    print(f"microseconds for one iteration, medians of {arguments.repeats} repeats, numpy {np.__version__}, one thread")
    print(f"{'':20}{'thalweg':>9}{'numpy':>9}{'ratio':>7}  steps on constraints")
    medians = {key: (statistics.median(mine[key]), statistics.median(theirs[key])) for key in mine}
    for (m, name, part), (one, other) in medians.items():
        words = f"{m:5} {name} {PARTS[part]}"
        print(f"{words:20}{one:9.1f}{other:9.1f}{other / one:7.2f}  {wanted[m, name, part]['steps'] if name == 'sg' else ''}")
    for name in ("sg", "pd"):
        for part in (0, 1):
            growth = [medians[SIZES[1], name, part][k] / medians[SIZES[0], name, part][k] for k in (0, 1)]
            print(f"growth from {SIZES[0]} to {SIZES[1]}, {name} {PARTS[part]}: thalweg {growth[0]:.2f}, numpy {growth[1]:.2f}")


if __name__ == "__main__":
    main()
