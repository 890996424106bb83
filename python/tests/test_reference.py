"""The reference covers every public name. Sphinx checks that it builds without warnings."""

import importlib
import re
from pathlib import Path

import thalweg

ROOT = Path(__file__).resolve().parents[2]


def test_every_public_name_is_in_the_reference():
    pages = "".join(page.read_text() for page in (ROOT / "docs" / "reference").glob("*.rst"))
    modules = set(re.findall(r"^\.\. automodule:: thalweg\.(\w+)$", pages, re.M))
    package = ROOT / "python" / "thalweg"
    sources = {source.stem for source in package.glob("[a-z]*.py")} | {
        inside.parent.name for inside in package.glob("*/__init__.py")
    }
    assert modules == sources
    shown = set(re.findall(r"^\.\. auto(?:function|class):: (\w+)$", pages, re.M)) | modules
    for module in modules:
        shown.update(importlib.import_module(f"thalweg.{module}").__all__)
    assert set(thalweg.__all__) - {"__version__"} <= shown
