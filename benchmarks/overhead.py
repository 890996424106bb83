"""Overhead of calling a numpy function from ``thalweg.minimize``.

Value and gradient of a function of 123 variables are called directly in a loop and through the switching subgradient method,
alternately. The difference of the medians is the overhead per call: the array for x, the returned value and the step itself.

    python benchmarks/overhead.py
"""

import statistics
import time

import numpy as np
import thalweg

D, CALLS, REPEATS = 123, 20_000, 15


def main() -> None:
    weights = np.linspace(0.5, 2.0, D)

    def fun(x: np.ndarray) -> float:
        return float(weights @ np.abs(x))

    def jac(x: np.ndarray) -> np.ndarray:
        return weights * np.sign(x)

    def both(x: np.ndarray) -> tuple:
        return weights @ np.abs(x), weights * np.sign(x)

    x0 = np.ones(D)

    def direct(*functions: object) -> float:
        x = x0.copy()
        began = time.perf_counter()
        for _ in range(CALLS):
            for function in functions:
                function(x)  # type: ignore[operator]
        return (time.perf_counter() - began) / (CALLS * len(functions))

    def through(function: object, gradient: object, calls_per_step: int) -> float:
        options = {"maxiter": CALLS, "eta": 1e-6, "record": {"at": []}, "output": "last"}
        began = time.perf_counter()
        result = thalweg.minimize(function, x0, jac=gradient, method="ssg", options=options)  # type: ignore[arg-type]
        spent = time.perf_counter() - began
        assert CALLS <= result.nfev <= CALLS + 5, result.nfev
        return spent / (CALLS * calls_per_step)

    print(f"{D} variables, medians of {REPEATS} repeats of {CALLS} calls, microseconds per call")
    print(f"{'':24}{'direct':>8}{'through':>9}{'overhead':>10}")
    for name, functions, gradient in (("fun and jac", (fun, jac), jac), ("fun with jac=True", (both,), True)):
        pairs = [(direct(*functions), through(functions[0], gradient, len(functions))) for _ in range(REPEATS)]
        bare, whole = (1e6 * statistics.median(column) for column in zip(*pairs))
        print(f"{name:24}{bare:8.2f}{whole:9.2f}{whole - bare:10.2f}")


if __name__ == "__main__":
    main()
