"""What is the same for every job: contestants, the process that each of them runs in, and the row that is kept of it.

A contestant runs in a process of its own, one thread, and is ended when its time is over. What it returns is measured here, in
the process that asked, by functions of ours: a tool's own word about its point is kept beside it and never taken for it.
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

#: What a constraint may be violated by and still counts as kept, in every job.
TOLERANCE = 1e-6
#: Seconds beyond its own after which the process of a contestant is ended.
GRACE = 5.0
#: Seconds that starting a process and importing a tool may take, which are not on the clock.
IMPORTS = 60.0
#: A contestant is timed again only if it has taken less than this.
SHORT = 5.0
#: Bytes that the process of a contestant may ask for.
MEMORY = 8 << 30

#: Loaded once, in the process that the others are forked from: what every contestant needs.
_PRELOAD = [
    "scipy.optimize",
    "sklearn.linear_model",
    "thalweg.estimators",
    "thalweg.datasets",
    "thalweg._minimize",
    "thalweg.rivals.blackbox",
    "thalweg.rivals.fairness",
    "thalweg.rivals.pessimistic",
    "thalweg.rivals.small",
]


@dataclass(frozen=True)
class Size:
    """How much is run: everything or little, how often what is short is timed, and the seconds of contestants that use up what
    they get, if they are not those of the job."""

    quick: bool = False
    turns: int = 3
    seconds: Optional[float] = None


class Clock:
    """Of one contestant: the seconds that it may take, and those that it took.

    ``with clock:`` is around what is timed, which may happen several times; a contestant that has to stop by itself asks for
    `cap` or for `left`. `folder` is for files.
    """

    def __init__(self, cap: float, folder: Path) -> None:
        self.cap, self.folder, self.taken = cap, folder, 0.0
        self._began = 0.0

    def __enter__(self) -> Clock:
        self._began = time.perf_counter()
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], value: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.taken += time.perf_counter() - self._began


@dataclass
class Answer:
    """What a contestant returns: its point in the words of the job, whether it claims success (None if it claims nothing), and
    what it says."""

    point: Any
    claimed: Optional[bool] = None
    says: str = ""


@dataclass(frozen=True)
class Contestant:
    """One tool on one job. `play` takes the job, a clock and what is in `told`, and gives an :class:`Answer`."""

    name: str
    play: Callable[..., Answer]
    told: Dict[str, Any] = field(default_factory=dict)
    #: What has to be installed for it; empty if it comes with Thalweg.
    package: str = ""
    #: Thalweg's own.
    ours: bool = False
    #: It is told more about the problem than others are: what, in words.
    knows: str = ""
    #: A mark to measure others by: it does not try to keep the constraints, or does not try at all.
    mark: bool = False

    def absent(self) -> str:
        """How to install what it needs; empty if it is there."""
        if not self.package or importlib.util.find_spec(self.package) is not None:
            return ""
        return f"pip install {self.package}"


@dataclass
class Row:
    """What is kept of a contestant. `numbers` are measured at its point, `seconds` by its clock; only `claimed` and `says` are
    its own word."""

    name: str
    ours: bool = False
    knows: str = ""
    mark: bool = False
    #: How to install it, if it is not there; then nothing else is known.
    absent: str = ""
    seconds: Optional[float] = None
    numbers: Dict[str, Optional[float]] = field(default_factory=dict)
    claimed: Optional[bool] = None
    says: str = ""

    def __getitem__(self, key: str) -> Optional[float]:
        return self.numbers.get(key)

    @property
    def ran(self) -> bool:
        """There is a point, and so there are numbers."""
        return bool(self.numbers)

    @property
    def violation(self) -> Optional[float]:
        """By how much the worst constraint is violated at its point; 0 if none is."""
        return self.numbers.get("violation")

    @property
    def kept(self) -> bool:
        """Every constraint is kept at its point, as measured here."""
        return self.violation is not None and self.violation <= TOLERANCE

    @property
    def untrue(self) -> bool:
        """It says success, and its point violates a constraint."""
        return self.claimed is True and self.ran and not self.kept


@dataclass(frozen=True)
class Column:
    """A column of a job's table: the number's key, its heading, and how it is written."""

    key: str
    head: str
    form: str = ".4f"


@dataclass(frozen=True)
class Goal:
    """Something that was to be reached, whether it is, and the numbers that decide it. `reached` is None if they are missing."""

    words: str
    reached: Optional[bool]
    because: str


class Job:
    """A problem that several tools are put to. Jobs are sent to other processes: what they hold can be pickled."""

    #: What a user types.
    key = ""
    title = ""
    columns: Tuple[Column, ...] = ()
    #: Seconds after which a contestant is ended, and those of a quick run.
    cap: Tuple[float, float] = (60.0, 10.0)
    #: Contestants use up their seconds: a second turn is a second run, and none is wanted.
    uses_all = False
    #: When to take the other tool: general, and not from the numbers.
    advice = ""

    def __init__(self, size: Size) -> None:
        self.size = size
        self.seconds = self.cap[1 if size.quick else 0]
        if self.uses_all and size.seconds is not None:
            self.seconds = size.seconds

    def problem(self) -> str:
        """The problem in words."""
        raise NotImplementedError

    def contestants(self) -> List[Contestant]:
        raise NotImplementedError

    def followers(self, rows: Sequence[Row]) -> List[Contestant]:
        """Contestants that are known only when the others have been measured."""
        return []

    def measure(self, contestant: Contestant, point: Any) -> Dict[str, Optional[float]]:
        """The numbers of a point: among them "violation", which is at least 0."""
        raise NotImplementedError

    def rescue(self, folder: Path) -> Optional[Tuple[Any, str]]:
        """The point of a process that was ended, and what to say about it; None if it left none."""
        return None

    def settle(self, rows: Sequence[Row]) -> None:
        """Numbers that compare rows with each other, once all are there."""

    def shows(self, rows: Sequence[Row]) -> List[str]:
        """What the numbers show, in sentences made from them."""
        raise NotImplementedError

    def goals(self, rows: Sequence[Row]) -> List[Goal]:
        return []

    def shortfall(self, row: Row) -> str:
        """What a point that claims success lacks beside feasibility, in words; empty if nothing."""
        return ""


def by_name(rows: Sequence[Row], name: str) -> Optional[Row]:
    """The row of this name, if it is there and ran."""
    return next((row for row in rows if row.name == name and row.ran), None)


def version(package: str) -> str:
    """Of an installed package; empty if nobody knows."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


# Running.


def run_job(job: Job, told: Callable[[List[Row]], None]) -> List[Row]:
    """Every contestant of a job, one after the other. `told` is called with the rows so far, after each of them."""
    rows: List[Row] = []
    waiting = job.contestants()
    followed = False
    while waiting or not followed:
        if not waiting:
            waiting, followed = job.followers(rows), True
            continue
        rows.append(run(job, waiting.pop(0)))
        job.settle(rows)
        told(rows)
    return rows


def run(job: Job, contestant: Contestant) -> Row:
    """One contestant, in a process of its own, and what its point is worth."""
    row = Row(contestant.name, contestant.ours, contestant.knows, contestant.mark, absent=contestant.absent())
    if row.absent:
        return row
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        answer, row.seconds = _in_a_process(job, contestant, folder)
        if answer.point is None:
            rescued = job.rescue(folder)
            if rescued is not None:
                answer = Answer(rescued[0], None, f"{answer.says} {rescued[1]}".strip())
    row.claimed, row.says = answer.claimed, " ".join(answer.says.split()).rstrip(".")
    if answer.point is not None:
        row.numbers = job.measure(contestant, answer.point)
    return row


def _in_a_process(job: Job, contestant: Contestant, folder: Path) -> Tuple[Answer, Optional[float]]:
    """Its answer, whose point is None if there is none, and its seconds."""
    context = _context()
    here, there = context.Pipe(duplex=False)
    child = context.Process(target=_play, args=(job, contestant, folder, there), daemon=True)
    child.start()
    there.close()
    # Imports are not on the clock; the child says when they are done.
    late, began = time.monotonic() + IMPORTS, None
    try:
        while True:
            try:
                if here.poll(max(min(late - time.monotonic(), 0.5), 0.0)):
                    kind, value = here.recv()
                    if kind == "done":
                        return value
                    began = time.monotonic()
                    late = began + job.seconds + GRACE
                elif time.monotonic() > late:
                    words = f"not done in {job.seconds:g} seconds" if began else f"not imported in {IMPORTS:g} seconds"
                    return Answer(None, None, f"{words}: ended from outside"), None
            except EOFError:
                child.join(GRACE)
                complaint = (folder / "errors").read_text(errors="replace").strip().splitlines()[-1:]
                return Answer(None, None, f"not done: exit code {child.exitcode} {' '.join(complaint)}"), None
    finally:
        # Its group: a tool may have started processes of its own.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
        child.kill()
        child.join()
        child.close()
        here.close()


def _context() -> Any:
    """Processes are forked from one that has loaded what they need and has done nothing else: a start takes no time, and there
    are no threads or locks to inherit."""
    # Read by the libraries of linear algebra when they are loaded, so in the server and everything forked from it.
    os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"))
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_PRELOAD)
    return context


def _play(job: Job, contestant: Contestant, folder: Path, connection: Any) -> None:
    """In the process of a contestant."""
    with contextlib.suppress(OSError):
        os.setpgid(0, 0)
    with (folder / "errors").open("w") as errors:
        os.dup2(errors.fileno(), 2)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    warnings.simplefilter("ignore")
    if contestant.package:
        importlib.import_module(contestant.package)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    connection.send(("began", None))
    turns = 1 if job.uses_all else job.size.turns
    times: List[float] = []
    answer = Answer(None)
    while len(times) < turns and sum(times) < SHORT:
        clock = Clock(job.seconds, folder)
        try:
            answer = contestant.play(job, clock, **contestant.told)
        except MemoryError:
            answer = Answer(None, None, f"not done: more than {MEMORY >> 30} GB of memory wanted")
        except Exception as error:
            answer = Answer(None, None, f"not done: {type(error).__name__}: {error}")
        times.append(clock.taken)
        if answer.point is None:
            break
    # Who never started the clock has only named a point.
    connection.send(("done", (answer, statistics.median(times) or None)))
