"""Setup of all tests, the check of every certificate, and the fixture that presses Ctrl-C."""

import os
import signal
import threading
import time

import pytest

# Before scipy is imported: scikit-learn then checks arrays of other libraries too and skips nothing.
os.environ.setdefault("SCIPY_ARRAY_API", "1")

# Background jobs of a shell script ignore SIGINT, and the tests that send it would wait for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


class Interrupter(threading.Thread):
    """Thread that waits until a run handles Ctrl-C, pauses `ticks` times for 5 ms, and sends SIGINT.

    It needs the interpreter's lock for every tick, and no assumption about how long a run takes to start.
    """

    def __init__(self, ticks):
        super().__init__(daemon=True)
        self.ticks, self.ticked, self.cancelled = ticks, 0, False

    def run(self):
        while not self.cancelled and not self._handled():
            time.sleep(0.001)
        while not self.cancelled and self.ticked < self.ticks:
            time.sleep(0.005)
            self.ticked += 1
        if not self.cancelled and self._handled():
            os.kill(os.getpid(), signal.SIGINT)

    @staticmethod
    def _handled():
        return signal.getsignal(signal.SIGINT) is not signal.default_int_handler


@pytest.fixture
def ctrl_c():
    """Return a function that presses Ctrl-C during the next run, after `ticks` pauses of 5 ms."""
    threads = []

    def press(ticks=50):
        threads.append(Interrupter(ticks))
        threads[-1].start()
        return threads[-1]

    yield press
    for thread in threads:
        thread.cancelled = True
        thread.join()


@pytest.fixture(autouse=True)
def checked_certificates(monkeypatch):
    """Record every certificate of :func:`thalweg.certify`, and let the independent checker confirm it."""
    from thalweg import _certify, _core
    from thalweg._result import Certificate

    make = Certificate.of.__func__

    def made(cls, *found, **given):
        certificate = make(cls, *found, **given)
        if certificate._file is not None:
            verdict = _core.check(certificate._file.encode())
            assert verdict["confirmed"], verdict["refusals"]
        return certificate

    monkeypatch.setitem(_certify.certify.__kwdefaults__, "record", True)
    monkeypatch.setattr(Certificate, "of", classmethod(made))
