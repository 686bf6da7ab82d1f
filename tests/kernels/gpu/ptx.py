"""The PTX of kernels, and the parameters whose memory it touches before the wait."""

import re

from compiler.kernels.gpu.source import complete_text, headers
from compiler.kernels.template import KernelSource
from compiler.target.nvrtc import load_nvrtc

WAIT = "griddepcontrol.wait"
ACCESSES = ("ld.global", "st.global", "cp.async.ca.", "cp.async.cg.", "red", "atom")
"""How instructions on global memory begin."""


def ptx_of(kernel: KernelSource) -> str:
    """The PTX of a kernel for Hopper, by NVRTC."""
    nvrtc = load_nvrtc()
    texts = headers()
    names, bodies = [n.encode() for n in texts], [t.encode() for t in texts.values()]
    source = complete_text(kernel.text).encode()
    _, program = nvrtc.nvrtcCreateProgram(source, b"kernel.cu", len(names), bodies, names)
    options = [b"--gpu-architecture=compute_90a", b"--std=c++17", b"--disable-warnings"]
    (status,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
    assert status == nvrtc.nvrtcResult.NVRTC_SUCCESS
    text = bytearray(nvrtc.nvrtcGetPTXSize(program)[1])
    nvrtc.nvrtcGetPTX(program, text)
    return text.decode()


def read_before_the_wait(ptx: str) -> list[set[int]]:
    """Of each access of global memory before the first wait, the parameters that it comes from."""
    origins: dict[str, set[int]] = {}
    accesses: list[set[int]] = []
    before, wait, _ = ptx.partition(WAIT)
    assert wait
    for line in before.splitlines():
        instruction = re.sub(r"^@!?%?\w+\s+", "", line.strip().removesuffix(";"))
        operation, _, operands = instruction.partition(" ")
        registers = re.findall(r"%\w+", operands)
        own = {int(n) for n in re.findall(r"_param_(\d+)", operands)}
        if operation.startswith(ACCESSES):
            accesses.append(set[int]().union(*(origins.get(r, set()) for r in registers)))
        elif registers:
            sources = (origins.get(register, set()) for register in registers[1:])
            origins.setdefault(registers[0], set()).update(own.union(*sources))
    return accesses
