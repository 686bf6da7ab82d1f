"""Reducers that TVM does not have, so that the threads of a block can share a reduction."""

import ctypes
from collections.abc import Callable
from functools import cache
from itertools import product
from typing import Any

import tvm_ffi

from compiler.kernels.ops.common import maximum, minimum
from compiler.kernels.ops.mathematics import dtype_of
from compiler.kernels.ops.reducers import (
    highest,
    lowest,
    one,
    position_combiner,
    position_identity,
    zero,
)
from compiler.kernels.ops.wrapping import add, multiply


@cache
def register_reducers() -> None:
    """Register the reducers of the lowerings, once a process."""
    register = tvm_ffi.get_global_func("s_tir.schedule.RegisterReducer")
    reducers: tuple[tuple[Callable[..., Any], Callable[[str], Any]], ...] = (
        (maximum, lowest),
        (minimum, highest),
        (add, zero),
        (multiply, one),
    )
    for combine, identity in reducers:
        register(1, _immortal(_combiner(combine)), _immortal(_identity(identity)))
    for largest, last in product((True, False), repeat=2):
        combine = position_combiner(largest, last)
        identity = position_identity(largest, last)
        register(2, _immortal(combine), _immortal(_pair_identity(identity)))


def _immortal(function: Callable[..., Any]) -> Any:
    """TVM's form of a function; TVM frees its registry after Python has ended, so it must stay."""
    converted = tvm_ffi.convert(function)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(converted))
    return converted


def _combiner(combine: Callable[[Any, Any], Any]) -> Callable[[Any, Any], list[Any]]:
    return lambda left, right: [combine(left[0], right[0])]


def _identity(identity: Callable[[str], Any]) -> Callable[[Any], list[Any]]:
    return lambda values: [identity(dtype_of(values[0]))]


def _pair_identity(identity: Callable[[str], list[Any]]) -> Callable[[Any], list[Any]]:
    return lambda values: identity(dtype_of(values[1]))
