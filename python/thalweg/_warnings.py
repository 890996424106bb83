"""Warnings about data and results, and how the notes of the core become warnings."""

from __future__ import annotations

import sys
import warnings
from typing import Any, Iterable, Type

from sklearn import exceptions


class ConvergenceWarning(exceptions.ConvergenceWarning):
    """Training ended before its solver converged."""


class DegenerateModelWarning(UserWarning):
    """The model predicts no better than a constant: its predictions are (nearly) all the same, or no better than guessing."""


class DataWarning(UserWarning):
    """The result means less than it seems to: groups are too small for a bound, or a feature gives the label away."""


class PromiseWarning(UserWarning):
    """Nothing is promised about unseen rows: tests did not confirm a bound that was to hold in the population."""


_KINDS = {
    "not-converged": ConvergenceWarning,
    "degenerate-model": DegenerateModelWarning,
    "small-groups": DataWarning,
    "many-groups": DataWarning,
    "safety-set-too-small": DataWarning,
    "promise-not-confirmed": PromiseWarning,
    "label-given-away": DataWarning,
}


def warn(message: str, category: Type[Warning]) -> None:
    """Issue a warning at the line outside this package that called it."""
    level, frame = 1, sys._getframe(0)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] in ("thalweg", "sklearn"):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def warn_of(notes: Iterable[Any], kinds: Iterable[Type[Warning]]) -> None:
    """Issue the notes that are warnings of these kinds."""
    for note in notes:
        category = _KINDS.get(note.kind)
        if category is not None and category in kinds:
            warn(str(note), category)
