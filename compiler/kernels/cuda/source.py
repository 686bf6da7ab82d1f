"""CUDA text of device functions, free of headers."""

import re
from importlib import resources

import numpy
import tvm_ffi
from tvm import IRModule, tirx
from tvm.ir.transform import Sequential

from compiler.kernels.cuda.lower import device_target
from compiler.kernels.cuda.target import CudaTarget
from compiler.kernels.tables import TABLES

_DEVICE_PASSES = [
    tirx.transform.FP8StorageLegalize(),
    tirx.transform.BF16StorageLegalize(),
    tirx.transform.StmtSimplify(),
    tirx.transform.LowerIntrin(),
]

_TABLE_TYPES = {"float32": "float", "float64": "double"}


def cuda_text(module: IRModule, target: CudaTarget) -> str:
    """The definitions of device functions as CUDA text, to be completed by `complete_text`."""
    lowered = Sequential(_DEVICE_PASSES)(module)
    build = tvm_ffi.get_global_func("target.build.cuda")
    text = str(build(lowered, device_target(target)).inspect_source())
    return text[text.index('extern "C" __global__') :]


def complete_text(text: str) -> str:
    """Kernels with everything they use before them: types, functions and tables."""
    parts = [header("prelude")]
    if re.search(r"\bhalf\b", text):
        parts.append(header("half"))
    parts += [table_text(name) for name in sorted(set(re.findall(r"flowloom_table_\w+", text)))]
    return "\n".join([*parts, text])


def table_text(symbol: str) -> str:
    """The CUDA definition of a table and of the function that reads it."""
    values = TABLES[symbol]
    kind = _TABLE_TYPES.get(str(values.dtype), f"{values.dtype}_t")
    elements = ", ".join(map(literal, values))
    return (
        f"static __device__ const {kind} {symbol}_data[] = {{{elements}}};\n"
        f"__device__ __forceinline__ {kind} {symbol}(int position)"
        f" {{ return {symbol}_data[position]; }}"
    )


def literal(value: numpy.generic) -> str:
    """A C literal of exactly this value."""
    if not isinstance(value, numpy.floating):
        return str(value) if value != numpy.iinfo(numpy.int64).min else "(-9223372036854775807ll - 1)"
    if not numpy.isfinite(value):
        sign = "-" if value < 0 else ""
        return f"{sign}CUDART_NAN_F" if numpy.isnan(value) else f"{sign}CUDART_INF_F"
    return float(value).hex() + ("f" if value.dtype == numpy.float32 else "")


def header(name: str) -> str:
    """The text of one of this package's CUDA headers."""
    return (resources.files(__package__) / f"{name}.cuh").read_text()
