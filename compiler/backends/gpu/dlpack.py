"""DLPack capsules of device memory, read and made with ctypes.

The structs are those of the DLPack specification (unversioned form, which every library takes).
"""

import ctypes
from collections.abc import Sequence
from typing import Any

from compiler.errors import ShapeError

CUDA = 2
"""The device type of memory on NVIDIA's GPUs."""

ROCM = 10
"""The device type of memory on AMD's GPUs."""

TYPE_CODES = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 6: "bool"}
CODE_OF = {name: code for code, name in TYPE_CODES.items()}

BYTE_CODES = {10: "float8_e4m3fn", 12: "float8_e5m2"}
"""The codes of types of 8 bits with a code each."""


class _Device(ctypes.Structure):
    _fields_ = (("kind", ctypes.c_int32), ("ordinal", ctypes.c_int32))


class _DataType(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", _Device),
        ("rank", ctypes.c_int32),
        ("dtype", _DataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


_Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class _Managed(ctypes.Structure):
    _fields_ = (("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", _Deleter))


_python = ctypes.pythonapi
_python.PyCapsule_GetPointer.restype = ctypes.c_void_p
_python.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
_python.PyCapsule_New.restype = ctypes.py_object
_python.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
# A destructor gets a capsule whose count of references is 0: passed on as an object, it would be
# counted, and destroyed a second time.
_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_IsValid", _python)
)
_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", _python)
)

NAME = b"dltensor"

_alive: dict[int, tuple[_Managed, object, object]] = {}
"""The arrays that capsules' consumers still use, by the struct's address."""


def alive() -> int:
    """How many capsules made here are still in use."""
    return len(_alive)


def read(capsule: Any) -> tuple[int, str, tuple[int, ...], tuple[int, ...] | None]:
    """Address, dtype name, shape and strides (in elements; None if contiguous) of a capsule.

    The capsule is left unconsumed: it owns the memory as long as it is referenced.
    """
    address = _python.PyCapsule_GetPointer(capsule, NAME)
    tensor = _Managed.from_address(address).tensor
    shape = tuple(tensor.shape[: tensor.rank])
    strides = tuple(tensor.strides[: tensor.rank]) if tensor.strides else None
    return (tensor.data or 0) + tensor.byte_offset, _name(tensor.dtype), shape, strides


def place_of(capsule: Any) -> tuple[int, int]:
    """The device of a capsule's memory: its kind and number."""
    device = _Managed.from_address(_python.PyCapsule_GetPointer(capsule, NAME)).tensor.device
    return int(device.kind), int(device.ordinal)


def _name(dtype: _DataType) -> str:
    if dtype.code in BYTE_CODES and dtype.lanes == 1:
        return BYTE_CODES[dtype.code]
    kind = TYPE_CODES.get(dtype.code)
    if kind is None or dtype.lanes != 1:
        raise ShapeError(f"DLPack type code {dtype.code} with {dtype.lanes} lanes is unknown")
    return "bool" if kind == "bool" else f"{kind}{dtype.bits}"


def _data_type(dtype: str) -> _DataType:
    """The struct of a dtype name."""
    for code, name in BYTE_CODES.items():
        if name == dtype:
            return _DataType(code, 8, 1)
    kind = dtype.rstrip("0123456789")
    return _DataType(CODE_OF[kind], int(dtype.removeprefix(kind) or 8), 1)


def make(
    address: int, dtype: str, shape: Sequence[int], device: tuple[int, int], owner: object
) -> Any:
    """A capsule of contiguous device memory that keeps `owner` alive while it is used."""
    extents = (ctypes.c_int64 * max(1, len(shape)))(*shape)
    managed = _Managed()
    managed.tensor.data = address
    managed.tensor.device = _Device(*device)
    managed.tensor.rank = len(shape)
    managed.tensor.dtype = _data_type(dtype)
    managed.tensor.shape = ctypes.cast(extents, ctypes.POINTER(ctypes.c_int64))
    # its strides stay NULL, which says row-major without gaps
    managed.deleter = _delete
    key = ctypes.addressof(managed)
    _alive[key] = (managed, extents, owner)
    return _python.PyCapsule_New(key, NAME, ctypes.cast(_destroy, ctypes.c_void_p))


@_Deleter
def _delete(key: int) -> None:
    _alive.pop(key, None)


@ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
def _destroy(capsule: int) -> None:
    """Free a capsule that nobody consumed (a consumer renames it)."""
    if _is_valid(capsule, NAME):
        _alive.pop(_pointer(capsule, NAME), None)
