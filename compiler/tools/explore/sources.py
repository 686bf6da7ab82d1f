"""The texts of a kernel for the explorer: its tensor expression, program, LLVM, CUDA and SASS."""

import shutil
import subprocess
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from tempfile import NamedTemporaryFile

from compiler.errors import FlowloomError, KernelError
from compiler.kernels.group import Group
from compiler.schedule.kernels import KernelSpec
from compiler.target.target import Target, parse_cpu

NVDISASM_PACKAGE = "nvidia-cuda-nvdisasm"
"""The package that brings nvdisasm where the CUDA toolkit is not installed."""


def disassembler() -> str | None:
    """The path of nvdisasm, of CUDA's tools or of the package nvidia-cuda-nvdisasm."""
    spec = find_spec("nvidia")
    roots = list(spec.submodule_search_locations or ()) if spec else []
    in_packages = (str(path) for root in roots for path in Path(root).glob("*/bin/nvdisasm"))
    return shutil.which("nvdisasm") or next(in_packages, None)


def sass_of(cubin: bytes) -> str:
    """The instructions of a cubin; raises KernelError without nvdisasm, or if it fails."""
    program = disassembler()
    if program is None:
        raise KernelError(f"SASS needs nvdisasm: pip install {NVDISASM_PACKAGE}")
    with NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        ran = subprocess.run([program, "-c", file.name], capture_output=True, text=True)
    if ran.returncode:
        raise KernelError(f"nvdisasm cannot read a cubin: {ran.stderr.strip()}")
    return ran.stdout


LISTED = 32
"""Kernels of which all texts are shown, the most costly; of the others those that are short."""

LANGUAGES = {"cuda": "CUDA C++", "hip": "HIP C++", "emu": "C++"}
"""The language of a GPU kernel's text."""

NOT_COMPILED = (
    "An artifact has the machine code alone: `flowloom explore MODEL` compiles the model and shows"
    " tensor expressions and LLVM code."
)
NOT_LISTED = f"The other texts are shown of the {LISTED} most costly kernels."


def kernel_sources(
    kernel: KernelSpec, group: Group | None, target: Target, listed: bool
) -> tuple[dict[str, str], str]:
    """A kernel's texts by what they are, from the expression to machine code, and what is missing.

    Without a group only what the kernel itself has; unless it is `listed` only short texts.
    """
    texts: dict[str, str] = {}
    notes = [] if group else [NOT_COMPILED]
    notes += [] if listed or group is None else [NOT_LISTED]
    for name, text in _texts(kernel, group, target, listed):
        if isinstance(text, FlowloomError):
            notes.append(f"No {name}: {text}")
        else:
            texts[name] = text
    return texts, " ".join(notes)


def _texts(
    kernel: KernelSpec, group: Group | None, target: Target, listed: bool
) -> Iterator[tuple[str, str | FlowloomError]]:
    if group is None:
        yield from _texts_of_code(kernel, listed)
        return
    from compiler.kernels.building import listing

    yield "tensor expression", _text(lambda: listing.expression_text(group))
    yield from _texts_of_code(kernel, listed)
    if listed and target.backend == "cpu":
        texts = listing.cpu_listing(group, parse_cpu(str(target)))
        if texts is not None:
            yield "schedule", texts.program
            yield "LLVM", texts.llvm


def _texts_of_code(kernel: KernelSpec, listed: bool) -> Iterator[tuple[str, str | FlowloomError]]:
    if kernel.source:
        yield LANGUAGES[kernel.language], kernel.source
    if listed and kernel.language == "cuda":
        yield "SASS", _text(lambda: sass_of(kernel.code))


def _text(write: Callable[[], str]) -> str | FlowloomError:
    """A text, or the error that says why there is none."""
    try:
        return write()
    except FlowloomError as error:
        return error
