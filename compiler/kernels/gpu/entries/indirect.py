"""Indirect entry points of kernels: their parameters are addresses of pointers to the buffers.

After PyGraph (2025): a graph's parameters then stay the same when a caller's buffer moves; only
the pointer, 8 bytes on the device, changes.
"""

import re
from collections.abc import Iterator
from dataclasses import replace

from compiler.kernels.template import KernelSource

KERNEL_HEAD = re.compile(r'extern "C" __global__ ([^;{]*?)(\w+)\(([^)]*)\) \{')
"""The definition of a kernel up to its body: qualifiers, name, parameters."""

_PARAMETER = re.compile(r"(.*?\*)\s*(__restrict__\s+)?(\w+)")


def with_indirect_entries(kernel: KernelSource) -> KernelSource:
    """A kernel each of whose launches also has an indirect entry point."""
    launches = tuple(replace(x, indirect=f"{x.symbol}_indirect") for x in kernel.launches)
    text = "".join([kernel.text, *_entries(kernel.text)])
    return replace(kernel, text=text, launches=launches)


def _entries(text: str) -> Iterator[str]:
    for head in KERNEL_HEAD.finditer(text):
        qualifiers, name, listed = head.groups()
        declarations = (
            listed.split(",") if listed.strip() else []
        )  # a kernel of empty tensors has none
        parameters = [_PARAMETER.fullmatch(parameter.strip()) for parameter in declarations]
        parts = [p.groups("") for p in parameters if p is not None]
        assert len(parts) == len(parameters), f"a parameter of {name} is not a pointer: {listed}"
        places = ", ".join(f"{kind} const* {own}_at" for kind, _, own in parts)
        loads = "".join(f"  {kind} {alone}{own} = *{own}_at;\n" for kind, alone, own in parts)
        body = text[head.end() : body_end(text, head.end())]
        yield f'extern "C" __global__ {qualifiers}{name}_indirect({places}) {{\n{loads}{body}\n'


def body_end(text: str, start: int) -> int:
    """The position after the brace that closes a body which begins at `start`."""
    depth = 1
    for brace in re.finditer(r"[{}]", text[start:]):
        depth += 1 if brace[0] == "{" else -1
        if depth == 0:
            return start + brace.end()
    raise ValueError("a kernel's body has no end")
