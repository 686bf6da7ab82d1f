"""The CPU that kernels are compiled for, as LLVM knows it."""

import os
from functools import cache

import llvmlite.binding as llvm

from compiler.errors import KernelError
from compiler.target.target import CpuTarget


@cache
def host_target() -> CpuTarget:
    """This machine's CPU with exactly the features that it has."""
    return CpuTarget(mcpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten())


@cache
def named_target(target: CpuTarget) -> CpuTarget:
    """The target by its CPU's name, also for the host; KernelError for an unknown name."""
    if not target.mcpu:
        return host_target()
    if target.mcpu != llvm.get_host_cpu_name() and not _is_cpu(target.mcpu):
        raise KernelError(
            f"LLVM knows no CPU '{target.mcpu}' that runs {llvm.get_default_triple()} code:"
            f" use a name such as 'x86-64-v3' or, for this host, '{llvm.get_host_cpu_name()}'"
        )
    return target


def llvm_machine(target: CpuTarget) -> llvm.TargetMachine:
    """An LLVM target machine that makes position-independent code."""
    _initialise()
    named = named_target(target)
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=named.mcpu, features=named.features, opt=3, reloc="pic", codemodel="default"
    )


@cache
def _initialise() -> None:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()


def _is_cpu(mcpu: str) -> bool:
    """Whether LLVM can compile for a CPU; asked beforehand, as LLVM would abort."""
    import tvm
    from tvm.target import codegen

    triple = llvm.get_default_triple()
    with tvm.target.Target({"kind": "llvm"}):
        if not codegen.llvm_is_valid_cpu(mcpu, triple):
            return False
    with tvm.target.Target({"kind": "llvm", "mcpu": mcpu}):
        return not triple.startswith("x86_64") or bool(codegen.llvm_cpu_has_features("64bit"))


@cache
def has_vnni(target: CpuTarget) -> bool:
    """Whether a target has instructions that multiply bytes and add four at a time."""
    import tvm
    from tvm.target import codegen

    named = named_target(target)
    options: dict[str, object] = {"kind": "llvm", "mcpu": named.mcpu}
    if named.features:
        options["mattr"] = named.features.split(",")
    with tvm.target.Target(options):
        has = codegen.llvm_cpu_has_features
        return bool(has("avxvnni") or (has("avx512vnni") and has("avx512vl")))


TYPICAL_CACHE = 1 << 20
"""The bytes of the second-level cache of a core that is not this machine's."""


@cache
def second_cache_bytes(target: CpuTarget) -> int:
    """The bytes of a core's second-level cache."""
    ours = named_target(target).mcpu == llvm.get_host_cpu_name()
    named = os.sysconf_names.get("SC_LEVEL2_CACHE_SIZE")
    found = os.sysconf(named) if ours and named else 0
    return found if found > 0 else TYPICAL_CACHE


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
