"""Compare what Thalweg claims with the truth: ``python benchmarks/attack.py``.

The problems, and how their truth is computed, are in ``attacks``.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import List, Optional, Sequence

from attacks import FAMILIES
from attacks._judge import NONE, WRONG, Row

#: Number of wrong claims that are listed for each family.
LISTED = 3


@dataclass
class Report:
    """Rows of one family."""

    family: str
    seconds: float = 0.0
    rows: List[Row] = field(default_factory=list)

    @property
    def problems(self) -> int:
        return len({row.problem for row in self.rows})

    @property
    def claims(self) -> int:
        return sum(row.verdict != NONE for row in self.rows)

    @property
    def abstentions(self) -> int:
        return sum(row.verdict == NONE for row in self.rows)

    @property
    def wrong(self) -> List[Row]:
        """Wrong claims, the worst first."""
        return sorted((row for row in self.rows if row.verdict == WRONG), key=lambda row: -row.excess)


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Run the attack with the given arguments, by default those of the process.

    Returns
    -------
    int
        0 if every claim is right, 1 if one is wrong, 2 for an invalid argument or a file that cannot be written.
    """
    parsed = _parser().parse_args(arguments)
    reports = []
    print(line(["family", "problems", "claims", "wrong", "no claim", "seconds"]), flush=True)
    for name in parsed.family or FAMILIES:
        report = run(name, parsed.seed, parsed.quick)
        reports.append(report)
        counts = [report.problems, report.claims, len(report.wrong), report.abstentions]
        print(line([name, *map(str, counts), f"{report.seconds:.1f}"]), flush=True)
    for report in reports:
        print(wrong_claims(report, len(report.rows) if parsed.all else LISTED), end="")
    if parsed.json is not None:
        try:
            save(parsed.json, reports, parsed.seed, parsed.quick)
        except OSError as error:
            print(f"{parsed.json}: {error.strerror or error}", file=sys.stderr)
            return 2
    return int(any(report.wrong for report in reports))


def run(name: str, seed: int, quick: bool) -> Report:
    """Run one family."""
    report, start = Report(name), time.monotonic()
    report.rows.extend(FAMILIES[name](seed, quick))
    report.seconds = time.monotonic() - start
    return report


def wrong_claims(report: Report, limit: int) -> str:
    """Return the worst wrong claims of a family as text, empty if there are none."""
    wrong = report.wrong
    if not wrong:
        return ""
    text = f"\n{report.family}: {len(wrong)} wrong, the worst first\n"
    for row in wrong[:limit]:
        text += f"  {row.problem}\n    {row.kind}: {row.claimed}\n    truth: {row.truth}\n"
    return text


def save(path: Path, reports: Sequence[Report], seed: int, quick: bool) -> None:
    """Write all rows as JSON; numbers that are not finite become null."""
    finite = lambda row: {**asdict(row), "excess": row.excess if row.excess < float("inf") else None}
    families = [{"family": r.family, "seconds": r.seconds, "rows": [finite(row) for row in r.rows]} for r in reports]
    path.write_text(json.dumps({"seed": seed, "quick": quick, "families": families}, indent=1) + "\n")


def line(cells: Sequence[str]) -> str:
    """Return one line of the table."""
    return f"{cells[0]:18}" + "".join(f"{cell:>10}" for cell in cells[1:])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python benchmarks/attack.py",
        description="Compare the claims of Thalweg with truths that are computed independently.",
    )
    parser.add_argument("--family", action="append", choices=list(FAMILIES), help="run this family only; may be repeated")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="random seed of the problems (default: 0)")
    parser.add_argument("--quick", action="store_true", help="run few problems of each family")
    parser.add_argument("--all", action="store_true", help=f"list all wrong claims, not the worst {LISTED} of each family")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every claim and its verdict to a file")
    return parser


if __name__ == "__main__":
    sys.exit(main())
