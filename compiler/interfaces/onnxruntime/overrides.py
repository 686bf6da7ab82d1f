"""Sizes that a session's options give to symbolic dimensions."""

from collections.abc import Iterator
from typing import Any

import onnx

from compiler.errors import InvalidArgument
from compiler.frontend.load import whole_copy
from compiler.interfaces.onnxruntime.options import SessionOptions


def with_sizes(
    model: Any, proto: onnx.ModelProto, options: SessionOptions
) -> tuple[Any, onnx.ModelProto]:
    """The model to compile, and its protobuf, with the sizes of the options.

    Raises InvalidArgument for a symbol or denotation that no input has.
    """
    by_name = options.sizes_by_name
    by_denotation = options.sizes_by_denotation
    if not by_name and not by_denotation:
        return model, proto
    sized = whole_copy(model, proto)
    used: set[str] = set()
    for dimension in _dimensions(sized.graph):
        for text, sizes in ((dimension.dim_param, by_name), (dimension.denotation, by_denotation)):
            if text in sizes:
                used.add(text)
                dimension.dim_value = sizes[text]
    if unknown := sorted((by_name.keys() | by_denotation.keys()) - used):
        raise InvalidArgument(f"the model has no free dimension {unknown[0]!r}")
    return sized, sized


def _dimensions(graph: onnx.GraphProto) -> Iterator[onnx.TensorShapeProto.Dimension]:
    for info in (*graph.input, *graph.output, *graph.value_info):
        if info.type.HasField("tensor_type"):
            yield from info.type.tensor_type.shape.dim
