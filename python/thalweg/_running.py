"""Options of a run that do not depend on the solver, Ctrl-C, progress, and the status of a run.

Ctrl-C stops a run at its next step, and the run returns its result so far. A second Ctrl-C raises ``KeyboardInterrupt`` at once.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
import time
from typing import Any, Callable, Iterator, Optional, Sequence, Tuple

import numpy as np

from thalweg import _core
from thalweg._result import settings

#: Default limit of iterations.
MAXITER = 10_000
#: Status of a failed run.
FAILED = 5
#: Status of a run that a limit ended before the stopping criterion of its solver was met.
UNFINISHED = 6
#: Status of a run whose finding that the constraints are infeasible was withdrawn.
WITHDRAWN = 7


def name_of(method: Any, known: Sequence[str]) -> str:
    """Return the name of a method in the spelling of specs."""
    if not isinstance(method, str):
        raise TypeError(f"method must be one of {', '.join(known)}, got {type(method).__name__}")
    return method.lower().replace("_", "-")


def run_options(
    given: dict, seed: Optional[int], feasibility: float = 1e-6, record: Optional[dict] = None, maxiter: Optional[int] = MAXITER
) -> dict:
    """Remove the options of the run from `given`, leaving the settings of the method, and return them for the core.

    `record` and `maxiter` are defaults.
    """
    budget = settings(given.pop("budget", None), "options['budget']")
    if "maxiter" in given:
        budget["iterations"] = given.pop("maxiter")
    if not budget and maxiter is not None:
        budget["iterations"] = maxiter
    return {
        "budget": {key: whole(value) if key in ("iterations", "samples") else value for key, value in budget.items()},
        "feasibility": float(feasibility),
        "seed": seed_of(seed),
        "stop": settings(given.pop("stop", None), "options['stop']"),
        "record": settings(given.pop("record", record), "options['record']"),
    }


def whole(value: Any) -> Any:
    """Convert floats that are whole numbers, such as 1e4, to int."""
    return int(value) if isinstance(value, (float, np.integer, np.floating)) and float(value).is_integer() else value


def seed_of(seed: Any) -> int:
    """Validate a random seed."""
    if seed is None:
        return 0
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or not 0 <= int(seed) < 2**63:
        raise ValueError(f"seed must be an integer from 0 to 2^63 - 1, got {seed!r}")
    return int(seed)


class StopReason:
    """Why a run ended, and whether it met the stopping criterion of its solver.

    `ended` is the reason of the core, `told` its sentence and the completion of the run. `stopped` tells whether the callback
    stopped the run, and `raised` is an exception that did.
    """

    def __init__(self, ended: Any, told: Tuple[str, str], stopped: bool = False, raised: Optional[BaseException] = None):
        self.kind: str = ended if isinstance(ended, str) else next(iter(ended))
        self.reason, completion = told
        #: Whether a limit ended the run before the stopping criterion of the solver was met.
        self.unfinished = completion == "unfinished"
        #: Whether the run failed.
        self.failed = self.kind == "failed" or raised is not None
        if self.failed:
            self.status = FAILED
        elif self.kind == "interrupted":
            self.status = 3 if stopped else 4
        elif self.kind == "withdrawn":
            self.status = WITHDRAWN
        elif self.unfinished:
            self.status = UNFINISHED
        else:
            self.status = {"finished": 0, "target": 0, "budget": 1, "infeasible": 2}[self.kind]
        if raised is not None and self.kind != "failed":
            self.reason = str(raised)
        elif self.status == 3:
            self.reason = "stopped by the callback"

    def success(self, feasible: bool) -> bool:
        """Return whether the point is feasible and the run neither failed nor ended before its stopping criterion was met."""
        return bool(feasible) and not self.failed and not self.unfinished

    def headline(self, feasible: bool, claim: str = "", within: str = "") -> str:
        """Return the message of a result: whether its point is feasible, whether the run finished, and why it ended.

        `claim` adds what feasibility means, and `within` the tolerance.
        """
        if self.kind == "failed":
            return self.reason
        if self.kind == "infeasible" and not feasible:
            return f"infeasible{within}; {self.reason}"
        return self.after(f"{'feasible' if feasible else 'not feasible'}{within}", claim)

    def after(self, state: str, claim: str = "") -> str:
        """Return why the run ended, after a description of its point."""
        return f"{state}{', not finished: ' if self.unfinished else '; '}" + "; ".join(s for s in (claim, self.reason) if s)


class RunState:
    """State of a run in progress."""

    def __init__(self, interrupt: _core.Interrupt, on_progress: Optional[Callable[[float, int, float], None]]):
        self.interrupt = interrupt
        self.on_progress = on_progress
        #: Whether Ctrl-C was pressed.
        self.interrupted = False


@contextlib.contextmanager
def running(verbose: int, title: str) -> Iterator[RunState]:
    """Handle Ctrl-C and show progress while the body runs."""
    bar = _Bar(title) if verbose else None
    run = RunState(_core.Interrupt(), bar.update if bar else None)
    restore: Optional[Callable[[], Any]] = None

    def pressed(_signum: int, _frame: Any) -> None:
        if run.interrupted:
            raise KeyboardInterrupt
        run.interrupted = True
        run.interrupt.set()

    # Only the main thread receives signals, and handlers of other code are not replaced.
    if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, pressed)
        restore = lambda: signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield run
    finally:
        if restore is not None:
            restore()
        if bar is not None:
            bar.close()


class _Bar:
    """Progress bar by tqdm if it is installed, otherwise a line every two seconds."""

    def __init__(self, title: str):
        self.title = title
        self.said = time.monotonic()
        try:
            from tqdm.auto import tqdm
        except ImportError:
            self.bar = None
        else:
            shown = "{desc}: {percentage:3.0f}% |{bar}| {elapsed}<{remaining}{postfix}"
            self.bar = tqdm(total=1.0, desc=title, bar_format=shown, leave=False)

    def update(self, share: float, iterations: int, seconds: float) -> None:
        if self.bar is not None:
            self.bar.set_postfix_str(f"{iterations} iterations", refresh=False)
            # A new round of training may start with a smaller share.
            self.bar.n = max(self.bar.n, share)
            self.bar.refresh()
        elif time.monotonic() - self.said > 2.0:
            self.said = time.monotonic()
            print(f"{self.title}: {share:.0%}, {iterations} iterations, {seconds:.1f} s", file=sys.stderr)

    def close(self) -> None:
        if self.bar is not None:
            self.bar.close()
