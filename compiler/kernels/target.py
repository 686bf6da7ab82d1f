"""Targets: their text form, and the CPU at hand."""

from dataclasses import dataclass
from functools import cache

import llvmlite.binding as llvm

from compiler.errors import KernelError
from compiler.kernels.gpu.compilers.emulated import EmulatedTarget
from compiler.kernels.gpu.hip_target import HipTarget, parse_hip_target
from compiler.kernels.gpu.target import CudaTarget, parse_cuda_target

HOST = "cpu"
"""The target text that stands for the machine at hand."""


@dataclass(frozen=True, slots=True)
class CpuTarget:
    """An LLVM processor name with extra features (such as `+avx512f,-sse4a`)."""

    mcpu: str
    features: str = ""

    def __str__(self) -> str:
        return f"cpu:{self.mcpu}" + (f":{self.features}" if self.features else "")

    @property
    def vector_bytes(self) -> int:
        """Bytes of the widest vector register that pays: 64, 32 or 16."""
        return _vector_bytes(self)

    def lanes(self, dtype_bytes: int) -> int:
        """Elements of a dtype in the widest vector register."""
        return max(1, self.vector_bytes // dtype_bytes)

    def machine(self) -> llvm.TargetMachine:
        """An LLVM target machine that makes position-independent code."""
        _initialise()
        return llvm.Target.from_default_triple().create_target_machine(
            cpu=self.mcpu, features=self.features, opt=3, reloc="pic", codemodel="default"
        )


Target = CpuTarget | CudaTarget | HipTarget | EmulatedTarget
"""What kernels can be built for."""


@cache
def _initialise() -> None:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()


@cache
def host_target() -> CpuTarget:
    """The processor at hand with exactly the features that it has."""
    return CpuTarget(llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten())


@cache
def parse_target(text: str) -> Target:
    """Read `cpu` (the host), `cpu:MCPU`, `cpu:MCPU:FEATURES`, `cuda:ARCH:PRECISION`,
    `hip:ARCH:PRECISION` or `emu:ARCH:PRECISION`; raises KernelError."""
    kind, _, rest = text.partition(":")
    if kind == "cuda":
        return parse_cuda_target(text)
    if kind == "hip":
        return parse_hip_target(text)
    if kind == "emu":
        amd = rest.startswith("gfx")
        gpu = parse_hip_target(f"hip:{rest}") if amd else parse_cuda_target(f"cuda:{rest}")
        return EmulatedTarget(gpu)
    if kind != HOST:
        raise KernelError(
            f"no kernels for the target '{text}': use 'cpu', 'cpu:MCPU' such as 'cpu:x86-64-v3',"
            " 'cuda' or 'cuda:ARCH:PRECISION' such as 'cuda:sm_90:tf32', 'hip' such as"
            " 'hip:gfx90a:fp16', or 'emu' likewise"
        )
    mcpu, _, features = rest.partition(":")
    if not mcpu:
        return host_target()
    if mcpu != llvm.get_host_cpu_name() and not _is_processor(mcpu):
        raise KernelError(
            f"LLVM knows no processor '{mcpu}' that runs {llvm.get_default_triple()} code: use a"
            f" name such as 'x86-64-v3' or, for this host, '{llvm.get_host_cpu_name()}'"
        )
    return CpuTarget(mcpu, features)


def _is_processor(mcpu: str) -> bool:
    """Whether LLVM can compile for a processor; asked beforehand, as LLVM would abort."""
    import tvm
    from tvm.target import codegen

    triple = llvm.get_default_triple()
    with tvm.target.Target({"kind": "llvm"}):
        if not codegen.llvm_is_valid_cpu(mcpu, triple):
            return False
    with tvm.target.Target({"kind": "llvm", "mcpu": mcpu}):
        return not triple.startswith("x86_64") or bool(codegen.llvm_cpu_has_features("64bit"))


_PROBE = """
define void @probe(ptr %a) {
  %x = load <16 x float>, ptr %a
  %y = fadd <16 x float> %x, %x
  store <16 x float> %y, ptr %a
  ret void
}
"""


@cache
def _vector_bytes(target: CpuTarget) -> int:
    """Compile a wide addition and see which registers LLVM takes."""
    assembly = target.machine().emit_assembly(llvm.parse_assembly(_PROBE))
    return 64 if "zmm" in assembly else 32 if "ymm" in assembly else 16
