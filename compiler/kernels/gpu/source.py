"""CUDA text of device functions; it includes no headers but those of this package."""

import re
from collections.abc import Generator
from contextlib import contextmanager
from math import isfinite, isnan
from threading import Lock
from typing import Any

import numpy
from tvm.ir import Call
from tvm.target.codegen import llvm_get_intrinsic_name

from compiler.errors import KernelError
from compiler.kernels.gpu.headers import headers as headers  # sources include them
from compiler.kernels.gpu.lower import device_target
from compiler.kernels.gpu.rounding import (
    exact_quotient,
    nearest_by_additions,
    rounded_quotients,
    shared_quotient,
)
from compiler.kernels.gpu.untyped import (
    IRModule,
    PrimFunc,
    Sequential,
    UntypedModule,
    tirx,
    tvm_ffi,
)
from compiler.kernels.ops.tables import TABLES
from compiler.kernels.ops.wrapping import with_unsigned
from compiler.kernels.tir.once import without_once
from compiler.target.target import GpuTarget

_DEVICE_PASSES = [
    tirx.transform.FP8StorageLegalize(),
    tirx.transform.BF16StorageLegalize(),
    tirx.transform.StmtSimplify(),
    tirx.transform.LowerIntrin(),
]

_INTRINSICS = {"llvm.maximum": "flowloom_maximum", "llvm.minimum": "flowloom_minimum"}
"""Functions of prelude.cuh that replace LLVM's."""

_KERNEL_HEAD = re.compile(r'extern "C" __global__ [^;{]*\{')
"""The definition of a kernel up to its body."""

_COMPILE = "tvm_callback_cuda_compile"
_LOCK = Lock()

_TABLE_TYPES = {"float32": "float", "float64": "double"}


def cuda_text(module: UntypedModule, target: GpuTarget, exact: bool = False) -> str:
    """The definitions of device functions as CUDA text; `complete_text` completes it.

    With `exact`, quotients by constants are rounded once, as all others.
    """
    portable = IRModule({name: _portable(f, exact) for name, f in module.functions.items()})
    lowered = with_unsigned(without_once(Sequential(_DEVICE_PASSES)(portable)))
    build = tvm_ffi.get_global_func("target.build.cuda")
    with _uncompiled():
        text = str(build(lowered, device_target(target)).inspect_source())
    return text[text.index('extern "C" __global__') :]


@contextmanager
def _uncompiled() -> Generator[None]:
    """Keep TVM from compiling incomplete text, which it does where a device is present."""
    with _LOCK:
        compile_text = tvm_ffi.get_global_func(_COMPILE, allow_missing=True)
        tvm_ffi.register_global_func(_COMPILE, _no_cubin, override=True)
        try:
            yield
        finally:
            tvm_ffi.remove_global_func(_COMPILE)
            if compile_text is not None:
                tvm_ffi.register_global_func(_COMPILE, compile_text)


def _no_cubin(text: str) -> bytes:
    return b""


def _portable(function: PrimFunc, exact: bool) -> PrimFunc:
    """A function without LLVM's intrinsics and without operations that are slow on a GPU.

    A division takes many instructions and a branch, so float32 is multiplied by a constant's
    reciprocal, which is off by one unit in the last place at most. A quotient that is rounded to an
    integer is corrected by what is left, also one by a number that elements share; one that is to
    be `exact` is divided. GELU's `erf(x) + 1`
    is one function, also where erf is clipped. float64 constants keep all their digits.
    """

    def replace(call: Any, mutator: Any) -> Any:
        rounded = nearest_by_additions(call, mutator)
        if rounded is not None:
            return rounded
        call = mutator.default_mutate(call)
        if getattr(call.op, "name", "") != "tirx.call_llvm_pure_intrin":
            return call
        name = llvm_get_intrinsic_name(int(call.args[0].value))
        if name not in _INTRINSICS:
            raise KernelError(f"LLVM's intrinsic {name} has no CUDA form")
        return tirx.call_pure_extern(str(call.ty.dtype), _INTRINSICS[name], *call.args[1:])

    rounded = rounded_quotients(function.body)

    def multiply(quotient: Any, mutator: Any) -> Any:
        corrected = any(quotient.same_as(other) for other in rounded)
        quotient = mutator.default_mutate(quotient)
        factor = None if exact else _reciprocal(quotient.b)
        if factor is None:
            return shared_quotient(quotient) if corrected and not exact else quotient
        return exact_quotient(quotient, factor) if corrected else quotient.a * factor

    rules = ((Call, replace), (tirx.Div, multiply), (tirx.Add, _fuse_erf), (tirx.FloatImm, _exact))
    return function.with_body(tvm_ffi.structural_mutate(function.body, rules))


def _exact(number: Any, mutator: Any) -> Any:
    """A constant that TVM would write wrongly, by other means.

    It writes 15 digits after the point of a float64, and an infinite bfloat16 as `inff`.
    """
    value = float(number.value)
    dtype = str(number.ty.dtype)
    if dtype == "bfloat16" and not isfinite(value):
        wide = tirx.FloatImm("float32", value)
        return tirx.call_pure_extern(dtype, "__float2bfloat16_rn", wide)
    if dtype != "float64" or not isfinite(value) or float(f"{value:.15f}") == value:
        return number
    bits = int(numpy.float64(value).view(numpy.int64))
    return tirx.call_pure_extern("float64", "__longlong_as_double", tirx.const(bits, "int64"))


def _fuse_erf(total: Any, mutator: Any) -> Any:
    """A sum, by one function where it is one more than erf."""
    total = mutator.default_mutate(total)
    for one, other in ((total.a, total.b), (total.b, total.a)):
        if isinstance(one, tirx.FloatImm) and one.value == 1:
            fused = _erf_plus_one(other, one)
            if fused is not None:
                return fused
    return total


def _erf_plus_one(value: Any, one: Any) -> Any:
    """One more than a value that is erf, perhaps within limits; None for another value."""
    name = getattr(getattr(value, "op", None), "name", "")
    called = value.args[0] if name == "tirx.call_pure_extern" else ""
    if called == "flowloom_erf":
        return tirx.call_pure_extern("float32", "flowloom_erf_plus_one", value.args[1])
    if called in ("flowloom_minimum", "flowloom_maximum"):
        inside = _erf_plus_one(value.args[1], one)
        limit = value.args[2]
        if inside is not None:
            return tirx.call_pure_extern("float32", called, inside, limit + one)
    return None


def _reciprocal(divisor: Any) -> Any:
    """The reciprocal of a float32 constant; None where either is not a normal number."""
    if not isinstance(divisor, tirx.FloatImm) or str(divisor.ty.dtype) != "float32":
        return None
    limits = numpy.finfo("float32")
    value = abs(float(divisor.value))
    normal = limits.tiny <= value <= 1 / limits.tiny
    return tirx.const(float(numpy.float32(1 / divisor.value)), "float32") if normal else None


def complete_text(text: str) -> str:
    """Kernels after all that they use, with `grid_dependency_wait` as their first statement.

    Text that calls `grid_dependency_wait` itself keeps that place.
    """
    if "grid_dependency_wait(" not in text:
        text = _KERNEL_HEAD.sub(r"\g<0>\n  grid_dependency_wait();", text)
    parts = [header("prelude")]
    for kind, name in (("half", "half"), ("nv_bfloat16", "bfloat16")):
        if re.search(rf"\b{kind}\b", text):
            parts.append(header(name))
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


def literal(value: Any) -> str:
    """A C literal of exactly this value."""
    if value.dtype.kind != "f":
        least = numpy.iinfo(numpy.int64).min
        return str(value) if value != least else "(-9223372036854775807ll - 1)"
    number = float(value)
    if not isfinite(number):
        sign = "-" if number < 0 else ""
        return f"{sign}CUDART_NAN_F" if isnan(number) else f"{sign}CUDART_INF_F"
    return number.hex() + ("f" if value.dtype == numpy.float32 else "")


def header(name: str) -> str:
    """The line that includes one of this package's CUDA headers.

    Other platforms compile the same kernels with other versions of some headers.
    """
    return f'#include "{name}.cuh"'
