"""Comparison of Thalweg with other libraries on four tasks.

Every entry runs on the same machine, in a process of its own, and every returned point is measured by the same functions.
``compare.py`` runs the tasks and writes ``comparison.md`` and ``comparison.html``.

>>> import comparison
>>> [task.key for task in comparison.TASKS]
['fairness', 'small', 'blackbox', 'pessimistic']
"""

from __future__ import annotations

from typing import List, Type

from comparison._runner import Task
from comparison.blackbox import BlackBox
from comparison.fairness import Fairness
from comparison.pessimistic import Pessimistic
from comparison.small import Small

__all__ = ["TASKS"]

#: The tasks, in the order in which they run.
TASKS: List[Type[Task]] = [Fairness, Small, BlackBox, Pessimistic]
