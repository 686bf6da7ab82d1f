"""Footprints of kernels are reported, and kept in artifacts and caches."""

from dataclasses import replace
from pathlib import Path

import numpy
from onnx import helper

import compiler
from compiler.kernels.building.cache import decode_entry, encode_entry
from compiler.schedule.kernels import DECLARED, Footprint, KernelSpec, Launch
from compiler.tools.report import report
from compiler.verify.footprints import MOST_ACCESSES, containment_lines

READ = KernelSpec(
    name="Relu_1",
    language="object",
    code=b"",
    launches=(Launch("Relu_1_0", (0, 1)),),
    packings=("",),
    footprint=Footprint(("Relu_1_0",), 7, 2, 1),
)
OPEN = replace(
    READ,
    footprint=replace(READ.footprint, undecided=("Relu_1_0 reads element n of x, which has 3",)),
)
BY_HAND = replace(READ, footprint=DECLARED)


def test_what_is_not_proved_is_listed():
    assert list(containment_lines([READ, READ])) == ["2 of 2 kernels proved inside their tensors"]
    assert list(containment_lines([READ, OPEN, BY_HAND])) == [
        "1 of 3 kernels proved inside their tensors, 1 only tested, 1 written by hand and tested",
        "no proof: Relu_1_0 reads element n of x, which has 3",
    ]
    many = replace(OPEN, footprint=replace(OPEN.footprint, undecided=("an access",) * 14))
    *_, last = containment_lines([many])
    assert last == f"no proof: {14 - MOST_ACCESSES} more accesses"


def test_a_launch_that_nobody_read_makes_a_kernel_declared():
    more = replace(READ, launches=(*READ.launches, Launch("Relu_1_range0", (1,))))
    assert (READ.containment, more.containment) == ("proved", "declared")


def test_a_footprint_is_kept_in_caches():
    for kernel in (READ, OPEN, BY_HAND):
        assert decode_entry(encode_entry(kernel)) == kernel


def test_a_footprint_is_kept_in_artifacts(tmp_path: Path):
    x, y = (helper.make_tensor_value_info(name, 1, [3, 40]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Softmax", ["x"], ["y"])], "softmax", [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    module = compiler.compile(model)
    module.save(tmp_path / "saved")
    loaded = compiler.load(tmp_path / "saved")
    assert [k.footprint for k in loaded.kernels.values()] == [
        k.footprint for k in module.kernels.values()
    ]
    assert "access   1 of 1 kernel proved inside their tensors\n" in report(loaded)
    data = numpy.zeros((3, 40), "float32")
    assert loaded.run({"x": data})["y"].shape == (3, 40)
