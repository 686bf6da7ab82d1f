"""Recurrences on the emulator against float64, and their kernels' resources."""

from dataclasses import dataclass, replace
from typing import Any

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.frontend.interpreter import evaluate_node
from compiler.graph.fusion.recurrences import (
    Recurrence,
    RecurrentConfig,
    has_kernel,
    kernel_us,
    recurrent_configs,
)
from compiler.kernels.building import kernel as _lowerings
from compiler.kernels.gpu.compilers.nvrtc import compile_cubin
from compiler.kernels.gpu.cubin import read_resources
from compiler.kernels.gpu.source import complete_text
from compiler.kernels.gpu.templates.recurrence.template import FUNCTIONS
from compiler.kernels.group import Group, TensorInfo
from compiler.target.target import parse_gpu, parse_target
from tests.kernels.gpu.emulator import COMPILER, run_twice
from tests.kernels.gpu.of_template import kernel_in, problem_in
from tests.kernels.harness import single
from tests.tools import needs_nvrtc

emulated = pytest.mark.skipif(COMPILER is None, reason="g++ compiles the emulated kernels")
assert _lowerings
Array = numpy.ndarray
FUNCTION_NAMES = {"RNN": ["Tanh"], "GRU": ["Sigmoid", "Tanh"], "LSTM": ["Sigmoid", "Tanh", "Tanh"]}
BOUNDS = {"tf32": 2e-3, "fp16": 3e-3, "bf16": 2e-2}
DTYPES = {"tf32": "float32", "fp16": "float16", "bf16": "float32"}


@dataclass(frozen=True)
class Case:
    """A recurrence with some of its optional operands: bias, lengths, first h and first c."""

    sizes: Recurrence
    config: RecurrentConfig
    optional: str = ""
    direction: str = "forward"
    functions: tuple[str, ...] = ()
    precision: str = "fp16"
    clip: float = 0.0
    input_forget: int = 0

    @property
    def attributes(self) -> dict[str, Any]:
        """The operator's attributes."""
        names = list(self.functions) or FUNCTION_NAMES[self.sizes.cell]
        return {
            "cell": self.sizes.cell,
            "direction": self.direction,
            "activations": names,
            "activation_alpha": [0.3 + 0.1 * i for i in range(len(names))],
            "activation_beta": [0.5 - 0.1 * i for i in range(len(names))],
            "clip": self.clip,
            "input_forget": self.input_forget,
            "linear_before_reset": int(self.sizes.exchanges == 1),
        }

    def build(self) -> tuple[Group, list[Array], list[Array]]:
        """The group, its inputs and its results in float64."""
        rng, s, dtype = numpy.random.default_rng(3), self.sizes, DTYPES[self.precision]
        rows, state = s.gates * s.hidden, (s.directions, s.batch, s.hidden)
        operands: list[Array | None] = [
            rng.standard_normal((s.steps, s.batch, s.directions * rows)).astype(dtype),
            (rng.standard_normal((s.directions, rows, s.hidden)) / s.hidden**0.5).astype(dtype),
            rng.standard_normal((s.directions, s.hidden)).astype("float32"),
            rng.integers(0, s.steps + 1, s.batch).astype("int32"),
            rng.standard_normal(state).astype("float32"),
            rng.standard_normal(state).astype("float32"),
        ]
        for i, name in enumerate("  BLhc"):
            if name != " " and name not in self.optional:
                operands[i] = None
        first, *last = self.shapes
        results = [TensorInfo(dtype, first), *(TensorInfo("float32", shape) for shape in last)]
        group, inputs = single("Recurrence", operands, results, self.attributes, (), (1,))
        given = [None if a is None or a.dtype == "int32" else a.astype("float64") for a in operands]
        given[3] = operands[3]
        expected = evaluate_node("Recurrence", given, self.attributes, [True] * len(results), True)
        return group, inputs, [array for array in expected if array is not None]

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """The shapes of the results."""
        s = self.sizes
        state = (s.directions, s.batch, s.hidden)
        return [(s.steps, s.directions, s.batch, s.hidden), *[state] * (1 + (s.cell == "LSTM"))]


def agrees(case: Case) -> None:
    """Check a case's kernel in two orders against float64."""
    group, inputs, expected = case.build()
    target = parse_gpu(f"cuda:sm_90:{case.precision}")
    kernel = kernel_in("recurrence", group, target, case.config)
    assert kernel is not None
    for found, wanted in zip(run_twice(kernel, group, inputs), expected, strict=True):
        assert abs(found.astype("float64") - wanted).max() <= BOUNDS[case.precision]


CASES = {
    "alone": Case(Recurrence("LSTM", 3, 2, 8, 1), RecurrentConfig(1, 4, 1)),
    "alone, k split": Case(Recurrence("GRU", 3, 1, 40, 1), RecurrentConfig(1, 4, 4), "B"),
    "two blocks": Case(Recurrence("LSTM", 4, 1, 16, 1), RecurrentConfig(2, 4, 2), "hc"),
    "one warp of cells": Case(
        Recurrence("GRU", 3, 4, 20, 1), RecurrentConfig(3, 4, 4), "BLh", "reverse"
    ),
    "both directions": Case(
        Recurrence("LSTM", 3, 9, 24, 2), RecurrentConfig(2, 4, 2), "Lhc", "bidirectional"
    ),
    "resets first": Case(Recurrence("GRU", 3, 2, 12, 1, 2), RecurrentConfig(1, 4, 2), "L"),
    "resets first, both directions": Case(
        Recurrence("GRU", 4, 9, 40, 2, 2), RecurrentConfig(3, 4, 4), "Lh", "bidirectional"
    ),
    "odd rows": Case(Recurrence("RNN", 4, 3, 21, 1), RecurrentConfig(2, 4, 1), "h"),
    "tf32": Case(Recurrence("LSTM", 3, 2, 24, 1), RecurrentConfig(3, 4, 2), "h", precision="tf32"),
    "bf16 of float32": Case(
        Recurrence("GRU", 3, 2, 24, 1), RecurrentConfig(2, 4, 2), precision="bf16"
    ),
    "coupled, clipped": Case(
        Recurrence("LSTM", 3, 1, 16, 1), RecurrentConfig(2, 4, 1), "hc", clip=0.6, input_forget=1
    ),
}


@emulated
@pytest.mark.parametrize("name", CASES)
def test_all_steps(name: str):
    agrees(CASES[name])


@emulated
@pytest.mark.parametrize("first", range(0, len(FUNCTIONS), 3))
def test_functions(first: int):
    functions = (*FUNCTIONS, *FUNCTIONS)[first : first + 3]
    sizes, config = Recurrence("LSTM", 3, 2, 8, 1), RecurrentConfig(1, 4, 1)
    agrees(Case(sizes, config, "hc", functions=functions, precision="tf32"))


@emulated
def test_weights_that_registers_have_no_room_for(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("compiler.graph.fusion.recurrences.SPARE_REGISTERS", 255 - 4 * 2 * 2 - 16)
    case = CASES["both directions"]
    sizes = replace(case.sizes, hidden=100)
    assert case.config.held(sizes, 2, 65536) < case.config.own_chunks(sizes, 2)
    agrees(replace(case, sizes=sizes))


@settings(max_examples=4, deadline=None)
@given(data=st.data())
@emulated
def test_any_sizes(data: st.DataObject):
    cell = data.draw(st.sampled_from(["RNN", "GRU", "LSTM"]))
    direction = data.draw(st.sampled_from(["forward", "reverse", "bidirectional"]))
    sizes = Recurrence(
        cell,
        data.draw(st.integers(1, 4)),
        data.draw(st.integers(1, 10)),
        data.draw(st.integers(8, 30)),
        2 if direction == "bidirectional" else 1,
        data.draw(st.sampled_from([1, 2])) if cell == "GRU" else 1,
    )
    precision = data.draw(st.sampled_from(["tf32", "fp16"]))
    target = parse_gpu(f"cuda:sm_90:{precision}")
    fitting = [d for d in recurrent_configs(sizes, target) if d.warps == 4]
    optional = data.draw(st.sets(st.sampled_from("BLhc" if cell == "LSTM" else "BLh")))
    if cell != "GRU" or sizes.exchanges > 1:
        optional -= {"B"}
    config = data.draw(st.sampled_from(fitting))
    agrees(Case(sizes, config, "".join(optional), direction, precision=precision))


def test_only_targets_with_room_have_a_kernel():
    small, large = Recurrence("LSTM", 50, 1, 256, 2), Recurrence("LSTM", 50, 1, 2048, 2)
    hopper = parse_target("cuda:sm_90:fp16")
    assert has_kernel(small, hopper)
    assert not has_kernel(large, hopper)
    assert not has_kernel(replace(small, steps=1), hopper)
    for other in ("cpu", "cuda:sm_90:fp32", "cuda:sm_80:fp16", "hip:gfx90a:fp16"):
        assert not has_kernel(small, parse_target(other))


def test_groups_of_other_operators_are_left_alone():
    array = numpy.zeros((4, 4), "float32")
    group, _ = single("Tanh", [array], [TensorInfo("float32", (4, 4))])
    assert problem_in("recurrence", group, parse_gpu("cuda:sm_90:fp16")) is None


@needs_nvrtc
@pytest.mark.parametrize(
    ("cell", "hidden", "architecture", "precision"),
    [("LSTM", 256, "sm_90", "fp16"), ("GRU", 512, "sm_90", "tf32"), ("GRU", 64, "sm_80", "fp16")],
)
def test_weights_stay_in_registers(cell: str, hidden: int, architecture: str, precision: str):
    sizes, target = Recurrence(cell, 1, 1, hidden, 2), parse_gpu(f"cuda:{architecture}:{precision}")
    config = min(recurrent_configs(sizes, target), key=lambda d: kernel_us(sizes, d, target))
    case = Case(sizes, config, direction="bidirectional", precision=precision)
    group, _, _ = case.build()
    kernel = kernel_in("recurrence", group, target, config)
    assert kernel is not None
    text = complete_text(kernel.text)
    resources = read_resources(compile_cubin(text, target))[kernel.launches[0].symbol]
    assert resources.stack_bytes == 0
