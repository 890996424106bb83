"""Experiments: ``run`` performs runs and stores them, ``read`` returns the contents of a store as pandas DataFrames.

An experiment is a TOML file with data, problems, solvers and seeds. Finished runs are stored and never repeated, whether they
were made here or by the command ``thalweg lab``. An experiment can be interrupted and continued at any time, and an extended file
runs only what is new.
"""

from __future__ import annotations

import os
import sys
from typing import Any, Dict, List, Optional, Tuple, Union

from thalweg import _core
from thalweg._result import need, notes_of
from thalweg._running import running, whole

__all__ = ["read", "run"]

#: Integer columns; missing for unfinished runs.
_WHOLE = ("iterations", "samples")
#: Float columns.
_NUMBERS = ("objective", "violation", "passes_f", "passes_g", "seconds", "certificate_lower", "certificate_upper")
#: Columns that identify a run, also in front of its curves.
_IDENTITY = ("experiment", "run", "data", "problem", "solver", "cell", "seed", "tuned")


def run(
    spec: Union[str, os.PathLike[str]],
    *,
    store: Union[str, os.PathLike[str]] = "thalweg.sqlite",
    quick: bool = False,
    jobs: int = 1,
    only: Optional[str] = None,
    fresh: bool = False,
    data_dir: Union[str, os.PathLike[str], None] = None,
    verbose: int = 1,
) -> Any:
    """Run the unfinished runs of an experiment.

    Ctrl-C stops it; the store keeps finished runs, and the same call continues from there.

    Parameters
    ----------
    spec : path
        TOML file of the experiment.
    store : path
        Store of the runs; it is created if it does not exist.
    quick : bool
        Whether to shrink the experiment by its table ``[quick]``.
    jobs : int
        Number of parallel runs.
    only : str, optional
        Pattern of the names of runs; ``*`` matches anything.
    fresh : bool
        Whether to repeat finished runs.
    data_dir : path, optional
        Directory that is searched for data sets first.
    verbose : int
        0 shows nothing, 1 progress, 2 a line for each run.

    Returns
    -------
    DataFrame
        The runs of the experiment as in :func:`read`. Its ``attrs`` have the number of jobs ``worked`` on here, the number
        ``found`` finished, and whether it was ``interrupted``.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from thalweg import lab
    >>> here = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (here / "small.toml").write_text('''
    ... seeds = 2
    ... budget = { iterations = 50 }
    ... [data]
    ... name = "german"
    ... [problem]
    ... minimize = "hinge"
    ... subject_to = ["demographic_parity <= 0.05"]
    ... domain = { ball = 10.0 }
    ... [solver]
    ... name = "ssg"
    ... eta = 0.1
    ... tol = 1e-3
    ... ''')
    >>> runs = lab.run(here / "small.toml", store=here / "store.sqlite", verbose=0)
    >>> runs[["data", "solver", "seed", "iterations"]]
         data solver  seed  iterations
    0  german    ssg     0          50
    1  german    ssg     1          50
    >>> lab.run(here / "small.toml", store=here / "store.sqlite", verbose=0).attrs["found"]
    2
    """
    need("pandas", "a DataFrame")
    file = os.fspath(spec)
    if not os.path.exists(file):
        raise FileNotFoundError(f"experiment file {file} not found")
    count = whole(jobs)
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise ValueError(f"jobs must be a positive integer, got {jobs!r}")
    if only is not None and not isinstance(only, str):
        raise TypeError(f"only must be a string, got {type(only).__name__}")
    board = _Board(verbose) if verbose else None
    with running(0, "lab") as going:
        try:
            name, worked, found, interrupted, raised = _core.lab_run(
                file,
                os.fspath(store),
                going.interrupt,
                quick=bool(quick),
                jobs=count,
                only=only,
                fresh=bool(fresh),
                data_dir=None if data_dir is None else os.fspath(data_dir),
                report=None if board is None else board.update,
            )
        finally:
            if board is not None:
                board.close()
    if raised is not None:
        raise raised
    frame = read(store, name)
    frame.attrs.update(experiment=name, worked=worked, found=found, interrupted=interrupted)
    return frame


def read(
    store: Union[str, os.PathLike[str]] = "thalweg.sqlite",
    experiment: Optional[str] = None,
    curves: Union[bool, str] = False,
) -> Any:
    """Read the runs in a store.

    Parameters
    ----------
    store : path
        Store of the runs.
    experiment : str, optional
        Name of an experiment; all by default.
    curves : bool or {'recorded', 'certified'}
        Whether to return the recorded iterates of the runs in place of the runs, or only the certified ones.

    Returns
    -------
    DataFrame
        A row for each run: its identity (``experiment``, ``run`` for its key, ``data``, ``problem``, ``solver``, ``cell``,
        ``seed``, and ``tuned`` if its cell was selected), ``method``, ``status`` ("feasible", "infeasible", "withdrawn",
        "failed", "refused", or missing if unfinished), ``ended``, ``objective``, ``violation``, ``iterations``, ``passes_f``,
        ``passes_g``, ``samples``, ``seconds``, ``certificate_lower``, ``certificate_upper``, ``settings`` of the solver (a
        dict), ``notes``, and ``finished`` (a time).
        With `curves`, a row for each iterate of each run: the run's identity and a column for each quantity and constraint.
    """
    file = os.fspath(store)
    if not os.path.exists(file):
        raise FileNotFoundError(f"store {file} not found")
    if experiment is not None and not isinstance(experiment, str):
        raise TypeError(f"experiment must be a string, got {type(experiment).__name__}")
    if curves not in (False, True, "recorded", "certified"):
        raise ValueError(f"curves must be True, False, 'recorded' or 'certified', got {curves!r}")
    if curves:
        return _long(*_core.lab_curves(file, experiment, curves == "certified"))
    return _frame(_core.lab_lines(file, experiment))


def _frame(lines: List[Dict[str, Any]]) -> Any:
    """Return a frame with a row for each run."""
    pandas = need("pandas", "a DataFrame")
    frame = pandas.DataFrame([{**line, "notes": notes_of(line["notes"])} for line in lines], columns=_COLUMNS)
    for name in _NUMBERS:
        frame[name] = pandas.to_numeric(frame[name]).astype(float)
    for name in _WHOLE:
        frame[name] = frame[name].astype("Int64")
    frame["finished"] = pandas.to_datetime(frame["finished"], utc=True)
    return frame


#: Columns of the frame of runs.
_COLUMNS = [
    *_IDENTITY,
    "method",
    "status",
    "ended",
    "objective",
    "violation",
    "iterations",
    "passes_f",
    "passes_g",
    "samples",
    "seconds",
    "certificate_lower",
    "certificate_upper",
    "settings",
    "notes",
    "finished",
]


def _long(lines: List[Dict[str, Any]], curves: List[Tuple[int, List[Tuple[str, str, Any]]]]) -> Any:
    """Return a frame with a row for each iterate of each run."""
    pandas = need("pandas", "a DataFrame")
    parts = []
    for place, named in curves:
        columns: Dict[str, Any] = {}
        for _, name, numbers in named:
            # Two constraints may have the same name.
            again = sum(known == name or known.startswith(f"{name} (") for known in columns)
            columns[name if again == 0 else f"{name} ({again + 1})"] = numbers
        part = pandas.DataFrame(columns)
        for k, key in enumerate(_IDENTITY):
            part.insert(k, key, lines[place][key])
        parts.append(part)
    if not parts:
        return pandas.DataFrame(columns=list(_IDENTITY))
    frame = pandas.concat(parts, ignore_index=True)
    # Curves are stored as floats; counts are integers.
    whole = [name for name in _WHOLE if name in frame and frame[name].notna().all()]
    return frame.astype({name: "int64" for name in whole})


class _Board:
    """Progress of an experiment: a tqdm bar if tqdm is installed, otherwise a line for each run."""

    def __init__(self, verbose: int):
        self.lines = verbose > 1
        self.bar: Any = None
        try:
            from tqdm.auto import tqdm
        except ImportError:
            self.lines = True
        else:
            self.bar = tqdm(
                total=0, desc="lab", bar_format="{desc}: {percentage:3.0f}% |{bar}| {elapsed}<{remaining}{postfix}", leave=False
            )

    def update(self, total: int, done: float, running: List[str], news: List[Tuple[str, str]]) -> None:
        if self.lines:
            for name, words in news:
                line = f"{name}: {words}"
                print(line, file=sys.stderr) if self.bar is None else self.bar.write(line, file=sys.stderr)
        if self.bar is not None:
            self.bar.total = max(total, 1)
            self.bar.n = min(done, self.bar.total)
            self.bar.set_postfix_str(f"{int(done)} of {total} jobs" + (f", {running[0]}" if running else ""), refresh=False)
            self.bar.refresh()

    def close(self) -> None:
        if self.bar is not None:
            self.bar.close()
