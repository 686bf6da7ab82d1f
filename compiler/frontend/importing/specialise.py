"""Partial evaluation of an ONNX graph for fixed input shapes.

One walk over the nodes folds those that depend on constants and shapes only, inlines functions and
control flow, and rewrites the others to operators of the normalised opset.
"""

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import onnx
from onnx import helper

from compiler.errors import ModelError
from compiler.frontend.builder import Builder
from compiler.frontend.control.bodies import check_bodies
from compiler.frontend.control.functions import (
    CallSizes,
    control_flow_in,
    excess_of,
    with_captures_apart,
    with_opsets,
)
from compiler.frontend.control.unrolling import CONTROL
from compiler.frontend.domains import domain_of, opsets_of
from compiler.frontend.evaluate import (
    check_types,
    evaluate,
    inexact_defaults,
    known_schema,
    make_node,
    schema_of,
    type_proto,
)
from compiler.frontend.importing.context import ModelContext
from compiler.frontend.importing.unknown import DATA_DEPENDENT, RANDOM, unknown_operator
from compiler.frontend.indices import IndexWatch
from compiler.frontend.interpreter import is_known_operator
from compiler.frontend.node_order import captures_of, live_nodes
from compiler.frontend.rules import RULES, Call
from compiler.frontend.rules.classical import CLASSICAL, ML_DOMAIN
from compiler.frontend.rules.contrib import CONTRIB, rewrite_contrib
from compiler.frontend.rules.counted import CREATED
from compiler.frontend.rules.first_opsets import FIRST_KNOWN, modernise
from compiler.frontend.rules.measured import MEASURING
from compiler.frontend.semantics import Semantics
from compiler.frontend.sources.checking import Declared, NodeCheck
from compiler.frontend.tensors import array_of, arrays_of, dense_array_of
from compiler.frontend.unsupported import Contradiction, Unsupported
from compiler.net.building.builder import is_known
from compiler.net.building.expansion import Expansion
from compiler.net.graph import Attributes, Graph, Value, constant
from compiler.net.operators import KINDS, Mismatch
from compiler.net.operators.registration import REGISTERED, operator_name

_AROUND = "around/"
"""The prefix of names of values that the body of a schema's function captures."""


@dataclass(frozen=True, slots=True)
class Problem:
    """An operator that cannot be compiled."""

    node: str
    op_type: str
    where: str
    error: Unsupported

    def __str__(self) -> str:
        reason = f"{self.error.reason}; {self.error.remedy}"
        return f"  {self.op_type} {self.node!r} ({self.where}): {reason}"


@dataclass(slots=True)
class Scope:
    """The names that are visible in a graph or a function body, and its opsets and functions."""

    opsets: Mapping[str, int]
    values: dict[str, Value | None] = field(default_factory=dict[str, Value | None])
    outer: "Scope | None" = None
    attributes: Mapping[str, onnx.AttributeProto] = field(
        default_factory=dict[str, onnx.AttributeProto]
    )
    prefix: str = ""
    declared: Mapping[str, Declared] = field(default_factory=dict[str, Declared])

    def __getitem__(self, name: str) -> Value | None:
        scope: Scope | None = self
        while scope is not None:
            if name in scope.values:
                return scope.values[name]
            scope = scope.outer
        raise ModelError(f"the model uses {name!r} before anything computes it: export it again")

    def inner(self, prefix: str) -> "Scope":
        """The scope of a subgraph, nested in this one."""
        return replace(self, values={}, outer=self, prefix=prefix, declared={})


@dataclass(slots=True, kw_only=True)
class BodyNode(Call):
    """An ONNX node in its scope: inputs looked up, attribute references replaced.

    `live` are the results that are read.
    """

    proto: onnx.NodeProto
    live: set[str]
    scope: Scope
    name: str
    protos: Mapping[str, onnx.AttributeProto]

    @property
    def domain(self) -> str:
        """The operator's domain, the default one as the empty string."""
        return domain_of(self.proto)

    @property
    def label(self) -> str:
        """Its operator and name, for messages."""
        return f"{self.op_type} {self.name!r}"

    @property
    def key(self) -> tuple[str, ...]:
        """The identity of its node, which every iteration of a loop shares."""
        return self.op_type, self.proto.name, *self.proto.output

    def follow(self, semantics: Semantics) -> None:
        """Note the rules in which it follows onnxruntime, and take the attributes that do so."""
        self.onnxruntime = semantics.followed(self.name, self)
        for rule in self.onnxruntime:
            self.attributes |= rule.attributes

    def unknown(self) -> Unsupported:
        """The error for an operator of which no form can be compiled."""
        return unknown_operator(self.op_type, self.domain, self.opset)

    @property
    def opset(self) -> int:
        """The version of the domain's opset, after the forms of the first ones are rewritten."""
        return max(self.imported, FIRST_KNOWN) if self.is_first else self.imported

    @property
    def imported(self) -> int:
        """The version of the domain's opset that the model imports; 0 if it imports none."""
        return self.scope.opsets.get(self.domain, 0)

    @property
    def is_first(self) -> bool:
        """Whether its form is one of the first opsets'."""
        return not self.domain and 0 < self.imported < FIRST_KNOWN


class Specialiser:
    """Specialises graphs into `graph`, and collects the operators that cannot be compiled.

    `remedy` is the remedy in errors about nodes whose inputs do not fit, None where a run gives
    these, whose errors are RunInputErrors.
    """

    def __init__(self, context: ModelContext, graph: Graph, remedy: str | None = None):
        self.context = context
        self.remedy = remedy
        self.functions = {(f.domain, f.name, f.overload): f for f in context.functions}
        self.expansion = Expansion()
        self.sizes = CallSizes(self.functions)
        self.builder = Builder(graph, self.expansion)
        self.rules = RULES | MEASURING if context.measures else RULES
        self.builder.has_kernel = context.has_kernel
        self.watch = IndexWatch(self.builder)
        self.builder.watch_indices = self.watch.add if context.check_indices else None
        self.shapes_bind = False
        self.longest_loop = sys.maxsize
        self.repeated: set[tuple[str, ...]] = set()
        self.problems: list[Problem] = []
        self._names: set[str] = set()
        self.reported: set[tuple[str, ...]] = set()

    def initialise(self, graph: onnx.GraphProto, scope: Scope) -> None:
        """Add a graph's initializers to its scope."""
        for name, array in arrays_of(graph, self.context.folder).items():
            self.expansion.stored_bytes += array.nbytes
            scope.values[name] = constant(name, array)

    def body(self, graph: onnx.GraphProto, scope: Scope, inputs: Sequence[Value]) -> list[Value]:
        """The outputs of a subgraph."""
        self.initialise(graph, scope)
        scope.values.update(zip((i.name for i in graph.input), inputs, strict=False))
        names = [output.name for output in graph.output]
        self.walk(graph.node, scope, names)
        return [required(scope[name]) for name in names]

    def types_of(
        self, graph: onnx.GraphProto, node: BodyNode, inputs: Sequence[Value]
    ) -> list[Value]:
        """The types of the outputs of a body that never runs; its operators are removed again."""
        operators, problems = len(self.builder.graph.operators), len(self.problems)
        results = self.body(graph, node.scope.inner(f"{node.name}/never/"), inputs)
        del self.builder.graph.operators[operators:], self.problems[problems:]
        if any(value.unknown for value in results):
            reason = "it runs zero times, and the shapes that it would stack are not known"
            raise Unsupported(reason, "remove it from the model")
        return results

    def walk(self, nodes: Sequence[onnx.NodeProto], scope: Scope, outputs: Iterable[str]) -> None:
        """Specialise the nodes on which outputs depend, in order."""
        for proto, used in live_nodes(nodes, outputs):
            self.visit(proto, used, scope)

    def visit(self, proto: onnx.NodeProto, live: set[str], scope: Scope) -> None:
        """Specialise a node, of which some outputs are read."""
        node = self._node(proto, live, scope)
        self.expansion.count(node.label)
        for name, value in zip(proto.output, self._outputs(node), strict=False):
            if name:
                value.name = value.name or scope.prefix + name
                scope.values[name] = value

    def _node(self, proto: onnx.NodeProto, live: set[str], scope: Scope) -> BodyNode:
        inputs = [scope[name] if name else None for name in proto.input]
        attributes: dict[str, onnx.AttributeProto] = {}
        for attribute in proto.attribute:
            if not attribute.ref_attr_name:
                attributes[attribute.name] = attribute
            elif attribute.ref_attr_name in scope.attributes:
                attributes[attribute.name] = scope.attributes[attribute.ref_attr_name]
        values = {name: self._attribute(a) for name, a in attributes.items()}
        return BodyNode(
            op_type=proto.op_type,
            version=scope.opsets.get(domain_of(proto), 0),
            inputs=inputs,
            attributes=values,
            used=[bool(name) for name in proto.output],
            builder=self.builder,
            proto=proto,
            live=live,
            scope=scope,
            name=self._unique(proto, scope),
            protos=attributes,
        )

    def _attribute(self, attribute: onnx.AttributeProto) -> object:
        kind = onnx.AttributeProto
        match attribute.type:
            case kind.TENSOR:
                array = array_of(attribute.t, self.context.folder)
                self.expansion.stored_bytes += array.nbytes
                return array
            case kind.SPARSE_TENSOR:
                return dense_array_of(attribute.sparse_tensor, self.context.folder)
            case kind.STRING:
                return attribute.s.decode(errors="replace")
            case kind.STRINGS:
                return [s.decode(errors="replace") for s in attribute.strings]
            case kind.INTS | kind.FLOATS:
                return list(helper.get_attribute_value(attribute))
            case _:
                return helper.get_attribute_value(attribute)

    def _unique(self, proto: onnx.NodeProto, scope: Scope) -> str:
        """The node's name, or one made of its operator and output."""
        output = next((o for o in proto.output if o), "")
        name = scope.prefix + (proto.name or f"{proto.op_type}_{output}")
        if not proto.name:
            base = name
            count = 1
            while name in self._names:
                count += 1
                name = f"{base}_{count}"
        self._names.add(name)
        return name

    def _outputs(self, node: BodyNode) -> Sequence[Value]:
        self.builder.node = node.name
        if any(value is not None and value.unknown for value in node.inputs):
            # Outputs of a node whose inputs are unknown: only its operator can be checked.
            if self._meaning(node) is None:
                return self._problem(node, node.unknown())
            return [Value(name) for name in node.proto.output]
        # The check of a node; only ONNX's operators without bodies are checked themselves.
        op_type = node.op_type
        own = not node.domain and op_type not in CONTROL and self._function_of(node) is None
        opset = node.opset if own else 0
        check = NodeCheck(node, node.name, opset, node.proto.output, self.remedy)
        try:
            schema = schema_of(node.op_type, node.opset, node.domain)
            if node.is_first and schema is not None:
                modernise(node)
            node.version = node.opset if schema is None else schema.since_version
            check.before_shapes()
            if check.is_own:
                node.follow(self.context.semantics)
            check.is_by_text = not any(rule.changes_shape for rule in node.onnxruntime)
            check.is_valid_by_text = not any(rule.refuses for rule in node.onnxruntime)
            check.shapes()
            old = node.op_type == "Scan" and node.opset < 9
            if node.op_type in CONTROL and not node.domain and not old:
                args = node.inputs, node.attributes, len(node.proto.output)
                check_bodies(node.op_type, *args)
            outputs = self._specialise(node)
            node.scope.declared = check.after(outputs, node.scope.declared)
            if self.context.check_indices and check.is_own:
                args = node.op_type, node.name, node.inputs
                self.watch.watch(*args, self._standard_call(node).__getitem__)
        except Unsupported as error:
            return self._problem(node, error)
        except Mismatch as error:
            raise check.error(error) from error
        except (Contradiction, ValueError, LookupError, ArithmeticError) as error:
            raise check.error(Mismatch(str(error))) from error
        return outputs

    def _function_of(self, node: BodyNode) -> onnx.FunctionProto | None:
        """The model-local function that a node calls, if it calls one."""
        return self.functions.get((node.domain, node.op_type, node.proto.overload))

    def _problem(self, node: BodyNode, error: Unsupported) -> list[Value]:
        where = f"{node.domain or 'ai.onnx'} opset {node.opset}"
        if node.key not in self.reported:  # reported once, however often a loop repeats it
            self.reported.add(node.key)
            self.problems.append(Problem(node.name, node.op_type, where, error))
        return [Value(name) for name in node.proto.output]

    def _meaning(self, node: BodyNode) -> Callable[[BodyNode], Sequence[Value]] | None:
        """The handler of the node's operator, or None if it has none."""
        op_type = node.op_type
        if operator_name(node.domain, op_type) in REGISTERED:
            return self._registered
        if self._function_of(node) is not None:
            return self._model_function
        if (node.domain, op_type) in CONTRIB:
            return self._contributed
        if node.domain == ML_DOMAIN and op_type in CLASSICAL:
            return self._classical
        if schema_of(op_type, node.opset, node.domain) is None:
            return None
        return self._schema_function if node.domain and _has_body(node) else self._standard(node)

    def _standard(self, node: BodyNode) -> Callable[[BodyNode], Sequence[Value]] | None:
        """The handler of an operator of the default domain; None for one of another."""
        op_type = node.op_type
        if node.domain or op_type in RANDOM:
            return None
        if op_type in CONTROL:
            return self._controlled
        if self._can_evaluate(node):
            return self._evaluated
        if op_type in self.rules:
            return self._rewritten
        if op_type in KINDS:
            return self._emitted
        has_function = op_type not in DATA_DEPENDENT and _has_body(node)
        return self._schema_function if has_function else None

    def _specialise(self, node: BodyNode) -> Sequence[Value]:
        meaning = self._meaning(node)
        if meaning is None:
            raise node.unknown()
        return meaning(node)

    def _can_evaluate(self, node: BodyNode) -> bool:
        """Whether the operator is supported on constants only, and its inputs are constants."""
        op_type = node.op_type
        compiled = op_type in RULES or op_type in KINDS
        return not compiled and is_known_operator(op_type) and is_known(node.inputs)

    def _evaluated(self, node: BodyNode) -> Sequence[Value]:
        names = list(node.proto.output)
        op_type = node.op_type
        if op_type in CREATED:
            return CREATED[op_type](self._standard_call(node))
        if op_type != "Constant":
            types = check_types(op_type, node.inputs, node.attributes, names, node.opset)
            self.builder.check_folding(op_type, node.inputs, node.attributes, types)
        arrays = evaluate(op_type, node.inputs, node.attributes, node.used)
        return [Value("") if a is None else constant("", a) for a in arrays]

    def _rewritten(self, node: BodyNode) -> Sequence[Value]:
        return self.rules[node.op_type](self._standard_call(node))

    def _emitted(self, node: BodyNode) -> Sequence[Value]:
        return self._standard_call(node).emit()

    def _standard_call(self, node: BodyNode) -> Call:
        attributes = {**inexact_defaults(node.op_type, node.opset), **node.attributes}
        return replace(node, inputs=list(node.inputs), attributes=attributes)

    def _registered(self, node: BodyNode) -> Sequence[Value]:
        name = operator_name(node.domain, node.op_type)
        return replace(_copied(node), op_type=name).emit()

    def _contributed(self, node: BodyNode) -> Sequence[Value]:
        return rewrite_contrib(node.domain, _copied(node))

    def _classical(self, node: BodyNode) -> Sequence[Value]:
        return CLASSICAL[node.op_type](_copied(node))

    def _controlled(self, node: BodyNode) -> Sequence[Value]:
        with self.expansion.inside(node.label):
            return CONTROL[node.op_type](self, node)

    def _model_function(self, node: BodyNode) -> Sequence[Value]:
        function = self._function_of(node)
        assert function is not None, node.label
        if excess := excess_of(node.proto, function):
            raise Mismatch(excess)
        return self._function(node, function, {a.name: a for a in function.attribute_proto})

    def _schema_function(self, node: BodyNode) -> Sequence[Value]:
        schema: Any = known_schema(node.op_type, node.opset, node.domain)
        defaults = {
            n: a.default_value for n, a in schema.attributes.items() if a.default_value.name
        }
        if schema.has_function:
            return self._function(
                node, with_opsets(schema.function_body, node.scope.opsets), defaults
            )
        names = ["" if v is None else f"i{i}" for i, v in enumerate(node.inputs)]
        attributes, captured = _bodies_apart(node)
        proto = make_node(node.op_type, names, node.proto.output, attributes, node.domain)
        types = [type_proto(v).SerializeToString() if v else b"" for v in node.inputs]
        body = schema.get_context_dependent_function(proto.SerializeToString(), types)
        function = with_opsets(onnx.FunctionProto.FromString(body), node.scope.opsets)
        return self._function(node, function, defaults, captured)

    def _function(
        self,
        node: BodyNode,
        function: onnx.FunctionProto,
        defaults: Mapping[str, onnx.AttributeProto],
        captured: Mapping[str, Value | None] | None = None,
    ) -> list[Value]:
        """The results of a function, in which names of `captured` have values of a caller."""
        opsets = opsets_of(function.opset_import)
        scope = Scope(opsets, attributes={**defaults, **node.protos}, prefix=f"{node.name}/")
        scope.values.update(captured or {})
        scope.values.update(dict.fromkeys(function.input))
        scope.values.update(zip(function.input, node.inputs, strict=False))
        names = zip(function.output, node.proto.output, strict=False)
        pairs = [(inner, outer in node.live) for inner, outer in names]
        with self.expansion.inside(node.label):
            self.expansion.expect(self.sizes.of(node.proto, node.live), node.label)
            self.walk(function.node, scope, (name for name, used in pairs if used))
        return [required(scope[name]) if used else Value("") for name, used in pairs]


def _copied(node: BodyNode) -> Call:
    """A node whose inputs and attributes a rule may change."""
    return replace(node, inputs=list(node.inputs), attributes=dict(node.attributes))


def _bodies_apart(node: BodyNode) -> tuple[Attributes, dict[str, Value | None]]:
    """A node's attributes, and the values that bodies among them capture, by their names there.

    A schema's function has the nodes of these bodies among its own, whose names are its alone: onnx
    renames them, but not where bodies in bodies read them.
    """
    attributes = dict(node.attributes)
    captured = dict[str, Value | None]()
    for name, body in node.attributes.items():
        if isinstance(body, onnx.GraphProto):
            if inner := control_flow_in(body):
                reason = f"{inner.op_type} in its {name!r} reads what that computes"
                raise Unsupported(reason, "write the body without control flow, by Where")
            attributes[name] = with_captures_apart(body, _AROUND)
            captured |= {_AROUND + read: node.scope[read] for read in captures_of(body)}
    return attributes, captured


def _has_body(node: BodyNode) -> bool:
    """Whether onnx defines a node's operator as a function of others."""
    schema: Any = known_schema(node.op_type, node.opset, node.domain)
    return schema.has_function or schema.has_context_dependent_function


def required(value: Value | None) -> Value:
    """A result; raises Unsupported for an omitted input."""
    if value is None:
        raise Unsupported("a function returns an input that is left out", "correct the model")
    return value


def is_compiled(node: onnx.NodeProto, opsets: Mapping[str, int]) -> bool:
    """Whether there are rules or kernels for an operator, at least on some inputs."""
    op_type = node.op_type
    domain = domain_of(node)
    if (domain, op_type) in CONTRIB or operator_name(domain, op_type) in REGISTERED:
        return True
    schema: Any = schema_of(op_type, opsets.get(domain, 0), domain)
    if schema is None:
        return False
    has_body = schema.has_function or schema.has_context_dependent_function
    own = op_type in CONTROL or op_type in RULES or op_type in KINDS
    return has_body or (own and not domain)
