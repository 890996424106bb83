"""What a call of a numpy function costs beyond the function itself, when ``thalweg.minimize`` makes it.

Two functions of 123 variables, value and gradient, are called alone in a loop and then through the switching subgradient method,
in turns, and the difference of the medians is what everything around them costs per call: the array for x, the answer, the step
itself.

    python benches/overhead.py
"""

import statistics
import time

import numpy as np

import thalweg

D, CALLS, TURNS = 123, 20_000, 15


def main() -> None:
    weights = np.linspace(0.5, 2.0, D)

    def fun(x: np.ndarray) -> float:
        return float(weights @ np.abs(x))

    def jac(x: np.ndarray) -> np.ndarray:
        return weights * np.sign(x)

    def both(x: np.ndarray) -> tuple:
        return weights @ np.abs(x), weights * np.sign(x)

    x0 = np.ones(D)

    def alone(*functions: object) -> float:
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

    print(f"{D} variables, medians of {TURNS} turns of {CALLS} calls, microseconds per call")
    print(f"{'':24}{'alone':>8}{'through':>9}{'beyond':>8}")
    for name, functions, gradient in (("fun and jac", (fun, jac), jac), ("fun with jac=True", (both,), True)):
        pairs = [(alone(*functions), through(functions[0], gradient, len(functions))) for _ in range(TURNS)]
        bare, whole = (1e6 * statistics.median(column) for column in zip(*pairs))
        print(f"{name:24}{bare:8.2f}{whole:9.2f}{whole - bare:8.2f}")


if __name__ == "__main__":
    main()
