"""The shared library of a compiled model: an exported project's code and the kernels' objects.

For targets whose kernels are compiled to objects of the host (`hip`). Programs use it through the
C interface of `project/include/flowloom/model.h`.
"""

import hashlib
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from subprocess import CompletedProcess

from compiler.artifact.artifact import Artifact
from compiler.artifact.generate import PROJECT
from compiler.artifact.gpu_part import GPU_HEADER, gpu_plan
from compiler.artifact.plan_text import plan_text
from compiler.errors import KernelError
from compiler.support.caches import read_sealed, write_sealed

FLAGS = (
    *("-x", "c++", "-c", "-std=c++17", "-O2", "-fPIC", "-fvisibility=hidden"),
    *("-DFLOWLOOM_HIP", "-D__HIP_PLATFORM_AMD__", "-Wno-unused-command-line-argument"),
)
LINK = ("--hip-link", "-shared", "-Wl,-Bsymbolic", "-Wno-unused-command-line-argument")
"""A library uses its own kernels, also where a program has opened several models."""

LINKED_LIBRARIES = ("-lamdhip64", "-lstdc++")
Compiler = Callable[..., CompletedProcess[str]]
"""Runs a C++ compiler that knows the GPU's runtime, with these arguments."""


def build_library(artifact: Artifact, compiler: Compiler, mark: str, cache: Path | None) -> bytes:
    """Compile the schedule, and link it with the kernels and the host code that all models share.

    `mark` identifies the compiler; objects of the host code are kept in the directory `cache`, if
    any. Raises KernelError with the compiler's messages.
    """
    label = f"{artifact.schedule.name} {artifact.target}"
    with tempfile.TemporaryDirectory(prefix="flowloom-") as folder:
        work = Path(folder)
        plan = work / "plan.cpp"
        tables = gpu_plan(artifact)
        text = plan_text(artifact, GPU_HEADER, tables, label=label, tolerance=0.0)
        plan.write_text(text, "utf-8")
        compiled = [_compiled(compiler, plan), *_host_objects(compiler, mark, cache)]
        compiled += [kernel.code for kernel in artifact.kernels.values()]
        objects = [work / f"{number}.o" for number in range(len(compiled))]
        for path, content in zip(objects, compiled, strict=True):
            path.write_bytes(content)
        library = work / "library.so"
        _run(compiler, *LINK, "-o", library, *objects, *LINKED_LIBRARIES)
        return library.read_bytes()


def _host_objects(compiler: Compiler, mark: str, cache: Path | None) -> list[bytes]:
    """The objects of the host code that all models share, compiled once."""
    digest = hashlib.sha256(" ".join([mark, *FLAGS]).encode())
    for path in sorted([*PROJECT.glob("src/**/*.*"), *PROJECT.glob("include/**/*.h")]):
        digest.update(path.read_bytes())
    folder = None if cache is None else cache / digest.hexdigest()[:16]
    with ThreadPoolExecutor() as pool:
        return list(pool.map(partial(_cached_object, compiler, folder), host_sources()))


def host_sources() -> list[Path]:
    """The C++ sources that the libraries of all models for GPUs share."""
    common = [path for path in (PROJECT / "src").glob("*.cpp") if path.name != "main.cpp"]
    return sorted([*common, *(PROJECT / "src" / "gpu").glob("*.cpp")])


def _cached_object(compiler: Compiler, folder: Path | None, source: Path) -> bytes:
    if folder is None:
        return _compiled(compiler, source)
    path = folder / f"{source.parent.name}-{source.stem}"
    stored = read_sealed(path)
    if stored is not None:
        return stored
    content = _compiled(compiler, source)
    write_sealed(path, content)
    return content


def _compiled(compiler: Compiler, source: Path) -> bytes:
    with tempfile.TemporaryDirectory(prefix="flowloom-") as folder:
        built = Path(folder) / "object.o"
        include = (f"-I{PROJECT / 'include'}", f"-I{PROJECT / 'src'}")
        _run(compiler, *FLAGS, *include, "-o", built, source)
        return built.read_bytes()


def _run(compiler: Compiler, *arguments: str | Path) -> None:
    ran = compiler(*arguments)
    if ran.returncode != 0:
        raise KernelError(f"the module's library cannot be built:\n{ran.stderr[-4000:]}")
