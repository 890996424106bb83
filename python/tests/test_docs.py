"""Every example of the documentation runs and prints the documented output, and every link has a target."""

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
GUIDE = sorted(f"docs/guide/{page.name}" for page in (ROOT / "docs" / "guide").glob("*.md"))
PAGES = ["README.md", "python/README.md", "docs/python.md", *GUIDE]
#: Pages of the command. Their shell blocks run if the next block has the output, in a directory with the table and the model of
#: `ADULT`.
REFERENCE = ["README.md", "docs/fit.md", "docs/certify.md", "docs/tradeoff.md", "docs/plan.md", "docs/bilevel.md"]
ADULT = """thalweg data table adult --out adult.csv
thalweg fit adult.csv --label income --group sex --subject-to "demographic_parity <= 0.02" --out model --quiet
"""
#: Lines of shell blocks that set something up, by their first words. All others are lines of the command.
SET_UP = ("pip install ", "cargo add ", "cargo run ", "git clone ")
#: Whether to write the output of today into the pages in place of comparing it.
UPDATE = bool(os.environ.get("THALWEG_UPDATE_DOCS"))


def blocks(page):
    """Yield language, text and line of each fenced block of a page."""
    text = (ROOT / page).read_text()
    for found in re.finditer(r"^```(\w*)\n(.*?)^```$", text, re.M | re.S):
        yield found[1], found[2], text[: found.start()].count("\n") + 1


def without_times(text):
    """Mask seconds in a text: numbers before ` s`, rows that begin with `seconds`, and a last column of that name."""
    lines, timed = [], False
    for line in text.rstrip().splitlines():
        line = re.sub(r"\b\d+(\.\d+)? s\b", "# s", line.rstrip())
        line = re.sub(r"^seconds .*", "seconds #", line)
        if timed and line:
            line = re.sub(r" +\S+$", " #", line)
        timed = line.endswith(" seconds") or (timed and bool(line))
        lines.append(line)
    return "\n".join(lines)


def shell(text, place, where):
    """Run the command lines of a shell block in a directory that is also the home, and return their output."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("THALWEG_", "XDG_"))}
    printed = ""
    for line in text.replace("\\\n", " ").replace("cargo run --release -- ", "thalweg ").splitlines():
        words = shlex.split(line, comments=True)
        if not words or line.startswith(SET_UP):
            continue
        assert words[0] == "thalweg", f"{where}: what is {line!r}?"
        ran = subprocess.run(
            [sys.executable, "-m", *words], cwd=place, env={**kept, "HOME": str(place)}, capture_output=True, text=True
        )
        assert ran.returncode == 0, f"{where}: {line!r} ended with {ran.returncode}: {ran.stdout}{ran.stderr}"
        printed += ran.stdout
    return printed


def run_blocks(page, place, languages):
    """Run the blocks of a page in order, compare their output with the following text block, and return their number."""
    names, said, ran, renewed = {}, None, 0, (ROOT / page).read_text()
    found = list(blocks(page))
    for (language, text, line), (following, _, _) in zip(found, [*found[1:], ("", "", 0)]):
        where = f"{page}:{line}"
        if language not in (*languages, "text"):
            said = None
        elif language == "python":
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile(text, where, "exec"), names)
            said, plain, ran = printed.getvalue(), str.rstrip, ran + 1
        elif language == "sh" and (page in GUIDE or (following == "text" and "./test" not in text)):
            said, plain, ran = shell(text, place, where), without_times, ran + 1
        else:
            if language == "text" and said is not None and plain(said) != plain(text):
                assert UPDATE, f"{where} prints {plain(said)!r}, the page has {plain(text)!r}"
                renewed = renewed.replace(f"```text\n{text}```", f"```text\n{said.rstrip()}\n```", 1)
            said = None
    if UPDATE:
        (ROOT / page).write_text(renewed)
    return ran


@pytest.mark.parametrize("page", [page for page in PAGES if {"python", "sh"} & {language for language, _, _ in blocks(page)}])
def test_examples(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pytest.importorskip("matplotlib").use("Agg")
    assert run_blocks(page, tmp_path, ("python", "sh") if page in GUIDE else ("python",)) > 0


@pytest.mark.parametrize("page", REFERENCE)
def test_commands(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "experiments").symlink_to(ROOT / "experiments")
    if re.search(r"^thalweg (fit adult|tradeoff adult|certify)", (ROOT / page).read_text(), re.M):
        shell(ADULT, tmp_path, "the table and the model")
    assert run_blocks(page, tmp_path, ("sh",)) > 0


def anchors(text):
    """Return the anchors of a page: its headings as GitHub renders them."""
    titles = re.findall(r"^#+ +(.*)$", re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S), re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_links_have_targets():
    pages = [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        ROOT / "python" / "README.md",
        ROOT / "benchmarks" / "README.md",
        *(ROOT / "docs").rglob("*.md"),
    ]
    broken, seen = [], 0
    for page in pages:
        text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.M | re.S)
        for link in re.findall(r"\]\(([^()\s]+)\)", text):
            path, _, anchor = link.partition("#")
            if "://" in link:
                continue
            seen += 1
            target = (page.parent / path).resolve() if path else page
            if not target.exists() or (anchor and anchor not in anchors(target.read_text())):
                broken.append(f"{page.relative_to(ROOT)}: {link}")
    assert seen > 100 and not broken, broken


def test_sources_are_python_3_9():
    import ast

    for source in [*(ROOT / "python" / "thalweg").rglob("*.py"), *(ROOT / "benchmarks").rglob("*.py")]:
        ast.parse(source.read_text(), str(source), feature_version=(3, 9))


def test_all_manifests_have_the_same_version():
    import thalweg

    for manifest in ("Cargo.toml", "python/Cargo.toml"):
        found = re.search(r'^version = "(.*)"', (ROOT / manifest).read_text(), re.M)
        assert found[1] == thalweg.__version__, manifest


def test_every_name_exists_and_the_command_starts_without_scipy():
    import subprocess
    import sys

    import thalweg

    for name in thalweg.__all__:
        assert getattr(thalweg, name) is not None and name in dir(thalweg), name
    assert set(thalweg._MODULES) == set(thalweg.__all__) - {"__version__"}
    with pytest.raises(AttributeError, match="no attribute 'minimise'"):
        _ = thalweg.minimise
    code = "import sys, thalweg.__main__; sys.exit(any(m in sys.modules for m in ('scipy', 'sklearn', 'pandas')))"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
