"""One kernel of a group with symbols gives numpy's results for all sizes, and is proved."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import tvm_ffi
from tvm import tirx

from compiler.kernels.building.kernel import (
    attempts,
    build_cpu_kernel,
    build_kernel,
    compile_scheduled,
    scheduled_launches,
)
from compiler.kernels.cpu.codegen import keep_loops, llvm_text
from compiler.kernels.cpu.machine import host_target
from compiler.kernels.cpu.remainders import guard_loops
from compiler.kernels.cpu.templates.conv_choices import SIZED_CHANNELS
from compiler.kernels.group import Group, TensorInfo
from compiler.kernels.sizes import for_all_sizes, sized
from compiler.kernels.tir.footprint import cpu_footprint, task_buffers
from compiler.kernels.tir.launches import LaunchFunction, launch_module
from compiler.schedule.kernels import KernelSpec, Launch, Operand
from compiler.tensors.extents import NotForAllSizes, atom_extent, symbols_of
from compiler.tensors.substitution import substituted
from tests.kernels.symbolic.cases import (
    CASES,
    LENGTH,
    ROWS,
    SIZES,
    UNPROVED,
    Sizes,
    expected,
    feeds,
    group,
    node,
    run_at,
)

TARGET = host_target()


@cache
def built(name: str) -> KernelSpec:
    """The kernel of a case."""
    return build_cpu_kernel(CASES[name], TARGET)


def backwards(blocks: int) -> Sequence[tuple[int, int]]:
    """Runs of three blocks, the last first: calls share no memory."""
    return [(first, min(first + 3, blocks)) for first in reversed(range(0, blocks, 3))]


def admitted(case: Group) -> Iterator[Sizes]:
    """The sizes that the bounds of a case's symbols admit."""
    for sizes in SIZES:
        own = {symbol.name: symbol for symbol in case.symbols}
        if all(s.high is None or sizes[name] <= s.high for name, s in own.items()):
            yield {name: sizes[name] for name in own}


@pytest.mark.parametrize("name", CASES)
def test_one_kernel_gives_numpys_results_for_all_sizes(name: str):
    for number, sizes in enumerate(admitted(CASES[name])):
        numeric = CASES[name].at(sizes)
        arrays = feeds(numeric, number)
        result = run_at(built(name), CASES[name], sizes, arrays, backwards)
        wanted = expected(numeric, arrays)
        np.testing.assert_allclose(result, wanted, 1e-4, 1e-4, err_msg=str(sizes))


@pytest.mark.parametrize(
    "name",
    ["one tap", "one tap, many channels", "one tap, strides", "strides", "stem", "groups"],
)
def test_lanes_along_channels_give_numpys_results_for_all_sizes(name: str):
    case = CASES[name]
    with for_all_sizes(case):
        candidate, _ = next(attempts(sized(case), TARGET))
        config = next(own for own in candidate.configs if own.lanes == SIZED_CHANNELS)
        spec = compile_scheduled(candidate.group, candidate.emit(config), TARGET)
    for sizes in SIZES:
        numeric = case.at(sizes)
        arrays = feeds(numeric)
        result = run_at(spec, case, sizes, arrays, backwards)
        wanted = expected(numeric, arrays)
        np.testing.assert_allclose(result, wanted, 1e-4, 1e-4, err_msg=str(sizes))


@pytest.mark.parametrize("name", [name for name in CASES if name not in UNPROVED])
def test_all_accesses_are_proved_to_be_inside_for_all_sizes(name: str):
    assert built(name).containment == "proved", built(name).footprint.undecided


@pytest.mark.parametrize("hint", [2, 8, 33, 300])
@pytest.mark.parametrize("name", ["attention of one text", "rows and an epilogue", "softmax"])
def test_any_example_sizes_give_a_kernel_for_all_sizes(name: str, hint: int):
    symbols = {symbol: atom_extent(replace(symbol, hint=hint)) for symbol in CASES[name].symbols}
    case = CASES[name].mapped(lambda extent: substituted(extent, symbols))
    spec = build_cpu_kernel(case, TARGET)
    assert spec.containment == "proved", spec.footprint.undecided
    for sizes in ({"s0": 2, "s1": 21}, {"s0": 37, "s1": 2}):
        arrays = feeds(case.at(sizes))
        result = run_at(spec, case, sizes, arrays)
        np.testing.assert_allclose(result, expected(case.at(sizes), arrays), 1e-4, 1e-4)


def launches_of(case: Group) -> tuple[Group, list[LaunchFunction], tuple[Any, ...]]:
    """A group with sizes, the launches of its kernel, and the bytes of its workspaces."""
    own = sized(case)
    candidate, config = next(attempts(own, TARGET))
    source = candidate.emit(config)
    assert source.function is not None
    functions, workspaces = scheduled_launches(own, source.function)
    return own, functions, source.workspaces + workspaces


def undecided(case: Group, functions: Sequence[LaunchFunction], workspaces: tuple[Any, ...]) -> int:
    """How many accesses of launches are not proved to be inside."""
    launches = [Launch(f"k{i}", f.args, (f.blocks, 1, 1)) for i, f in enumerate(functions)]
    buffers = task_buffers(case, ("",) * (case.inputs + 1), workspaces)
    return len(cpu_footprint(functions, launches, buffers).undecided)


@pytest.mark.parametrize("name", ["map", "flat map", "softmax", "masked softmax", "concat"])
def test_a_grid_with_one_turn_more_is_not_proved(name: str):
    own, functions, workspaces = launches_of(CASES[name])
    assert undecided(own, functions, workspaces) == 0
    more = [
        replace(f, grid=replace(f.grid, turns=f.grid.turns + 1)) if f.grid else f for f in functions
    ]
    assert undecided(own, more, workspaces) > 0


def test_a_loop_with_one_turn_more_is_not_proved():
    own, functions, workspaces = launches_of(CASES["softmax"])
    (launch,) = functions

    def longer(loop: Any, mutator: Any) -> Any:
        loop = mutator.default_mutate(loop)
        inner = "sized" in loop.loop_var.name
        extent = loop.extent + 1 if inner else loop.extent
        return tirx.For(loop.loop_var, loop.min, extent, loop.kind, loop.body)

    body = tvm_mutated(launch.function.body, longer)
    assert undecided(own, [replace(launch, function=launch.function.with_body(body))], workspaces)


def tvm_mutated(body: Any, rule: Any) -> Any:
    """A body with its loops changed."""
    return tvm_ffi.structural_mutate(body, ((tirx.For, rule),))


def test_what_a_block_keeps_by_sizes_is_a_workspace_of_each_block():
    spec = built("softmax")
    (launch,), (line,) = spec.launches, spec.workspaces
    assert symbols_of(line) == {*CASES["softmax"].symbols}
    for sizes in SIZES:
        numeric = spec.at(sizes)
        assert numeric.workspaces == (4 * sizes["s1"] * numeric.launches[0].grid[0],)
    assert launch.args[-1] == CASES["softmax"].inputs  # the sizes are the last operand read


def test_what_is_written_by_hand_divides_nothing_by_sizes():
    _, (launch,), _ = launches_of(CASES["running sums of rows"])
    quotients: list[Any] = []
    kinds = (tirx.Div, tirx.Mod, tirx.FloorDiv, tirx.FloorMod)
    rules = [(kind, quotients.append) for kind in kinds]
    for rule in rules:
        tvm_ffi.structural_walk(launch.function.body, rule)
    assert not quotients


def test_loops_over_symbols_are_neither_unrolled_nor_interleaved():
    own, functions, _ = launches_of(CASES["softmax"])
    text = keep_loops(llvm_text(launch_module(functions), TARGET, True))
    loops = re.findall(r"br label %for_begin_\w*sized50_\d*, !llvm.loop !(\d+)", text)
    assert len(loops) == 4
    for mark in loops:
        assert re.search(rf"^!{mark} = distinct !{{!{mark}, !899999, !899997}}$", text, re.M)
    assert own.symbols


def test_no_loop_divides_by_a_size_under_a_condition():
    symbols = {
        symbol: atom_extent(replace(symbol, hint=112)) for symbol in CASES["MaxPool"].symbols
    }
    case = CASES["MaxPool"].mapped(lambda extent: substituted(extent, symbols))
    _, functions, _ = launches_of(case)
    text = llvm_text(launch_module(functions), TARGET)
    assert "srem" in text  # blocks are runs of rows of all channels
    assert guard_loops(text) == text


def test_rows_of_a_picture_are_copied_without_calls():
    code = built("depthwise").code
    assert b"memcpy" not in code
    assert b"memset" not in code


def test_a_kernel_for_sizes_has_numbers_only():
    numeric = built("masked softmax").at({"s0": 3, "s1": 50})
    assert not numeric.symbols
    numbers = [numeric.launches[0].grid[0], *numeric.workspaces]
    assert [type(number) for number in numbers] == [int] * len(numbers)


@pytest.mark.parametrize("size", [1, 513])
def test_sizes_beyond_the_bounds_of_symbols_are_refused(size: int):
    spec = built("embedding")
    assert not spec.at({"s0": 512}).symbols
    with pytest.raises(NotForAllSizes, match=f"s0 from 2 to 512, not {size}"):
        spec.at({"s0": size})


def test_sizes_beyond_32_bits_are_refused():
    info = CASES["flat map"].values[0]
    spec = replace(built("flat map"), reads=(Operand("float32", info.shape),))
    assert spec.at({"s0": 1 << 16, "s1": 1 << 14}).reads[0].shape == (1 << 16, 1 << 14)
    with pytest.raises(NotForAllSizes, match=r"4294967296 elements .* s0 = 65536, s1 = 65536"):
        spec.at({"s0": 1 << 16, "s1": 1 << 16})
    with pytest.raises(NotForAllSizes, match="softmax"):
        built("softmax").at({"s0": 2, "s1": 1 << 30})


def test_the_last_read_of_a_kernel_with_symbols_is_their_values():
    assert [symbol.name for symbol in built("softmax").symbols] == ["s0", "s1"]
    assert len(built("softmax").packings) == CASES["softmax"].inputs + 1


def test_sizes_and_bounds_of_symbols_are_part_of_a_groups_content():
    case = CASES["embedding"]
    (symbol,) = case.symbols
    hashes = {case.content_hash()}
    for changed in (replace(symbol, high=400), replace(symbol, hint=60)):
        values = {symbol: atom_extent(changed)}
        hashes.add(case.mapped(lambda n, v=values: substituted(n, v)).content_hash())
    assert len(hashes) == 3


IMAGE = ("float32", (ROWS, 8, LENGTH, LENGTH))


@pytest.mark.parametrize(
    ("type", "reads", "result", "attributes"),
    [
        (
            "MatMulInteger",
            [("uint8", (ROWS, 8)), ("uint8", (8, 4))],
            ("int32", (ROWS, 4)),
            {},
        ),
    ],
)
def test_operators_without_a_symbolic_kernel_are_refused_by_name(
    type: str, reads: Any, result: Any, attributes: dict[str, Any]
):
    case = group("none", reads, [node(type, range(len(reads)), len(reads), **attributes)], [result])
    with pytest.raises(NotForAllSizes, match=f"no symbolic kernel: .*{type}"):
        build_kernel(case, TARGET)


def test_a_group_that_is_none_for_all_sizes_is_refused():
    """A broadcast of an axis that has one element for some sizes only."""
    half = LENGTH // 2
    shapes = [("float32", (half, 8)), ("float32", (LENGTH, 8))]
    case = group("some", shapes, [node("Add", [0, 1], 2)], [shapes[1]])
    with pytest.raises(NotForAllSizes, match="holds for some sizes only"):
        build_kernel(case, TARGET)


def test_groups_without_symbols_read_nothing_more():
    info = TensorInfo("float32", (4, 8))
    numeric = replace(CASES["flat map"], values=(info, info))
    spec = build_cpu_kernel(numeric, TARGET)
    assert (numeric.symbols, spec.symbols, spec.packings) == ((), (), ("",))
    assert sized(numeric) is numeric
