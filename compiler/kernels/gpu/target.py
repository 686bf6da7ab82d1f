"""CUDA targets: architecture and precision, and their text form."""

from dataclasses import dataclass
from functools import cache
from typing import Literal, get_args

from compiler.errors import KernelError
from compiler.target.devices import compiled_for

Precision = Literal["fp32", "tf32", "fp16", "bf16"]
"""How contractions multiply: what their operands are rounded to. All accumulate in float32."""

PRECISIONS: tuple[str, ...] = get_args(Precision)

DEFAULT_ARCH = "sm_90"
DEFAULT_PRECISION = "tf32"

SHARED_BYTES = {80: 163 << 10, 86: 99 << 10, 87: 163 << 10, 89: 99 << 10, 120: 99 << 10}
"""Most bytes of shared memory of one block, by compute capability; 227 KiB where not listed."""


@dataclass(frozen=True, slots=True)
class CudaTarget:
    """An NVIDIA architecture such as `sm_90`, and the precision of contractions."""

    arch: str = DEFAULT_ARCH
    precision: str = DEFAULT_PRECISION

    def __str__(self) -> str:
        return f"cuda:{self.arch}:{self.precision}"

    @property
    def capability(self) -> int:
        """The compute capability as one number: 90 for sm_90."""
        return int(self.arch.removeprefix("sm_"))

    @property
    def text_arch(self) -> str:
        """The architecture that TVM writes CUDA text for."""
        return self.arch

    @property
    def programmatic(self) -> bool:
        """Whether a kernel can be launched before those it waits for have ended."""
        return self.capability >= 90

    @property
    def has_warpgroups(self) -> bool:
        """Whether four warps multiply together (wgmma)."""
        return self.arch == "sm_90"

    @property
    def compiler_arch(self) -> str:
        """What the compiler is told: sm_90 with its architecture-specific instructions."""
        return compiled_for(self.arch)

    @property
    def shared_bytes(self) -> int:
        """Most bytes of shared memory that one block can have."""
        return SHARED_BYTES.get(self.capability, 227 << 10)


@cache
def parse_cuda_target(text: str) -> CudaTarget:
    """Read `cuda`, `cuda:ARCH` or `cuda:ARCH:PRECISION`; raises KernelError."""
    kind, _, rest = text.partition(":")
    arch, _, precision = rest.partition(":")
    target = CudaTarget(arch or DEFAULT_ARCH, precision or DEFAULT_PRECISION)
    digits = target.arch.removeprefix("sm_")
    if kind != "cuda":
        raise KernelError(f"no kernels for the target '{text}': use 'cuda' or 'cuda:sm_90:tf32'")
    if not target.arch.startswith("sm_") or not digits.isdecimal():
        raise KernelError(
            f"'{target.arch}' is no architecture of NVIDIA: use one such as sm_80 or sm_90"
        )
    if target.capability < 80:
        raise KernelError(f"the architecture {target.arch} is too old: the oldest is sm_80")
    if target.precision not in PRECISIONS:
        raise KernelError(
            f"unknown precision '{target.precision}': use one of {', '.join(PRECISIONS)}"
        )
    return target
