"""Sums of four multiplied bytes by x86's VNNI instructions and Arm's dot products.

Code calls a function, whose definition calls LLVM's intrinsic: the types of its operands differ
between the versions of LLVM that TVM and llvmlite hold, and the old ones are read by both.
"""

import re
from collections.abc import Mapping
from typing import Any

from tvm import tirx

LANES: Mapping[str, tuple[int, ...]] = {"vnni": (4, 8, 16), "usdot": (4,), "sdot": (4,)}
"""The lanes of int32 that the instructions have."""

_CALL = re.compile(r"@flowloom_(vnni|usdot|sdot)_(\d+)\(")
_DECLARATION = re.compile(r"^declare .*@flowloom_(?:vnni|usdot|sdot)_.*\n", re.M)


def byte_sums(instruction: str, total: Any, left: Any, right: Any, lanes: int) -> Any:
    """Vectors of int32 plus the sums of the multiplied bytes of vectors of words.

    The left bytes are unsigned, but those of `sdot`.
    """
    name = f"flowloom_{instruction}_{lanes}"
    return tirx.call_pure_extern(f"int32x{lanes}", name, total, left, right)


def link_byte_sums(text: str) -> str:
    """Add the definitions of the functions that LLVM code declares."""
    wanted = sorted({(name, int(lanes)) for name, lanes in _CALL.findall(text)})
    return "\n".join([_DECLARATION.sub("", text), *(_definition(*one) for one in wanted)])


def _definition(instruction: str, lanes: int) -> str:
    return _vnni(lanes) if instruction == "vnni" else _dot(instruction, lanes)


def _vnni(lanes: int) -> str:
    vector, name = f"<{lanes} x i32>", f"@llvm.x86.avx512.vpdpbusd.{32 * lanes}"
    operands = ", ".join(f"{vector} %{operand}" for operand in ("total", "left", "right"))
    return f"""
declare {vector} {name}({vector}, {vector}, {vector})
define internal {vector} @flowloom_vnni_{lanes}({operands}) alwaysinline {{
  %sum = call {vector} {name}({operands})
  ret {vector} %sum
}}"""


def _dot(instruction: str, lanes: int) -> str:
    words, bytes = f"<{lanes} x i32>", f"<{4 * lanes} x i8>"
    name = f"@llvm.aarch64.neon.{instruction}.v{lanes}i32.v{4 * lanes}i8"
    parameters = ", ".join(f"{words} %{operand}" for operand in ("total", "left", "right"))
    return f"""
declare {words} {name}({words}, {bytes}, {bytes})
define internal {words} @flowloom_{instruction}_{lanes}({parameters}) alwaysinline {{
  %first = bitcast {words} %left to {bytes}
  %second = bitcast {words} %right to {bytes}
  %sum = call {words} {name}({words} %total, {bytes} %first, {bytes} %second)
  ret {words} %sum
}}"""
