"""Compare Thalweg with other libraries: ``python benchmarks/compare.py``.

The pages are rewritten after every entry, because a full run takes about an hour.
"""

from __future__ import annotations

import argparse
import difflib
import math
import os
import sys
import tempfile
from pathlib import Path
from typing import Callable, List, Optional, Sequence, Type

from comparison import TASKS
from comparison._page import TaskRows, claim, command, format_number, markdown, page, verdict
from comparison._runner import Row, Size, Task, run_task


class UsageError(Exception):
    """Invalid command-line argument."""


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Run the comparison with the given arguments, by default those of the process.

    Returns
    -------
    int
        0 if everything ran, whatever the results; 1 if a page could not be written; 2 for an invalid argument; 130 if the run
        was interrupted, in which case the pages contain what was measured before.
    """
    parsed = _parser().parse_args(arguments)
    try:
        kinds = select_tasks(parsed.only)
        size = Size(parsed.quick, parsed.repeats, parsed.seconds)
        if size.repeats < 1:
            raise UsageError(f"--repeats must be at least 1, got {size.repeats}")
        if size.seconds is not None and not (math.isfinite(size.seconds) and size.seconds > 0.0):
            raise UsageError(f"--seconds must be positive, got {size.seconds:g}")
    except UsageError as error:
        print(error, file=sys.stderr)
        return 2
    try:
        parsed.out.mkdir(parents=True, exist_ok=True)
        run(kinds, size, parsed.out)
    except OSError as error:
        print(f"{error.filename or parsed.out}: {error.strerror or error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted; the pages contain what was measured so far", file=sys.stderr)
        return 130
    return 0


def run(kinds: Sequence[Type[Task]], size: Size, out: Path) -> List[TaskRows]:
    """Run tasks, prints every row, and writes ``comparison.md`` and ``comparison.html`` to a directory."""
    line = command(size, [kind.key for kind in kinds], [kind.key for kind in TASKS])
    results: List[TaskRows] = []
    for kind in kinds:
        task = kind(size)
        print(f"\n{task.title}\n{_line(['', 'seconds', *(c.heading for c in task.columns), 'claims'])}", flush=True)
        results.append((task, []))
        run_task(task, _reporter(task, results, lambda: _write(results, size, line, out)))
        for goal in task.goals(results[-1][1]):
            print(f"{goal.statement}: {verdict(goal)} ({goal.evidence})", flush=True)
    print(f"\nsaved {out / 'comparison.md'} and {out / 'comparison.html'}")
    return results


def _reporter(task: Task, results: List[TaskRows], write: Callable[[], None]) -> Callable[[List[Row]], None]:
    """Return a function that prints the newest row and rewrites the pages."""

    def report(rows: List[Row]) -> None:
        row = rows[-1]
        numbers = [format_number(row[column.key], column.form) for column in task.columns]
        print(_line([row.name, format_number(row.seconds, ".2f"), *numbers, claim(task, row)]), flush=True)
        results[-1] = (task, rows)
        write()

    return report


def _line(cells: Sequence[str]) -> str:
    first, *middle, last = cells
    return f"{first:46.46}" + "".join(f" {cell:>12.12}" for cell in middle) + f"  {last}"


def _write(results: Sequence[TaskRows], size: Size, line: str, out: Path) -> None:
    for name, text in (("comparison.md", markdown(results, size, line)), ("comparison.html", page(results, size, line))):
        # Renamed into place, so that a reader never sees half a page while the run goes on.
        handle, temporary = tempfile.mkstemp(dir=out, prefix=f".{name}")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(temporary, 0o644)
        os.replace(temporary, out / name)


def select_tasks(only: Optional[str]) -> List[Type[Task]]:
    """Return the tasks of a comma-separated list of names, in the order of ``TASKS``."""
    known = {kind.key: kind for kind in TASKS}
    if only is None:
        return list(TASKS)
    names = [name.strip() for name in only.split(",") if name.strip()]
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean '{near[0]}'?" if near else f"choose from {', '.join(known)}"
            raise UsageError(f"unknown task '{name}'; {hint}")
    if not names:
        raise UsageError(f"--only names no task; choose from {', '.join(known)}")
    return [kind for kind in TASKS if kind.key in names]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python benchmarks/compare.py", description="Compare Thalweg with other libraries on this machine."
    )
    parser.add_argument(
        "--quick", action="store_true", help="use small data and short time limits, to check that everything runs"
    )
    parser.add_argument("--only", metavar="TASK,…", help=f"run some of {', '.join(kind.key for kind in TASKS)}")
    parser.add_argument(
        "--out", type=Path, default=Path(), metavar="DIR", help="directory for comparison.md and comparison.html (default: here)"
    )
    parser.add_argument(
        "--repeats",
        type=int,
        default=Size().repeats,
        metavar="N",
        help="timings of entries that take less than 5 seconds; the median is reported (default: 3)",
    )
    parser.add_argument(
        "--seconds",
        type=float,
        metavar="S",
        help="time limit of each entry of blackbox (default: 90); the entries of other tasks stop by themselves",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
