"""AddressSanitizer for the emulator: what worker processes need, as its runtime must come first."""

import subprocess

from compiler.emulator.compile import SANITIZED, host_compiler

_OPTIONS = "detect_leaks=0:print_legend=0"


def environment() -> dict[str, str]:
    """The environment of a process whose emulator, and its kernels, are sanitized."""
    libraries = ":".join(_library(name) for name in ("libasan.so", "libstdc++.so.6"))
    return {SANITIZED: "1", "LD_PRELOAD": libraries, "ASAN_OPTIONS": _OPTIONS}


def _library(name: str) -> str:
    """The path of a library of the host's compiler; raises SystemExit if it has none."""
    command = [host_compiler(), f"-print-file-name={name}"]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    if found == name:
        raise SystemExit(f"--sanitize needs {name}, which {command[0]} does not have: use g++")
    return found
