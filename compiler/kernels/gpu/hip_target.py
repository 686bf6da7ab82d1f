"""HIP targets: architectures and precision, and their text form."""

import re
from dataclasses import dataclass
from functools import cache

from compiler.errors import KernelError
from compiler.kernels.gpu.target import CudaTarget

DEFAULT_ARCH = "gfx90a"

PRECISIONS = ("fp32", "fp16", "bf16")
"""How contractions multiply, the default first; AMD has no TF32 on all of its matrix cores."""

MATRIX_CORES = ("gfx90a", "gfx942")
"""Architectures whose matrix cores are used."""


@dataclass(frozen=True, slots=True)
class HipTarget(CudaTarget):
    """AMD architectures such as `gfx90a` or `gfx90a,gfx942`, which get CUDA text of sm_80.

    One text serves all of them, so matrix cores are used where every one of them has them.
    """

    arch: str = DEFAULT_ARCH
    precision: str = PRECISIONS[0]

    def __str__(self) -> str:
        return f"hip:{self.arch}:{self.precision}"

    @property
    def architectures(self) -> tuple[str, ...]:
        """What code objects are made for; tiles are chosen for the first."""
        return tuple(self.arch.split(","))

    @property
    def capability(self) -> int:
        """The newest compute capability whose features, but no instructions, are used."""
        return 80

    @property
    def text_arch(self) -> str:
        """The architecture that TVM writes CUDA text for."""
        return "sm_80"

    @property
    def shared_bytes(self) -> int:
        """Most bytes of shared memory that one block can have."""
        return 64 << 10

    @property
    def matrix_cores(self) -> bool:
        """Whether contractions go to matrix cores; else to plain multiply-adds."""
        return all(each in MATRIX_CORES for each in self.architectures)


@cache
def parse_hip_target(text: str) -> HipTarget:
    """Read `hip`, `hip:ARCH`, `hip:ARCH,ARCH` or `hip:ARCH:PRECISION`; raises KernelError."""
    _, _, rest = text.partition(":")
    arch, _, precision = rest.partition(":")
    target = HipTarget(arch or DEFAULT_ARCH, precision or PRECISIONS[0])
    for each in target.architectures:
        if not re.fullmatch(r"gfx[0-9a-f]{3,5}", each):
            raise KernelError(
                f"'{each}' is no architecture of AMD: use one such as gfx90a, gfx942 or gfx1030,"
                " or several as gfx90a,gfx942"
            )
    if target.precision not in PRECISIONS:
        raise KernelError(
            f"target 'hip' has no precision '{precision}': use one of {', '.join(PRECISIONS)}"
        )
    return target
