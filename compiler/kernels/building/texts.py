"""The CUDA text of a module's kernels, for people to read."""

from collections.abc import Iterator
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp

from compiler.errors import PipelineError
from compiler.kernels.building.cuda_kernel import generate, generate_entries
from compiler.kernels.building.kernel import LOWERING_MODULES as LOWERING_MODULES  # registers them
from compiler.kernels.building.module import at_boundary, distinct_groups
from compiler.kernels.gpu.source import complete_text
from compiler.target.target import parse_gpu, parse_target


def kernel_texts(module: ModuleOp, target: str) -> Iterator[tuple[str, str]]:
    """The name of each distinct kernel and the CUDA text that it is compiled from.

    There is none for targets of other kinds. Raises KernelError.
    """
    parsed = parse_target(target)
    if parsed.backend not in ("cuda", "hip"):
        return
    write = {"cuda": generate_entries, "hip": generate}[parsed.backend]
    for name, group in at_boundary(module, distinct_groups(module)).items():
        yield name, complete_text(write(group, parse_gpu(target)).text)


def dump_kernels(module: ModuleOp, target: str, directory: Path) -> None:
    """Write the CUDA text of each kernel to `NAME.cu`; raises PipelineError if that fails."""
    try:
        for name, text in kernel_texts(module, target):
            directory.mkdir(parents=True, exist_ok=True)
            (directory / f"{name}.cu").write_text(text)
    except OSError as error:
        raise PipelineError(f"cannot dump kernels to {directory}: {error.strerror}") from error
