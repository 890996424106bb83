"""The type stubs agree with the compiled module."""

from __future__ import annotations

import ast
import inspect
import sys
from pathlib import Path

import pytest

import thalweg
from thalweg import _core

STUB = ast.parse((Path(thalweg.__file__).parent / "_core.pyi").read_text())


def parameters(function):
    """Return the names in order, the keyword-only ones, and the number of defaults."""
    given = function.args
    names = [a.arg for a in given.posonlyargs + given.args if a.arg not in ("self", "cls")]
    defaults = len(given.defaults) + sum(d is not None for d in given.kw_defaults)
    return names, [a.arg for a in given.kwonlyargs], defaults


def of_runtime(function):
    found = [p for p in inspect.signature(function).parameters.values() if p.name not in ("self", "cls")]
    alone = [p.name for p in found if p.kind is p.KEYWORD_ONLY]
    return [p.name for p in found if p.kind is not p.KEYWORD_ONLY], alone, sum(p.default is not p.empty for p in found)


def test_every_function_and_class_has_its_stub():
    stubbed = {node.name for node in STUB.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    assert stubbed | {"__version__"} == set(_core.__all__)


def test_functions_take_what_their_stubs_say():
    for node in STUB.body:
        if isinstance(node, ast.FunctionDef):
            assert parameters(node) == of_runtime(getattr(_core, node.name)), node.name


@pytest.mark.skipif(sys.version_info < (3, 10), reason="older Pythons know no signature of a compiled class")
def test_methods_take_what_their_stubs_say():
    for node in STUB.body:
        if isinstance(node, ast.ClassDef):
            kind = getattr(_core, node.name)
            methods = {m.name: m for m in node.body if isinstance(m, ast.FunctionDef)}
            assert set(methods) == {n for n in vars(kind) if not n.startswith("_")} | {"__new__"}, node.name
            for name, method in methods.items():
                assert parameters(method) == of_runtime(kind if name == "__new__" else getattr(kind, name)), f"{node.name}.{name}"
