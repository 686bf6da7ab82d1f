"""Sums of four multiplied bytes by x86's VNNI instructions.

Code calls a function, whose definition calls LLVM's intrinsic: the types of its operands differ
between the versions of LLVM that TVM and llvmlite hold, and the old ones are read by both.
"""

import re
from typing import Any

from tvm import tirx

LANES = (4, 8, 16)
"""The lanes of int32 that instructions have."""

_CALL = re.compile(r"@flowloom_vnni_(\d+)\(")
_DECLARATION = re.compile(r"^declare .*@flowloom_vnni_.*\n", re.M)


def byte_sums(total: Any, unsigned: Any, signed: Any, lanes: int) -> Any:
    """Vectors of int32 plus the sums of unsigned times signed bytes of vectors of words."""
    return tirx.call_pure_extern(
        f"int32x{lanes}", f"flowloom_vnni_{lanes}", total, unsigned, signed
    )


def link_vnni(text: str) -> str:
    """Add the definitions of the functions that LLVM code declares."""
    wanted = sorted({int(lanes) for lanes in _CALL.findall(text)})
    return "\n".join([_DECLARATION.sub("", text), *map(_definition, wanted)])


def _definition(lanes: int) -> str:
    vector, name = f"<{lanes} x i32>", f"@llvm.x86.avx512.vpdpbusd.{32 * lanes}"
    operands = ", ".join(f"{vector} %{operand}" for operand in ("total", "unsigned", "signed"))
    return f"""
declare {vector} {name}({vector}, {vector}, {vector})
define internal {vector} @flowloom_vnni_{lanes}({operands}) alwaysinline {{
  %sum = call {vector} {name}({operands})
  ret {vector} %sum
}}"""
