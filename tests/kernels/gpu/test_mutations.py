"""Without any one of its barriers or waits, a kernel gives wrong results in some random order."""

import re

import numpy
import pytest

from compiler.errors import DeviceError
from compiler.kernels.gpu.source import headers
from compiler.kernels.template import KernelSource
from compiler.schedule.kernels import Launch
from tests.kernels.gpu.emulator import COMPILER, Order, Program
from tests.kernels.gpu.mutation_cases import FAMILIES, Case

pytestmark = pytest.mark.skipif(COMPILER is None, reason="g++ compiles the emulated kernels")

WAITS = re.compile(
    r"__syncthreads\(\);|__syncwarp\(\);|cluster_sync\(\);|cluster_sync_relaxed\(\);"
    r"|cp_async_wait<[^;]*>\(\);|cp_async_fence\(\);|fence_async_proxy\(\);"
    r"|await_arrivals\([^;]*\);|wgmma_fence\(\);|wgmma_commit\(\);|wgmma_wait<[^;]*>\(\);"
    r"|barrier_wait\([^;]*\);|barrier_arrive\([^;]*\);|hold\([^;]*\);"
)
FUNCTION = re.compile(
    r'(?:__forceinline__ [\w ]*?|extern "C" __global__ void (?:__\w+\([\d, ]+\) )*)(\w+)\('
)
SEEDS = range(6)
OWN = (
    *("arrivals", "bytes", "half", "instructions"),
    *("warpgroups", "byte_warpgroups", "wgmma_registers"),
)
"""Headers that the emulator replaces."""

SWITCH = """
static int without = -1;
static bool reached[64];
static bool reach(int number) { return reached[number] = true, number != without; }
extern "C" __global__ void choose(const int* number, bool* to) {
  without = *number;
  for (int i = 0; i < 64; i++) to[i] = reached[i];
}
"""
"""Which wait is left out, which have been reached, and the kernel that sets and says so."""

REDUNDANT = {
    "tiles": {
        "mainloop: __syncthreads();": "warps may still load what they then do not use, where"
        " others store the tile"
    },
    "order of updates": {
        "sum_before: __syncthreads(); 2": "other kernels use the sums again",
        "counts_to_places: __syncthreads();": "the starts need it, which the case does not compare",
    },
    "wgmma attention": {
        "process_tiles: hold(scores[0]);": "keeps the compiler from reading sums before the wait",
        "process_tiles: hold(band.values[0]), hold(band.weights);": "likewise",
        "process_tiles: hold(band.values[0]);": "the case's scores do not grow: nothing is scaled",
        "process_tiles: hold(band.values[0]); 2": "keeps the compiler from storing sums early",
    },
    "softmax": {
        "Softmax_test_0: __syncthreads(); 2": "TVM's: a thread reads what it wrote itself",
        "Softmax_test_0: __syncthreads(); 5": "likewise",
    },
}
"""Waits that no case of a template needs, and why they are there."""


def inlined(text: str) -> str:
    """A kernel's text with the headers in it that it shares with the emulator."""
    for name, body in headers().items():
        if name.removesuffix(".cuh") not in OWN:
            text = text.replace(f'#include "{name}"', body)
    return text


def switched(text: str) -> tuple[list[str], str]:
    """The waits of a text as `function: wait`, and the text with a switch at each of them."""
    names: list[str] = []
    pieces, end = [SWITCH], 0
    for match in WAITS.finditer(text):
        if "__forceinline__" in text[text.rfind("\n", 0, match.start()) : match.start()]:
            continue
        function = [head[1] for head in FUNCTION.finditer(text, 0, match.start())][-1]
        name = f"{function}: {match[0]}"
        before = sum(other.startswith(name) for other in names)
        pieces += [text[end : match.start()], f"{{ if (reach({len(names)})) {match[0]} }}"]
        names.append(f"{name} {before + 1}" if before else name)
        end = match.end()
    return names, "".join([*pieces, text[end:]])


class Mutant:
    """A case's kernel that can run without any one of its waits."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.waits, text = switched(inlined(case.kernel.text))
        chooser = Launch("choose", (), (1, 1, 1), (1, 1, 1))
        self.program = Program(KernelSource(text, (*case.kernel.launches, chooser)))

    def choose(self, number: int) -> list[str]:
        """Leave a wait out from now on; returns those that have been reached."""
        reached = numpy.zeros(64, bool)
        self.program.launch("choose", [numpy.array([number], "int32"), reached])
        return [name for name, found in zip(self.waits, reached, strict=False) if found]

    def survives(self) -> bool:
        """Whether the kernel gives the right result in every order."""
        return all(self.right(Order(seed)) for seed in SEEDS)

    def right(self, order: Order) -> bool:
        """Whether the last result is right in one order."""
        case = self.case
        try:
            result = self.program.run(case.kernel, case.group, case.inputs, order=order)[-1]
        except DeviceError:
            return False
        difference = numpy.linalg.norm(result - case.expected)
        return bool(difference < 5e-3 * numpy.linalg.norm(case.expected))

    def needed(self) -> dict[str, bool]:
        """Of each wait that the kernel reaches, whether it fails without it."""
        assert self.survives(), "the kernel itself is wrong"
        needed: dict[str, bool] = {}
        for name in self.choose(-1):
            self.choose(self.waits.index(name))
            needed[name] = not self.survives()
        return needed


@pytest.mark.parametrize("family", FAMILIES)
def test_every_wait_is_needed(family: str):
    found: dict[str, bool] = {}
    for case in FAMILIES[family]:
        for name, needed in Mutant(case()).needed().items():
            found[name] = found.get(name, False) or needed
    assert found
    assert {name for name in found if not found[name]} == {*REDUNDANT.get(family, {})}
