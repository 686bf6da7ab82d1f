"""Without any one of its barriers or waits, a kernel gives wrong results in some random order."""

import dataclasses
import re
from functools import cache

import numpy
import pytest

from compiler.errors import DeviceError
from compiler.kernels.cuda.contraction import contraction_kernel
from compiler.kernels.cuda.kernel import generate
from compiler.kernels.cuda.scheduled import CudaKernel
from compiler.kernels.cuda.source import headers
from compiler.kernels.cuda.target import parse_cuda_target
from compiler.kernels.cuda.tiles import Tile
from compiler.kernels.group import Group, TensorInfo
from tests.kernels.cuda.emulator import COMPILER, Order, Program
from tests.kernels.harness import single

pytestmark = pytest.mark.skipif(COMPILER is None, reason="g++ compiles the emulated kernels")

WAITS = re.compile(
    r"__syncthreads\(\);|copies_wait<[^;]*>\(\);|(?:if \([^;()]*\) )?cluster_wait\(\);"
)
SEEDS = range(6)
OWN = ("instructions", "half")
"""Headers that the emulator has of its own."""


def draw(*shape: int) -> numpy.ndarray:
    """Normal numbers."""
    return numpy.random.default_rng(shape).standard_normal(shape).astype("float32")


def product(tile: Tile | None, rows: int = 40) -> tuple[Group, list[numpy.ndarray], CudaKernel]:
    """A matrix product with a kernel of a tile, or of a few rows."""
    arrays = [draw(rows, 100), draw(100, 48)]
    info = TensorInfo("float32", (rows, 48))
    group, inputs = single("MatMul", arrays, [info], {}, weights=(1,))
    kernel = contraction_kernel(group, parse_cuda_target("cuda:sm_90:tf32"), tile)
    assert kernel is not None
    return group, inputs, kernel


def softmax() -> tuple[Group, list[numpy.ndarray], CudaKernel]:
    """A softmax of rows that blocks of several warps reduce."""
    info = TensorInfo("float32", (3, 300))
    group, inputs = single("Softmax", [draw(3, 300)], [info])
    return group, inputs, generate(group, parse_cuda_target("cuda"))


CASES = {
    "tiles": lambda: product(Tile(32, 32, 16, 16, 1)),
    "cluster": lambda: product(Tile(32, 32, 16, 16, 4)),
    "rows": lambda: product(None, 3),
    "softmax": softmax,
}

UNUSED = "if (PARTS > 1) cluster_wait();"
SYNC = "__syncthreads();"
REDUNDANT = {
    "tiles": [SYNC, SYNC, "copies_wait<0>();", UNUSED],
    "cluster": [SYNC, SYNC, SYNC, "copies_wait<0>();"],
    "rows": [],
    "softmax": [SYNC, SYNC],
}
"""Waits that are not needed here: for groups without copies and for the block at a loop's end, in a
table that matrix products do not have, for a cluster that there is not, for a block right before
the wait for its cluster, and where one thread writes, then reads."""


def inlined(text: str) -> str:
    """A kernel's text with the headers in it that it shares with the emulator."""
    for name, body in headers().items():
        if name.removesuffix(".cuh") not in OWN:
            text = text.replace(f'#include "{name}"', body)
    return text


@cache
def mutants(name: str) -> tuple[tuple[str, str], ...]:
    """Each wait in turn, and the kernel's text without it."""
    text = inlined(CASES[name]()[2].text)
    found = []
    for match in WAITS.finditer(text):
        if "{" not in text[text.rfind("\n", 0, match.start()) : match.start()]:
            without = text[: match.start()] + ";" + text[match.end() :]
            found.append((match[0], without))
    return tuple(found)


def survives(group: Group, inputs: list[numpy.ndarray], kernel: CudaKernel) -> bool:
    """Whether a kernel gives the right result in every order."""
    (expected,) = expectation(group, inputs)
    program = Program(kernel)
    for seed in SEEDS:
        try:
            (result,) = program.run(kernel, group, inputs, order=Order(seed))
        except DeviceError:
            return False
        if not numpy.linalg.norm(result - expected) < 5e-3 * numpy.linalg.norm(expected):
            return False
    return True


def expectation(group: Group, inputs: list[numpy.ndarray]) -> list[numpy.ndarray]:
    """What the operator gives in float64."""
    x = inputs[0].astype("float64")
    if group.operators[0].type == "MatMul":
        return [x @ inputs[1]]
    powers = numpy.exp(x - x.max(-1, keepdims=True))
    return [powers / powers.sum(-1, keepdims=True)]


@pytest.mark.parametrize("name", CASES)
def test_every_wait_is_needed(name: str):
    group, inputs, kernel = CASES[name]()
    assert survives(group, inputs, dataclasses.replace(kernel, text=inlined(kernel.text)))
    assert len(mutants(name)) >= 1
    alive = [
        wait
        for wait, text in mutants(name)
        if survives(group, inputs, dataclasses.replace(kernel, text=text))
    ]
    assert sorted(alive) == REDUNDANT[name]
