"""Export of linear models with the encoding of their columns to ONNX."""

from __future__ import annotations

import os
from typing import Any, Iterator, List, Optional, Tuple

import numpy as np

from thalweg import __version__, _core

#: Versions of the operators and of the format, which runtimes have read for years.
_OPSET, _ML_OPSET, _IR = 17, 2, 8


class _Graph:
    """Nodes and constants of a graph under construction."""

    def __init__(self) -> None:
        from onnx import helper, numpy_helper

        self.helper, self.arrays = helper, numpy_helper
        self.nodes: List[Any] = []
        self.constants: List[Any] = []
        self.inputs: List[Any] = []

    def input(self, name: str, kind: int, width: int) -> str:
        self.inputs.append(self.helper.make_tensor_value_info(name, kind, [None, width]))
        return name

    def constant(self, value: Any, dtype: Any = np.float64) -> str:
        name = f"thalweg/constant{len(self.constants)}"
        array = np.asarray(value, dtype=object if dtype is str else dtype)
        self.constants.append(self.arrays.from_array(array, name))
        return name

    def node(self, operator: str, *inputs: str, output: Optional[str] = None, **attributes: Any) -> str:
        name = output or f"thalweg/{operator}{len(self.nodes)}"
        self.nodes.append(self.helper.make_node(operator, list(inputs), [name], **attributes))
        return name


def to_onnx(
    texts: Tuple[str, str],
    classes: np.ndarray,
    encoding: Optional[List[dict]],
    coef: np.ndarray,
    intercept: float,
    path: Any,
) -> Any:
    """Return the model; `encoding` has the columns of a table, or is None for matrices."""
    try:
        import onnx
    except ImportError:
        raise ImportError("to_onnx needs the package onnx; install it with pip install 'thalweg[onnx]'") from None
    graph, double = _Graph(), onnx.TensorProto.DOUBLE
    if encoding is None:
        rows = graph.input("X", double, len(coef))
        sums = graph.node("MatMul", rows, graph.constant(coef.reshape(-1, 1)))
    else:
        weights = iter(coef)
        parts = [_part(graph, column, weights) for column in encoding]
        sums = graph.node("Sum", *parts)
    scores = graph.node("Add", sums, graph.constant([[intercept]]))
    score = graph.node("Squeeze", scores, graph.constant([1], np.int64), output="score")
    positive = graph.node("Greater", score, graph.constant(0.0))
    kind, dtype = {
        "i": (onnx.TensorProto.INT64, np.int64),
        "f": (double, np.float64),
        "b": (onnx.TensorProto.BOOL, np.bool_),
    }.get(classes.dtype.kind, (onnx.TensorProto.STRING, str))
    negative_label, positive_label = texts if dtype is str else classes.tolist()
    if dtype is np.bool_:
        graph.node("Identity", positive, output="label")
    else:
        graph.node(
            "Where", positive, graph.constant(positive_label, dtype), graph.constant(negative_label, dtype), output="label"
        )
    outputs = [onnx.helper.make_tensor_value_info(name, of, [None]) for name, of in (("label", kind), ("score", double))]
    model = onnx.helper.make_model(
        onnx.helper.make_graph(graph.nodes, "thalweg", graph.inputs, outputs, graph.constants),
        producer_name="thalweg",
        producer_version=__version__,
        ir_version=_IR,
        opset_imports=[onnx.helper.make_opsetid("", _OPSET), onnx.helper.make_opsetid("ai.onnx.ml", _ML_OPSET)],
    )
    onnx.checker.check_model(model)
    if path is not None:
        _core.write_file(os.fspath(path), model.SerializeToString())
    return model


def _part(graph: _Graph, column: dict, weights: Iterator[float]) -> str:
    """Add what one column contributes to the score."""
    from onnx import TensorProto

    if column["kind"] == "number":
        x = graph.input(column["name"], TensorProto.DOUBLE, 1)
        centred = graph.node("Sub", x, graph.constant(column["mean"]))
        value = graph.node("Div", centred, graph.constant(column["deviation"]))
        value = graph.node("Mul", value, graph.constant(next(weights)))
        if column.get("complete"):
            return value
        missing = next(weights) if column["missing"] else 0.0
        return graph.node("Where", graph.node("IsNaN", x), graph.constant(missing), value)
    levels = column["levels"]
    table = [next(weights) for _ in levels]
    other = next(weights) if column["other"] else 0.0
    missing = next(weights) if column["missing"] else 0.0
    absent = [cell for cell in _core.missing_cells() if cell not in levels]
    keys = [*levels, *absent]
    indices = [*range(len(levels)), *([len(levels) + 1] * len(absent))]
    x = graph.input(column["name"], TensorProto.STRING, 1)
    found = graph.node(
        "LabelEncoder", x, domain="ai.onnx.ml", keys_strings=keys, values_int64s=indices, default_int64=len(levels)
    )
    return graph.node("Gather", graph.constant([*table, other, missing]), found)
