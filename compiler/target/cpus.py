"""CPUs by LLVM's names, and their instruction sets."""

import platform
import re

AARCH64 = "aarch64"
X86 = "x86_64"

# LLVM's names of CPUs do not say which instruction set they have
_ARM = re.compile(
    r"aarch64$|a64fx|ampere|apple-|c1-|carmel|cortex-|exynos-|falkor|fujitsu-|gb10|grace$|kryo"
    r"|neoverse-|olympus|oryon-|saphira|thunderx|tsv110"
)

_ALIASES = {"arm64": AARCH64, "amd64": X86}
"""Other systems' names of instruction sets, in lower case."""


def host_instruction_set() -> str:
    """The instruction set of this machine, by Linux's name."""
    machine = platform.machine()
    return _ALIASES.get(machine.lower(), machine)


def instruction_set(mcpu: str) -> str:
    """The instruction set of a CPU: `aarch64` where it is one of Arm's, else x86's.

    Where '' and LLVM's `generic` are meant, it is the host's.
    """
    if _ARM.match(mcpu):
        return AARCH64
    host = host_instruction_set()
    return host if mcpu in ("", "generic") or host not in (AARCH64, X86) else X86
