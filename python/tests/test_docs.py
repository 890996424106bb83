"""Every example of the documents runs and prints what the documents say."""

import contextlib
import io
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = ["README.md", "python/README.md", "docs/python.md"]


def blocks(page):
    """The fenced blocks of a page: language, text, line."""
    text = (ROOT / page).read_text()
    for found in re.finditer(r"^```(\w*)\n(.*?)^```$", text, re.M | re.S):
        yield found[1], found[2], text[: found.start()].count("\n") + 1


@pytest.mark.parametrize("page", PAGES)
def test_examples(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pytest.importorskip("matplotlib").use("Agg")
    names, said, ran = {}, None, 0
    for language, text, line in blocks(page):
        if language == "python":
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile(text, f"{page}:{line}", "exec"), names)
            said, ran = printed.getvalue(), ran + 1
        elif language == "text" and said is not None:
            assert said.rstrip() == text.rstrip(), f"{page}:{line}"
            said = None
        else:
            said = None
    assert ran > 0


def test_sources_are_python_3_9():
    import ast

    for source in (ROOT / "python" / "thalweg").rglob("*.py"):
        ast.parse(source.read_text(), str(source), feature_version=(3, 9))


def test_the_version_is_one():
    import thalweg

    for manifest in ("Cargo.toml", "python/Cargo.toml"):
        found = re.search(r'^version = "(.*)"', (ROOT / manifest).read_text(), re.M)
        assert found[1] == thalweg.__version__, manifest


def test_every_name_is_there_and_the_command_starts_without_scipy():
    import subprocess
    import sys

    import thalweg

    for name in thalweg.__all__:
        assert getattr(thalweg, name) is not None and name in dir(thalweg), name
    assert set(thalweg._HOMES) == set(thalweg.__all__) - {"__version__"}
    with pytest.raises(AttributeError, match="no attribute 'minimise'"):
        _ = thalweg.minimise
    code = "import sys, thalweg.__main__; sys.exit(any(m in sys.modules for m in ('scipy', 'sklearn', 'pandas')))"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
