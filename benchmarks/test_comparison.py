"""The comparison with other libraries: every task in its quick form, the pages, and entries that fail in different ways."""

from __future__ import annotations

import base64
import hashlib
import os
import re
import subprocess
import sys
import time
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

import comparison
from compare import main
from comparison import _page, _runner, blackbox, fairness, pessimistic
from comparison._runner import Answer, Column, Entry, Goal, Row, Size, Task, run_entry, run_task

QUICK = ["--quick", "--repeats", "1"]


class Reader(HTMLParser):
    """Collects open tags and everything that a browser would load."""

    EMPTY = ("meta", "br", "hr", "img", "link", "input")

    def __init__(self):
        super().__init__()
        self.open, self.loads, self.tags, self.texts = [], [], [], []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.loads += [value for name, value in attributes if name in ("src", "href", "srcset", "data", "action")]
        if tag not in self.EMPTY:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open and self.open.pop() == tag, f"</{tag}> closes something else"

    def handle_data(self, data):
        self.texts.append(data)


def read(page):
    reader = Reader()
    reader.feed(page)
    assert reader.open == []
    return reader


@pytest.mark.parametrize("kind", comparison.TASKS, ids=lambda kind: kind.key)
def test_every_task_runs_and_writes_its_pages(kind, tmp_path, capsys, monkeypatch):
    # Entries stop by themselves; a loaded machine must not kill one that is slow to start.
    monkeypatch.setattr(_runner, "GRACE", 60.0)
    more = ["--seconds", "0.4"] if kind is blackbox.BlackBox else []
    assert main([*QUICK, *more, "--only", kind.key, "--out", str(tmp_path / "made")]) == 0
    text = (tmp_path / "made" / "comparison.md").read_text()
    page = (tmp_path / "made" / "comparison.html").read_text()
    assert sorted(os.listdir(tmp_path / "made")) == ["comparison.html", "comparison.md"]
    printed = capsys.readouterr().out
    task = kind(Size(quick=True))
    assert f"## {task.title}\n" in text and "**Findings.** " in text and "A quick run" in text
    assert task.advice in " ".join(text.split()) and max(map(len, filter(lambda line: line[:1] != "|", text.splitlines()))) <= 140
    table = {line.split(" | ")[0].strip("| *"): line for line in text.splitlines() if line.startswith("|")}
    reader = read(page)
    for entry in task.entries():
        line = table[entry.name]
        assert line.startswith("| **") == entry.ours
        assert entry.name in printed[:100_000] or entry.name[:46] in printed
        assert entry.name in reader.texts
        if entry.install_hint():
            assert f"not installed: pip install {entry.package}" in line
        else:
            assert "failed" not in line and "killed" not in line and re.search(r"\d\.\d", line), line
    assert reader.loads == [] and "script" not in reader.tags and "link" not in reader.tags and "url(" not in page


def test_our_own_rows_of_the_quick_runs_are_good(tmp_path):
    small = rows_of("small", "thalweg.minimize", "scipy linprog, as a linear program")
    assert small[0].claimed and small[0].feasible and small[0]["objective"] < small[1]["objective"] * (1 + 1e-6)
    fair = rows_of("fairness", "FairClassifier", "scikit-learn LogisticRegression, no constraint")
    assert fair[0].claimed and fair[0]["gap"] <= 0.02 and fair[0]["violation"] == 0.0 and fair[0].feasible
    assert fair[1]["gap"] > 0.1 and fair[1]["roc"] > 0.2 and not fair[1].feasible


def rows_of(key, *names):
    task = next(kind for kind in comparison.TASKS if kind.key == key)(Size(quick=True, repeats=1))
    return [run_entry(task, next(c for c in task.entries() if c.name == name)) for name in names]


def test_pessimistic_answers_are_judged_by_the_closed_form():
    toy = rows_of(
        "pessimistic",
        "scipy SLSQP on both levels at once",
        "nested scipy argmin, inner start 0.5",
        "nested scipy argmin, inner start 0",
    )
    # The optimistic value is -1/2; the pessimistic value at the same x is 1/2.
    assert (
        toy[0].claimed and toy[0]["reported"] == pytest.approx(-0.5, abs=0.02) and toy[0]["worst"] == pytest.approx(0.5, abs=0.02)
    )
    assert not pessimistic.correct(toy[0]) and toy[1]["x"] != pytest.approx(toy[2]["x"], abs=0.05)
    (ours,) = rows_of("pessimistic", pessimistic.OURS)
    assert ours.claimed and pessimistic.correct(ours) and ours["worst"] < 0.005
    task = pessimistic.Pessimistic(Size(quick=True))
    assert "error 1.0" in _page.claim(task, toy[0])
    for x in np.linspace(-1.0, 1.0, 41):
        y = np.linspace(-1.0, 1.0, 4001)
        y = y[(np.abs(y) <= abs(x)) & (x * x + y * y <= 1.0)]
        assert pessimistic.worst(x) == pytest.approx(np.max(-x * y), abs=1e-3)


# Entries that misbehave.


class Root(Task):
    """The smallest x with x >= 1."""

    key = "root"
    title = "A task with one variable"
    columns = (Column("objective", "objective"), Column("violation", "violation", ".0e"))
    time_limits = (0.2, 0.2)
    advice = "Never."

    def problem(self):
        return "The smallest `x` with x >= 1 & x < 10."

    def entries(self):
        values = {"honest": 1.0, "far": 3.0, "liar": 0.5, "modest": 0.5, "silent": 0.25}
        return [Entry(name, say, {"name": name, "x": x}) for name, x in values.items()]

    def follow_ups(self, rows):
        return [Entry("follower", say, {"name": "follower", "x": max(row["objective"] for row in rows)})]

    def measure(self, entry, point):
        return {"objective": point, "violation": max(1.0 - point, 0.0)}

    def shortfall(self, row):
        return "far above" if row["objective"] > 2.0 else ""

    def findings(self, rows):
        return [f"{sum(row.feasible for row in rows)} are feasible."]

    def goals(self, rows):
        return [Goal("One that is <feasible>", any(row.feasible for row in rows), "measured")]


def say(task, clock, name, x):
    with clock:
        time.sleep(0.01)
    return Answer(x, {"modest": False, "silent": None}.get(name, True), f"I am {name}.\n")


def hang(task, clock):
    # A solver with a subprocess; both would go on.
    subprocess.run([sys.executable, "-c", "import time; time.sleep(600)"])
    return Answer(1.0, True)


def crash(task, clock):
    os.write(2, b"something is broken\n")
    os._exit(3)


def fail(task, clock):
    raise ValueError("expected\nanother number")


def test_a_false_claim_of_success_is_marked():
    task = Root(Size())
    reported = []
    began = time.perf_counter()
    rows = run_task(task, lambda rows: reported.append(len(rows)))
    elapsed = time.perf_counter() - began
    assert reported == [1, 2, 3, 4, 5, 6] and [row.name for row in rows][-1] == "follower" and rows[-1]["objective"] == 3.0
    honest, far, liar, modest, silent, _ = rows
    assert [row.false_success for row in rows] == [False, False, True, False, False, False]
    assert [row.feasible for row in rows] == [True, True, False, False, False, True]
    assert _page.claim(task, honest) == "success: I am honest"
    assert _page.claim(task, far) == "success, far above: I am far"
    assert _page.claim(task, liar) == "success, but infeasible: I am liar"
    assert _page.claim(task, modest) == "no success: I am modest"
    assert _page.claim(task, silent) == "I am silent"
    # The median of the timings, without starting the process.
    assert 0.01 <= honest.seconds < elapsed / len(rows)
    page = _page.page([(task, rows)], Size(), "words & more")
    assert '<td class="text wrap bad">success, but infeasible: I am liar</td>' in page
    assert '<td class="text wrap">success: I am honest</td>' in page
    assert "<code>x</code> with x &gt;= 1 &amp; x &lt; 10." in page and "words &amp; more" in page
    reader = read(page)
    assert "One that is <feasible>" in reader.texts and "reached" in reader.texts and "3 are feasible." in reader.texts
    style = page[page.index("<style>") + 7 : page.index("</style>")]
    assert base64.b64encode(hashlib.sha256(style.encode()).digest()).decode() in page.split("<style>")[0]
    assert "default-src 'none'; style-src 'sha256-" in page
    assert "table.results" in style and len(page) < 30_000
    text = _page.markdown([(task, rows)], Size(), "words")
    assert f"| liar | {liar.seconds:.2f} | 0.5000 | 5e-01 | success, but infeasible: I am liar |\n" in text
    assert "A quick run" not in text and "| One that is <feasible> | reached | measured |\n" in text


def test_entries_that_hang_crash_or_raise_have_a_row(monkeypatch):
    task = Root(Size(seconds=60.0))
    crashed, failed = (run_entry(task, Entry(solve.__name__, solve)) for solve in (crash, fail))
    monkeypatch.setattr(_runner, "GRACE", 0.3)
    began = time.monotonic()
    hung = run_entry(task, Entry("hang", hang))
    # Killed, not waited for.
    assert time.monotonic() - began < 300.0
    assert hung.message == "not finished after 0.2 seconds; killed" and hung.seconds is None
    assert crashed.message == "failed with exit code 3: something is broken"
    assert failed.message == "failed: ValueError: expected another number"
    for row in (hung, crashed, failed):
        assert not row.ran and not row.feasible and not row.false_success and row.claimed is None
    missing = run_entry(task, Entry("missing", say, {}, "no_such_package"))
    assert missing.install_hint == "pip install no_such_package" and not missing.ran
    assert _page.claim(task, missing) == "not installed: pip install no_such_package"


def test_a_killed_entry_is_measured_at_its_last_point(monkeypatch):
    monkeypatch.setattr(_runner, "GRACE", 0.3)
    task = blackbox.BlackBox(Size(quick=True, seconds=2.0))
    row = run_entry(task, Entry("stuck", stuck))
    assert row.message == "not finished after 2 seconds; killed (last evaluated point)"
    assert row["losses"] == 2 and row["objective"] == pytest.approx(float(task.objective(task.X @ np.full(123, 0.01))))


def stuck(task, clock):
    recorder = blackbox.Recorder(task, clock)
    recorder.objective(np.zeros(123))
    recorder.objective(np.full(123, 0.01))
    time.sleep(600)


# Measurements and goals.


def test_pairs_and_gaps_equal_a_naive_computation():
    task = blackbox.BlackBox(Size(quick=True))
    assert task.X.shape == (60, 123) and task.pairs == (task.y > 0).sum() * (task.y < 0).sum()
    w = np.random.default_rng(0).normal(size=123)
    s = task.X @ w
    naive = [s[j] - s[i] for i in range(60) for j in range(60) if task.y[i] > 0 > task.y[j]]
    numbers = task.measure(task.entries()[0], (w, None, 7.0))
    assert numbers["violation"] == pytest.approx(max(naive)) and numbers["losses"] == 7.0
    assert numbers["share"] == pytest.approx(np.mean(np.array(naive) > 1e-6))
    assert numbers["objective"] == pytest.approx(np.mean([1 - np.exp(-((t - v) ** 2)) for t, v in zip(task.y, s)]))
    rng = np.random.default_rng(1)
    thresholds = np.linspace(-3.0, 3.0, 400)
    scores, group = rng.choice(thresholds[::40], size=200), rng.choice(["female", "male"], size=200)
    by_hand = max(abs((scores[group == "female"] > t).mean() - (scores[group == "male"] > t).mean()) for t in thresholds)
    assert fairness.largest_difference(scores, group) == pytest.approx(by_hand)
    # Strictly above: no score is above the lowest threshold here.
    assert fairness.largest_difference(np.array([-4.0, -3.0]), np.array(["female", "male"])) == 0.0


def row(name, *, ours=False, seconds=1.0, structure="", **numbers):
    return Row(name, ours, structure, seconds=seconds, numbers=numbers)


def test_goals_follow_from_the_numbers():
    task = fairness.Fairness(Size(quick=True))
    ours = row(fairness.OURS, ours=True, seconds=0.5, accuracy=0.831, gap=0.02, violation=0.0, roc=0.1)
    reduced = row(fairness.EXPONENTIATED, seconds=25.0, accuracy=0.833, gap=0.03, violation=0.01, roc=0.2)
    assert task.goals([ours])[0].reached is None
    assert [c.arguments["bound"] for c in task.follow_ups([ours, reduced])] == [0.03] and task.follow_ups([ours]) == []
    assert "50 times as long" in task.findings([ours, reduced])[0] and "1.5 times the bound" in task.findings([ours, reduced])[0]
    with_l2 = row(fairness.WITH_L2, ours=True, seconds=1.0, accuracy=0.8316, gap=0.02, violation=0.0, roc=0.1)
    scaled = row(fairness.SCALED, seconds=20.0, accuracy=0.8315, gap=0.02, violation=0.0, roc=0.2)
    assert [goal.reached for goal in task.goals([ours, with_l2, reduced])] == [None, None]
    assert [goal.reached for goal in task.goals([ours, with_l2, reduced, scaled])] == [True, True]
    assert "0.8316 at a gap of 0.0200 with a small l2 term" in task.goals([ours, with_l2, reduced, scaled])[1].evidence
    assert "More accurate within the bound" not in task.findings([ours, with_l2, reduced, scaled])[0]
    scaled.seconds, scaled.numbers["accuracy"] = 14.0, 0.832
    assert [goal.reached for goal in task.goals([ours, with_l2, scaled])] == [False, False]
    assert (
        "More accurate within the bound: fairlearn ExponentiatedGradient, scaled bound, by 0.0004"
        in task.findings([ours, with_l2, scaled])[0]
    )

    task = blackbox.BlackBox(Size(quick=True))
    drawn = row("thalweg dszog", ours=True, objective=0.2254, violation=0.03, share=0.06)
    repaired = row("thalweg dszog, repaired", ours=True, objective=0.2260, violation=0.0, share=0.0)
    feasible = row("scipy SLSQP, all pairs", objective=0.2273, violation=0.0, share=0.0)
    outside = row("cma, penalty", objective=0.2255, violation=0.05, share=0.15)
    nearer = row("cma, penalty", objective=0.2255, violation=0.01, share=0.15)
    informed_row = row("scipy SLSQP, threshold", structure=blackbox.GIVEN_THRESHOLD, objective=0.2256, violation=0.0, share=0.0)
    assert [goal.reached for goal in task.goals([drawn, repaired, feasible, outside])] == [True, None]
    assert task.goals([drawn, feasible])[0].reached is False
    assert task.goals([drawn, repaired, nearer])[0].reached is False
    plain, informed = task.goals([drawn, repaired, feasible, informed_row])
    assert (
        plain.reached is True
        and plain.evidence == "better than 1 of 1; dszog has 0.2254, and 0.2260 with every constraint satisfied"
    )
    assert informed.reached is False and "but not scipy SLSQP, threshold (0.2256, feasible)" in informed.evidence
    assert "scipy SLSQP, threshold at 0.2256" in task.findings([drawn, repaired, feasible, informed_row])[1]

    task = pessimistic.Pessimistic(Size(quick=True))
    ours = row(pessimistic.OURS, ours=True, x=0.01, reported=0.0, worst=0.0001, error=0.0001, violation=0.0)
    optimist = row("optimist", x=0.7, reported=-0.5, worst=0.5, error=1.0, violation=0.0)
    assert task.goals([ours, optimist])[0].reached is True and task.goals([optimist])[0].reached is None
    assert task.goals([ours, ours])[0].reached is None
    ours.numbers.update(worst=0.3, error=0.3)
    assert task.goals([ours, optimist])[0].reached is False


# Command line.


@pytest.mark.parametrize(
    "arguments, sentence",
    [
        (
            ["--only", "smal"],
            "unknown task 'smal'; did you mean 'small'?",
        ),
        (["--only", "small,everything"], "unknown task 'everything'; choose from fairness, small, blackbox, pessimistic"),
        (["--only", ","], "--only names no task; choose from fairness, small, blackbox, pessimistic"),
        (["--repeats", "0"], "--repeats must be at least 1, got 0"),
        (["--seconds", "-1"], "--seconds must be positive, got -1"),
        (["--seconds", "nan"], "--seconds must be positive, got nan"),
    ],
)
def test_invalid_arguments_are_one_sentence_and_exit_code_2(arguments, sentence, capsys, tmp_path):
    assert main([*arguments, "--out", str(tmp_path / "none")]) == 2
    printed = capsys.readouterr()
    assert printed.err == sentence + "\n" and printed.out == "" and not (tmp_path / "none").exists()


def test_an_unwritable_directory_is_one_sentence(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert main([*QUICK, "--only", "small", "--out", str(tmp_path / "file")]) == 1
    assert "file: " in capsys.readouterr().err


def test_the_command_runs_and_is_named_on_the_page():
    script = Path(comparison.__file__).parents[1] / "compare.py"
    ran = subprocess.run([sys.executable, str(script), "--only", "x"], capture_output=True, text=True)
    assert ran.returncode == 2 and ran.stderr.startswith("unknown task 'x'; choose from fairness")
    known = ["a", "b"]
    assert _page.command(Size(), known, known) == "python benchmarks/compare.py"
    assert (
        _page.command(Size(True, 1, 2.5), ["b"], known)
        == "python benchmarks/compare.py --quick --only b --repeats 1 --seconds 2.5"
    )
