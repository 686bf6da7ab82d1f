"""The pass that fuses a depthwise convolution with the pointwise one that follows."""

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from compiler.errors import PipelineError
from compiler.graph.separable import ConvolutionShapes, are_separable, pays
from compiler.graph.targets import target_of
from compiler.ir.dataflow import GraphOp, GroupOp, OperatorOp, WeightOp
from compiler.ir.edit import erase_dead, graphs_of, insert_before
from compiler.ir.types import dtype_of, shape_of
from compiler.ir.values import attributes_of
from compiler.net.operators import KINDS, Kind
from compiler.passes.base import GraphPass
from compiler.passes.graph.group_maker import make_group, ungroup

FUSION_POLICIES = ("never", "cost", "always")


@dataclass(frozen=True)
class FuseDepthwisePointwise(GraphPass):
    """Fuse a depthwise convolution, and the Relu before it, with the pointwise convolution that
    is the only user of its result.

    Requires: `fuse-operators` ran. Ensures, if asked, in a graph for a target with such kernels
    (cuda, emu): where the policy says so, both convolutions are in one group, with all operators of
    the second one's group, and with a Relu that was a group for them alone; each group's `kernel`
    is its signature.

        %1 = dataflow.group "Relu_a" (%0) ...
        %2 = dataflow.group "Conv_b" (%1, %window) ...
        %3 = dataflow.group "Conv_Add_c" (%2, %w, %y) ...
      becomes
        %3 = dataflow.group "Relu_Conv_Conv_d" (%0, %window, %w, %y) ...
    """

    name = "fuse-depthwise-pointwise"

    policy: str = "never"
    """`never`: on an H200 seven of nine shapes are slower fused; `cost`: where
    `compiler.graph.separable` says that it pays; `always`: wherever there is such a kernel."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Fuse the separable convolutions of every `dataflow.graph` of the module."""
        if self.policy not in FUSION_POLICIES:
            raise PipelineError(
                f"unknown policy {self.policy!r}: use one of {', '.join(FUSION_POLICIES)}"
            )
        for graph in graphs_of(op):
            if target_of(graph).fuses_depthwise_pointwise and self.policy != "never":
                self._fuse(graph)

    def _fuse(self, graph: GraphOp) -> None:
        element_bytes = 2 if target_of(graph).precision in ("fp16", "bf16") else 4
        for pair in list(_pairs(graph)):
            first, second = (_described(op) for op in pair)
            if self.policy == "always" or pays(first, second, element_bytes):
                _merge(*(_group_of(op) for op in pair))


def _pairs(graph: GraphOp) -> Iterator[tuple[OperatorOp, OperatorOp]]:
    """Pairs of a depthwise convolution and the pointwise one that is its only user."""
    for group in graph.groups:
        pointwise = _only_anchor(group)
        if pointwise is None or not _is_fed(pointwise, group):
            continue
        producer = _source(pointwise.inputs[0], group)
        depthwise = _only_anchor(producer) if isinstance(producer, GroupOp) else None
        if depthwise is None or not _is_bare(depthwise):
            continue
        if are_separable(_described(depthwise), _described(pointwise)):
            yield depthwise, pointwise


def _described(conv: OperatorOp) -> ConvolutionShapes:
    image, weight, result = (shape_of(v.type) for v in (*conv.inputs[:2], conv.outputs[0]))
    return ConvolutionShapes(image, weight, result, attributes_of(conv))


def _only_anchor(group: GroupOp) -> OperatorOp | None:
    """The convolution, with constant weights, of a group of otherwise elementwise operators."""
    anchors = [op for op in group.operators if KINDS[op.type_name] is not Kind.ELEMENTWISE]
    if len(anchors) != 1 or anchors[0].type_name != "Conv":
        return None
    weight = anchors[0].inputs[1]
    constant = isinstance(_source(weight, group), WeightOp) and weight.has_one_use()
    return anchors[0] if constant and dtype_of(anchors[0].outputs[0].type) == "float32" else None


def _source(value: SSAValue, group: GroupOp) -> Operation | None:
    """The producer of a group's input; None for the graph's inputs and values of the group."""
    arguments: list[SSAValue] = list(group.body.block.args)
    owner = group.inputs[arguments.index(value)].owner if value in arguments else None
    return owner if isinstance(owner, Operation) else None


def _is_fed(pointwise: OperatorOp, group: GroupOp) -> bool:
    """Whether another group computes the image, for this one only; both store the same type."""
    image = pointwise.inputs[0]
    producer = _source(image, group)
    if not isinstance(producer, GroupOp) or len(producer.outputs) != 1:
        return False
    shapes = {shape_of(value.type) for value in group.outputs}
    alike = shapes == {shape_of(pointwise.outputs[0].type)}
    return alike and image.has_one_use() and producer.outputs[0].has_one_use()


def _is_bare(depthwise: OperatorOp) -> bool:
    """Whether a group is a convolution without a bias, perhaps after a Relu."""
    group = _group_of(depthwise)
    names = [op.type_name for op in group.operators]
    last = group.results_yielded[0] is depthwise.outputs[0]
    return len(depthwise.inputs) == 2 and last and names in (["Conv"], ["Relu", "Conv"])


def _group_of(op: OperatorOp) -> GroupOp:
    group = op.parent_op()
    assert isinstance(group, GroupOp)
    return group


def _merge(first: GroupOp, second: GroupOp) -> None:
    """Merge two groups, and a Relu that computes the first one's input."""
    following = second.next_op
    relu = _relu_before(first)
    operations = [*ungroup(first), *ungroup(second)]
    if relu is not None:
        # A clone of a group's Relu, for these users only.
        (value,), (result,) = relu.inputs, relu.outputs
        name = next(relu.operators).node_name
        copy = OperatorOp("Relu", [value], [result.type], node=name)
        insert_before(operations[0], copy)
        result.replace_uses_with_if(copy.outputs[0], lambda use: use.operation in operations)
        operations.insert(0, copy)
    members = [op for op in operations if isinstance(op, OperatorOp)]
    group = make_group(members, anchor=following)
    outside = [op for op in operations if op.parent_op() is not group]
    erase_dead([*([relu] if relu else []), *outside])


def _relu_before(group: GroupOp) -> GroupOp | None:
    """The group of a single Relu that computes the image of a depthwise convolution, or None."""
    conv = _only_anchor(group)
    producer = _source(conv.inputs[0], group) if conv is not None else None
    if not isinstance(producer, GroupOp) or len(producer.inputs) != 1:
        return None
    return producer if [op.type_name for op in producer.operators] == ["Relu"] else None
