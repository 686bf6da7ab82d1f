"""Large tensors of bodies and Constant nodes as weights of the main graph.

These may be larger than a protobuf, as they stay in their files; other tensors are brought inside.
"""

from collections.abc import Iterable, Iterator
from itertools import count

import onnx

from compiler.errors import ModelError
from compiler.frontend.domains import domain_of
from compiler.frontend.tensors import inner_tensors, stored_bytes
from compiler.support.words import in_bytes

MOST_INNER_BYTES = 1 << 30
"""The bytes of all inner tensors above which the large ones of them are hoisted."""

LEAST_HOISTED_BYTES = 1 << 20

_LARGEST_PROTOBUF = (1 << 31) - 1


def with_hoisted_tensors(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model, or a copy with inner tensors that a protobuf holds; raises ModelError."""
    if _bytes_of(inner_tensors(model)) <= MOST_INNER_BYTES:
        return model
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    _Hoisting(copy).hoist(copy.graph)
    remaining = _bytes_of(inner_tensors(copy))
    if remaining > _LARGEST_PROTOBUF:
        raise ModelError(
            f"the tensors of the model's functions, of attributes and sparse ones have"
            f" {in_bytes(remaining)} in all, and a protobuf holds 2 GiB: make the large ones"
            " initializers of the main graph"
        )
    return copy


class _Hoisting:
    """Moves tensors of a model to its main graph; an Identity in their places reads them."""

    def __init__(self, model: onnx.ModelProto):
        self._main = model.graph
        self._taken = set(_names_of(model.graph))

    def hoist(self, graph: onnx.GraphProto) -> None:
        """Move the large tensors of a graph's Constant nodes and of the bodies in it."""
        for node in graph.node:
            for attribute in node.attribute:
                for body in (attribute.g, *attribute.graphs):
                    self.hoist(body)
                    self._hoist_initializers(body)
            if node.op_type == "Constant" and not domain_of(node):
                self._hoist_value(node)

    def _hoist_initializers(self, body: onnx.GraphProto) -> None:
        for index in reversed(range(len(body.initializer))):
            tensor = body.initializer[index]
            if _is_large(tensor):
                body.node.add(op_type="Identity", input=[self._moved(tensor)], output=[tensor.name])
                del body.initializer[index]

    def _hoist_value(self, node: onnx.NodeProto) -> None:
        values = [a for a in node.attribute if a.name == "value" and _is_large(a.t)]
        if len(node.attribute) == 1 and values:
            name = self._moved(values[0].t)
            node.op_type = "Identity"
            del node.attribute[:]
            node.input.append(name)

    def _moved(self, tensor: onnx.TensorProto) -> str:
        """The name of a copy of a tensor in the main graph."""
        names = (f"{tensor.name or 'constant'}/{number}" for number in count())
        name = next(name for name in names if name not in self._taken)
        self._taken.add(name)
        moved = self._main.initializer.add()
        moved.CopyFrom(tensor)
        moved.name = name
        return name


def _names_of(graph: onnx.GraphProto) -> Iterator[str]:
    """The names of all tensors of a graph and of the bodies in it."""
    yield from (info.name for info in (*graph.input, *graph.output))
    yield from (tensor.name for tensor in graph.initializer)
    yield from (sparse.values.name for sparse in graph.sparse_initializer)
    for node in graph.node:
        yield from (*node.input, *node.output)
        for attribute in node.attribute:
            for body in (attribute.g, *attribute.graphs):
                yield from _names_of(body)


def _bytes_of(tensors: Iterable[onnx.TensorProto]) -> int:
    return sum(map(stored_bytes, tensors))


def _is_large(tensor: onnx.TensorProto) -> bool:
    return stored_bytes(tensor) >= LEAST_HOISTED_BYTES
