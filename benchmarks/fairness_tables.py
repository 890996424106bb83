"""Compare fair classifiers on ten data sets: ``python benchmarks/fairness_tables.py``.

Results are written after every fit. With ``--cache FILE`` a later run repeats those of Thalweg only.
"""

from __future__ import annotations

import argparse
import difflib
import json
import math
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence

from comparison._page import machine
from tables import _data, _page
from tables._entries import CONSTRAINTS, OPTIONAL
from tables._study import QUICK_CONSTRAINTS, QUICK_SECONDS, QUICK_SETS, Cache, Plan, Run, describe, load_sets, run_plan, write

PAGE, RESULTS = "fairness-tables.md", "fairness-tables.json"


class UsageError(Exception):
    """Invalid command-line argument."""


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Run the tables with the given arguments, by default those of the process.

    Returns
    -------
    int
        0 if everything ran, whatever the results; 1 if a file could not be read or written; 2 for an invalid argument; 130 if the
        run was interrupted, in which case the files contain what was measured before.
    """
    parsed = _parser().parse_args(arguments)
    try:
        plan = _plan(parsed)
    except UsageError as error:
        print(error, file=sys.stderr)
        return 2
    try:
        parsed.out.mkdir(parents=True, exist_ok=True)
        run(plan, Cache(parsed.cache), parsed.out)
    except ValueError as error:
        # A data set that is missing, or a cache of something else.
        print(error, file=sys.stderr)
        return 1
    except OSError as error:
        print(f"{error.filename or parsed.out}: {error.strerror or error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted; the files contain what was measured so far", file=sys.stderr)
        return 130
    return 0


def run(plan: Plan, cache: Cache, out: Path) -> List[Run]:
    """Run a plan, print every result, and write the page and the results to a directory."""

    loaded = load_sets(plan)
    described = {key: describe(data) for key, data in loaded.items()}
    here = machine()

    def report(runs: List[Run]) -> None:
        print(_page.progress(runs[-1]), flush=True)
        save(runs)

    def save(runs: List[Run]) -> None:
        results = {
            "command": _page.command(plan),
            "machine": here,
            "plan": asdict(plan),
            "sets": described,
            "runs": [asdict(run) for run in runs],
        }
        write(out / RESULTS, json.dumps(results, indent=1) + "\n")
        write(out / PAGE, _page.markdown(plan, runs, described, here))

    runs = run_plan(plan, loaded, cache, report)
    print(f"\nsaved {out / PAGE} and {out / RESULTS}")
    return runs


def _plan(parsed: argparse.Namespace) -> Plan:
    sets = _names(parsed.sets, list(_data.SETS), "data set", "--sets") if parsed.sets else None
    constraints = _names(parsed.constraints, list(CONSTRAINTS), "constraint", "--constraints") if parsed.constraints else None
    if parsed.seeds is not None and parsed.seeds < 1:
        raise UsageError(f"--seeds must be at least 1, got {parsed.seeds}")
    if parsed.seconds is not None and not (math.isfinite(parsed.seconds) and parsed.seconds > 0.0):
        raise UsageError(f"--seconds must be positive, got {parsed.seconds:g}")
    quick = parsed.quick
    return Plan(
        sets or (QUICK_SETS if quick else list(_data.SETS)),
        constraints or (QUICK_CONSTRAINTS if quick else list(CONSTRAINTS)),
        parsed.seeds or (1 if quick else 5),
        quick,
        parsed.seconds or (QUICK_SECONDS if quick else Plan.seconds),
        parsed.ours_only,
        _names(parsed.without, list(OPTIONAL), "library", "--without") if parsed.without else (),
        _weights(parsed.regularization),
        _arguments(parsed.arguments),
    )


def _names(text: str, known: Sequence[str], kind: str, flag: str) -> List[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean '{near[0]}'?" if near else f"choose from {', '.join(known)}"
            raise UsageError(f"unknown {kind} '{name}'; {hint}")
    if not names:
        raise UsageError(f"{flag} names no {kind}; choose from {', '.join(known)}")
    return [name for name in known if name in names]


def _weights(text: Optional[str]) -> List[Optional[float]]:
    found: List[Optional[float]] = []
    for word in filter(None, (word.strip() for word in (text or "").split(","))):
        if word == "default":
            found.append(None)
            continue
        try:
            weight = float(word)
        except ValueError:
            weight = math.nan
        if not (math.isfinite(weight) and weight >= 0.0):
            raise UsageError(f"--regularization must be a list of weights of at least 0, or default, got '{word}'")
        found.append(weight)
    return found


def _arguments(text: Optional[str]) -> Dict[str, Any]:
    if text is None:
        return {}
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise UsageError(f'--arguments must be a JSON object such as {{"solver": "bundle"}}, got \'{text}\'')
    return found


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python benchmarks/fairness_tables.py", description="Compare fair classifiers on ten data sets on this machine."
    )
    parser.add_argument("--quick", action="store_true", help="two small sets and one seed, to check that everything runs")
    parser.add_argument("--sets", metavar="SET,…", help=f"run some of {', '.join(_data.SETS)}")
    parser.add_argument("--constraints", metavar="NAME,…", help=f"run some of {', '.join(CONSTRAINTS)}")
    parser.add_argument("--seeds", type=int, metavar="N", help="number of random splits (default: 5)")
    parser.add_argument("--seconds", type=float, metavar="S", help="time limit of one fit by the wall clock (default: 300)")
    parser.add_argument("--ours-only", action="store_true", help="run FairClassifier only")
    parser.add_argument("--without", metavar="NAME,…", help=f"leave out some of {', '.join(OPTIONAL)}")
    parser.add_argument(
        "--regularization",
        metavar="W,…",
        help="also fit FairClassifier with these weights of l2 on the five published sets; default is its own weight",
    )
    parser.add_argument("--arguments", metavar="JSON", help="arguments of FairClassifier as a JSON object")
    parser.add_argument(
        "--cache", type=Path, metavar="FILE", help="store results of the other libraries in this file and reuse them from there"
    )
    parser.add_argument(
        "--out", type=Path, default=Path(), metavar="DIR", help=f"directory for {PAGE} and {RESULTS} (default: here)"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
