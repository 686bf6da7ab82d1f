"""Groups with ranges of results, and the same groups as templates see them."""

from dataclasses import dataclass, replace

from compiler.errors import KernelError
from compiler.kernels.group import Group, Node, TensorInfo, needed
from compiler.net.operators import PARTIAL_RANGES, facts_of

FLOAT = 1
"""ONNX's number of float32."""


@dataclass(frozen=True)
class RangedResult:
    """The numbers of the buffers of a result and of the extremes of its `count` parts."""

    tensor: int
    lows: int
    highs: int
    info: TensorInfo
    count: int


def ranged_results(group: Group) -> list[RangedResult]:
    """The results of a group whose ranges it writes."""
    makers = {value: op for op in group.operators for value in op.outputs}
    results: list[RangedResult] = []
    for op in group.operators:
        if op.type == PARTIAL_RANGES:
            value = op.operand(0)
            while value not in group.outputs:
                assert facts_of(makers[value].type).converts, "a range of what is not stored"
                value = makers[value].operand(0)
            tensor, lows, highs = (
                group.inputs + group.outputs.index(v) for v in (value, *op.outputs)
            )
            info = group.values[value]
            count = int(op.attributes["count"])
            results.append(RangedResult(tensor, lows, highs, info, count))
    return results


def without_ranges(group: Group) -> Group:
    """The group without ranges, which are its last results; the group itself if it has none.

    Raises KernelError for a group of ranges alone.
    """
    ranges = {v for op in group.operators if op.type == PARTIAL_RANGES for v in op.outputs}
    if not ranges:
        return group
    outputs = tuple(value for value in group.outputs if value not in ranges)
    if not outputs:
        label = next(op.label for op in group.operators if op.type == PARTIAL_RANGES)
        raise KernelError(
            f"no kernel for {label}: a GPU finds ranges while it stores the tensor, in one kernel;"
            " import the model for the target, or give the tensor another operator"
        )
    assert group.outputs[: len(outputs)] == outputs, "ranges are the last results"
    return replace(group, operators=needed(group.operators, outputs), outputs=outputs)


def with_folded_results(group: Group) -> Group:
    """The group as a store function sees it: an extreme is a result with the tensor's elements."""
    values = list(group.values)
    operators = list[Node[int]]()
    for op in group.operators:
        if op.type != PARTIAL_RANGES:
            operators.append(op)
            continue
        shape = group.values[op.operand(0)].shape
        for value, kind in zip(op.outputs, ("minimum", "maximum"), strict=True):
            values[value] = TensorInfo("float32", shape, folded=kind)
            cast = replace(op, type="Cast", attributes={"to": FLOAT}, outputs=(value,))
            operators.append(cast)
    return replace(group, values=tuple(values), operators=tuple(operators))


def folded_buffers(group: Group) -> tuple[int, ...]:
    """The numbers of the buffers of a group's folded results: the least elements, the greatest."""
    return tuple(group.inputs + i for i, info in enumerate(group.writes) if info.folded)


def without_folded(group: Group) -> Group:
    """The group without folded results, for templates that fold by another function."""
    outputs = tuple(value for value in group.outputs if not group.values[value].folded)
    if len(outputs) == len(group.outputs):
        return group
    return replace(group, operators=needed(group.operators, outputs), outputs=outputs)
