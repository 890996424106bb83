"""What surrounds a run: Ctrl-C, progress, and the exceptions of a user's own functions.

Ctrl-C ends a run at its next step, and the run returns what it has. A second one raises ``KeyboardInterrupt`` at once.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
import time
from typing import Any, Callable, Iterator, Optional

from thalweg import _core


class Running:
    """A run that is going on."""

    def __init__(self, interrupt: _core.Interrupt, on_progress: Optional[Callable[[float, int, float], None]]):
        self.interrupt = interrupt
        self.on_progress = on_progress
        #: Ctrl-C was pressed.
        self.interrupted = False


@contextlib.contextmanager
def running(verbose: int, title: str) -> Iterator[Running]:
    """Catches Ctrl-C and shows progress while the body runs."""
    bar = _Bar(title) if verbose else None
    run = Running(_core.Interrupt(), bar.update if bar else None)
    restore: Optional[Callable[[], Any]] = None

    def pressed(_signum: int, _frame: Any) -> None:
        if run.interrupted:
            raise KeyboardInterrupt
        run.interrupted = True
        run.interrupt.set()

    # Only the main thread is told of signals, and somebody else's handler is not ours to replace.
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
    """Progress by tqdm where it is installed, otherwise a line now and then."""

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
            # Rounds of training may start over with a smaller share.
            self.bar.n = max(self.bar.n, share)
            self.bar.refresh()
        elif time.monotonic() - self.said > 2.0:
            self.said = time.monotonic()
            print(f"{self.title}: {share:.0%}, {iterations} iterations, {seconds:.1f} s", file=sys.stderr)

    def close(self) -> None:
        if self.bar is not None:
            self.bar.close()
