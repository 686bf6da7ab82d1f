"""The kernels of If and Loop tasks on a GPU: they set conditions, and the pointers of bodies."""

from collections.abc import Iterable, Mapping
from functools import cache

from compiler.emulator.compile import compile_kernels
from compiler.errors import KernelError
from compiler.kernels.gpu.compilers.nvrtc import check_compiler, compile_cubin
from compiler.kernels.gpu.headers import headers
from compiler.schedule.kernels import KernelSpec, Launch
from compiler.schedule.tasks import ControlKind
from compiler.target.target import GpuTarget, parse_gpu

BINDING_THREADS = 64
"""The threads of the one block that sets a body's pointers."""

COPYING_THREADS = 256
"""The threads of a block that copies carried values at a loop's end."""

SYMBOLS: Mapping[ControlKind, tuple[str, ...]] = {
    "if": ("flowloom_if",),
    "loop": ("flowloom_loop_begin", "flowloom_loop_next", "flowloom_loop_end"),
}
"""The entry points of each kind: of a loop before it, after each iteration, and after the last."""


def control_kernels(kinds: Iterable[ControlKind], target: GpuTarget) -> dict[str, KernelSpec]:
    """The kernels of some kinds of control tasks, by the name that these tasks have."""
    return {kind: _built(kind, str(target)) for kind in dict.fromkeys(kinds)}


@cache
def _built(kind: ControlKind, target: str) -> KernelSpec:
    symbols = SYMBOLS[kind]
    threads = [COPYING_THREADS if "end" in symbol else BINDING_THREADS for symbol in symbols]
    launches = tuple(
        Launch(symbol, (), block=(count, 1, 1))
        for symbol, count in zip(symbols, threads, strict=True)
    )
    source = headers()["control.cuh"]
    parsed = parse_gpu(target)
    language = "emu" if parsed.emulated else "cuda"
    return KernelSpec(kind, language, _code(source, symbols, parsed), launches, (), source=source)


def _code(source: str, symbols: tuple[str, ...], target: GpuTarget) -> bytes:
    if target.emulated:
        return compile_kernels(source, symbols)
    if target.backend != "cuda":
        raise KernelError(f"{target} has no conditional nodes: divide the model into programs")
    check_compiler(target)
    return compile_cubin(source, target)
