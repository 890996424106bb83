"""Tasks, their entries, the process in which an entry runs, and the row that records its result.

Each entry runs in a process of its own, with one thread, and is killed when its time is over. The returned point is measured in
the parent process by functions of the task; an entry's own claim of success is recorded beside the measurement.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import importlib.util
import multiprocessing
import os
import resource
import signal
import statistics
import tempfile
import time
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, Type

#: Largest violation at which a constraint counts as satisfied, in every task.
TOLERANCE = 1e-6
#: Seconds beyond its time limit after which an entry's process is killed.
GRACE = 5.0
#: Seconds allowed for starting the process and importing the library; they are not timed.
IMPORTS = 60.0
#: An entry is timed again only if it has taken less than this many seconds.
SHORT = 5.0
#: Memory limit of an entry's process, in bytes.
MEMORY = 8 << 30

#: Modules that every entry needs, loaded once in the process from which the others are forked.
_PRELOAD = ["scipy.optimize", "sklearn.linear_model", "thalweg.estimators", "thalweg.datasets", "thalweg._minimize"]


@dataclass(frozen=True)
class Size:
    """Amount of work: full or quick, number of timings of short entries, and the time limit of entries that use all of it."""

    quick: bool = False
    repeats: int = 3
    seconds: Optional[float] = None


class Clock:
    """Stopwatch and time limit of one entry.

    ``with clock:`` surrounds the timed part and may be entered several times. An entry that must stop by itself reads `limit`.
    `folder` is a temporary directory for files, and `timer` returns seconds from some moment on.
    """

    def __init__(self, limit: float, folder: Path, timer: Callable[[], float] = time.perf_counter) -> None:
        self.limit, self.folder, self.timer, self.elapsed = limit, folder, timer, 0.0
        self._began = 0.0

    def __enter__(self) -> Clock:
        self._began = self.timer()
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], value: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.elapsed += self.timer() - self._began


@dataclass
class Answer:
    """Result of an entry: its point in the format of the task, whether it claims success (None if it claims nothing), and its
    message."""

    point: Any
    claimed: Optional[bool] = None
    message: str = ""


@dataclass(frozen=True)
class Entry:
    """One library on one task. `solve` takes the task, a clock and `arguments`, and returns an :class:`Answer`."""

    name: str
    solve: Callable[..., Answer]
    arguments: Dict[str, Any] = field(default_factory=dict)
    #: Package that has to be installed; empty if it comes with Thalweg.
    package: str = ""
    #: The entry is one of Thalweg's.
    ours: bool = False
    #: Structure of the problem that the entry is given beyond the functions, in words.
    structure: str = ""
    #: The entry is a reference value that does not try to satisfy the constraints.
    baseline: bool = False

    def install_hint(self) -> str:
        """Return how to install the missing package; empty if it is installed."""
        if not self.package or importlib.util.find_spec(self.package) is not None:
            return ""
        return f"pip install {self.package}"


@dataclass
class Row:
    """Measured result of an entry. `numbers` are measured at its point and `seconds` by its clock; `claimed` and `message` are
    its own report."""

    name: str
    ours: bool = False
    structure: str = ""
    baseline: bool = False
    #: How to install the package if it is missing; the other fields are then empty.
    install_hint: str = ""
    seconds: Optional[float] = None
    numbers: Dict[str, Optional[float]] = field(default_factory=dict)
    claimed: Optional[bool] = None
    message: str = ""

    def __getitem__(self, key: str) -> Optional[float]:
        return self.numbers.get(key)

    @property
    def ran(self) -> bool:
        """Whether the entry returned a point."""
        return bool(self.numbers)

    @property
    def violation(self) -> Optional[float]:
        """Largest constraint violation at the point; 0 if every constraint is satisfied."""
        return self.numbers.get("violation")

    @property
    def feasible(self) -> bool:
        """Whether every constraint is satisfied at the point, up to ``TOLERANCE``."""
        return self.violation is not None and self.violation <= TOLERANCE

    @property
    def false_success(self) -> bool:
        """Whether the entry claims success at a point that violates a constraint."""
        return self.claimed is True and self.ran and not self.feasible


@dataclass(frozen=True)
class Column:
    """Column of a task's table: key of the number, heading, and format specification."""

    key: str
    heading: str
    form: str = ".4f"


@dataclass(frozen=True)
class Goal:
    """Goal of the comparison, whether it is reached (None if the numbers are missing), and the numbers that decide it."""

    statement: str
    reached: Optional[bool]
    evidence: str


class Task:
    """Problem that several libraries solve. Tasks are sent to other processes, so their attributes must be picklable."""

    #: Name on the command line.
    key = ""
    title = ""
    columns: Tuple[Column, ...] = ()
    #: Time limits of an entry in seconds: of a full run and of a quick one.
    time_limits: Tuple[float, float] = (60.0, 10.0)
    #: Entries run until their time limit, so that they are timed once.
    uses_whole_budget = False
    #: Entries are timed by their processor time, which other programs on the machine hardly change, instead of by the wall clock.
    processor_time = False
    #: When to use another library: general advice, independent of the numbers.
    advice = ""

    def __init__(self, size: Size) -> None:
        self.size = size
        self.seconds = self.time_limits[1 if size.quick else 0]
        if self.uses_whole_budget and size.seconds is not None:
            self.seconds = size.seconds

    def problem(self) -> str:
        """Return a description of the problem."""
        raise NotImplementedError

    def entries(self) -> List[Entry]:
        raise NotImplementedError

    def follow_ups(self, rows: Sequence[Row]) -> List[Entry]:
        """Return entries that depend on the results of the others."""
        return []

    def measure(self, entry: Entry, point: Any) -> Dict[str, Optional[float]]:
        """Measure a point. The result contains "violation", which is at least 0."""
        raise NotImplementedError

    def recover(self, folder: Path) -> Optional[Tuple[Any, str]]:
        """Return the last point of a killed process and a remark about it; None if it left none."""
        return None

    def compare_rows(self, rows: Sequence[Row]) -> None:
        """Fill in numbers that compare rows with each other."""

    def findings(self, rows: Sequence[Row]) -> List[str]:
        """Return paragraphs that state what the numbers show."""
        raise NotImplementedError

    def goals(self, rows: Sequence[Row]) -> List[Goal]:
        return []

    def shortfall(self, row: Row) -> str:
        """Return what a feasible point that claims success lacks; empty if nothing."""
        return ""


def by_name(rows: Sequence[Row], name: str) -> Optional[Row]:
    """Return the row of this name if it exists and has a point."""
    return next((row for row in rows if row.name == name and row.ran), None)


def version(package: str) -> str:
    """Return the version of an installed package; empty if it is unknown."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def run_task(task: Task, report: Callable[[List[Row]], None]) -> List[Row]:
    """Run the entries of a task one after the other, calling `report` with all rows so far after each."""
    rows: List[Row] = []
    waiting = task.entries()
    followed = False
    while waiting or not followed:
        if not waiting:
            waiting, followed = task.follow_ups(rows), True
            continue
        rows.append(run_entry(task, waiting.pop(0)))
        task.compare_rows(rows)
        report(rows)
    return rows


def run_entry(task: Task, entry: Entry) -> Row:
    """Run one entry in a process of its own and measures its point."""
    row = Row(entry.name, entry.ours, entry.structure, entry.baseline, install_hint=entry.install_hint())
    if row.install_hint:
        return row
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        answer, row.seconds = _run_in_process(task, entry, folder)
        if answer.point is None:
            recovered = task.recover(folder)
            if recovered is not None:
                answer = Answer(recovered[0], None, f"{answer.message} {recovered[1]}".strip())
    row.claimed, row.message = answer.claimed, " ".join(answer.message.split()).rstrip(".")
    if answer.point is not None:
        row.numbers = task.measure(entry, answer.point)
    return row


def _run_in_process(task: Task, entry: Entry, folder: Path) -> Tuple[Answer, Optional[float]]:
    """Its answer, whose point is None if there is none, and its seconds."""
    context = _context()
    here, there = context.Pipe(duplex=False)
    child = context.Process(target=_child, args=(task, entry, folder, there), daemon=True)
    child.start()
    there.close()
    # Imports are not timed; the child reports when they are done.
    late, began = time.monotonic() + IMPORTS, None
    try:
        while True:
            try:
                if here.poll(max(min(late - time.monotonic(), 0.5), 0.0)):
                    kind, value = here.recv()
                    if kind == "done":
                        return value
                    began = time.monotonic()
                    late = began + task.seconds + GRACE
                elif time.monotonic() > late:
                    state = f"not finished after {task.seconds:g} seconds" if began else f"not imported after {IMPORTS:g} seconds"
                    return Answer(None, None, f"{state}; killed"), None
            except EOFError:
                child.join(GRACE)
                stderr = (folder / "errors").read_text(errors="replace").strip().splitlines()[-1:]
                return Answer(None, None, f"failed with exit code {child.exitcode}: {' '.join(stderr)}"), None
    finally:
        # The process group, because a library may have started processes of its own.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
        child.kill()
        child.join()
        child.close()
        here.close()


def _context() -> Any:
    """Return a context whose processes are forked from a server that has loaded `_PRELOAD` and done nothing else.

    A process then starts quickly and inherits no threads or locks.
    """
    # BLAS libraries read these variables when they are loaded, here in the server and so in everything forked from it.
    os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"))
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_PRELOAD)
    return context


def _child(task: Task, entry: Entry, folder: Path, connection: Any) -> None:
    """Run an entry; the main function of its process."""
    with contextlib.suppress(OSError):
        os.setpgid(0, 0)
    with (folder / "errors").open("w") as errors:
        os.dup2(errors.fileno(), 2)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    warnings.simplefilter("ignore")
    if entry.package:
        importlib.import_module(entry.package)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    connection.send(("began", None))
    repeats = 1 if task.uses_whole_budget else task.size.repeats
    times: List[float] = []
    answer = Answer(None)
    while len(times) < repeats and sum(times) < SHORT:
        clock = Clock(task.seconds, folder, time.process_time if task.processor_time else time.perf_counter)
        try:
            answer = entry.solve(task, clock, **entry.arguments)
        except MemoryError:
            answer = Answer(None, None, f"failed: exceeded the memory limit of {MEMORY >> 30} GB")
        except Exception as error:
            answer = Answer(None, None, f"failed: {type(error).__name__}: {error}")
        times.append(clock.elapsed)
        if answer.point is None:
            break
    # An entry that never starts the clock is a fixed point and has no time.
    connection.send(("done", (answer, statistics.median(times) or None)))
