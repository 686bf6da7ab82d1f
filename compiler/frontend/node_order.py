"""Nodes after those that they read, an order that converters do not always write."""

from collections.abc import Iterable, Iterator, MutableSequence, Sequence
from typing import Any

import onnx

from compiler.frontend.tensors import initializers_of
from compiler.support.dag import reverse, topological_order


def in_order(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model, or a copy with the nodes of each body in order; those of a cycle stay."""
    if all(_is_ordered(_predecessors(nodes)) for nodes in _bodies(model)):
        return model
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for nodes in _bodies(copy):
        _sort(nodes)
    return copy


def names_read(node: onnx.NodeProto) -> set[str]:
    """The values that a node reads: its inputs, and what its bodies capture."""
    names = {name for name in node.input if name}
    for attribute in node.attribute:
        for body in (attribute.g, *attribute.graphs):
            names |= captures_of(body)
    return names


def captures_of(body: onnx.GraphProto) -> set[str]:
    """The values from around a body that it reads, or returns as they are."""
    own = {info.name for info in body.input} | initializers_of(body).keys()
    read = {output.name for output in body.output}
    for node in body.node:
        own.update(node.output)
        read |= names_read(node)
    return read - own


def _bodies(model: onnx.ModelProto) -> Iterator[MutableSequence[onnx.NodeProto]]:
    """The nodes of the graph, of functions, and of the bodies in them, inner ones first."""
    for nodes in (model.graph.node, *(function.node for function in model.functions)):
        yield from _inner(nodes)
        yield nodes


def _inner(nodes: Iterable[onnx.NodeProto]) -> Iterator[MutableSequence[onnx.NodeProto]]:
    for node in nodes:
        for attribute in node.attribute:
            for body in (attribute.g, *attribute.graphs):
                yield from _inner(body.node)
                yield body.node


def _predecessors(nodes: Sequence[onnx.NodeProto]) -> list[list[int]]:
    """For each node those that produce what it reads."""
    producers = {name: i for i, node in enumerate(nodes) for name in node.output}
    return [
        sorted({producers[name] for name in names_read(node) if name in producers})
        for node in nodes
    ]


def _is_ordered(predecessors: Sequence[Sequence[int]]) -> bool:
    return all(before[-1] < i for i, before in enumerate(predecessors) if before)


def _sort(nodes: Any) -> None:
    """Put nodes in order, in place, unless there is a cycle."""
    predecessors = _predecessors(nodes)
    if _is_ordered(predecessors):
        return
    order = topological_order(predecessors, reverse(predecessors), lambda node: node)
    if len(order) == len(nodes):
        ordered = [nodes[i] for i in order]
        del nodes[:]
        nodes.extend(ordered)


def live_nodes(
    nodes: Sequence[onnx.NodeProto], outputs: Iterable[str]
) -> list[tuple[onnx.NodeProto, set[str]]]:
    """The nodes of a body on which its outputs depend, in order, with the used results of each."""
    used = set(outputs) - {""}
    kept: list[tuple[onnx.NodeProto, set[str]]] = []
    for node in reversed(nodes):
        needed = used.intersection(node.output)
        if needed:
            used.update(names_read(node))
            kept.append((node, needed))
    return kept[::-1]
