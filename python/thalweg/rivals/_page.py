"""What was measured as a page, in Markdown and as one HTML file that needs nothing else. Both have the same words and numbers."""

from __future__ import annotations

import base64
import hashlib
import html
import os
import platform
import re
import textwrap
from typing import Dict, List, Optional, Sequence, Tuple

from thalweg import _core
from thalweg.rivals._contest import Goal, Job, Row, Size, version

#: Packages whose versions are named, if they are installed.
PACKAGES = ("thalweg", "numpy", "scipy", "scikit-learn", "fairlearn", "oxonfair", "nlopt", "cma", "pymoo", "nevergrad")

#: What the tables here have and those of reports do not: heads that sort nothing, and lists of facts right below.
OWN_STYLE = """
.results th.plain { padding: 4px 7px; }
.scroll + .parts, .note + .parts { margin-top: 20px; }
@media print { .results th.plain { padding: 2pt; white-space: normal; } }
"""
TITLE = "Thalweg beside other tools"
LEAD = (
    "One run, on one machine, one contestant after the other, each in a process of its own and with one thread. Numbers are "
    "measured by one function for all at the point that a tool returned; what it claims stands beside them."
)

#: A job with the rows that it has so far.
Done = Tuple[Job, List[Row]]


class Table:
    """Heads, rows of cells, and what is to be marked: the names of rows of ours, and cells that are untrue."""

    def __init__(self, job: Job, rows: Sequence[Row]) -> None:
        self.heads = ["", "seconds", *(column.head for column in job.columns), "claims"]
        self.rows = [self._cells(job, row) for row in rows]
        self.ours = [row.ours for row in rows]
        self.bad = [bool(row.untrue) for row in rows]
        self.lacking = [bool(row.claimed and row.ran and job.shortfall(row)) for row in rows]

    @staticmethod
    def _cells(job: Job, row: Row) -> List[str]:
        numbers = [written(row[column.key], column.form) for column in job.columns]
        return [row.name, written(row.seconds, ".2f"), *numbers, claim(job, row)]


def written(value: Optional[float], form: str) -> str:
    """A number in a cell.

    >>> written(None, ".4f"), written(0.0, ".0e"), written(0.25, ".4f"), written(-1e-9, ".4f"), written(-1e-9, ".2%")
    ('', '0', '0.2500', '0.0000', '0.00%')
    """
    if value is None:
        return ""
    text = "0" if value == 0.0 else format(value, form)
    return text.lstrip("-") if not text.strip("-0.%") else text


def claim(job: Job, row: Row) -> str:
    """What a contestant says of itself, with a remark where it is not so."""
    if row.absent:
        return f"not installed: {row.absent}"
    if row.claimed is None:
        return row.says
    if not row.claimed:
        return f"no success: {row.says}" if row.says else "no success"
    if row.untrue:
        return f"success, which is untrue: {row.says}"
    short = job.shortfall(row)
    return f"success, {short}: {row.says}" if short else f"success: {row.says}"


def told_more(rows: Sequence[Row]) -> str:
    """Who knows more than the functions say, in a sentence; empty if nobody does."""
    known: Dict[str, List[str]] = {}
    for row in rows:
        if row.knows and not row.absent:
            known.setdefault(row.knows, []).append(row.name)
    if not known:
        return ""
    return "Told more than others: " + "; ".join(f"{', '.join(names)} ({what})" for what, names in known.items()) + "."


def verdict(goal: Goal) -> str:
    return {True: "reached", False: "not reached", None: "not measured"}[goal.reached]


def machine() -> str:
    """The machine and the versions, in a sentence each."""
    named = [f"{name} {found}" for name, found in ((name, version(name)) for name in PACKAGES) if found]
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    plural = "" if cores == 1 else "s"
    return f"{processor()}, {cores} core{plural}, {platform.system()}. Python {platform.python_version()}, {', '.join(named)}."


def processor() -> str:
    """The name of the processor, or of its kind where nobody says more."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            found = next((line.split(":", 1)[1].strip() for line in file if line.startswith("model name")), "")
    except OSError:
        found = ""
    return found or platform.processor() or platform.machine()


def remarks(size: Size) -> List[str]:
    words = []
    if size.quick:
        words.append("A quick run, on small data and with little time: it shows that everything works, and ranks nobody.")
    return words


def command(size: Size, jobs: Sequence[str], known: Sequence[str]) -> str:
    """The words that give this page."""
    words = ["python -m thalweg.rivals"]
    words += ["--quick"] if size.quick else []
    words += [f"--only {','.join(jobs)}"] if list(jobs) != list(known) else []
    words += [f"--turns {size.turns}"] if size.turns != Size().turns else []
    words += [f"--seconds {size.seconds:g}"] if size.seconds is not None else []
    return " ".join(words)


def markdown(done: Sequence[Done], size: Size, words: str) -> str:
    """The page in Markdown."""
    out = [f"# {TITLE}", "```sh\npip install './python[rivals]'\n" + words + "\n```"]
    out += map(_wrapped, [LEAD, *remarks(size), machine()])
    goals = [goal for job, rows in done for goal in job.goals(rows)]
    if goals:
        lines = ["| goal | | measured |", "|---|---|---|"]
        lines += [f"| {_cell(goal.words)} | {verdict(goal)} | {_cell(goal.because)} |" for goal in goals]
        out.append("\n".join(lines))
    for job, rows in done:
        table = Table(job, rows)
        lines = [f"| {' | '.join(table.heads)} |", f"|---|{'--:|' * (len(table.heads) - 2)}---|"]
        for cells, ours in zip(table.rows, table.ours):
            shown = [_cell(cell) for cell in cells]
            lines.append("| " + " | ".join([f"**{shown[0]}**" if ours else shown[0], *shown[1:]]) + " |")
        shows = job.shows(rows)
        below = [*filter(None, [told_more(rows)]), f"**What it shows.** {shows[0]}", *shows[1:]]
        below.append(f"**When to take the other tool.** {job.advice}")
        out += [f"## {job.title}", _wrapped(job.problem()), "\n".join(lines), *map(_wrapped, below)]
    return "\n\n".join(out) + "\n"


def _wrapped(text: str) -> str:
    """A paragraph in lines. What is between backticks stays in one: a line that begins with a sign would be a list."""
    kept = re.sub(r"`[^`]+`", lambda found: found[0].replace(" ", "\0"), text)
    return textwrap.fill(kept, 140, break_long_words=False, break_on_hyphens=False).replace("\0", " ")


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def page(done: Sequence[Done], size: Size, words: str) -> str:
    """The page as HTML, in the style of the reports, with nothing to load and no script."""
    goals = [goal for job, rows in done for goal in job.goals(rows)]
    body = [f"<header><h1>{TITLE}</h1><p class=lead>{_inline(LEAD)}</p>"]
    if remarks(size):
        body.append("<div class=alerts><ul>" + "".join(f"<li>{_inline(text)}</li>" for text in remarks(size)) + "</ul></div>")
    body.append("</header>")
    if goals:
        body.append(
            "<section><div class=head><h2>Goals</h2></div><div class=verdicts>" + "".join(map(_goal, goals)) + "</div></section>"
        )
    for job, rows in done:
        body.append(
            f"<section id={job.key}><div class=head><h2>{html.escape(job.title)}</h2></div><p>{_inline(job.problem())}</p>"
        )
        body.append(_table(Table(job, rows)))
        body += [f"<p class=note>{_inline(text)}</p>" for text in filter(None, [told_more(rows)])]
        shows = job.shows(rows)
        body.append(
            "<div class=parts><div><h3>What it shows</h3>" + "".join(f"<p>{_inline(text)}</p>" for text in shows) + "</div>"
        )
        body.append(f"<div><h3>When to take the other tool</h3><p>{_inline(job.advice)}</p></div></div></section>")
    style = _core.page_style() + OWN_STYLE
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    foot = f"<footer><p>{html.escape(machine())}</p><p class=mono>{html.escape(words)}</p></footer>"
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n<meta name="color-scheme" content="light dark">\n'
        f"<title>{TITLE}</title>\n<style>{style}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(body)
        + f"\n</main>\n{foot}\n</body>\n</html>\n"
    )


def _goal(goal: Goal) -> str:
    kind = {True: "good", False: "bad", None: "note"}[goal.reached]
    return (
        f"<div class=verdict><h3>{_inline(goal.words)}</h3><p class={kind}>{verdict(goal)}</p>"
        f"<p class=note>{_inline(goal.because)}</p></div>"
    )


def _table(table: Table) -> str:
    last = len(table.heads) - 1
    kind = lambda k: ' class="plain text"' if k in (0, last) else " class=plain"
    out = ["<div class=scroll><table class=results><thead><tr>"]
    out += [f"<th{kind(k)}>{html.escape(head)}</th>" for k, head in enumerate(table.heads)]
    out.append("</tr></thead><tbody>")
    for cells, ours, bad, lacking in zip(table.rows, table.ours, table.bad, table.lacking):
        out.append("<tr>")
        for k, cell in enumerate(cells):
            shown = _inline(cell)
            if k == 0:
                out.append(f'<td class="text name">{f"<strong>{shown}</strong>" if ours else shown}</td>')
            elif k == last:
                out.append(f'<td class="text wrap{" bad" if bad or lacking else ""}">{shown}</td>')
            else:
                out.append(f"<td>{shown}</td>")
        out.append("</tr>")
    out.append("</tbody></table></div>")
    return "".join(out)


def _inline(text: str) -> str:
    """Text with the two marks of Markdown that we use.

    >>> _inline("`a < b` is **so**")
    '<code>a &lt; b</code> is <strong>so</strong>'
    """
    safe = html.escape(text, quote=False)
    safe = re.sub(r"`([^`]+)`", r"<code>\1</code>", safe)
    return re.sub(r"\*\*([^*]+)\*\*", r"<strong>\1</strong>", safe)
