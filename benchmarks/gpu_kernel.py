"""Kernels that are carried to a GPU's machine as text, compiled by NVRTC, launched and timed there.

To launch them needs PyTorch, NVRTC and a CUDA device, but neither TVM nor ONNX.
"""

import json
import math
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy

from benchmarks.kernels import called, compile_case, laid_out
from compiler.graph.packing import apply_packing


def carried(
    kernel: Any, group: Any, target: Any, reads: Sequence[str], writes: Sequence[str]
) -> dict[str, Any]:
    """A kernel to launch: its text, launches, and the names of its operands and results."""
    from compiler.kernels.gpu.source import complete_text

    def described(names: Sequence[str], infos: Sequence[Any]) -> list[dict[str, Any]]:
        return [{"name": n, "dtype": t.dtype, "shape": t.shape, "block": t.block}
                for n, t in zip(names, infos, strict=True)]  # fmt: skip

    return {
        "text": complete_text(kernel.text),
        "arch": target.compiler_architecture,
        "launches": [[x.symbol, x.args, x.grid, x.block, x.shared_bytes] for x in kernel.launches],
        "reads": described(reads, group.reads),
        "writes": described(writes, group.writes),
        "packings": kernel.packings or [""] * group.inputs,
        "scratch": kernel.workspaces,
    }


def save(folder: Path, cases: Sequence[Any]) -> None:
    """Write cases, and the headers that their texts include."""
    from compiler.kernels.gpu.source import headers

    folder.mkdir(parents=True, exist_ok=True)
    (folder / "cases.json").write_text(json.dumps({"headers": headers(), "cases": cases}))


def load(folder: Path) -> tuple[dict[str, str], list[Any]]:
    """The headers, and the cases."""
    found = json.loads((folder / "cases.json").read_text())
    return found["headers"], found["cases"]


def compile_kernels(kernels: Sequence[dict[str, Any]], headers: dict[str, str]) -> list[bytes]:
    """A cubin for each carried kernel; raises KernelError with the compiler's log."""
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(partial(compile_case, headers=headers), kernels, chunksize=4))


def logical(tensor: Any, info: Mapping[str, Any]) -> Any:
    """The tensor of stored elements."""
    if not info["block"]:
        return tensor.reshape(info["shape"])
    return tensor.movedim(-1, 2).reshape(info["shape"])


@dataclass
class Chain:
    """Kernels one after another, with the buffers of what they hand each other."""

    torch: Any
    calls: list[Any]
    memory: dict[str, Any]
    infos: dict[str, Any]

    @classmethod
    def load(
        cls,
        torch: Any,
        kernels: Sequence[dict[str, Any]],
        cubins: Sequence[bytes],
        inputs: Mapping[str, Any],
        device: str = "cuda",
    ) -> "Chain":
        """Load kernels that read these tensors; all that they write is NaN beforehand."""
        driver: Any = import_module("cuda.bindings.driver")
        chain = cls(torch, [], {}, {})
        for kernel, cubin in zip(kernels, cubins, strict=True):
            buffers = chain.buffers(kernel, inputs, device)
            module = called(driver.cuModuleLoadData(cubin))
            chain.calls += [bind(driver, module, launch, buffers) for launch in kernel["launches"]]
        return chain

    def buffers(self, kernel: dict[str, Any], inputs: Mapping[str, Any], device: str) -> list[Any]:
        """A kernel's arguments: what it reads as it wants it, results, scratch."""
        found = []
        for read, packing in zip(kernel["reads"], kernel["packings"], strict=True):
            x = inputs.get(read["name"])
            if x is None:
                found.append(self.memory[read["name"]])
            elif packing:
                found.append(self.torch.from_numpy(apply_packing(x.cpu().numpy(), packing)))
            else:
                found.append(laid_out(x, read["block"]))
        for write in kernel["writes"]:
            kind = getattr(self.torch, write["dtype"])
            empty = laid_out(self.torch.empty(write["shape"], dtype=kind), write["block"])
            found.append(self.torch.full_like(empty, math.nan, device=device))
            self.memory[write["name"]], self.infos[write["name"]] = found[-1], write
        found += [self.torch.empty(n, dtype=self.torch.uint8) for n in kernel["scratch"]]
        return [x.to(device) for x in found]

    def __call__(self) -> None:
        """Queue all launches on the present stream."""
        driver: Any = import_module("cuda.bindings.driver")
        stream = self.torch.cuda.current_stream().cuda_stream
        for function, grid, block, shared, _, pointers, _ in self.calls:
            called(
                driver.cuLaunchKernel(
                    function, *grid, *block, shared, stream, pointers.ctypes.data, 0
                )
            )

    def result(self, name: str) -> Any:
        """A tensor that a kernel wrote."""
        return logical(self.memory[name], self.infos[name])


def bind(
    driver: Any, module: Any, launch: Sequence[Any], buffers: Sequence[Any]
) -> tuple[Any, ...]:
    """A function with the addresses of its arguments, which stay alive."""
    symbol, arguments, grid, block, shared = launch
    function = called(driver.cuModuleGetFunction(module, symbol.encode()))
    limit = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    called(driver.cuFuncSetAttribute(function, limit, shared))
    values = numpy.array([buffers[i].data_ptr() for i in arguments], numpy.uint64)
    pointers = values.ctypes.data + 8 * numpy.arange(len(values), dtype=numpy.uint64)
    return function, grid, block, shared, values, pointers.astype(numpy.uint64), buffers
