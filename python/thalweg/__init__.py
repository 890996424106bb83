"""Optimisation under constraints where nothing is smooth or convex, gradients are noisy or missing, and data are large.

``minimize`` takes functions of your own, by scipy's conventions; :mod:`thalweg.blackbox` those of which only values can be
had, under any number of constraints; :mod:`thalweg.learn` trains linear classifiers whose objective and constraints are terms
such as ``hinge()`` and ``demographic_parity() <= 0.02``; ``FairClassifier`` and its neighbours do the same by the rules of
scikit-learn; :mod:`thalweg.bilevel` has problems with a follower whose worst answer counts. ``certify`` proves what holds,
``tradeoff`` shows what a bound costs, ``plan`` has what theorems prescribe, :mod:`thalweg.lab` runs experiments,
:mod:`thalweg.datasets` has data, :mod:`thalweg.callbacks` writes runs down while they go on. ``thalweg.torch`` has an
optimiser for PyTorch and is imported by that name.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from thalweg._core import __version__

if TYPE_CHECKING:
    from thalweg import bilevel, blackbox, callbacks, datasets, lab, learn
    from thalweg._certify import ModelCertificate, certify
    from thalweg._functions import Ball, Simplex
    from thalweg._minimize import MinimizeResult, minimize
    from thalweg._plan import Plan, complexity, plan
    from thalweg._result import Certificate, History, Note
    from thalweg._solvers import solvers
    from thalweg._tradeoff import Tradeoff, tradeoff
    from thalweg.estimators import (
        ConstrainedClassifier,
        FairClassifier,
        KernelConstrainedClassifier,
        NeymanPearsonClassifier,
        VarianceRegularizedClassifier,
    )

# Where each name lives. Loaded when it is asked for: scipy and scikit-learn take a second, which the command does not need.
_HOMES = {
    "Ball": "_functions",
    "Certificate": "_result",
    "ConstrainedClassifier": "estimators",
    "FairClassifier": "estimators",
    "History": "_result",
    "KernelConstrainedClassifier": "estimators",
    "MinimizeResult": "_minimize",
    "ModelCertificate": "_certify",
    "NeymanPearsonClassifier": "estimators",
    "Note": "_result",
    "Plan": "_plan",
    "Simplex": "_functions",
    "Tradeoff": "_tradeoff",
    "VarianceRegularizedClassifier": "estimators",
    "bilevel": "",
    "blackbox": "",
    "callbacks": "",
    "certify": "_certify",
    "complexity": "_plan",
    "datasets": "",
    "lab": "",
    "learn": "",
    "minimize": "_minimize",
    "plan": "_plan",
    "solvers": "_solvers",
    "tradeoff": "_tradeoff",
}

__all__ = [
    "Ball",
    "Certificate",
    "ConstrainedClassifier",
    "FairClassifier",
    "History",
    "KernelConstrainedClassifier",
    "MinimizeResult",
    "ModelCertificate",
    "NeymanPearsonClassifier",
    "Note",
    "Plan",
    "Simplex",
    "Tradeoff",
    "VarianceRegularizedClassifier",
    "__version__",
    "bilevel",
    "blackbox",
    "callbacks",
    "certify",
    "complexity",
    "datasets",
    "lab",
    "learn",
    "minimize",
    "plan",
    "solvers",
    "tradeoff",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'thalweg' has no attribute {name!r}")
    home = _HOMES[name]
    found = importlib.import_module(f"thalweg.{home or name}")
    value = getattr(found, name) if home else found
    globals()[name] = value
    return value


def __dir__() -> list:
    return sorted(__all__)
