"""Entry points with their launches, and the templates that have no config for a problem."""

from collections.abc import Iterable
from unittest.mock import Mock

from compiler.kernels.gpu.epilogue import Parameter
from compiler.kernels.gpu.structs import (
    Functor,
    functor_parameters,
    kernel,
    numbered_parameters,
    restricted,
)
from compiler.kernels.group import Group
from compiler.kernels.template import KernelSource, Template
from compiler.schedule.kernels import Launch
from compiler.target.target import GpuTarget, parse_gpu


def test_a_launch_passes_the_buffers_that_the_entry_point_declares():
    bare = Launch("own", (), (2, 1, 3), (64, 1, 1), 128)
    parameters = [restricted("const float*", "from", 4), Parameter("half*", "to", 1)]
    text, launch = kernel(bare, parameters, "copy(from, to)", cluster=3)
    assert launch == Launch("own", (4, 1), (2, 1, 3), (64, 1, 1), 128)
    head = "__cluster_dims__(1, 1, 3) __launch_bounds__(64) own"
    assert f"{head}(const float* __restrict__ from, half* to) {{\n  copy(from, to);\n}}" in text
    assert "__launch_bounds__(64, 2)" in kernel(bare, parameters, "copy(from, to)", "64, 2")[0]


def test_functors_are_made_of_buffers_in_the_order_of_the_parameters():
    load = Functor("Load", "", ("float", "int"), (2, 0), inner="Element")
    store = Functor("Store", "", ("half",), (5,))
    parameters, made = functor_parameters([load, store])
    assert made == ["Load{Element{buffer0, buffer1}}", "Store{buffer2}"]
    assert [(own.type, own.name, own.number) for own in parameters] == [
        ("float*", "buffer0", 2),
        ("int*", "buffer1", 0),
        ("half*", "buffer2", 5),
    ]
    assert numbered_parameters({7: "float"}) == [Parameter("float*", "buffer7", 7)]


class Halving(Template[int, int, GpuTarget]):
    """Groups as many as their inputs; configs divide these by two."""

    name = "halving"

    def problem(self, group: Group, target: GpuTarget) -> int | None:
        return group.inputs or None

    def configs(self, problem: int, target: GpuTarget) -> Iterable[int]:
        return range(problem // 2)

    def estimate_ns(self, problem: int, config: int, target: GpuTarget) -> float:
        return 1.0

    def emit(self, group: Group, problem: int, config: int, target: GpuTarget) -> KernelSource:
        return KernelSource()


def test_a_group_matches_where_it_has_a_problem_and_that_a_config():
    target = parse_gpu("cuda:sm_90:tf32")
    matches = [Halving().match(Mock(inputs=count), target) for count in (0, 1, 2)]
    assert matches == [[], [], [2]]  # no problem, no config, both
