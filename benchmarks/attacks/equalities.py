"""Smooth problems with equalities: a result that is called successful has to be optimal."""

from __future__ import annotations

from typing import Iterator

import numpy as np

from ._classical import EQUALITIES, scaled
from ._judge import Row
from ._run import minimize


def equalities(seed: int, quick: bool) -> Iterator[Row]:
    """Minimise problems of Hock and Schittkowski from their starts, and from points around them."""
    for problem in EQUALITIES:
        truth = problem.truth()
        arguments = scaled(problem)
        yield from minimize(problem.name, truth, **arguments)
        for draw in range(0 if quick else 3):
            rng = np.random.default_rng([seed, draw])
            start = np.array(problem.start) + 0.3 * rng.normal(size=len(problem.start))
            if problem.bounds is not None:
                start = np.clip(start, *np.array(problem.bounds, dtype=float).T)
            yield from minimize(f"{problem.name} (seed {seed}, start {draw})", truth, maxiter=3000, **{**arguments, "x0": start})
