"""Rendering of the results as Markdown and as a self-contained HTML page with the same text and numbers."""

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

from comparison._runner import Goal, Row, Size, Task, version

#: Packages whose versions are listed if they are installed.
PACKAGES = ("thalweg", "numpy", "scipy", "scikit-learn", "fairlearn", "oxonfair", "nlopt", "cma", "pymoo", "nevergrad")

#: Styles beyond those of the reports: headings that do not sort, and facts right below a table.
OWN_STYLE = """
.results th.plain { padding: 4px 7px; }
.scroll + .parts, .note + .parts { margin-top: 20px; }
@media print { .results th.plain { padding: 2pt; white-space: normal; } }
"""
TITLE = "Comparison with other libraries"
LEAD = (
    "All entries ran on one machine, one after the other, each in a process of its own with one thread. The numbers are measured "
    "by the same functions at the point that each entry returned; the last column shows what the entry itself reports."
)
INSTALL = "pip install ./python -r benchmarks/requirements.txt"

#: A task with the rows measured so far.
TaskRows = Tuple[Task, List[Row]]


class Table:
    """Cells of a task's table, with the rows that are Thalweg's and the claims that do not hold."""

    def __init__(self, task: Task, rows: Sequence[Row]) -> None:
        self.headings = ["", "seconds", *(column.heading for column in task.columns), "claims"]
        self.rows = [self._cells(task, row) for row in rows]
        self.ours = [row.ours for row in rows]
        self.wrong = [row.false_success or bool(row.claimed and row.ran and task.shortfall(row)) for row in rows]

    @staticmethod
    def _cells(task: Task, row: Row) -> List[str]:
        numbers = [format_number(row[column.key], column.form) for column in task.columns]
        return [row.name, format_number(row.seconds, ".2f"), *numbers, claim(task, row)]


def format_number(value: Optional[float], form: str) -> str:
    """Format a number for a cell.

    >>> [format_number(value, ".4f") for value in (None, 0.25, -1e-9)], format_number(0.0, ".0e"), format_number(-1e-9, ".2%")
    (['', '0.2500', '0.0000'], '0', '0.00%')
    """
    if value is None:
        return ""
    text = "0" if value == 0.0 else format(value, form)
    return text.lstrip("-") if not text.strip("-0.%") else text


def claim(task: Task, row: Row) -> str:
    """Return what an entry reports, with a remark where the claim does not hold."""
    if row.install_hint:
        return f"not installed: {row.install_hint}"
    if row.claimed is None:
        return row.message
    if not row.claimed:
        return f"no success: {row.message}" if row.message else "no success"
    if row.false_success:
        return f"success, but infeasible: {row.message}"
    short = task.shortfall(row)
    return f"success, {short}: {row.message}" if short else f"success: {row.message}"


def additional_information(rows: Sequence[Row]) -> str:
    """Return a sentence that lists entries with more information than the functions; empty if there are none."""
    known: Dict[str, List[str]] = {}
    for row in rows:
        if row.structure and not row.install_hint:
            known.setdefault(row.structure, []).append(row.name)
    if not known:
        return ""
    return "Given additional information: " + "; ".join(f"{', '.join(names)} ({what})" for what, names in known.items()) + "."


def verdict(goal: Goal) -> str:
    return {True: "reached", False: "not reached", None: "not measured"}[goal.reached]


def machine() -> str:
    """Describe the machine and the package versions."""
    named = [f"{name} {found}" for name, found in ((name, version(name)) for name in PACKAGES) if found]
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    plural = "" if cores == 1 else "s"
    return f"{processor()}, {cores} core{plural}, {platform.system()}. Python {platform.python_version()}, {', '.join(named)}."


def processor() -> str:
    """Return the name of the processor, or its architecture if the name is unknown."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            found = next((line.split(":", 1)[1].strip() for line in file if line.startswith("model name")), "")
    except OSError:
        found = ""
    return found or platform.processor() or platform.machine()


def remarks(size: Size) -> List[str]:
    if size.quick:
        return ["A quick run on small data with short time limits. It shows that everything works; its numbers rank nothing."]
    return []


def command(size: Size, tasks: Sequence[str], known: Sequence[str]) -> str:
    """Return the command line that produces the page."""
    line = ["python benchmarks/compare.py"]
    line += ["--quick"] if size.quick else []
    line += [f"--only {','.join(tasks)}"] if list(tasks) != list(known) else []
    line += [f"--repeats {size.repeats}"] if size.repeats != Size().repeats else []
    line += [f"--seconds {size.seconds:g}"] if size.seconds is not None else []
    return " ".join(line)


def markdown(results: Sequence[TaskRows], size: Size, line: str) -> str:
    """Return the page in Markdown."""
    out = [f"# {TITLE}", f"```sh\n{INSTALL}\n{line}\n```"]
    out += map(_wrapped, [LEAD, *remarks(size), machine()])
    goals = [goal for task, rows in results for goal in task.goals(rows)]
    if goals:
        lines = ["| goal | | measured |", "|---|---|---|"]
        lines += [f"| {_cell(goal.statement)} | {verdict(goal)} | {_cell(goal.evidence)} |" for goal in goals]
        out.append("\n".join(lines))
    for task, rows in results:
        table = Table(task, rows)
        lines = [f"| {' | '.join(table.headings)} |", f"|---|{'--:|' * (len(table.headings) - 2)}---|"]
        for cells, ours in zip(table.rows, table.ours):
            shown = [_cell(cell) for cell in cells]
            lines.append("| " + " | ".join([f"**{shown[0]}**" if ours else shown[0], *shown[1:]]) + " |")
        findings = task.findings(rows)
        below = [*filter(None, [additional_information(rows)]), f"**Findings.** {findings[0]}", *findings[1:]]
        below.append(f"**When to use another library.** {task.advice}")
        out += [f"## {task.title}", _wrapped(task.problem()), "\n".join(lines), *map(_wrapped, below)]
    return "\n\n".join(out) + "\n"


def _wrapped(text: str) -> str:
    """Wrap a paragraph. Code between backticks is not broken: a line that begins with a sign would become a list."""
    protected = re.sub(r"`[^`]+`", lambda found: found[0].replace(" ", "\0"), text)
    return textwrap.fill(protected, 140, break_long_words=False, break_on_hyphens=False).replace("\0", " ")


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def page(results: Sequence[TaskRows], size: Size, line: str) -> str:
    """Return the page as HTML in the style of the reports, without scripts or external resources."""
    goals = [goal for task, rows in results for goal in task.goals(rows)]
    body = [f"<header><h1>{TITLE}</h1><p class=lead>{_inline(LEAD)}</p>"]
    if remarks(size):
        body.append("<div class=alerts><ul>" + "".join(f"<li>{_inline(text)}</li>" for text in remarks(size)) + "</ul></div>")
    body.append("</header>")
    if goals:
        body.append(
            "<section><div class=head><h2>Goals</h2></div><div class=verdicts>" + "".join(map(_goal, goals)) + "</div></section>"
        )
    for task, rows in results:
        body.append(
            f"<section id={task.key}><div class=head><h2>{html.escape(task.title)}</h2></div><p>{_inline(task.problem())}</p>"
        )
        body.append(_table(Table(task, rows)))
        body += [f"<p class=note>{_inline(text)}</p>" for text in filter(None, [additional_information(rows)])]
        findings = task.findings(rows)
        body.append(
            "<div class=parts><div><h3>Findings</h3>" + "".join(f"<p>{_inline(text)}</p>" for text in findings) + "</div>"
        )
        body.append(f"<div><h3>When to use another library</h3><p>{_inline(task.advice)}</p></div></div></section>")
    style = _core.page_style() + OWN_STYLE
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    foot = f"<footer><p>{html.escape(machine())}</p><p class=mono>{html.escape(line)}</p></footer>"
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
        f"<div class=verdict><h3>{_inline(goal.statement)}</h3><p class={kind}>{verdict(goal)}</p>"
        f"<p class=note>{_inline(goal.evidence)}</p></div>"
    )


def _table(table: Table) -> str:
    last = len(table.headings) - 1
    kind = lambda k: ' class="plain text"' if k in (0, last) else " class=plain"
    out = ["<div class=scroll><table class=results><thead><tr>"]
    out += [f"<th{kind(k)}>{html.escape(head)}</th>" for k, head in enumerate(table.headings)]
    out.append("</tr></thead><tbody>")
    for cells, ours, wrong in zip(table.rows, table.ours, table.wrong):
        out.append("<tr>")
        for k, cell in enumerate(cells):
            shown = _inline(cell)
            if k == 0:
                out.append(f'<td class="text name">{f"<strong>{shown}</strong>" if ours else shown}</td>')
            elif k == last:
                out.append(f'<td class="text wrap{" bad" if wrong else ""}">{shown}</td>')
            else:
                out.append(f"<td>{shown}</td>")
        out.append("</tr>")
    out.append("</tbody></table></div>")
    return "".join(out)


def _inline(text: str) -> str:
    """Convert the two kinds of Markdown emphasis used here to HTML.

    >>> _inline("`a < b` is **bold**")
    '<code>a &lt; b</code> is <strong>bold</strong>'
    """
    safe = html.escape(text, quote=False)
    safe = re.sub(r"`([^`]+)`", r"<code>\1</code>", safe)
    return re.sub(r"\*\*([^*]+)\*\*", r"<strong>\1</strong>", safe)
