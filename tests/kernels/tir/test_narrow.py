"""bfloat16 in a kernel's own buffers, in choices and comparisons, and bound by `Let`."""

import ctypes
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy
import pytest
from tvm.ir import PrimType, Var
from tvm.tirx import (
    AllocBuffer,
    BufferLoad,
    BufferStore,
    Cast,
    For,
    ForKind,
    Let,
    PrimFunc,
    Select,
    SeqStmt,
    const,
    decl_buffer,
    if_then_else,
)

from compiler.kernels.cpu.codegen import compile_llvm
from compiler.kernels.cpu.machine import host_target
from compiler.kernels.template import KernelSource
from compiler.kernels.tir.launches import lower_function, split_launches
from compiler.support.native_code import LinkedCode

BF16 = ml_dtypes.bfloat16
X = numpy.array([-3.0, -1.0, 0.0, 0.4375, 1.0, 1.5, 2.0, numpy.nan], BF16)
Y = numpy.array([0.0078125, 2.0, -0.0, 1.0, 1.0, -2.0, numpy.inf, 4.0], BF16)
COUNT = len(X)

Step = Callable[[Any, Any, Any], Any]
"""An element of bfloat16 from its index and the elements of x and y."""


def kernel(step: Step, blocks: int) -> PrimFunc:
    """z = step(x, y) as float32, by way of a buffer that each block, or the kernel, allocates."""
    x, y = (decl_buffer((COUNT,), "bfloat16", name) for name in "xy")
    z = decl_buffer((COUNT,), "float32", "z")
    between = decl_buffer((COUNT,), "bfloat16", "between")
    i, j, block = (Var(name, PrimType("int32")) for name in ("i", "j", "block"))
    first = BufferStore(between, step(i, BufferLoad(x, [i]), BufferLoad(y, [i])), [i])
    last = BufferStore(z, Cast("float32", BufferLoad(between, [j])), [j])
    loops = [For(i, 0, COUNT, ForKind.SERIAL, first), For(j, 0, COUNT, ForKind.SERIAL, last)]
    body: Any = SeqStmt([AllocBuffer(between), *loops])
    if blocks:
        body = For(block, 0, blocks, ForKind.PARALLEL, body)
    return PrimFunc([x, y, z], body).with_attr("tirx.noalias", True)


def run(function: PrimFunc) -> numpy.ndarray:
    """The results for X and Y of a kernel, compiled for this machine."""
    pieces, scratch = split_launches(lower_function(function, "narrow"), "narrow")
    code = compile_llvm("narrow", pieces, KernelSource(function=function), host_target())
    linked = LinkedCode([code], [f"narrow_{i}" for i in range(len(pieces))])
    result = numpy.full(COUNT, numpy.nan, "float32")
    buffers = [X, Y, result, *(numpy.zeros(nbytes, "uint8") for nbytes in scratch)]
    entry = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    for i, piece in enumerate(pieces):
        pointers = (ctypes.c_void_p * len(piece.args))(
            *[buffers[k].ctypes.data for k in piece.args]
        )
        entry(linked.addresses[f"narrow_{i}"])(ctypes.addressof(pointers), 0, piece.blocks)
    return result


def bound(value: Any, body: Callable[[Any], Any]) -> Any:
    """A body that reads a variable of bfloat16."""
    variable = Var("v", PrimType("bfloat16"))
    return Let(variable, value, body(variable))


STEPS: dict[str, tuple[Step, Callable[[numpy.ndarray, numpy.ndarray], Any]]] = {
    "a constant": (lambda i, x, y: const(1.5, "bfloat16"), lambda x, y: 1.5),
    "an element": (lambda i, x, y: x, lambda x, y: x),
    "a choice": (
        lambda i, x, y: if_then_else(i >= 2, x, const(1, "bfloat16")),
        lambda x, y: numpy.where(numpy.arange(COUNT) >= 2, x, 1),
    ),
    "a selection": (lambda i, x, y: Select(x < y, x, y), lambda x, y: numpy.where(x < y, x, y)),
    "two roundings": (lambda i, x, y: (x + y) * y, lambda x, y: (x + y).astype(BF16) * y),
    "a bound value": (
        lambda i, x, y: bound(x + y, lambda v: v * v),
        lambda x, y: (x + y).astype(BF16).astype("float32") ** 2,
    ),
    "a bound element": (
        lambda i, x, y: bound(x, lambda v: if_then_else(v < y, v, y)),
        lambda x, y: numpy.where(x < y, x, y),
    ),
    "a cast": (
        lambda i, x, y: Cast("bfloat16", Cast("float32", x) * Cast("float32", y) + i),
        lambda x, y: x * y + numpy.arange(COUNT),
    ),
}


@pytest.mark.parametrize("blocks", [0, 2])
@pytest.mark.parametrize("name", STEPS)
def test_a_buffer_of_the_kernel_holds(name: str, blocks: int):
    step, expected = STEPS[name]
    with numpy.errstate(invalid="ignore"):
        wanted = numpy.broadcast_to(expected(X.astype("float32"), Y.astype("float32")), COUNT)
    numpy.testing.assert_array_equal(run(kernel(step, blocks)), wanted.astype(BF16).astype("f"))
