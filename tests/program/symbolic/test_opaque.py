"""Scatters, scans, sorts and Einsums are compiled once for all sizes on a CPU."""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

import compiler
from compiler.program.model import DynamicModule
from tests.program.checks import check, compiled, model_of
from tests.program.symbolic.test_running import LOGGER, messages, tensor

SCATTERS = {
    "along the rows": """g (float[n, 9] x, int64[m, 9] at, float[m, 9] u) => (float[n, 9] y)
        { y = ScatterElements<axis = 0>(x, at, u) }""",
    "along open rows, added": """g (float[9, n] x, int64[9, m] at, float[9, m] u) => (float[9, n] y)
        { y = ScatterElements<axis = 1, reduction = "add">(x, at, u) }""",
    "slices": """g (float[n, k] x, int64[m, 1] at, float[m, k] u) => (float[n, k] y)
        { y = ScatterND(x, at, u) }""",
    "elements, added": """g (float[n, k] x, int64[m, 2] at, float[m] u) => (float[n, k] y)
        { y = ScatterND<reduction = "add">(x, at, u) }""",
}
"""Scatters whose places and data have open sizes."""


def shapes_at(module: DynamicModule, sizes: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    """The shapes of a module's inputs for some sizes."""
    return {
        value.name: tuple(
            size if isinstance(size, int) else sizes[str(size)] for size in value.shape or ()
        )
        for value in module.inputs
    }


@pytest.mark.parametrize("name", SCATTERS)
def test_scatters_of_new_sizes_compile_nothing(name: str, caplog: pytest.LogCaptureFixture) -> None:
    module, model = compiled(SCATTERS[name], threads=2), model_of(SCATTERS[name])
    draw = np.random.default_rng(0)
    with caplog.at_level(logging.WARNING, LOGGER):
        for n, m, k in ((20, 11, 6), (7, 2, 33), (3, 3, 2), (9000, 4000, 5), (21, 11, 6)):
            shapes = shapes_at(module, {"n": n, "m": m, "k": k})
            feeds = {own: tensor(*shape) for own, shape in shapes.items()}
            if "added" in name:
                feeds["at"] = draw.integers(-2, 2, shapes["at"])
            else:  # each place once: their order is open
                columns = [draw.permutation(n)[:m] for _ in range(shapes["at"][1])]
                feeds["at"] = np.stack(columns, 1)
            check(module, model, feeds)
            module.verify()
    assert messages(caplog) == ["all"]


SCANS = {
    "an open row": """g (float[n] x) => (float[n] y) <int64 axis = {0}> { y = CumSum(x, axis) }""",
    "open rows": """g (float[m, n] x) => (float[m, n] y) <int64 axis = {1}>
        { y = CumSum<exclusive = 1>(x, axis) }""",
    "rows side by side": """g (float[n, m] x) => (float[n, m] y) <int64 axis = {0}>
        { y = CumSum<reverse = 1>(x, axis) }""",
    "rows of a middle axis": """g (float[m, n, 5] x) => (float[m, n, 5] y) <int64 axis = {1}>
        { y = CumSum<reverse = 1, exclusive = 1>(x, axis) }""",
    "a fixed length": """g (int32[m, 90, n] x) => (int32[m, 90, n] y) <int64 axis = {1}>
        { y = CumSum(x, axis) }""",
}
"""Running sums, with open sizes along their axis and across it."""

SIZES: Sequence[tuple[int, int]] = ((100, 11), (7, 2), (3, 300), (2, 2), (4000, 3), (101, 10))
"""Two sizes for each run of a compilation for all."""


def whole_numbers(
    module: DynamicModule, sizes: Mapping[str, int], random: np.random.Generator
) -> dict[str, np.ndarray]:
    """Inputs whose sums have no rounding."""
    kinds = {value.name: value.dtype for value in module.inputs}
    shapes = shapes_at(module, sizes)
    return {own: random.integers(-9, 9, shape).astype(kinds[own]) for own, shape in shapes.items()}


SINGLE: Sequence[tuple[int, int]] = ((1, 4), (60, 1), (0, 3), (4, 0))
"""Sizes of which one is a number in all kernels."""


def check_for_all_sizes(
    text: str,
    folder: Path,
    caplog: pytest.LogCaptureFixture,
    single: Sequence[tuple[int, int]] = SINGLE,
) -> None:
    """Compare a model with onnxruntime at sizes that one compilation is for, and at single ones.

    A module that was saved after the first size compiles nothing for the others.
    """
    module, model, random = compiled(text, threads=2), model_of(text), np.random.default_rng(0)
    with caplog.at_level(logging.WARNING, LOGGER):
        for n, m in SIZES:
            feeds = whole_numbers(module, {"n": n, "m": m}, random)
            check(module, model, feeds)
        module.verify()
    assert messages(caplog) == ["all"]
    module.save(folder / "saved")
    loaded = compiler.load(folder / "saved", threads=1)
    assert isinstance(loaded, DynamicModule)
    caplog.clear()
    with caplog.at_level(logging.WARNING, LOGGER):
        for n, m in ((55, 7), (2, 90)):
            check(loaded, model, whole_numbers(module, {"n": n, "m": m}, random))
    assert not caplog.records
    for n, m in single:
        check(module, model, whole_numbers(module, {"n": n, "m": m}, random))


@pytest.mark.parametrize("name", SCANS)
def test_scans_of_new_sizes_compile_nothing(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    check_for_all_sizes(SCANS[name], tmp_path, caplog)


FEW = "<int64[1] few = {2}>"
SORTS = {
    "two of an open row": f"""g (float[n] x) => (float[2] y, int64[2] i) {FEW}
        {{ y, i = TopK(x, few) }}""",
    "two of open columns": f"""g (float[n, m] x) => (float[2, m] y, int64[2, m] i) {FEW}
        {{ y, i = TopK<axis = 0, largest = 0>(x, few) }}""",
    "two of many rows": f"""g (int64[n, 70] x) => (int64[n, 2] y, int64[n, 2] i) {FEW}
        {{ y, i = TopK(x, few) }}""",
    "sorted rows": """g (float[m, n] x) => (float[m, n] y, int64[m, n] i)
        { k = Shape<start = 1>(x) y, i = TopK<largest = 0>(x, k) }""",
    "half of open columns": f"""g (float[n, m] x) => (float[k, m] y, int64[k, m] i) {FEW}
        {{ s = Shape<end = 1>(x) t = Add(s, few) k = Div(t, few) y, i = TopK<axis = 0>(x, k) }}""",
}
"""The first elements of rows: by heaps for the first sizes, and by a radix sort."""


@pytest.mark.parametrize("name", SORTS)
def test_sorts_of_new_sizes_compile_nothing(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    single = ((60, 1), (4, 0), (2, 1)) if FEW in SORTS[name] else SINGLE
    check_for_all_sizes(SORTS[name], tmp_path, caplog, single)


def einsum(equation: str, *shapes: str) -> str:
    """A model of an Einsum, with the shapes of its operands and its result."""
    *operands, result = shapes
    names = "abc"[: len(operands)]
    typed = ", ".join(f"float[{own}] {name}" for own, name in zip(operands, names, strict=True))
    return f"""g ({typed}) => (float[{result}] r)
        {{ r = Einsum<equation = "{equation}">({", ".join(names)}) }}"""


EINSUMS = {
    "products of rows": einsum("bi,bi->b", "n, 70", "n, 70", "n"),
    "open rows": einsum("bi,bi->b", "m, n", "m, n", "m"),
    "a diagonal": einsum("bii->bi", "m, n, n", "m, n"),
    "a vector and matrices": einsum("bi,bij->bj", "m, n", "m, n, 9", "m, 9"),
    "an ellipsis": einsum("...i,...i->...", "m, n, 7", "m, 1, 7", "m, n"),
    "a MatMul": einsum("bik,bjk->bij", "m, n, 16", "m, n, 16", "m, n, n"),
    "three operands": einsum("bi,bij,bj->b", "m, n", "m, n, 8", "m, 8", "m"),
}
"""Einsums whose kernels are their own, and that become others."""


@pytest.mark.parametrize("name", EINSUMS)
def test_einsums_of_new_sizes_compile_nothing(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    # onnxruntime ends the process for some without elements
    check_for_all_sizes(EINSUMS[name], tmp_path, caplog, ((1, 4), (60, 1)))
