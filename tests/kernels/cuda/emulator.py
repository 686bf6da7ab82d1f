"""Running the CUDA text of kernels on the CPU: g++ compiles it against `emulator.h`."""

import ctypes
import functools
import hashlib
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy

from compiler.analysis.packing import apply_packing
from compiler.kernels.cuda.kernel import generate
from compiler.kernels.cuda.scheduled import CudaKernel
from compiler.kernels.cuda.source import complete_text, header
from compiler.kernels.cuda.target import parse_cuda_target
from compiler.kernels.group import Group
from tests.kernels.harness import aligned, laid_out, logical, numpy_dtype

Array = numpy.ndarray

COMPILER = shutil.which("g++")
ENTRY = 'extern "C" __attribute__((visibility("default")))'
HERE = Path(__file__).parent


def emulate(
    group: Group, inputs: Sequence[Array], target: str = "cuda", offset: int = 0
) -> list[Array]:
    """Generate a group's kernel and run it; buffers start `offset` bytes after a multiple of 64."""
    return run(generate(group, parse_cuda_target(target)), group, inputs, offset)


def emulate_all(cases: Sequence[tuple[CudaKernel, Group, Sequence[Array]]]) -> list[list[Array]]:
    """Run many kernels that C++ compiles as one program; their names must differ."""
    texts = "\n".join(kernel.text for kernel, _, _ in cases)
    whole = program(CudaKernel(texts, ()))
    parts = [whole[: whole.index(ENTRY)]]
    for i, (kernel, _, _) in enumerate(cases):
        single = program(kernel)
        parts.append(single[single.index(ENTRY) :].replace("void run(", f"void run{i}("))
    loaded = library("".join(parts))
    return [
        launch(getattr(loaded, f"run{i}"), kernel, group, inputs)
        for i, (kernel, group, inputs) in enumerate(cases)
    ]


def run(kernel: CudaKernel, group: Group, inputs: Sequence[Array], offset: int = 0) -> list[Array]:
    """Run a kernel's launches in order on poisoned results and workspaces."""
    return launch(library(program(kernel)).run, kernel, group, inputs, offset)


def launch(
    function: Callable[..., None],
    kernel: CudaKernel,
    group: Group,
    inputs: Sequence[Array],
    offset: int = 0,
) -> list[Array]:
    """Call a kernel's entry point with fresh buffers."""
    reads: list[Array] = []
    packings = kernel.packings or [""] * group.inputs
    for array, packing, info in zip(inputs, packings, group.reads, strict=True):
        packed = numpy.ascontiguousarray(apply_packing(laid_out(array, info), packing))
        reads.append(aligned(packed.nbytes, offset))
        reads[-1][:] = packed.reshape(-1).view(numpy.uint8)
    writes = [aligned(info.nbytes, offset) for info in group.writes]
    buffers = [*reads, *writes, *[aligned(n) for n in kernel.scratch]]
    pointers = (ctypes.c_void_p * len(buffers))(*[b.ctypes.data for b in buffers])
    function(pointers)
    return [
        logical(b.view(numpy_dtype(info.dtype)), info)
        for b, info in zip(writes, group.writes, strict=True)
    ]


def program(kernel: CudaKernel) -> str:
    """C++ that runs a kernel's launches on an array of buffers."""
    text = complete_text(kernel.text)
    for name in ("instructions", "half"):
        text = text.replace(header(name), "")
    calls = []
    for launch in kernel.launches:
        found = re.search(rf"\b{launch.symbol}\(([^)]*)\)", text)
        assert found is not None
        kinds = [re.sub(r"\w+$", "", p.replace("__restrict__", "")) for p in found[1].split(",")]
        assert len(kinds) == len(launch.args)
        given = ", ".join(f"({k})buffers[{i}]" for k, i in zip(kinds, launch.args, strict=True))
        grid, block = (", ".join(map(str, n)) for n in (launch.grid, launch.block))
        before = text[: found.start()].rpartition("__global__")[2]
        cluster = re.search(r"__cluster_dims__\(1, 1, (\d+)\)", before)
        together = cluster[1] if cluster else 1
        call = f"[=] {{ {launch.symbol}({given}); }}"
        calls.append(f"emulator::launch({{{grid}}}, {{{block}}}, {together}, {call});")
    body = "\n  ".join(calls)
    return f'#include "emulator.h"\n{text}\n{ENTRY} void run(void** buffers) {{\n  {body}\n}}\n'


@functools.cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="flowloom-emulator-")


def library(text: str) -> ctypes.CDLL:
    """The shared library of a program."""
    assert COMPILER is not None
    stem = Path(_folder().name) / hashlib.sha256(text.encode()).hexdigest()[:16]
    source, built = stem.with_suffix(".cpp"), stem.with_suffix(".so")
    source.write_text(text)
    command = [COMPILER, "-std=c++20", "-O1", "-w", "-shared", "-fPIC", f"-I{HERE}"]
    command += ["-fvisibility=hidden", "-fno-gnu-unique"]
    ran = subprocess.run([*command, "-o", built, source], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr[:4000]
    return ctypes.CDLL(str(built))
