"""Ways to compute a group: where a weight is packed already, a way that reads it as it is."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from compiler.kernels import database
from compiler.kernels.building.select import SAVING_COST, Candidate, Provenance
from compiler.kernels.cpu.host import database_name
from compiler.kernels.cpu.machine import host_target
from compiler.kernels.database.fields import config_fields
from compiler.kernels.group import Group, Node, TensorInfo
from compiler.kernels.template import KernelSource, Reserves, SharesWeights, Template
from compiler.target.target import CpuTarget, parse_cpu
from tests.kernels.template_cases import candidate_of, template_kernel

MACHINE = parse_cpu("cpu:x86-64-v4")


def group_of(type: str, *shapes: tuple[int, ...]) -> Group:
    """An operator on a tensor and a weight."""
    infos = tuple(TensorInfo("float32", shape) for shape in shapes)
    return Group("kernel", infos, 2, (False, True), {}, (Node(type, {}, (0, 1), (2,)),), (2,))


GROUPS = {
    "matmul": group_of("MatMul", (8, 256), (256, 192), (8, 192)),
    "convolution": group_of("Conv", (1, 96, 14, 14), (192, 96, 1, 1), (1, 192, 14, 14)),
}


def packing(group: Group) -> str:
    """The packing of the weight in the kernel that is built."""
    scheduled = template_kernel(group, MACHINE)
    assert scheduled is not None
    return scheduled.packings[1]


@pytest.mark.parametrize("name", GROUPS)
def test_a_weight_in_memory_is_read_as_it_is_where_that_costs_little(name: str):
    group = GROUPS[name]
    found = candidate_of(group, MACHINE)
    by_packing: dict[str, float] = {}
    for config in found.configs:
        time = found.estimate_ns(config) / found.least_ns
        by_packing.setdefault(found.emit(config).packings[1], time)
    usual, *others = by_packing
    near = [other for other in others if by_packing[other] <= SAVING_COST]
    far = [other for other in others if by_packing[other] > SAVING_COST]
    assert near, by_packing
    assert far, by_packing
    assert packing(group) == usual
    for given, wanted in ((near[0], near[0]), (far[0], usual), (usual, usual)):
        assert packing(replace(group, packed=(frozenset(), frozenset([given])))) == wanted


class Ways(Template[None, str, CpuTarget], Reserves, SharesWeights):
    """Ways with their times: memory has the weight of capitals, `x` is only built if measured."""

    name = "ways"

    def __init__(self, **times: float) -> None:
        self.times = times

    def match(self, group: Group, target: CpuTarget) -> Sequence[None]:
        """Any group."""
        return [None]

    def configs(self, problem: None, target: CpuTarget) -> Iterable[str]:
        """The ways."""
        return self.times

    def estimate_ns(self, problem: None, config: str, target: CpuTarget) -> float:
        """The time of a way."""
        return self.times[config]

    def emit(self, group: Group, problem: None, config: str, target: CpuTarget) -> KernelSource:
        """No kernel is written."""
        raise NotImplementedError

    def is_modelled(self, problem: None, config: str) -> bool:
        """As the name says."""
        return config != "x"

    def is_packed(self, group: Group, problem: None, config: str, target: CpuTarget) -> bool:
        """As the name says."""
        return config.isupper()


def test_of_configs_that_save_memory_the_likeliest_is_chosen():
    most, more = 100 * SAVING_COST, 101 * SAVING_COST
    group = replace(GROUPS["matmul"], packed=(frozenset(), frozenset(["any"])))

    def chosen(**times: float) -> str:
        return Candidate(Ways(**times), group, None, MACHINE).choose()[0]

    assert chosen(a=100, B=most, c=most, D=most, E=more) == "B"
    assert chosen(a=100, B=most, D=100.5, E=more) == "D"
    assert chosen(a=100, B=more, c=more) == "a"
    assert chosen(x=90, a=100, B=most) == "B"
    assert chosen(x=90, a=100, c=more) == "a"


PROBLEMS = {
    "matmul": '"batch":1,"rows":8,"columns":192,"depth":256,"transposed":[0,0],"packed":true,'
    '"computed":[0,0]',
    "convolution": '"batch":1,"groups":1,"channels":96,"filters":192,"image":[14,14],'
    '"kernel":[1,1],"strides":[1,1],"dilations":[1,1],"pads":[0,0],"output":[14,14],"flat":true,'
    '"computed":false',
}
"""The fields of the groups' problems as users' databases have them."""


@pytest.mark.parametrize("name", GROUPS)
def test_a_users_database_of_an_older_version_is_read(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv(database.DATABASE_VARIABLE, str(tmp_path))
    found = candidate_of(GROUPS[name], host_target())
    wanted = found.configs[3]
    config = json.dumps(dict(config_fields(wanted)))
    lines = [
        '{"format": 3, "device": "this CPU"}',
        f'{{"problem":{{"template":"{name}",{PROBLEMS[name]}}},"device":"this CPU","version":'
        f'"0123456789ab llvmlite 0.40","configs":[{{"config":{config},"warm":1.0,"cold":null}}]}}',
    ]
    database.user_file(database_name(host_target())).write_text("\n".join(lines))
    found = candidate_of(GROUPS[name], host_target())
    assert found.choose() == (wanted, Provenance.OTHER_VERSION)


def test_what_memory_has_decides_the_kernel():
    group = GROUPS["matmul"]
    marked = [replace(group, packed=(frozenset(), frozenset(p))) for p in ("", "ab", "ba", "a")]
    hashes = [one.content_hash() for one in (group, *marked)]
    assert hashes[2] == hashes[3]
    assert len({*hashes}) == 4
