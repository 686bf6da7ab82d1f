"""First convolutions of networks on the emulator, against float64, and their choice."""

from dataclasses import replace
from pathlib import Path

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.kernels import database
from compiler.kernels.building.cuda_kernel import compile_text, generate
from compiler.kernels.building.select import measurable
from compiler.kernels.database import Database
from compiler.kernels.gpu.source import complete_text
from compiler.kernels.gpu.templates.gemm.read import read_problem
from compiler.kernels.gpu.templates.stem_conv.config import Config as Work
from compiler.kernels.gpu.templates.stem_conv.config import candidates, halo_of, pitch
from compiler.kernels.gpu.templates.stem_conv.problem import Problem
from compiler.kernels.gpu.templates.stem_conv.template import diverse
from compiler.kernels.group import Group, TensorInfo
from compiler.target.target import parse_gpu
from tests.kernels.gpu.emulator import COMPILER, run, run_twice
from tests.kernels.gpu.of_template import entry, estimated, estimated_tile, kernel_in, problem_in
from tests.kernels.gpu.templates.test_grouped import (
    Shape,
    draw_inputs,
    reference,
    residual_convolution,
)
from tests.tools import needs_nvrtc

PRECISIONS = {"tf32": "float32", "fp16": "float16", "bf16": "bfloat16"}
TOLERANCES = {"tf32": 2e-3, "fp16": 2e-3, "bf16": 2e-2}

TARGET = parse_gpu("cuda:sm_90:tf32")

STEMS = {
    "ResNet-50": Shape(3, (299, 299), (7, 7), (2, 2), (1, 1), (3, 3, 3, 3), 1, 0, 64),
    "UNet": Shape(3, (224, 224), (3, 3), (1, 1), (1, 1), (1, 1, 1, 1), 1, 0, 32),
    "Inception": Shape(3, (299, 299), (3, 3), (2, 2), (1, 1), (0, 0, 0, 0), 1, 0, 32),
    "PNASNet": Shape(3, (331, 331), (3, 3), (2, 2), (1, 1), (0, 0, 0, 0), 1, 0, 96),
}
"""First convolutions of models."""

VIDEO = Shape(3, (32, 224, 224), (5, 7, 7), (1, 2, 2), (1,) * 3, (2, 3, 3) * 2, 1, 0, 8)
"""The first convolution of SlowFast's fast pathway."""

emulated = pytest.mark.skipif(COMPILER is None, reason="g++ compiles the emulated kernels")


def convolution(shape: Shape, stored: str, block: int = 0, image: str = "float32") -> Group:
    """relu(conv(x, w) + bias + y), of an image and with a result of given types."""
    result = (shape.batch, shape.filters, *shape.output)
    weight = (shape.filters, shape.channels, *shape.kernel)
    given, wide = (shape.batch, shape.channels, *shape.image), TensorInfo("float32", result)
    reads = (
        TensorInfo(image, given),
        TensorInfo(image, weight),
        TensorInfo("float32", (shape.filters,)),
        TensorInfo("float32", result),
    )
    attributes = {
        "strides": list(shape.strides),
        "dilations": list(shape.dilations),
        "pads": list(shape.pads),
    }
    operators = residual_convolution(attributes, stored)
    inner = (TensorInfo("float32", given), TensorInfo("float32", weight), wide, wide, wide)
    values = (*reads, *inner, TensorInfo(stored, result, block))
    return Group("stem", values, 4, (False, True, True, False), {}, operators, (9,))


def without_sum(group: Group) -> Group:
    """relu(conv(x, w) + bias), as models begin."""
    first, second, conv, _, relu, cast = group.operators
    return replace(group, operators=(first, second, conv, replace(relu, inputs=(6,)), cast))


def check(shape: Shape, precision: str, group: Group, work: Work) -> None:
    """Run on the emulator and compare."""
    inputs = draw_inputs(group)
    kernel = kernel_in("stem_conv", group, parse_gpu(f"cuda:sm_90:{precision}"), work)
    assert kernel is not None
    assert "convolve_stem" in kernel.text
    (result,) = run_twice(kernel, group, inputs)
    bound = TOLERANCES[precision] * (shape.channels * numpy.prod(shape.kernel)) ** 0.5
    expected = reference(replace(shape, members=shape.channels), inputs)
    numpy.testing.assert_allclose(result.astype("float64"), expected, bound, bound)


@st.composite
def shapes(draw: st.DrawFn) -> Shape:
    """Small convolutions of few channels, of volumes too, whose windows fit at least once."""
    deep = draw(st.integers(0, 2)) == 0

    def axes(least: int, most: int) -> tuple[int, ...]:
        depth = [draw(st.integers(least, min(most, 3)))] if deep else []
        return (*depth, *(draw(st.integers(least, most)) for _ in range(2)))

    pads = axes(0, 4) + axes(0, 4)
    filters = draw(st.sampled_from([1, 6, 16, 20, 32, 64]))
    shape = Shape(draw(st.integers(1, 4)), axes(1, 21), axes(1, 7), axes(1, 3), axes(1, 2), pads,
                  draw(st.integers(1, 2)), 0, filters)  # fmt: skip
    return shape if min(shape.output) > 0 else replace(shape, pads=(12,) * len(pads))


@emulated
@settings(max_examples=12, deadline=None)
@given(shapes(), st.sampled_from(sorted(PRECISIONS)), st.booleans(), st.booleans(), st.data())
def test_any_convolution_is_right(
    shape: Shape, precision: str, blocked: bool, narrow: bool, data: st.DataObject
):
    stored = PRECISIONS[precision]
    block = 4 if stored == "float32" else 8
    block = block if blocked and shape.filters % block == 0 else 0
    group = convolution(shape, stored, block, stored if narrow else "float32")
    target = parse_gpu(f"cuda:sm_90:{precision}")
    found = problem_in("stem_conv", group, target)
    assert found is not None
    works = list(candidates(found, target))
    check(shape, precision, group, data.draw(st.sampled_from(works)))


SMALL = Shape(3, (9, 13), (3, 3), (1, 1), (1, 1), (1, 1, 1, 1), 1, 0, 32)
VOLUME = Shape(
    2, (6, 12, 14), (3, 3, 3), (2, 1, 1), (2, 1, 1), (3, 1, 1, 1, 1, 1), batch=2, filters=32
)


@emulated
@pytest.mark.parametrize("precision", sorted(PRECISIONS))
@pytest.mark.parametrize(
    ("shape", "work"),
    [
        (replace(SMALL, batch=3), Work(4, 16, 16, 32, 4)),
        (replace(SMALL, pads=(11, 3, 2, 14)), Work(2, 16, 32, 32, 1)),
        (replace(SMALL, image=(1, 40), kernel=(1, 11), pads=(0, 5, 0, 5)), Work(1, 32, 16, 32, 1)),
        (replace(SMALL, kernel=(7, 7), strides=(2, 2), filters=192), Work(2, 8, 16, 96, 2)),
        (replace(SMALL, image=(23, 31), kernel=(11, 11), strides=(4, 4)), Work(4, 8, 16, 32, 1)),
        (replace(SMALL, channels=4, kernel=(1, 1), filters=30), Work(4, 8, 16, 32, 1)),
        (VOLUME, Work(4, 16, 16, 32, 2)),
        (replace(VOLUME, kernel=(1, 7, 7), dilations=(1, 1, 1)), Work(2, 8, 16, 32, 1)),
    ],
    ids=["turns", "pads", "row", "slices", "stride 4", "pointwise", "volume", "planes"],
)
def test_blocks_of_any_shape(shape: Shape, work: Work, precision: str):
    stored = PRECISIONS[precision]
    block = 0 if shape.filters % 8 else 4 if stored == "float32" else 8
    check(shape, precision, convolution(shape, stored, block), work)


def problem_of(shape: Shape, precision: str = "tf32") -> Problem:
    """The problem of a convolution of a float32 image with a blocked result."""
    stored = PRECISIONS[precision]
    group = convolution(shape, stored, 4 if stored == "float32" else 8)
    found = problem_in("stem_conv", group, parse_gpu(f"cuda:sm_90:{precision}"))
    assert found is not None
    return found


@given(st.integers(1, 4), st.tuples(*[st.integers(1, 11)] * 2), st.sampled_from(["tf32", "fp16"]))
def test_every_tap_is_multiplied_once(channels: int, kernel: tuple[int, int], precision: str):
    shape = replace(SMALL, channels=channels, image=(20, 20), kernel=kernel)
    taken = list(problem_of(shape, precision).tap_order())
    taps = channels * kernel[0] * kernel[1]
    assert sorted(tap for tap in taken if tap < taps) == list(range(taps))
    assert set(taken) <= set(range(taps + 1))


def test_taps_along_the_depth_are_channels():
    problem = problem_of(VIDEO)
    assert problem.extents == (15, 7, 7)
    assert problem.images == 32


@emulated
@pytest.mark.parametrize("precision", sorted(PRECISIONS))
def test_infinities_and_nans_stay_in_their_windows(precision: str):
    shape = replace(SMALL, filters=16, pads=(2, 2, 2, 2))
    group = convolution(shape, PRECISIONS[precision])
    image, *others = draw_inputs(group)
    image[0, 1, 4, 5] = numpy.inf
    target, work = parse_gpu(f"cuda:sm_90:{precision}"), Work(4, 16, 16, 16, 1)
    kernel = kernel_in("stem_conv", group, target, work)
    assert kernel is not None
    (result,) = run(kernel, group, [image, *others])
    rows, columns = numpy.nonzero(~numpy.isfinite(result.astype("float64"))[0].all(0))
    assert set(zip(rows.tolist(), columns.tolist(), strict=True)) == {
        (y, x) for y in (4, 5, 6) for x in (5, 6, 7)
    }


def test_groups_that_do_not_match():
    group = convolution(SMALL, "float32", 4)
    assert problem_in("stem_conv", group, TARGET) is not None
    assert problem_in("stem_conv", group, parse_gpu("cuda:sm_90:fp32")) is None
    assert problem_in("stem_conv", group, parse_gpu("hip:gfx90a:fp16")) is None
    assert problem_in("stem_conv", replace(group, weights=(False,) * 4), TARGET) is None
    cast, others = group.operators[0], group.operators[1:]
    computed = (replace(cast, type="Relu"), *others)
    assert problem_in("stem_conv", replace(group, operators=computed), TARGET) is None
    blocked = (replace(group.values[0], block=4), *group.values[1:])
    assert problem_in("stem_conv", replace(group, values=blocked), TARGET) is None
    for other in (
        replace(SMALL, channels=5),
        replace(SMALL, image=(9,), kernel=(3,), strides=(1,), dilations=(1,), pads=(1, 1)),
        replace(SMALL, image=(40, 40), kernel=(40, 40)),
    ):
        assert problem_in("stem_conv", convolution(other, "float32"), TARGET) is None


@needs_nvrtc
@pytest.mark.parametrize("precision", ["tf32", "fp16"])
@pytest.mark.parametrize("name", STEMS)
def test_stems_keep_everything_in_registers(name: str, precision: str):
    target = parse_gpu(f"cuda:sm_90:{precision}")
    for batch in (1, 16):
        shape = replace(STEMS[name], batch=batch)
        work = estimated("stem_conv", problem_of(shape, precision), target)
        group = convolution(shape, PRECISIONS[precision], 4 if precision == "tf32" else 8)
        kernel = kernel_in("stem_conv", without_sum(group), target, work)
        assert kernel is not None
        for arch in ("sm_80", "sm_90"):
            built = compile_text(
                complete_text(kernel.text), kernel.launches, replace(target, architectures=(arch,))
            )
            assert built.stack_bytes == 0


@needs_nvrtc
def test_volumes_keep_everything_in_registers():
    target = parse_gpu("cuda:sm_90:fp16")
    work = estimated("stem_conv", problem_of(VIDEO, "fp16"), target)
    kernel = kernel_in("stem_conv", without_sum(convolution(VIDEO, "float16", 8)), target, work)
    assert kernel is not None
    built = compile_text(complete_text(kernel.text), kernel.launches, target)
    assert built.stack_bytes == 0


@pytest.mark.parametrize("precision", ["tf32", "fp16"])
@pytest.mark.parametrize("name", STEMS)
def test_lanes_do_not_wait_for_the_banks_of_others(name: str, precision: str):
    problem = problem_of(STEMS[name], precision)
    patches = {halo_of(problem, work) for work in candidates(problem, TARGET)}
    assert {pitch(problem, *patch)[1] for patch in patches} == {1}


def is_stem(group: Group) -> bool:
    """Whether the selected kernel is a stem convolution."""
    return "convolve_stem" in generate(group, TARGET).text


def test_the_first_convolutions_of_models_are_taken():
    assert is_stem(convolution(STEMS["ResNet-50"], "float32", 4))
    assert not is_stem(convolution(replace(STEMS["ResNet-50"], channels=5), "float32", 4))
    assert is_stem(convolution(VIDEO, "float32", 4))


def test_measured_times_decide_between_patches_and_tiles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(database, "folders", lambda: (tmp_path,))
    group = convolution(STEMS["ResNet-50"], "float32", 4)
    found, tiled = problem_in("stem_conv", group, TARGET), read_problem(group, group.operators[2])
    assert found is not None
    assert tiled is not None
    work, tile = estimated("stem_conv", found, TARGET), estimated_tile(tiled, TARGET)

    def record(time: float, device: str = "sm_90/132") -> None:
        own = entry("stem_conv", found, work, time, device)
        other = entry("gemm", tiled, tile, 2.0)
        database.save(database.user_file("sm_90"), Database([own, other], "sm_90/132"))

    record(1.0)
    assert is_stem(group)
    record(3.0)
    assert not is_stem(group)


def test_the_measured_work_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(database, "folders", lambda: (tmp_path,))
    group = convolution(STEMS["ResNet-50"], "float32", 4)
    problem = problem_of(STEMS["ResNet-50"])
    *_, work = diverse(problem, TARGET, 20)
    measured = Database([entry("stem_conv", problem, work, 1.0)], "sm_90/132")
    database.save(database.user_file("sm_90"), measured)
    taken = kernel_in("stem_conv", group, TARGET)
    other = estimated("stem_conv", problem, TARGET)
    assert taken is not None
    assert taken.estimated_ns == 1
    taken = replace(taken, estimated_ns=0)
    assert taken == kernel_in("stem_conv", group, TARGET, work)
    assert taken != kernel_in("stem_conv", group, TARGET, other)


def test_works_to_measure_are_of_different_warps():
    works = diverse(problem_of(STEMS["ResNet-50"]), TARGET, 12)
    assert len({(work.pixels, work.width) for work in works}) > 3
    assert works[0] == estimated("stem_conv", problem_of(STEMS["ResNet-50"]), TARGET)


def test_choices_share_one_packing():
    group = convolution(STEMS["UNet"], "float16", 8)
    (own, _) = measurable(group, parse_gpu("cuda:sm_90:fp16"))
    assert own.template.name == "stem_conv"
    kernels = [own.emit(config) for config in own.shortlist(12)]
    assert len(kernels) == 12
    assert len({kernel.packings for kernel in kernels}) == 1
