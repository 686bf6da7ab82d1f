"""Groups whose tensors may have their channels in blocks, and all their layouts."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy

from compiler.ir.layouts import can_block
from compiler.kernels.group import Group, Node, TensorInfo

Array = numpy.ndarray


@dataclass(frozen=True)
class Case:
    """A group with row-major tensors, and arrays for its reads."""

    group: Group
    inputs: tuple[Array, ...]


def case(
    name: str,
    reads: Sequence[Sequence[int]],
    operators: Sequence[Node[int]],
    results: Sequence[Sequence[int]],
    weights: int = 0,
    written: Sequence[int] = (),
    constants: Sequence[Array] = (),
) -> Case:
    """Reads first (the last `weights` of them weights), then constants, then results."""
    rng = numpy.random.default_rng(len(name))
    arrays = tuple(rng.standard_normal(shape).astype("float32") for shape in reads)
    values = [TensorInfo("float32", tuple(shape)) for shape in reads]
    values += [TensorInfo(c.dtype.name, c.shape) for c in constants]
    values += [TensorInfo("float32", tuple(shape)) for shape in results]
    flags = tuple(i >= len(reads) - weights for i in range(len(reads)))
    fixed = {len(reads) + i: c for i, c in enumerate(constants)}
    outputs = tuple(written) or (len(values) - 1,)
    group = Group(name, tuple(values), len(reads), flags, fixed, tuple(operators), outputs)
    return Case(group, arrays)


def layouts(group: Group, block: int = 4) -> Iterator[Group]:
    """The group with each choice of reads and writes whose channels are in blocks."""
    stored = [
        i
        for i in (*range(group.inputs), *group.outputs)
        if not (i < group.inputs and group.weights[i])
    ]
    able = [i for i in dict.fromkeys(stored) if can_block(group.values[i].shape, block)]
    for chosen in itertools.product((0, block), repeat=len(able)):
        values = list(group.values)
        for i, amount in zip(able, chosen, strict=True):
            values[i] = replace(values[i], block=amount)
        suffix = "".join(map(str, chosen))
        yield replace(group, name=f"{group.name}_{suffix}", values=tuple(values))


IMAGE = (2, 8, 5, 7)
DOUBLED = {"roi": [], "scales": [1.0, 1.0, 2.0, 2.0], "sizes": []}
POOL = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}

CASES = [
    case("copy", [IMAGE], [Node("Identity", {}, (0,), (1,))], [IMAGE]),
    case(
        "residual",
        [IMAGE, IMAGE],
        [Node("Add", {}, (0, 1), (2,)), Node("Relu", {}, (2,), (3,))],
        [IMAGE, IMAGE],
    ),
    case(
        "gate",
        [IMAGE, (2, 8, 1, 1), (8, 1, 1)],
        [Node("Mul", {}, (0, 1), (3,)), Node("Add", {}, (3, 2), (4,))],
        [IMAGE, IMAGE],
        weights=1,
    ),
    case(
        "two",
        [IMAGE],
        [Node("Relu", {}, (0,), (1,)), Node("Exp", {}, (0,), (2,))],
        [IMAGE, IMAGE],
        written=(1, 2),
    ),
    case(
        "largest",
        [IMAGE],
        [Node("MaxPool", POOL, (0,), (1,)), Node("Relu", {}, (1,), (2,))],
        [(2, 8, 3, 4), (2, 8, 3, 4)],
    ),
    case("mean", [IMAGE], [Node("AveragePool", POOL, (0,), (1,))], [(2, 8, 3, 4)]),
    case("whole", [(1, 8, 9, 9)], [Node("GlobalAveragePool", {}, (0,), (1,))], [(1, 8, 1, 1)]),
    case(
        "concat",
        [IMAGE, (2, 4, 5, 7)],
        [Node("Concat", {"axis": 1}, (0, 1), (2,))],
        [(2, 12, 5, 7)],
    ),
    case("rows", [IMAGE, IMAGE], [Node("Concat", {"axis": 2}, (0, 1), (2,))], [(2, 8, 10, 7)]),
    case(
        "split",
        [(2, 12, 3, 3)],
        [Node("Split", {"axis": 1, "sizes": [8, 4]}, (0,), (1, 2))],
        [(2, 8, 3, 3), (2, 4, 3, 3)],
        written=(1, 2),
    ),
    case(
        "grow",
        [IMAGE],
        [Node("Resize", {"mode": "nearest", **DOUBLED}, (0,), (1,))],
        [(2, 8, 10, 14)],
    ),
    case(
        "turn",
        [(1, 4, 8, 3)],
        [Node("Transpose", {"perm": [0, 2, 1, 3]}, (0,), (1,))],
        [(1, 8, 4, 3)],
    ),
    case("line", [(2, 8, 9)], [Node("Relu", {}, (0,), (1,))], [(2, 8, 9)]),
    case("solid", [(1, 4, 3, 2, 5)], [Node("Exp", {}, (0,), (1,))], [(1, 4, 3, 2, 5)]),
    case("softmax", [(1, 8, 3, 3)], [Node("Softmax", {"axis": 1}, (0,), (1,))], [(1, 8, 3, 3)]),
    case("spatial", [(2, 8, 3, 5)], [Node("Softmax", {"axis": -1}, (0,), (1,))], [(2, 8, 3, 5)]),
    case(
        "instance",
        [IMAGE, (8,), (8,)],
        [Node("InstanceNormalization", {"epsilon": 1e-5}, (0, 1, 2), (3,))],
        [IMAGE],
        weights=2,
    ),
    case(
        "depthwise",
        [IMAGE, (8, 1, 3, 3), (8,)],
        [
            Node("Relu", {}, (0,), (3,)),
            Node("Conv", {"group": 8, "pads": [1] * 4}, (3, 1, 2), (4,)),
            Node("Relu", {}, (4,), (5,)),
        ],
        [IMAGE, IMAGE, IMAGE],
        weights=2,
    ),
    case(
        "dense",
        [(2, 8, 5, 5), (12, 8, 3, 3), (12,), (2, 12, 3, 3)],
        [
            Node("Conv", {"strides": [2, 2], "pads": [1] * 4}, (0, 1, 2), (4,)),
            Node("Add", {}, (4, 3), (5,)),
        ],
        [(2, 12, 3, 3), (2, 12, 3, 3)],
    ),
]
"""Operators that meet blocked tensors in real models."""
