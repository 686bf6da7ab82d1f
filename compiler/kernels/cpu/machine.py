"""The CPU that kernels are compiled for, as LLVM knows it."""

from dataclasses import replace
from functools import cache
from typing import Literal

import llvmlite.binding as llvm

from compiler.errors import KernelError
from compiler.target.caches import CACHES, TYPICAL_CACHE, TYPICAL_FIRST_CACHE, data_caches
from compiler.target.cpus import AARCH64, host_instruction_set
from compiler.target.target import CpuTarget

LLVM_NAMES = {"aarch64": "generic"}
"""LLVM's names of the CPUs that have another here."""

NO_SVE = "-sve,-sme"
"""Kernels have vectors of a length that is known: NEON's on Arm."""

FLOAT16_ARITHMETIC = {"x86_64": ("avx512fp16",), AARCH64: ("fullfp16",)}
"""The features of instructions that compute in float16, by instruction set."""


@cache
def host_target() -> CpuTarget:
    """This machine's CPU with exactly the features that it has."""
    features = llvm.get_host_cpu_features().flatten()
    return _with_known_vectors(CpuTarget(mcpu=llvm.get_host_cpu_name(), features=features))


@cache
def named_target(target: CpuTarget) -> CpuTarget:
    """The target by its CPU's name, also for the host; KernelError for what LLVM does not know."""
    if not target.mcpu:
        return host_target()
    if target.mcpu != llvm.get_host_cpu_name() and not _is_cpu(target):
        raise KernelError(
            f"LLVM knows no CPU '{target.mcpu}' that runs {triple_of(target)} code:"
            " use a name such as 'x86-64-v3', 'neoverse-n1' or 'aarch64' or, for this host,"
            f" '{llvm.get_host_cpu_name()}'"
        )
    for feature in target.feature_names:
        name = feature[1:]
        if feature[0] not in "+-" or not (name in _host_features() or _enables(target, name)):
            raise KernelError(
                f"LLVM knows no feature '{feature}' of {target.instruction_set}: write its name"
                " after + or -, such as +avx512f or -sse4a"
            )
    return _with_known_vectors(target)


@cache
def _host_features() -> frozenset[str]:
    return frozenset(llvm.get_host_cpu_features())


def _enables(target: CpuTarget, feature: str) -> bool:
    """Whether LLVM has a feature for a CPU: it passes over unknown ones."""
    import tvm
    from tvm.target import codegen

    options = {"kind": "llvm", "mtriple": triple_of(target), "mcpu": _llvm_name(target)}
    with tvm.target.Target({**options, "mattr": [f"+{feature}"]}):
        return feature in codegen.llvm_get_cpu_features()


def _with_known_vectors(target: CpuTarget) -> CpuTarget:
    if target.instruction_set != AARCH64 or target.features.endswith(NO_SVE):
        return target
    return replace(target, features=",".join(part for part in (target.features, NO_SVE) if part))


def triple_of(target: CpuTarget) -> str:
    """LLVM's triple of a target: the host's, or Linux on another instruction set."""
    if target.instruction_set == host_instruction_set():
        return llvm.get_default_triple()
    return f"{target.instruction_set}-unknown-linux-gnu"


def llvm_machine(target: CpuTarget) -> llvm.TargetMachine:
    """An LLVM target machine that makes position-independent code."""
    _initialise()
    named = named_target(target)
    return llvm.Target.from_triple(triple_of(named)).create_target_machine(
        cpu=_llvm_name(named),
        features=",".join(_feature_names(named)),
        opt=3,
        reloc="pic",
        codemodel="default",
    )


def _feature_names(target: CpuTarget) -> list[str]:
    """The features of a target with a sign each, without arithmetic on float16.

    LLVM narrows a float32 multiplication of two float16 numbers that is rounded to float16, and
    then contracts it with the addition that follows: of x * x - z the square was not rounded, not
    even by a Cast, and did not overflow. Conversions do not need the feature.
    """
    unrounded = FLOAT16_ARITHMETIC.get(target.instruction_set, ())
    return [*target.feature_names, *(f"-{name}" for name in unrounded)]


@cache
def _initialise() -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()


def _llvm_name(target: CpuTarget) -> str:
    return LLVM_NAMES.get(target.mcpu, target.mcpu)


def llvm_options(target: CpuTarget) -> dict[str, object]:
    """TVM's options of code for a target."""
    named = named_target(target)
    options: dict[str, object] = {
        "kind": "llvm",
        "mtriple": triple_of(named),
        "mcpu": _llvm_name(named),
    }
    if names := _feature_names(named):
        options["mattr"] = names
    return options


def _is_cpu(target: CpuTarget) -> bool:
    """Whether LLVM can compile for a CPU; asked beforehand, as LLVM would abort."""
    import tvm
    from tvm.target import codegen

    triple = triple_of(target)
    mcpu = _llvm_name(target)
    with tvm.target.Target({"kind": "llvm", "mtriple": triple}):
        if not codegen.llvm_is_valid_cpu(mcpu, triple):
            return False
    with tvm.target.Target({"kind": "llvm", "mtriple": triple, "mcpu": mcpu}):
        return not triple.startswith("x86_64") or bool(codegen.llvm_cpu_has_features("64bit"))


@cache
def features_of(target: CpuTarget) -> frozenset[str]:
    """The features that LLVM may use for a target, by its names."""
    import tvm
    from tvm.target import codegen

    with tvm.target.Target(llvm_options(target)):
        return frozenset(map(str, codegen.llvm_get_cpu_features()))


ByteSums = Literal["vnni", "usdot", "sdot", ""]
"""The instructions that multiply bytes and add four at a time: x86's of unsigned by signed ones,
Arm's of these (i8mm) or of signed ones alone (dotprod), or none."""


@cache
def byte_sums_of(target: CpuTarget) -> ByteSums:
    """The instructions of a target for sums of multiplied bytes."""
    has = features_of(target)
    if "avxvnni" in has or {"avx512vnni", "avx512vl"} <= has:
        return "vnni"
    return "usdot" if "i8mm" in has else "sdot" if "dotprod" in has else ""


def first_cache_bytes(target: CpuTarget) -> int:
    """The bytes of a core's first-level cache for data."""
    return _cache_bytes(target, 1) or TYPICAL_FIRST_CACHE


def second_cache_bytes(target: CpuTarget) -> int:
    """The bytes of a core's second-level cache."""
    return _cache_bytes(target, 2) or TYPICAL_CACHE


@cache
def _cache_bytes(target: CpuTarget, level: int) -> int:
    """The bytes of a core's cache, if the target is this machine and it says."""
    ours = named_target(target).mcpu == llvm.get_host_cpu_name()
    return data_caches(CACHES).get(level, 0) if ours else 0


_PROBE = """
define void @probe(ptr %a) {
  %x = load <16 x float>, ptr %a
  %y = fadd <16 x float> %x, %x
  store <16 x float> %y, ptr %a
  ret void
}
"""


@cache
def vector_bytes(target: CpuTarget) -> int:
    """Bytes of the widest vector register that pays: 64, 32 or 16.

    A wide addition is compiled to see which registers LLVM takes.
    """
    assembly = llvm_machine(target).emit_assembly(llvm.parse_assembly(_PROBE))
    return 64 if "zmm" in assembly else 32 if "ymm" in assembly else 16
