"""Least absolute deviations in an l1 ball by callbacks, 500 rows and 50 variables: ``thalweg.minimize`` beside scipy's methods.

python benches/small.py
"""

import time
import warnings

import numpy as np
from scipy.optimize import NonlinearConstraint, minimize

import thalweg

RADIUS = 20.0


def main() -> None:
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(0)
    n, d = 500, 50
    A = rng.normal(size=(n, d))
    b = A @ rng.normal(size=d) + 0.1 * rng.standard_t(2, size=n)

    def fun(x: np.ndarray) -> float:
        return np.abs(A @ x - b).mean()

    def jac(x: np.ndarray) -> np.ndarray:
        return (np.sign(A @ x - b) @ A) / n

    ball = NonlinearConstraint(lambda x: np.abs(x).sum(), -np.inf, RADIUS, jac=np.sign)
    print(f"{'':40}{'seconds':>9}{'objective':>12}{'violation':>11}  says")
    runs = {
        "thalweg, nothing known": lambda: thalweg.minimize(fun, np.zeros(d), jac=jac, constraints=ball),
        "thalweg, rho=0, with certificate": lambda: thalweg.minimize(fun, np.zeros(d), jac=jac, constraints=ball, rho=0.0),
    }
    for method in ("SLSQP", "trust-constr", "COBYLA"):
        runs[f"scipy {method}"] = lambda method=method: minimize(fun, np.zeros(d), jac=jac, constraints=ball, method=method)
    for name, run in runs.items():
        began = time.perf_counter()
        result = run()
        seconds = time.perf_counter() - began
        over = max(np.abs(result.x).sum() - RADIUS, 0.0)
        said = "success" if result.success else "failed"
        proof = getattr(result, "certificate", None)
        said += "" if proof is None else f", proximal point within {proof.upper:.0e}"
        print(f"{name:40}{seconds:9.2f}{result.fun:12.6f}{over:11.0e}  {said}", flush=True)


if __name__ == "__main__":
    main()
