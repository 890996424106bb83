"""Thalweg beside other tools: four jobs, everybody on the same machine in one run, every answer measured by the same function.

``python -m thalweg.rivals`` runs them and writes ``rivals.md`` and ``rivals.html``. Tools that are not installed are named with
how to get them; ``pip install thalweg[rivals]`` brings those that matter.

>>> from thalweg import rivals
>>> [job.key for job in rivals.JOBS]
['fairness', 'small', 'blackbox', 'pessimistic']
"""

from __future__ import annotations

from typing import List, Type

from thalweg.rivals._contest import Job
from thalweg.rivals.blackbox import BlackBox
from thalweg.rivals.fairness import Fairness
from thalweg.rivals.pessimistic import Pessimistic
from thalweg.rivals.small import Small

__all__ = ["JOBS"]

#: The jobs, in the order in which they are run.
JOBS: List[Type[Job]] = [Fairness, Small, BlackBox, Pessimistic]
