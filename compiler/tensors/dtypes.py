"""Dtypes: their names, their sizes, ONNX's numbers for them, and the sets that operators accept."""

from functools import cache
from typing import Any

import ml_dtypes
import numpy as np

FLOATS = frozenset({"float16", "bfloat16", "float32", "float64"})
SIGNED = frozenset({"int8", "int16", "int32", "int64"})
UNSIGNED = frozenset({"uint8", "uint16", "uint32", "uint64"})
INTEGERS = SIGNED | UNSIGNED
NUMBERS = INTEGERS | FLOATS
WIDE = frozenset({"int32", "int64", "uint32", "uint64"}) | FLOATS
"""The dtypes of GEMMs and reductions."""
NARROW_FLOATS = ("float16", "bfloat16")
"""The floats of 16 bits, which kernels compute with in float32."""
UINT8 = frozenset({"uint8"})
BYTES = frozenset({"int8", "uint8"})
BOOL = frozenset({"bool"})
ALL = NUMBERS | BOOL
HALF_BYTES = frozenset({"int4", "uint4"})
"""The dtypes of four bits, of which there are constants only."""
FLOAT8 = frozenset({"float8_e4m3fn", "float8_e5m2"})
MOVABLE = ALL | FLOAT8
"""The dtypes of operators that only cast elements, or move them, as ONNX allows for float8s."""
INDICES = frozenset({"int32", "int64"})
WITHOUT_BFLOAT16 = NUMBERS - {"bfloat16"}

ELEMENT_BYTES = {
    "bool": 1,
    "int8": 1,
    "uint8": 1,
    "float8_e4m3fn": 1,
    "float8_e5m2": 1,
    "int16": 2,
    "uint16": 2,
    "float16": 2,
    "bfloat16": 2,
    "int32": 4,
    "uint32": 4,
    "float32": 4,
    "int64": 8,
    "uint64": 8,
    "float64": 8,
}
"""Bytes of one element in memory, by dtype name (numpy's names, and ml_dtypes')."""

ELEMENTS = {
    1: "float32",
    2: "uint8",
    3: "int8",
    4: "uint16",
    5: "int16",
    6: "int32",
    7: "int64",
    8: "object",
    9: "bool",
    10: "float16",
    11: "float64",
    12: "uint32",
    13: "uint64",
    14: "complex64",
    15: "complex128",
    16: "bfloat16",
    17: "float8_e4m3fn",
    18: "float8_e4m3fnuz",
    19: "float8_e5m2",
    20: "float8_e5m2fnuz",
    21: "uint4",
    22: "int4",
    23: "float4_e2m1fn",
    24: "float8_e8m0fnu",
    25: "uint2",
    26: "int2",
    27: "float6_e2m3fn",
    28: "float6_e3m2fn",
}
"""ONNX's element types by number; the dtype of texts is that of objects."""


@cache
def numpy_name(dtype: np.dtype[Any]) -> str:
    """The name of a dtype, which numpy makes anew whenever it is asked: 1 us."""
    return dtype.name


@cache
def numpy_dtype(name: str) -> np.dtype[Any]:
    """The numpy dtype of a dtype name; ml_dtypes has those that numpy does not know."""
    return np.dtype(getattr(ml_dtypes, name, name))


@cache
def numpy_element(element: int) -> np.dtype[Any]:
    """The numpy dtype of an ONNX element type; raises ValueError for another number."""
    if element not in ELEMENTS:
        raise ValueError(f"ONNX has no element type {element}")
    return numpy_dtype(ELEMENTS[element])


@cache
def element_type(dtype: str) -> int:
    """The ONNX element type of a dtype name; texts are `str_`."""
    numbers = {name: number for number, name in ELEMENTS.items()}
    return numbers["object" if dtype == "str_" else dtype]
