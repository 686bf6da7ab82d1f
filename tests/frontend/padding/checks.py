"""Padded graphs against the graphs of smaller sizes, with padding that is poisoned."""

from collections.abc import Mapping

import numpy as np
import onnx

from compiler.frontend.graph import Graph, Value
from compiler.frontend.importing.part import ModelContext, ModelPart, specialise_part
from compiler.frontend.interpreter import evaluate_node
from compiler.frontend.padding.graphs import padding_of
from compiler.frontend.padding.masking import EXTENT, padded_graph

WIDTH = 4
"""The size of the axes that are not padded."""

Sizes = Mapping[str, int]
Arrays = Mapping[str, np.ndarray]


def specialised(text: str, sizes: Sizes, constants: Arrays) -> Graph:
    """The graph of nodes in ONNX's text form for sizes of its dimensions."""
    graph = onnx.parser.parse_graph(text)
    names = [output.name for output in graph.output]
    inputs: dict[str, Value] = {}
    for info in graph.input:
        dims = info.type.tensor_type.shape.dim
        shape = tuple(sizes[d.dim_param] if d.dim_param else d.dim_value for d in dims)
        dtype = {2: "uint8", 6: "int32", 7: "int64"}.get(info.type.tensor_type.elem_type, "float32")
        inputs[info.name] = Value(info.name, dtype, shape)
    part = ModelPart(list(graph.node), names, constants)
    found = specialise_part(part, inputs, ModelContext({"": 21}, has_kernel=lambda sizes: True))
    assert not found.obstacles, found.obstacles
    return found.graph


def evaluated(graph: Graph, inputs: Arrays) -> list[np.ndarray]:
    """The outputs of a graph."""
    values = {value: inputs[value.name] for value in graph.inputs}
    for operator in graph.operators:
        arrays = [None if v is None else values.get(v, v.array) for v in operator.inputs]
        used = [value is not None for value in operator.outputs]
        with np.errstate(all="ignore"):
            found = evaluate_node(operator.op_type, arrays, operator.attributes, used)
        pairs = zip(operator.outputs, found, strict=True)
        values |= {v: a for v, a in pairs if v is not None and a is not None}
    return [values[v] if v.array is None else v.content for _, v in graph.outputs]


def check(text: str, large: Sizes, small: Sizes, constants: Arrays) -> None:
    """Compare a padded graph with the smaller one: padding is NaN, or a large integer."""
    middle = {name: (size + 1) // 2 for name, size in large.items()}
    bucket, example, exact = (specialised(text, s, constants) for s in (large, middle, small))
    infos = onnx.parser.parse_graph(text).input
    names = {i.name: [d.dim_param for d in i.type.tensor_type.shape.dim] for i in infos}
    whole = padding_of(bucket, example, example, names)
    padding = padding_of(bucket, example, exact, names)
    extents = whole.extents_of(padding)
    generator = np.random.default_rng(sum(small.values()))
    given = {v.name: _random(generator, v) for v in exact.inputs}
    poisoned = {v.name: _poisoned(given[v.name], v) for v in bucket.inputs}
    poisoned |= {f"{EXTENT}{number}": np.array(e) for number, e in enumerate(extents)}
    found, expected = evaluated(padded_graph(bucket, whole), poisoned), evaluated(exact, given)
    for array, crop, wanted in zip(found, padding.outputs, expected, strict=True):
        np.testing.assert_allclose(crop(array), wanted, rtol=1e-4, atol=2e-5)


def _random(generator: np.random.Generator, value: Value) -> np.ndarray:
    if value.dtype != "float32":
        return generator.integers(0, WIDTH, value.shape).astype(value.dtype)
    return generator.standard_normal(value.shape).astype("f4")


def _poisoned(array: np.ndarray, value: Value) -> np.ndarray:
    whole = value.dtype != "float32"
    poison = min(10**6, np.iinfo(value.dtype).max) if whole else np.nan
    large = np.full(value.shape, poison, array.dtype)
    large[tuple(map(slice, array.shape))] = array
    return large
