"""Constant tables in code: arrays that an operator's lowering reads by position.

A table is an internal LLVM constant read by an always-inlined function, so that reading it at the
loop variable vectorises. Its function's name holds the hash of its content.
"""

import hashlib
import re
from typing import Any

import numpy
from tvm import tirx

TABLES: dict[str, numpy.ndarray] = {}
"""The flat content of each table, by the name of the function that reads it."""

_LLVM_TYPES = {
    "bool": "i8",
    "int8": "i8",
    "uint8": "i8",
    "int16": "i16",
    "uint16": "i16",
    "int32": "i32",
    "uint32": "i32",
    "int64": "i64",
    "uint64": "i64",
    "float32": "float",
    "float64": "double",
}


def table_element(array: numpy.ndarray, position: Any, dtype: str | None = None) -> Any:
    """The element of a constant at a row-major position, as a scalar of `dtype`."""
    flat = numpy.ascontiguousarray(array).reshape(-1)
    name = str(flat.dtype)
    stored = "uint8" if name == "bool" else "float32" if name in ("float16", "bfloat16") else name
    flat = flat.astype(stored)
    if flat.size == 1:
        element = tirx.const(flat[0].item(), stored)
    else:
        digest = hashlib.sha256(stored.encode() + flat.tobytes()).hexdigest()[:16]
        symbol = f"flowloom_table_{stored}_{digest}"
        TABLES[symbol] = flat
        element = tirx.call_pure_extern(stored, symbol, position)
    wanted = dtype or name
    return tirx.NE(element, tirx.const(0, stored)) if wanted == "bool" else element.astype(wanted)


def llvm_table_text(symbol: str) -> str:
    """The LLVM definitions of a table and its function."""
    flat = TABLES[symbol]
    element = _LLVM_TYPES[str(flat.dtype)]
    data = flat.tobytes().hex()
    content = "".join(f"\\{data[i : i + 2]}" for i in range(0, len(data), 2))
    size = len(data) // 2
    return f"""
@{symbol}_data = internal unnamed_addr constant [{size} x i8] c"{content}", align 64
define internal {element} @{symbol}(i32 %position) alwaysinline {{
  %place = getelementptr inbounds {element}, ptr @{symbol}_data, i32 %position
  %value = load {element}, ptr %place
  ret {element} %value
}}"""


def link_tables(text: str) -> str:
    """Add the definitions of the tables that LLVM code declares."""
    symbols = sorted(set(re.findall(r"@(flowloom_table_\w+)\(", text)))
    kept = re.sub(r"^declare .*@flowloom_table_.*\n", "", text, flags=re.M)
    return "\n".join([kept, *map(llvm_table_text, symbols)])
