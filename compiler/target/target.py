"""Targets: a CPU, or architectures of GPUs. The only parser of their text."""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import ClassVar, Literal, get_args

from compiler.errors import ArgumentError, DeviceError, KernelError
from compiler.target.cpus import instruction_set
from compiler.target.devices import (
    CORES,
    DEFAULT_ARCHITECTURES,
    DeviceModel,
    compiled_for,
    typical_device,
)
from compiler.tensors.contraction import CONTRACTION_WORDS, Contraction

Precision = Literal["fp32", "tf32", "fp16", "bf16"]
"""How contractions multiply: what their operands are rounded to. All accumulate in float32."""

PRECISIONS: tuple[str, ...] = get_args(Precision)
"""All precisions; kernels' headers number them in this order."""

SHORT_PRECISIONS = ("fp16", "bf16")
"""The precisions whose operands have 16 bits."""

PRECISIONS_OF: Mapping[str, tuple[str, ...]] = {
    "cpu": ("fp32", "fp16", "bf16"),
    "cuda": ("tf32", "fp32", "fp16", "bf16"),
    "hip": ("fp32", "fp16", "bf16"),
}
"""The precisions of each kind of target, its default first."""

BACKENDS = ("cpu", "cuda", "hip", "emu")
"""The first words of targets' texts: the backends that run the kernels."""

MFMA_ARCHITECTURES = ("gfx90a", "gfx942")
"""AMD's architectures whose matrix cores are used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target(ABC):
    """The target of a compilation; passes and kernel templates ask for its capabilities.

    `str` gives the text form that `parse_target` reads.
    """

    precision: str = "fp32"
    """The type that the operands of contractions are rounded to."""

    kind: ClassVar[str]
    """`cpu`, `cuda` or `hip`: whose kernels."""
    is_gpu: ClassVar[bool] = False
    blocked_layouts: ClassVar[bool] = False
    """Whether kernels are faster on channel-blocked (NCHWc) tensors."""
    fuses_attention: ClassVar[bool] = False
    """Whether there is a kernel for a whole attention."""
    fuses_siblings: ClassVar[bool] = False
    """Whether horizontal fusion of contractions that share an input pays."""
    fuses_depthwise_pointwise: ClassVar[bool] = False
    """Whether there is a kernel for a depthwise convolution and the pointwise one after it."""
    gains_by_substitution: ClassVar[bool] = False
    """Whether substitutions are searched for by default."""
    runs_control_flow: ClassVar[bool] = False
    """Whether its schedules may have If and Loop tasks."""

    @property
    def fuses_squeeze_excite(self) -> bool:
        """Whether there is a kernel for a whole squeeze-and-excitation."""
        return False

    @property
    def contractions(self) -> tuple[Contraction, ...]:
        """The ways to contract quantised operands that it has kernels for, the most bytes first."""
        return (Contraction.FLOATS, Contraction.UNROUNDED)

    @property
    def compared_contractions(self) -> tuple[Contraction, ...]:
        """The ways that compete, unless a user asks for one."""
        return self.contractions[:1]

    @property
    @abstractmethod
    def backend(self) -> str:
        """The backend that builds and runs the kernels: one of `BACKENDS`."""

    @property
    @abstractmethod
    def architecture(self) -> str:
        """The architecture, the first of several: configs are chosen and times predicted for it."""

    @property
    @abstractmethod
    def device(self) -> DeviceModel:
        """The typical device of the architecture."""

    @property
    def searches_schedules(self) -> bool:
        """Whether schedules are searched for by a simulator of the device."""
        return False

    @property
    def idle_matrix_cores(self) -> tuple[str, ...]:
        """The architectures whose matrix cores kernels leave idle, as another has none."""
        return ()


def check_kernels_precision(target: Target) -> None:
    """Raise KernelError for a precision that a target has no kernels of."""
    precisions = PRECISIONS_OF[target.kind]
    if target.precision not in precisions:
        raise KernelError(
            f"target '{target.kind}' has no precision '{target.precision}': use one of"
            f" {', '.join(precisions)}"
        )


@dataclass(frozen=True, slots=True)
class CpuTarget(Target):
    """An LLVM CPU name with extra features (such as `+avx512f,-sse4a`); '' for the host.

    In the precisions fp16 and bf16 tensors are stored in 16 bits and computed with in float32.
    """

    kind: ClassVar[str] = "cpu"
    fuses_attention: ClassVar[bool] = True
    runs_control_flow: ClassVar[bool] = True
    mcpu: str = ""
    features: str = ""

    @property
    def feature_names(self) -> list[str]:
        """The extra features, each with its + or -."""
        return [name for name in self.features.split(",") if name]

    def __post_init__(self) -> None:
        check_kernels_precision(self)

    def __str__(self) -> str:
        precision = "" if self.precision == PRECISIONS_OF["cpu"][0] else self.precision
        return ":".join(text for text in ("cpu", self.mcpu, self.features, precision) if text)

    @property
    def backend(self) -> str:
        return "cpu"

    @property
    def contractions(self) -> tuple[Contraction, ...]:
        """All bytes as such, or floats."""
        return (Contraction.BYTES, Contraction.FLOATS, Contraction.UNROUNDED)

    @property
    def architecture(self) -> str:
        """LLVM's name of the CPU; '' for the host."""
        return self.mcpu

    @property
    def instruction_set(self) -> str:
        """The instruction set by Linux's name: `aarch64`, `x86_64` or the host's."""
        return instruction_set(self.mcpu)

    @property
    def device(self) -> DeviceModel:
        """A core for each stream."""
        return CORES


@dataclass(frozen=True, slots=True)
class GpuTarget(Target):
    """GPU architectures, the precision of contractions, and whether a CPU emulates the GPU."""

    is_gpu: ClassVar[bool] = True
    architectures: tuple[str, ...]
    emulated: bool = False

    def __post_init__(self) -> None:
        check_kernels_precision(self)

    def __str__(self) -> str:
        return f"{self.backend}:{','.join(self.architectures)}:{self.precision}"

    @property
    def backend(self) -> str:
        return "emu" if self.emulated else self.kind

    @property
    def architecture(self) -> str:
        return self.architectures[0]

    @property
    def device(self) -> DeviceModel:
        return typical_device(self.architecture)

    @property
    def shared_bytes(self) -> int:
        """Most bytes of shared memory of one block."""
        return self.device.block_shared_bytes

    @property
    @abstractmethod
    def cuda_architecture(self) -> str:
        """The architecture whose CUDA text is written."""

    @property
    def capability(self) -> int:
        """The CUDA compute capability of the text as one number: 90 for sm_90."""
        return int(self.cuda_architecture.removeprefix("sm_"))

    @property
    def compiler_architecture(self) -> str:
        """The architecture as the compiler's option names it."""
        return compiled_for(self.architecture)

    @property
    def has_mma(self) -> bool:
        """Whether the matrix cores have NVIDIA's instructions of one warp (mma.sync)."""
        return False

    @property
    def has_mfma(self) -> bool:
        """Whether all architectures have AMD's matrix cores (MFMA)."""
        return False

    @property
    def has_float8_mma(self) -> bool:
        """Whether the matrix cores multiply floats of a byte."""
        return False

    @property
    def has_wgmma(self) -> bool:
        """Whether four warps multiply together (WGMMA)."""
        return False

    @property
    def has_async_copy(self) -> bool:
        """Whether copies to shared memory are asynchronous (cp.async)."""
        return False

    @property
    def largest_cluster(self) -> int:
        """The most blocks of a thread block cluster, which share their shared memory."""
        return 1

    @property
    def has_clusters(self) -> bool:
        """Whether there are thread block clusters."""
        return self.largest_cluster > 1

    @property
    def has_pdl(self) -> bool:
        """Whether kernels can start before their predecessors end (programmatic launches)."""
        return False


LARGE_CLUSTERS = ("sm_90", "sm_100", "sm_103")
"""The architectures whose GPCs run a cluster of 16 blocks that take an SM each."""


@dataclass(frozen=True, slots=True)
class CudaTarget(GpuTarget):
    """An NVIDIA architecture such as `sm_90`."""

    kind: ClassVar[str] = "cuda"
    blocked_layouts: ClassVar[bool] = True
    fuses_attention: ClassVar[bool] = True
    fuses_siblings: ClassVar[bool] = True
    fuses_depthwise_pointwise: ClassVar[bool] = True
    gains_by_substitution: ClassVar[bool] = True
    runs_control_flow: ClassVar[bool] = True

    def __post_init__(self) -> None:
        name = ",".join(self.architectures)
        if not re.fullmatch(r"sm_\d+", name):
            raise KernelError(
                f"'{name}' is not an architecture of NVIDIA: use one such as sm_80 or sm_90"
            )
        if self.capability < 80:
            raise KernelError(f"the architecture {name} is too old: the oldest is sm_80")
        GpuTarget.__post_init__(self)

    @property
    def searches_schedules(self) -> bool:
        return not self.emulated

    @property
    def cuda_architecture(self) -> str:
        return self.architecture

    @property
    def has_mma(self) -> bool:
        return True

    @property
    def has_float8_mma(self) -> bool:
        return self.capability >= 89

    @property
    def contractions(self) -> tuple[Contraction, ...]:
        """Bytes on tensor cores, float8s too where these multiply them, and floats."""
        if self.has_float8_mma:
            tiles = (Contraction.FLOAT8_TILES, Contraction.FLOAT8_OPERANDS)
        else:
            tiles = (Contraction.TILES, Contraction.OPERANDS)
        return (*tiles, Contraction.FLOATS, Contraction.UNROUNDED)

    @property
    def compared_contractions(self) -> tuple[Contraction, ...]:
        """Bytes and floats.

        What has 16 bits is rounded to those of its precision, not to quantised integers, too.
        """
        short = self.precision in SHORT_PRECISIONS
        return tuple(way for way in self.contractions if way.rounds != short)

    @property
    def has_wgmma(self) -> bool:
        # Hopper's alone: Blackwell's tensor cores have other instructions in its place
        return self.architecture == "sm_90"

    @property
    def has_async_copy(self) -> bool:
        return True

    @property
    def largest_cluster(self) -> int:
        """Eight on every GPU that has clusters, twice as many on those of data centres."""
        if self.capability < 90:
            return 1
        return 16 if self.architecture in LARGE_CLUSTERS else 8

    @property
    def fuses_squeeze_excite(self) -> bool:
        return self.has_clusters

    @property
    def has_pdl(self) -> bool:
        return self.capability >= 90


@dataclass(frozen=True, slots=True)
class HipTarget(GpuTarget):
    """AMD architectures such as `gfx90a` and `gfx942`, which share one text: CUDA's of sm_80."""

    kind: ClassVar[str] = "hip"

    def __post_init__(self) -> None:
        for name in self.architectures:
            if not re.fullmatch(r"gfx[0-9a-f]{3,5}", name):
                raise KernelError(
                    f"'{name}' is not an architecture of AMD: use one such as gfx90a, gfx942 or"
                    " gfx1030, or several as gfx90a,gfx942"
                )
        GpuTarget.__post_init__(self)

    @property
    def cuda_architecture(self) -> str:
        """The architecture whose features, but no instructions, the text uses."""
        return "sm_80"

    @property
    def has_mfma(self) -> bool:
        return all(name in MFMA_ARCHITECTURES for name in self.architectures)

    @property
    def idle_matrix_cores(self) -> tuple[str, ...]:
        able = tuple(name for name in self.architectures if name in MFMA_ARCHITECTURES)
        return () if self.has_mfma or self.emulated else able


@cache
def parse_target(text: str) -> Target:
    """Read `cpu` (the host), `cpu:MCPU`, `cpu:MCPU:FEATURES`, each perhaps with `:PRECISION`,
    `cuda:ARCH:PRECISION`, `hip:ARCH,ARCH:PRECISION` or `emu:ARCH:PRECISION`; raises KernelError.

    Without an architecture or precision, the kind's default is meant.
    """
    backend, _, suffix = text.partition(":")
    if backend == "cpu":
        return _cpu(suffix)
    if backend not in BACKENDS:
        raise KernelError(
            f"unknown target '{text}': use 'cpu', 'cpu:MCPU' such as 'cpu:x86-64-v3' or"
            " 'cpu:neoverse-n1', 'cuda' or 'cuda:ARCH:PRECISION' such as 'cuda:sm_90:tf32', 'hip'"
            " such as 'hip:gfx90a:fp16', or 'emu' likewise"
        )
    return _gpu(backend, suffix)


@cache
def parse_gpu(text: str) -> GpuTarget:
    """`parse_target` of the text of a GPU; raises KernelError for others."""
    backend, _, suffix = text.partition(":")
    if backend == "cpu" or backend not in BACKENDS:
        raise KernelError(f"'{text}' is not a target of a GPU: use one such as 'cuda:sm_90:tf32'")
    return _gpu(backend, suffix)


@cache
def parse_cpu(text: str) -> CpuTarget:
    """`parse_target` of the text of a CPU; raises KernelError for others."""
    backend, _, suffix = text.partition(":")
    if backend != "cpu":
        raise KernelError(f"'{text}' is not a target of a CPU: use one such as 'cpu:x86-64-v3'")
    return _cpu(suffix)


def complete(
    text: str,
    architecture: str | None,
    precision: str | None,
    present: Callable[[str], str],
) -> Target:
    """A target with an architecture and a precision that override those of its text.

    Where neither names an architecture, `present` gives the device's for a backend. Raises
    DeviceError for an unknown backend or precision, and KernelError for an architecture.
    """
    backend, _, suffix = text.partition(":")
    if backend not in BACKENDS:
        raise DeviceError(f"unknown target {text!r}; the targets are {', '.join(BACKENDS)}")
    if backend == "cpu":
        _check_precision("cpu", "cpu", precision)
        cpu = _cpu(suffix)
        cpu = replace(_cpu(architecture), precision=cpu.precision) if architecture else cpu
        return replace(cpu, precision=precision) if precision else cpu
    named, _, exact = suffix.partition(":")
    named = architecture or named or present(backend)
    precision_name = precision or exact or None
    _check_precision(f"{backend}:{named}", _class_of(backend, named).kind, precision_name)
    return _gpu(backend, f"{named}:{precision_name or ''}")


def _check_precision(target: str, kind: str, precision: str | None) -> None:
    precisions = PRECISIONS_OF[kind]
    if precision is not None and precision not in precisions:
        raise DeviceError(
            f"target {target!r} has no precision {precision!r}; it has {', '.join(precisions)}"
        )


def _cpu(suffix: str) -> CpuTarget:
    head, _, tail = suffix.rpartition(":")
    cpu, precision = (head, tail) if tail in PRECISIONS else (suffix, PRECISIONS_OF["cpu"][0])
    mcpu, _, features = cpu.partition(":")
    if features and not mcpu:
        raise KernelError(
            f"the target 'cpu:{cpu}' has features but no CPU: write"
            " cpu:MCPU:FEATURES, such as 'cpu:x86-64-v3:+avx512f'"
        )
    return CpuTarget(mcpu=mcpu, features=features, precision=precision)


def _class_of(backend: str, architectures: str) -> type[CudaTarget] | type[HipTarget]:
    """The class of a GPU's target: the emulator runs both kinds, by the architecture's name."""
    amd = backend == "hip" or (backend == "emu" and architectures.startswith("gfx"))
    return HipTarget if amd else CudaTarget


def _gpu(backend: str, suffix: str) -> GpuTarget:
    named, _, precision = suffix.partition(":")
    target_class = _class_of(backend, named)
    return target_class(
        architectures=tuple((named or DEFAULT_ARCHITECTURES[target_class.kind]).split(",")),
        precision=precision or PRECISIONS_OF[target_class.kind][0],
        emulated=backend == "emu",
    )


def contractions_of(quantised: str, target: str) -> tuple[Contraction, ...]:
    """The ways to contract quantised operands to compare, for a word of `CONTRACTION_WORDS`.

    Raises ArgumentError for another word, and for a way that the target has no kernels for.
    """
    if quantised not in CONTRACTION_WORDS:
        raise ArgumentError(f"quantised={quantised!r}: use one of {', '.join(CONTRACTION_WORDS)}")
    parsed = parse_target(target)
    if quantised == "auto":
        return parsed.compared_contractions
    ways = tuple(way for way in parsed.contractions if way.asked == quantised)
    if not ways:
        words = ", ".join(("auto", *(way.asked for way in parsed.contractions)))
        raise ArgumentError(f"quantised={quantised!r}: for {target} use one of {words}")
    return ways
