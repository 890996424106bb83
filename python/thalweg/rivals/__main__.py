"""``python -m thalweg.rivals``: runs the jobs and writes the pages, anew after every contestant, because a full run is long."""

from __future__ import annotations

import argparse
import difflib
import math
import os
import sys
import tempfile
from pathlib import Path
from typing import Callable, List, Optional, Sequence, Type

from thalweg.rivals import JOBS
from thalweg.rivals._contest import Job, Row, Size, run_job
from thalweg.rivals._page import Done, claim, command, markdown, page, verdict, written


class Refused(Exception):
    """What the user asked for is not possible; the sentence says why."""


def main(words: Optional[Sequence[str]] = None) -> int:
    """Runs the command with these words, or with those of the process.

    Returns
    -------
    int
        0 if everything ran, whoever won; 1 if a page could not be written; 2 if the words were not understood; 130 if it was
        interrupted, with the pages of what was measured by then.
    """
    arguments = _parser().parse_args(words)
    try:
        kinds = chosen(arguments.only)
        size = Size(arguments.quick, arguments.turns, arguments.seconds)
        if size.turns < 1:
            raise Refused(f"--turns {size.turns}: wanted at least 1")
        if size.seconds is not None and not (math.isfinite(size.seconds) and size.seconds > 0.0):
            raise Refused(f"--seconds {size.seconds:g}: wanted a number above 0")
    except Refused as error:
        print(error, file=sys.stderr)
        return 2
    try:
        arguments.out.mkdir(parents=True, exist_ok=True)
        run(kinds, size, arguments.out)
    except OSError as error:
        print(f"{error.filename or arguments.out}: {error.strerror or error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted: the pages have what was measured by then", file=sys.stderr)
        return 130
    return 0


def run(kinds: Sequence[Type[Job]], size: Size, out: Path) -> List[Done]:
    """Runs jobs, prints every row, and leaves ``rivals.md`` and ``rivals.html`` in a directory."""
    words = command(size, [kind.key for kind in kinds], [kind.key for kind in JOBS])
    done: List[Done] = []
    for kind in kinds:
        job = kind(size)
        print(f"\n{job.title}\n{_line(['', 'seconds', *(c.head for c in job.columns), 'claims'])}", flush=True)
        done.append((job, []))
        run_job(job, _teller(job, done, lambda: _write(done, size, words, out)))
        for goal in job.goals(done[-1][1]):
            print(f"{goal.words}: {verdict(goal)} ({goal.because})", flush=True)
    print(f"\n{out / 'rivals.md'} and {out / 'rivals.html'} are written")
    return done


def _teller(job: Job, done: List[Done], write: Callable[[], None]) -> Callable[[List[Row]], None]:
    """Prints the last of the rows, and writes the pages with all."""

    def tell(rows: List[Row]) -> None:
        row = rows[-1]
        numbers = [written(row[column.key], column.form) for column in job.columns]
        print(_line([row.name, written(row.seconds, ".2f"), *numbers, claim(job, row)]), flush=True)
        done[-1] = (job, rows)
        write()

    return tell


def _line(cells: Sequence[str]) -> str:
    first, *middle, last = cells
    return f"{first:46.46}" + "".join(f" {cell:>12.12}" for cell in middle) + f"  {last}"


def _write(done: Sequence[Done], size: Size, words: str, out: Path) -> None:
    for name, text in (("rivals.md", markdown(done, size, words)), ("rivals.html", page(done, size, words))):
        # Renamed into place: whoever looks while a run goes on sees a whole page.
        handle, temporary = tempfile.mkstemp(dir=out, prefix=f".{name}")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(temporary, 0o644)
        os.replace(temporary, out / name)


def chosen(only: Optional[str]) -> List[Type[Job]]:
    """The jobs of a list of names, in their own order."""
    known = {kind.key: kind for kind in JOBS}
    if only is None:
        return list(JOBS)
    wanted = [name.strip() for name in only.split(",") if name.strip()]
    for name in wanted:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f" (did you mean {near[0]}?)" if near else ""
            raise Refused(f"job '{name}' is not known{hint}: wanted some of {', '.join(known)}")
    if not wanted:
        raise Refused(f"--only names no job: wanted some of {', '.join(known)}")
    return [kind for kind in JOBS if kind.key in wanted]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m thalweg.rivals", description="Thalweg beside other tools, in one run on this machine."
    )
    parser.add_argument("--quick", action="store_true", help="small data and little time, to see that everything runs")
    parser.add_argument("--only", metavar="JOB,…", help=f"some of {', '.join(kind.key for kind in JOBS)}")
    parser.add_argument("--out", type=Path, default=Path(), metavar="DIR", help="where rivals.md and rivals.html go; here")
    parser.add_argument(
        "--turns", type=int, default=Size().turns, metavar="N", help="how often what is short is timed, 3; medians count"
    )
    parser.add_argument(
        "--seconds",
        type=float,
        metavar="S",
        help="what each method of blackbox gets, 90; the other jobs end by themselves",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
