"""Reductions of every size to a scalar: by threads of a block, and by several blocks."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from compiler.errors import KernelError
from compiler.graph.cost import GPU
from compiler.kernels.building.cuda_kernel import generate
from compiler.kernels.gpu import lower
from compiler.kernels.gpu.generic import (
    LEAST_PARTS,
    MOST_PARTS,
    PART_LENGTH,
    parts_of,
    schedule_gpu,
)
from compiler.kernels.gpu.lower import split_device
from compiler.kernels.group import Group, Node, TensorInfo
from compiler.kernels.template import KernelSource
from compiler.target.target import parse_gpu
from tests.kernels.gpu.emulator import COMPILER, Order, Program, emulate_all
from tests.kernels.harness import Array, single

TARGET = parse_gpu("cuda")
LONG = 1 << 16
TYPES = "Sum Max Prod L2 LogSumExp Mean".split()
INTEGERS = ("int32", "int64")


def reduction(
    type: str, array: Array, keep: int = 0, **attributes: int
) -> tuple[Group, list[Array]]:
    """A group that reduces all axes of an array."""
    shape = (1,) * array.ndim if keep else ()
    return single(
        type, [array], [TensorInfo(array.dtype.name, shape)], {"keepdims": keep, **attributes}
    )


def position(type: str, array: Array, keep: int = 0, last: int = 0) -> tuple[Group, list[Array]]:
    """A group that finds the position of the largest or smallest element of a vector."""
    attributes = {"axis": 0, "keepdims": keep, "select_last_index": last}
    return single(type, [array], [TensorInfo("int64", (1,) * keep)], attributes)


def numbers(shape: int | tuple[int, ...], dtype: str = "float32") -> Array:
    """Random numbers from 0.5 to 1.5, integers from 1 to 9, or truth values."""
    generator = np.random.default_rng(7)
    if dtype == "bool":
        return generator.random(shape) > 0.01
    if dtype in INTEGERS:
        return generator.integers(1, 10, shape).astype(dtype)
    return (generator.random(shape) + 0.5).astype(dtype)


def expected(type: str, array: Array) -> Array:
    """A reduction of all elements, in float64 or as numpy has it."""
    x = array.astype(np.float64) if array.dtype.kind == "f" else array
    functions: dict[str, Callable[[Any], Any]] = {
        "ReduceSum": np.sum, "ReduceMax": np.max, "ReduceMin": np.min, "ReduceProd": np.prod,
        "ReduceL1": lambda x: np.abs(x).sum(), "ReduceL2": lambda x: np.sqrt(np.square(x).sum()),
        "ReduceSumSquare": lambda x: np.square(x).sum(), "ReduceLogSum": lambda x: np.log(x.sum()),
        "ReduceLogSumExp": lambda x: np.log(np.exp(x).sum()), "ReduceMean": np.mean,
        "Einsum": lambda x: np.square(x).sum(),
    }  # fmt: skip
    with np.errstate(all="ignore"):
        return np.asarray(functions[type](x)).astype(array.dtype)


def loss(size: int) -> tuple[Group, list[Array], tuple[Array, ...]]:
    """The mean of squared differences, its root, and the differences in units of that."""
    x, z = numbers(size), numbers(size)[::-1].copy()
    vector, scalar = TensorInfo("float32", (size,)), TensorInfo("float32", ())
    values = (vector, vector, vector, vector, scalar, scalar, vector)
    operators = (
        Node("Sub", {}, (0, 1), (2,), "difference"),
        Node("Mul", {}, (2, 2), (3,), "square"),
        Node("ReduceMean", {"axes": [0], "keepdims": 0}, (3,), (4,), "mean"),
        Node("Sqrt", {}, (4,), (5,), "root"),
        Node("Div", {}, (2, 5), (6,), "units"),
    )
    group = Group(f"loss{size}", values, 2, (False, False), {}, operators, (4, 5, 6))
    difference = x.astype(np.float64) - z
    mean = np.square(difference).mean()
    return group, [x, z], (mean, np.sqrt(mean), difference / np.sqrt(mean))


@pytest.mark.skipif(COMPILER is None, reason="needs a C++ compiler")
def test_prologues_epilogues_and_several_results():
    given = [loss(33), loss(LONG)]
    made = [(generate(group, TARGET), group, arrays) for group, arrays, _ in given]
    for results, (_, _, wanted) in zip(emulate_all(made), given, strict=True):
        for result, expected in zip(results, wanted, strict=True):
            np.testing.assert_allclose(result, expected, 1e-5, 1e-6)


def with_nan(*places: int) -> Array:
    """Random numbers with NaN at some places."""
    array = numbers(LONG)
    array[list(places)] = np.nan
    return array


def cases() -> list[tuple[Group, list[Array], Array]]:
    """Groups, inputs and results: short and long, of several types, ranks and options."""
    arrays = [("Reduce" + type, numbers(33)) for type in TYPES]
    arrays += [("Reduce" + type, numbers(LONG)) for type in ("Sum", "LogSumExp")]
    arrays += [(f"Reduce{t}", numbers(700, "bool")) for t in ("Min", "Max")]
    arrays += [("ReduceSum", numbers((5, 20, 7), dtype)) for dtype in ("float16", "int32")]
    arrays += [("ReduceMean", numbers(())), ("ReduceMax", numbers((1, 1), "int64"))]
    made = [(*reduction(type, array), expected(type, array)) for type, array in arrays]
    made.append(
        (
            *reduction("ReduceMean", numbers((3, LONG)), 1),
            expected("ReduceMean", numbers((3, LONG))),
        )
    )
    square = numbers((40, 40))
    einsum = single(
        "Einsum", [square, square], [TensorInfo("float32", ())], {"equation": "ij,ij->"}
    )
    made.append((*einsum, expected("Einsum", square)))
    few, start, later = numbers(5000, "int64"), with_nan(0, 3), with_nan(4, 9)
    first, last = np.argmax(few), few.size - 1 - np.argmax(few[::-1])
    made.append((*position("ArgMax", few), np.array(first)))
    made.append((*position("ArgMax", few, 1, 1), np.array(last)))
    made.append((*position("ArgMax", later[:1000]), np.array(np.nanargmax(later[:1000]))))
    made.append((*position("ArgMin", later), np.array(np.nanargmin(later))))
    made.append((*position("ArgMax", start), np.array(0)))
    return [(replace(g, name=f"reduction{i}"), a, e) for i, (g, a, e) in enumerate(made)]


@pytest.mark.skipif(COMPILER is None, reason="needs a C++ compiler")
def test_reductions_to_a_scalar():
    given = cases()
    kernels = [generate(group, TARGET) for group, _, _ in given]
    text = "\n".join(kernel.text for kernel in kernels)
    program = Program(KernelSource(text, tuple(x for kernel in kernels for x in kernel.launches)))
    for kernel, (group, arrays, result) in zip(kernels, given, strict=True):
        one, other = (program.run(kernel, group, arrays, 0, o)[0] for o in (Order(0), Order(5, 64)))
        assert one.tobytes() == other.tobytes(), "the order of warps decides the result"
        tolerance = 2e-3 if one.dtype == np.float16 else 3e-6
        operator = group.operators[0]
        message = f"{operator.type} {operator.attributes} of {arrays[0].dtype}{arrays[0].shape}"
        np.testing.assert_allclose(one.reshape(()), result, tolerance, err_msg=message)


def threads(kernel: KernelSource) -> Sequence[int]:
    """The threads of each launch."""
    return [launch.grid[0] * launch.block[0] for launch in kernel.launches]


@pytest.mark.parametrize(
    ("type", "size"),
    [("ReduceSum", n) for n in (1, 32, 33, 1000, 100_003, 1 << 20, 1 << 27)] + [("ArgMax", 33)],
)
def test_a_long_reduction_is_shared(type: str, size: int):
    array = np.broadcast_to(np.float32(1), (size,))
    group, _ = position(type, array) if type == "ArgMax" else reduction(type, array)
    most = max(threads(generate(group, TARGET)))
    assert most >= min(size / 32, 512)
    assert (most >= 1 << 13) == (size >= 1 << 20)


def test_parts_are_equal_and_not_worth_it_for_short_or_many_reductions():
    assert parts_of(1, 1 << 20) == MOST_PARTS
    assert parts_of(8, 32_000) == 25
    assert parts_of(1, 1 << 15) == 32
    assert parts_of(1, 1 << 30) == MOST_PARTS
    assert parts_of(2, 1 << 30) == MOST_PARTS // 2
    assert parts_of(1, 100_003) == 1, "a prime"
    assert parts_of(64, 1 << 30) == 1
    assert parts_of(1, LEAST_PARTS * PART_LENGTH - 1) == 1


@pytest.mark.skipif(COMPILER is None, reason="g++ compiles the emulated kernels")
def test_blocks_share_the_reductions_of_few_long_rows():
    """Rows too long for a cluster: a block for each part of a row, then one for all of it."""
    x = np.random.default_rng(3).standard_normal((2, 300_000)).astype(np.float32)
    group, inputs = single("Softmax", [x], [TensorInfo("float32", x.shape)], {"axis": -1})
    kernel = generate(group, TARGET)
    grids = [launch.grid[0] for launch in kernel.launches]
    assert grids[:2] == [2 * parts_of(*x.shape), 1]
    assert all(blocks > 2 for blocks in grids[2::2])
    (result,) = Program(kernel).run(kernel, group, inputs)
    powers = np.exp(x.astype(np.float64) - x.max(-1, keepdims=True))
    np.testing.assert_allclose(result, powers / powers.sum(-1, keepdims=True), 1e-5)


@pytest.mark.skipif(COMPILER is None, reason="g++ compiles the emulated kernels")
@pytest.mark.parametrize("shape", [(3, 40_000), (40, 300), (9000, 5)])
def test_what_is_computed_of_a_result_is_in_its_kernel(shape: tuple[int, int]):
    """As a mean besides the elements: one launch for these, one or two for the mean."""
    x = np.random.default_rng(4).standard_normal(shape).astype(np.float32)
    rows, means = TensorInfo("float32", shape), TensorInfo("float32", (shape[0], 1))
    operators = (
        Node("Mul", {}, (0, 0), (1,)),
        Node("ReduceMean", {"axes": [1], "keepdims": 1}, (1,), (2,)),
    )
    group = Group("squares", (rows, rows, means), 1, (False,), {}, operators, (1, 2))
    kernel = generate(group, TARGET)
    assert len(kernel.launches) == (3 if parts_of(*shape) > 1 else 2)
    squares, mean = Program(kernel).run(kernel, group, [x])
    np.testing.assert_array_equal(squares, x * x)
    np.testing.assert_allclose(mean, np.square(x.astype(np.float64)).mean(1, keepdims=True), 1e-5)


@pytest.mark.skipif(COMPILER is None, reason="g++ compiles the emulated kernels")
@pytest.mark.parametrize(("shape", "axes"), [
    ((2, 6, 4, 1), (0, 1, 2, 3)), ((2, 3, 4, 1, 3), (2, 3, 4)), ((1, 40, 1), (1,)),
    ((3, 1, 5), (1,)),
])  # fmt: skip
@pytest.mark.parametrize("keep", [0, 1])
def test_axes_of_one_element_are_reduced(shape: tuple[int, ...], axes: tuple[int, ...], keep: int):
    x = numbers(shape)
    expected = x.astype(np.float64).sum(axes, keepdims=bool(keep))
    attributes = {"axes": list(axes), "keepdims": keep}
    group, inputs = single("ReduceSum", [x], [TensorInfo("float32", expected.shape)], attributes)
    kernel = generate(group, TARGET)
    assert len(kernel.launches) == 1
    (result,) = Program(kernel).run(kernel, group, inputs)
    np.testing.assert_allclose(result, expected, 1e-5)


def test_a_reduction_that_stays_a_race_is_an_error(monkeypatch: pytest.MonkeyPatch):
    group, _ = reduction("ReduceSum", numbers(1000))
    monkeypatch.setattr(lower, "REDUCTION_PASSES", [])
    with pytest.raises(KernelError, match="threads would race in the reduction ReduceSum"):
        split_device(schedule_gpu(group), "k", TARGET)


@pytest.mark.skipif(COMPILER is None, reason="g++ compiles the emulated kernels")
@pytest.mark.parametrize("type", ["ReduceMax", "ReduceMin", "ArgMax", "ArgMin"])
@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8"])
def test_bytes_are_reduced_alike_in_every_order(type: str, dtype: str):
    """The lanes of a warp need not go in step: nothing may count on that."""
    array = np.zeros(9_000, dtype) if type.endswith("Max") else np.ones(9_000, dtype)
    array[8_111] ^= 1
    if type.startswith("Arg"):
        (group, inputs), wanted = position(type, array), 8_111
    else:
        (group, inputs), wanted = reduction(type, array), array[8_111]
    kernel = generate(group, TARGET)
    program = Program(kernel)
    for seed in range(6):
        (result,) = program.run(kernel, group, inputs, 0, Order(seed))
        assert result == wanted


@pytest.mark.skipif(COMPILER is None, reason="g++ compiles the emulated kernels")
@pytest.mark.parametrize("type", ["ReduceMax", "ReduceMin"])
@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int32", "float32"])
def test_the_extreme_of_no_elements_is_that_of_the_own_type(type: str, dtype: str):
    limits = (np.iinfo(dtype).min, np.iinfo(dtype).max) if "int" in dtype else (-np.inf, np.inf)
    low, high = (False, True) if dtype == "bool" else limits
    group, inputs = reduction(type, np.zeros((2, 0), dtype))
    kernel = generate(group, TARGET)
    (result,) = Program(kernel).run(kernel, group, inputs)
    assert result == (low if type == "ReduceMax" else high)


def weighted(type: str, terms: int, dtype: str) -> tuple[Group, list[Array], Array]:
    """The sums over rows of a reduction of short rows by other numbers, and what they are.

    One element of floats is NaN.
    """
    x, y = numbers((6, 5, terms), dtype), numbers((6, 5, 8), dtype)[..., ::-1].copy()
    if x.dtype.kind == "f":
        x[2, 3, terms - 1] = np.nan
    shapes = (x.shape, y.shape, (6, 5, 1), y.shape, (6, 8))
    values = tuple(TensorInfo(dtype, shape) for shape in shapes)
    operators = (
        Node(type, {"axes": [2], "keepdims": 1}, (0,), (2,), "short"),
        Node("Mul", {}, (2, 1), (3,), "weighted"),
        Node("ReduceSum", {"axes": [1], "keepdims": 0}, (3,), (4,), "sum"),
    )
    group = Group(f"{type}_{terms}_{dtype}", values, 2, (False, False), {}, operators, (4,))
    short = np.stack([expected(type, row) for row in x.reshape(-1, terms)]).reshape(6, 5, 1)
    wide = short.astype(np.float64) if x.dtype.kind == "f" else short
    return group, [x, y], (wide * y).sum(1).astype(dtype)


SHORT = [
    *((f"Reduce{type}", "float32") for type in (*TYPES, "Min", "L1", "SumSquare", "LogSum")),
    *((f"Reduce{type}", "int32") for type in ("Sum", "Max", "Prod", "SumSquare")),
    ("ReduceSum", "float16"),
    ("ReduceMax", "int64"),
]


@pytest.mark.skipif(COMPILER is None, reason="needs a C++ compiler")
def test_reductions_of_few_terms_are_computed_where_they_are_read():
    given = [weighted(type, terms, dtype) for terms in (2, 8, 9) for type, dtype in SHORT]
    made = [(generate(group, TARGET), group, arrays) for group, arrays, _ in given]
    for kernel, group, arrays in made:
        few = arrays[0].shape[-1] <= GPU.few_terms
        assert (len(kernel.launches) == 1) == few, group.name
    for (result,), (group, _, wanted) in zip(emulate_all(made), given, strict=True):
        tolerance = 2e-3 if wanted.dtype == np.float16 else 1e-5
        np.testing.assert_allclose(result, wanted, tolerance, err_msg=group.name)
