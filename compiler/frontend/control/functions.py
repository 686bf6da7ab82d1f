"""Calls of a model's local functions, replaced by the nodes of these.

ONNX's inliner forgets the defaults of attributes of functions that functions call, and results that
are inputs. A static graph needs none of this: `specialise.py` walks into functions.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import onnx
from onnx import helper

from compiler.errors import ModelError
from compiler.frontend.domains import domain_of, opsets_of
from compiler.frontend.evaluate import schema_of
from compiler.frontend.load import NEWEST_OPSET
from compiler.frontend.node_order import captures_of, live_nodes
from compiler.net.building.expansion import DEEPEST, Expansion

_Functions = Mapping[tuple[str, str, str], onnx.FunctionProto]


def without_functions(model: onnx.ModelProto) -> onnx.ModelProto:
    """A checked model with its local functions inlined; the same model if it has none.

    Inlined operators have the model's opsets. A function that means others by the versions that it
    imports stays, with those that it calls, and is called. Raises ModelError for calls that do not
    fit, or that nest too deep.
    """
    if not model.functions:
        return model
    whole = onnx.ModelProto()
    whole.CopyFrom(model)
    imported = opsets_of(model.opset_import)
    for function in model.functions:
        imported = {**opsets_of(function.opset_import), **imported}
    del whole.functions[:], whole.opset_import[:]
    whole.opset_import.extend(helper.make_opsetid(*opset) for opset in imported.items())
    functions = {(f.domain, f.name, f.overload): f for f in model.functions}
    others = {k: nodes_of_other_schema(f.node, f, imported) for k, f in functions.items()}
    called = {key for key, nodes in others.items() if any(True for _ in nodes)}
    if called:
        whole.functions.extend(model.functions)
    _Inliner({key: f for key, f in functions.items() if key not in called}).replace(whole.graph)
    return whole


def nodes_of_other_schema(
    nodes: Iterable[onnx.NodeProto], function: onnx.FunctionProto, imported: Mapping[str, int]
) -> Iterator[onnx.NodeProto]:
    """The nodes of a function, and of the bodies in it, that have another schema in a model."""
    own = opsets_of(function.opset_import)
    for node in nodes:
        domain = domain_of(node)
        schemas = [schema_of(node.op_type, v.get(domain, 0), domain) for v in (own, imported)]
        versions = {None if schema is None else schema.since_version for schema in schemas}
        if len(versions) > 1:
            yield node
        for body in bodies_of(node):
            yield from nodes_of_other_schema(body.node, function, imported)


@dataclass
class CallSizes:
    """How many nodes calls of functions expand to, counted without expanding them.

    Functions that each call the one below twice double with each level. Bodies are not counted: of
    an If one branch is taken, and loops may never run.
    """

    functions: _Functions
    _counted: dict[tuple[str, ...], int] = field(default_factory=dict[tuple[str, ...], int])

    def of(self, node: onnx.NodeProto, used: Collection[str], depth: int = 0) -> int:
        """The least number of nodes that a node, some of whose outputs are used, stands for."""
        name = domain_of(node), node.op_type, node.overload
        function = self.functions.get(name)
        if function is None or depth > DEEPEST:
            return 1
        pairs = zip(function.output, node.output, strict=False)
        wanted = [inner for inner, outer in pairs if outer in used]
        key = (*name, *wanted)
        if key not in self._counted:
            self._counted[key] = 0  # of a function that calls itself, which is refused for that
            live = live_nodes(function.node, wanted)
            self._counted[key] = sum(self.of(*one, depth + 1) for one in live)
        return 1 + self._counted[key]


@dataclass
class _Inliner:
    """Replaces calls; the values of each call have unique names."""

    functions: _Functions
    expansion: Expansion = field(default_factory=Expansion)
    calls: int = 0

    def __post_init__(self) -> None:
        self.sizes = CallSizes(self.functions)

    def replace(self, graph: onnx.GraphProto) -> None:
        """Replace the calls of a graph and of the bodies in it, in place."""
        nodes = [made for node in graph.node for made in self.inlined(node)]
        del graph.node[:]
        graph.node.extend(nodes)

    def inlined(self, node: onnx.NodeProto) -> Iterator[onnx.NodeProto]:
        """A node with its bodies inlined, or the nodes of the function that it calls."""
        self.expansion.count(node.op_type)
        function = self.functions.get((domain_of(node), node.op_type, node.overload))
        if function is None:
            for body in bodies_of(node):
                self.replace(body)
            yield node
            return
        with self.expansion.inside(f"{node.op_type} {node.name!r}"):
            self.expansion.expect(self.sizes.of(node, node.output), node.op_type)
            for inner in self.body_of(node, function):
                yield from self.inlined(inner)

    def body_of(
        self, call: onnx.NodeProto, function: onnx.FunctionProto
    ) -> Iterator[onnx.NodeProto]:
        """The nodes of a function for a call: its names, and the attributes that it gives."""
        if excess := excess_of(call, function):
            label = f"{call.op_type} {call.name!r}"
            raise ModelError(f"{label} is invalid: {excess}; correct the model, or export it again")
        self.calls += 1
        inputs = dict.fromkeys(function.input, "")
        inputs |= dict(zip(function.input, call.input, strict=False))
        scope = _Names(f"{call.name or function.name}/{self.calls}/", inputs)
        attributes = {a.name: a for a in (*function.attribute_proto, *call.attribute)}
        copied: list[tuple[str, str]] = []
        for inner, outer in zip(function.output, call.output, strict=False):
            if outer and inner in scope.known:
                copied.append((inner, outer))
            elif outer:
                scope.known[inner] = outer
        for node in function.node:
            own = onnx.NodeProto()
            own.CopyFrom(node)
            _give(own, attributes)
            scope.rename(own)
            yield own
        for inner, outer in copied:
            yield helper.make_node("Identity", [scope.of(inner)], [outer])


def excess_of(call: onnx.NodeProto, function: onnx.FunctionProto) -> str:
    """The reason why a call does not fit its function: its inputs or outputs; empty if it fits."""
    counts = ("inputs", call.input, function.input), ("outputs", call.output, function.output)
    for what, given, known in counts:
        if len(given) > len(known):
            return f"it has {len(given)} {what}, the function has {len(known)}"
    return ""


def with_opsets(body: onnx.FunctionProto, opsets: Mapping[str, int]) -> onnx.FunctionProto:
    """The body of a schema; of those that it does not import it uses a caller's opsets."""
    imported = {"": NEWEST_OPSET, **opsets, **opsets_of(body.opset_import)}
    function = onnx.FunctionProto()
    function.CopyFrom(body)
    del function.opset_import[:]
    function.opset_import.extend(helper.make_opsetid(*opset) for opset in imported.items())
    return function


def bodies_of(node: onnx.NodeProto) -> list[onnx.GraphProto]:
    """The bodies of a node."""
    return [
        body
        for attribute in node.attribute
        for body in (*([attribute.g] if attribute.HasField("g") else ()), *attribute.graphs)
    ]


def with_captures_apart(body: onnx.GraphProto, prefix: str) -> onnx.GraphProto:
    """A body in which the names from around it have a prefix, so that no others are the same."""
    copy = onnx.GraphProto()
    copy.CopyFrom(body)
    _rename_reads(copy, {name: prefix + name for name in captures_of(body)})
    return copy


def control_flow_in(body: onnx.GraphProto) -> onnx.NodeProto | None:
    """A node with bodies that read what its own body computes or is given; None if all do not."""
    around = captures_of(body)
    nodes = (node for node in body.node if any(captures_of(b) - around for b in bodies_of(node)))
    return next(nodes, None)


def _rename_reads(body: onnx.GraphProto, names: Mapping[str, str]) -> None:
    """Rename what a body and those in it read from around it, in place."""
    for output in body.output:
        output.name = names.get(output.name, output.name)
    for node in body.node:
        node.input[:] = [names.get(name, name) for name in node.input]
        for inner in bodies_of(node):
            captured = captures_of(inner)
            _rename_reads(inner, {old: new for old, new in names.items() if old in captured})


def _give(node: onnx.NodeProto, attributes: Mapping[str, onnx.AttributeProto]) -> None:
    """Replace references to a function's attributes, also in bodies; those without a value go."""
    own: list[onnx.AttributeProto] = []
    for attribute in node.attribute:
        if not attribute.ref_attr_name:
            own.append(attribute)
        elif attribute.ref_attr_name in attributes:
            value = onnx.AttributeProto()
            value.CopyFrom(attributes[attribute.ref_attr_name])
            value.name = attribute.name
            own.append(value)
    del node.attribute[:]
    node.attribute.extend(own)
    for body in bodies_of(node):
        for inner in body.node:
            _give(inner, attributes)


@dataclass
class _Names:
    """The names of a function's values in the graph that calls it."""

    prefix: str
    known: dict[str, str]

    def of(self, name: str) -> str:
        """A value's name; that of an omitted one stays empty."""
        return self.known.get(name, self.prefix + name) if name else ""

    def rename(self, node: onnx.NodeProto) -> None:
        """Rename what a node and its bodies read and compute, in place."""
        node.name = node.name and self.prefix + node.name
        for names in (node.input, node.output):
            names[:] = [self.of(name) for name in names]
        for body in bodies_of(node):
            for info in (*body.input, *body.output, *body.value_info, *body.initializer):
                info.name = self.of(info.name)
            for sparse in body.sparse_initializer:
                sparse.values.name = self.of(sparse.values.name)
            for inner in body.node:
                self.rename(inner)
