"""CUDA text of device functions, free of headers."""

from importlib import resources

import tvm_ffi
from tvm import IRModule, tirx
from tvm.ir.transform import Sequential

from compiler.kernels.cuda.lower import device_target
from compiler.kernels.cuda.target import CudaTarget

_DEVICE_PASSES = [
    tirx.transform.FP8StorageLegalize(),
    tirx.transform.BF16StorageLegalize(),
    tirx.transform.LowerWarpMemory(),
    tirx.transform.StmtSimplify(),
    tirx.transform.LowerIntrin(),
]


def cuda_text(module: IRModule, target: CudaTarget) -> str:
    """The definitions of device functions as CUDA text, which needs `header("prelude")` before."""
    device = device_target(target)
    lowered = Sequential(_DEVICE_PASSES)(module)
    build = tvm_ffi.get_global_func("target.build.cuda")
    text = str(build(lowered, device).inspect_source())
    return text[text.index('extern "C" __global__') :]


def header(name: str) -> str:
    """The text of one of this package's CUDA headers."""
    return (resources.files(__package__) / f"{name}.cuh").read_text()
