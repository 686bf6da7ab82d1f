"""Ways to compute a group: where a weight is packed already, a way that reads it as it is."""

from dataclasses import replace

import pytest

from compiler.kernels.cpu.tunable import SAVING_COST, Tunable, saving_memory
from compiler.kernels.group import Group, Operator, TensorInfo
from compiler.kernels.kernel import apply_template, cpu_tunable
from compiler.target.target import parse_cpu

MACHINE = parse_cpu("cpu:x86-64-v4")


def group_of(type: str, *shapes: tuple[int, ...]) -> Group:
    """An operator on a tensor and a weight."""
    infos = tuple(TensorInfo("float32", shape) for shape in shapes)
    return Group("kernel", infos, 2, (False, True), {}, (Operator(type, {}, (0, 1), (2,)),), (2,))


GROUPS = {
    "matmul": group_of("MatMul", (8, 256), (256, 192), (8, 192)),
    "convolution": group_of("Conv", (1, 96, 14, 14), (192, 96, 1, 1), (1, 192, 14, 14)),
}


def ways(group: Group) -> Tunable:
    """The ways to compute a group."""
    found = cpu_tunable(group, MACHINE)
    assert found is not None
    return found


def packing(group: Group) -> str:
    """The packing of the weight in the kernel that is built."""
    scheduled = apply_template(group, MACHINE)
    assert scheduled is not None
    return scheduled.packings[1]


@pytest.mark.parametrize("name", GROUPS)
def test_a_weight_in_memory_is_read_as_it_is_where_that_costs_little(name: str):
    group = GROUPS[name]
    found = ways(group)
    by_packing: dict[str, float] = {}
    for config, slots in zip(found.configs, found.slots, strict=True):
        by_packing.setdefault(found.schedule(config).packings[1], slots / found.slots[0])
    usual, *others = by_packing
    near = [other for other in others if by_packing[other] <= SAVING_COST]
    far = [other for other in others if by_packing[other] > SAVING_COST]
    assert near, by_packing
    assert far, by_packing
    assert packing(group) == usual
    for given, wanted in ((near[0], near[0]), (far[0], usual), (usual, usual)):
        assert packing(replace(group, packed=(frozenset(), frozenset([given])))) == wanted


def test_of_configs_that_save_memory_the_likeliest_come_first():
    def is_packed(config: str) -> bool:
        return config in "bde"

    most, more = 100 * SAVING_COST, 101 * SAVING_COST
    assert saving_memory("abcde", [100, most, most, most, more], is_packed) == ["b", "d"]
    assert saving_memory("acbde", [100, most, more, more, more], is_packed) == [*"acbde"]


def test_what_memory_has_decides_the_kernel():
    group = GROUPS["matmul"]
    marked = [replace(group, packed=(frozenset(), frozenset(p))) for p in ("", "ab", "ba", "a")]
    hashes = [one.content_hash() for one in (group, *marked)]
    assert hashes[2] == hashes[3]
    assert len({*hashes}) == 4
