"""Vectorisable mathematical functions in LLVM, in place of LLVM's intrinsics that call libm."""


def link_mathematics(text: str) -> str:
    """Replace calls of slow intrinsics by calls of our functions, and add these."""
    return text
