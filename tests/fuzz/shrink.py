"""Makes a failing case small: fewer nodes, outputs and options, tensors in place of nodes."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from time import monotonic
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper

from tests.fuzz.case import Case, Failure
from tests.fuzz.differences import Incomparable
from tests.fuzz.oracle import Refused, free_names
from tests.fuzz.precise import Either

Array = NDArray[Any]
Nodes = Sequence[onnx.NodeProto]
Judge = Callable[[Case], Failure | None]


def shrunk(case: Case, failure: Failure, judge: Judge, seconds: float) -> tuple[Case, Failure]:
    """The smallest case found that fails alike, and how."""
    until = monotonic() + seconds
    again = True
    while again and monotonic() < until:
        again = False
        for smaller in candidates(case):
            if monotonic() > until:
                break
            found = judge(smaller)
            if found is not None and found.key == failure.key:
                case, failure, again = smaller, found, True
                break
    return case, failure


def candidates(case: Case) -> Iterator[Case]:
    """Simpler cases, the boldest first."""
    if case.pipeline is not None:
        yield case.changed(pipeline=None)
    if case.threads != 1:
        yield case.changed(threads=1)
    try:
        proto = case.proto
    except Exception:  # damaged bytes stay as they are
        return
    if case.kind not in ("graphs", "nodes", "folding", "narrow", "shared", "chains"):
        return
    yield from _fewer_nodes(case, proto)


def _fewer_nodes(case: Case, proto: onnx.ModelProto) -> Iterator[Case]:
    try:
        values = Either(proto, case.semantics).run(proto, case.feeds)
    except (Refused, Incomparable):
        return
    plain: dict[str, Array] = {n: v for n, v in values.items() if isinstance(v, np.ndarray)}
    outputs = [output.name for output in proto.graph.output]
    if len(outputs) > 1:
        for name in outputs:
            yield from _rebuilt(case, proto, plain, proto.graph.node, [name])
    nodes = list(proto.graph.node)
    for count in (1, 2, 3, 5, 8, len(nodes) // 2):
        if count < len(nodes):
            yield from _windows(case, proto, plain, nodes, count)
    for i in reversed(range(len(nodes))):
        kept = nodes[:i] + nodes[i + 1 :]
        if kept:
            yield from _rebuilt(case, proto, plain, kept, outputs)
    if len(proto.graph.initializer):
        yield from _rebuilt(case, proto, plain, nodes, outputs, fresh=True)


def _windows(
    case: Case, proto: onnx.ModelProto, plain: Mapping[str, Array], nodes: Nodes, count: int
) -> Iterator[Case]:
    """Runs of consecutive nodes, the last ones first."""
    for end in range(len(nodes), count - 1, -1):
        window = nodes[end - count : end]
        made = [name for node in window for name in node.output if name in plain]
        if made and any(node.op_type != "Constant" for node in window):
            yield from _rebuilt(case, proto, plain, window, made[-4:])


def _rebuilt(
    case: Case,
    proto: onnx.ModelProto,
    plain: Mapping[str, Array],
    nodes: Nodes,
    outputs: Sequence[str],
    fresh: bool = False,
) -> Iterator[Case]:
    """A model of some nodes; what they read and do not make becomes an input with its value.

    There is none where that is a sequence.
    """
    live = _live(nodes, outputs)
    made = {name for node in live for name in node.output}
    constants = [] if fresh else list(proto.graph.initializer)
    known = {tensor.name for tensor in constants}
    read = dict.fromkeys(name for node in live for name in free_names(node))
    outside = [n for n in read if n not in made and n not in known]
    if any(n not in plain for n in outside):
        return
    feeds = {n: plain[n] for n in outside}
    kept = [name for name in outputs if name in made]
    infos = [_info(name, array) for name, array in feeds.items()]
    graph = helper.make_graph(live, "shrunk", infos, [_info(name, plain[name]) for name in kept])
    graph.initializer.extend(t for t in constants if t.name in read)
    used = {node.op_type for node in live}
    model = helper.make_model(
        graph,
        opset_imports=list(proto.opset_import),
        functions=[f for f in proto.functions if f.name in used],
        ir_version=proto.ir_version,
    )
    yield case.changed(model=model.SerializeToString(), feeds=feeds)


def _live(nodes: Nodes, outputs: Sequence[str]) -> list[onnx.NodeProto]:
    wanted, kept = set(outputs), list[onnx.NodeProto]()
    for node in reversed(list(nodes)):
        if wanted.intersection(node.output):
            kept.append(node)
            wanted.update(free_names(node))
    return kept[::-1]


def _info(name: str, array: Array) -> onnx.ValueInfoProto:
    element = helper.np_dtype_to_tensor_dtype(array.dtype)
    return helper.make_tensor_value_info(name, element, array.shape)
