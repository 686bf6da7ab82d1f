"""Integers of four bits as floats, by AVX-512's permutation of a table of all sixteen.

The permutation takes the lowest four bits of each lane, so that a shift is all it needs.
"""

import re
from typing import Any

from tvm import tirx

TABLE_LANES = 16
"""The lanes of the instruction, and the entries of its table."""

_PERMUTE = "@llvm.x86.avx512.permvar.sf.512"
_CALL = re.compile(r"@flowloom_nibbles_less_(\d+)\(")
_DECLARATION = re.compile(r"^declare .*@flowloom_nibbles_less_.*\n", re.M)


def nibble_floats(words: Any, zero: int) -> Any:
    """The floats of the lowest four bits of a vector of 16 int32, less a zero point."""
    name = f"flowloom_nibbles_less_{zero}"
    return tirx.call_pure_extern(f"float32x{TABLE_LANES}", name, words)


def link_nibbles(text: str) -> str:
    """Add the definitions of the functions that LLVM code declares."""
    wanted = sorted({int(zero) for zero in _CALL.findall(text)})
    if not wanted:
        return text
    declared = f"declare <16 x float> {_PERMUTE}(<16 x float>, <16 x i32>)"
    return "\n".join([_DECLARATION.sub("", text), declared, *map(_definition, wanted)])


def _definition(zero: int) -> str:
    table = ", ".join(f"float {float(number - zero):.1f}" for number in range(TABLE_LANES))
    return f"""
define internal <16 x float> @flowloom_nibbles_less_{zero}(<16 x i32> %words) alwaysinline {{
  %numbers = call <16 x float> {_PERMUTE}(<16 x float> <{table}>, <16 x i32> %words)
  ret <16 x float> %numbers
}}"""
