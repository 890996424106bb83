"""Constrained optimisation of non-smooth and non-convex functions, with noisy or missing gradients and large data.

``minimize`` takes Python functions with the conventions of scipy.optimize; :mod:`thalweg.blackbox` takes functions with values
only, under any number of constraints. :mod:`thalweg.learn` trains linear classifiers whose objective and constraints are terms
such as ``hinge()`` and ``demographic_parity() <= 0.02``; ``FairClassifier`` and the other classifiers follow the rules of
scikit-learn, and ``load`` reads a saved model. :mod:`thalweg.bilevel` solves pessimistic bilevel problems. ``certify`` verifies a
point, ``check`` the file of a certificate, ``tradeoff`` varies a bound, ``plan`` gives the parameters that theorems prescribe.
:mod:`thalweg.lab` runs experiments, :mod:`thalweg.datasets` loads data, and :mod:`thalweg.callbacks` logs runs. ``thalweg.torch``
has an optimiser for PyTorch and must be imported explicitly.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from thalweg._core import __version__

if TYPE_CHECKING:
    from thalweg import bilevel, blackbox, callbacks, datasets, lab, learn
    from thalweg._certify import ModelCertificate, Verdict, certify, check
    from thalweg._functions import Ball, Simplex
    from thalweg._minimize import MinimizeResult, minimize
    from thalweg._model import LinearModel, load
    from thalweg._plan import Plan, complexity, plan
    from thalweg._result import Certificate, History, Note
    from thalweg._solvers import solvers
    from thalweg._tradeoff import Tradeoff, tradeoff
    from thalweg._warnings import ConvergenceWarning, DataWarning, DegenerateModelWarning, PromiseWarning
    from thalweg.estimators import (
        ConstrainedClassifier,
        FairClassifier,
        KernelConstrainedClassifier,
        NeymanPearsonClassifier,
        VarianceRegularizedClassifier,
    )

# Module of each name. Names are loaded on first use: scipy and scikit-learn take a second, which the command does not need.
_MODULES = {
    "Ball": "_functions",
    "Certificate": "_result",
    "ConstrainedClassifier": "estimators",
    "ConvergenceWarning": "_warnings",
    "DataWarning": "_warnings",
    "PromiseWarning": "_warnings",
    "DegenerateModelWarning": "_warnings",
    "FairClassifier": "estimators",
    "History": "_result",
    "KernelConstrainedClassifier": "estimators",
    "LinearModel": "_model",
    "MinimizeResult": "_minimize",
    "ModelCertificate": "_certify",
    "NeymanPearsonClassifier": "estimators",
    "Note": "_result",
    "Plan": "_plan",
    "Simplex": "_functions",
    "Tradeoff": "_tradeoff",
    "VarianceRegularizedClassifier": "estimators",
    "Verdict": "_certify",
    "bilevel": "",
    "blackbox": "",
    "callbacks": "",
    "certify": "_certify",
    "check": "_certify",
    "complexity": "_plan",
    "datasets": "",
    "lab": "",
    "learn": "",
    "load": "_model",
    "minimize": "_minimize",
    "plan": "_plan",
    "solvers": "_solvers",
    "tradeoff": "_tradeoff",
}

__all__ = [
    "Ball",
    "Certificate",
    "ConstrainedClassifier",
    "ConvergenceWarning",
    "DataWarning",
    "DegenerateModelWarning",
    "FairClassifier",
    "History",
    "KernelConstrainedClassifier",
    "LinearModel",
    "MinimizeResult",
    "ModelCertificate",
    "NeymanPearsonClassifier",
    "Note",
    "Plan",
    "PromiseWarning",
    "Simplex",
    "Tradeoff",
    "VarianceRegularizedClassifier",
    "Verdict",
    "__version__",
    "bilevel",
    "blackbox",
    "callbacks",
    "certify",
    "check",
    "complexity",
    "datasets",
    "lab",
    "learn",
    "load",
    "minimize",
    "plan",
    "solvers",
    "tradeoff",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'thalweg' has no attribute {name!r}")
    module = _MODULES[name]
    found = importlib.import_module(f"thalweg.{module or name}")
    value = getattr(found, name) if module else found
    globals()[name] = value
    return value


def __dir__() -> list:
    return sorted(__all__)
