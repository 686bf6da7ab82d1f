"""`flowloom library build -o FOLDER --target T MODEL...`: the kernels of models in one file."""

import re
from argparse import Namespace
from tempfile import TemporaryDirectory

from compiler.driver.build import build, full_target
from compiler.driver.requirements import cpu_requirements
from compiler.driver.settings import Settings
from compiler.errors import ArgumentError, ArtifactError, FlowloomError
from compiler.kernels.building import KernelCache, exact_target
from compiler.kernels.building.cache import CODE_PACKAGES, built_for, source_version, tuning_of
from compiler.kernels.building.library import VERSION, KernelLibrary, Origin, write_library
from compiler.kernels.building.module import compiler_text
from compiler.kernels.library.files import LIBRARY_SUFFIX
from compiler.support.caches import package_version
from compiler.support.words import counted, in_bytes
from compiler.target.target import Target
from compiler.tools.models import named_model

PORTABLE_BACKENDS = ("cpu", "cuda")
"""The backends whose kernels do not depend on a compiler of the machine."""


def run(options: Namespace) -> int:
    """Compile models for a target with an empty cache, and write its kernels as a library.

    A model that cannot be compiled for the target is named, and the exit status is then 1.
    """
    target = exact_target(full_target(options.target))
    if target.backend not in PORTABLE_BACKENDS:
        raise ArgumentError(
            f"a library is for {' or '.join(PORTABLE_BACKENDS)}, not for {target}: its kernels are"
            " built by the compilers of each machine"
        )
    path = options.output / f"{re.sub(r'[^a-z0-9]+', '-', options.target.lower())}{LIBRARY_SUFFIX}"
    failed = 0
    with TemporaryDirectory() as folder:
        cache = KernelCache(folder, version=VERSION)
        for name in options.models:
            try:
                build(named_model(name), None, Settings(str(target), cache=cache))
            except FlowloomError as error:
                failed += 1
                print(f"{name}: {error}", flush=True)
        try:
            write_library(path, origin_of(target), cache.kernels())
        except OSError as error:
            raise ArtifactError(f"cannot write {path}: {error.strerror or error}") from error
    kernels = counted(len(KernelLibrary(path)), "kernel")
    print(f"{path}: {kernels}, {in_bytes(path.stat().st_size)}")
    return int(failed > 0)


def origin_of(target: Target) -> Origin:
    """The circumstances of kernels that are built now for a target."""
    features = () if target.is_gpu else cpu_requirements(str(target))["features"]
    return Origin(
        target=str(target),
        built=built_for(str(target), compiler_text(target)),
        features=tuple(features),
        tuning=tuning_of(target),
        version=source_version(),
        generators=", ".join(f"{name} {package_version(name)}" for name in CODE_PACKAGES),
    )
