"""Models compiled by hipcc: what is in their libraries, and what is said of compilers."""

from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest

import compiler
from compiler.backends.hip.build import compiled_architectures, needed_runtime
from compiler.backends.hip.driver import HipRuntime
from compiler.errors import DeviceError, KernelError
from compiler.kernels.gpu.compilers import hip_toolchain as toolchain
from compiler.tools.inputs import random_inputs
from compiler.tools.reference import run_onnxruntime
from tests.backends.hip.projects import model
from tests.hip_architectures import kernels_of
from tests.tools import needs

needs_hipcc = needs("hipcc", "llvm-objdump")

FEW_SCALARS = 2
"""The scalars of a generic product on gfx906, by clang 15, that have no register of their own."""


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing was compiled before."""
    monkeypatch.setenv("FLOWLOOM_CACHE", str(tmp_path / "cache"))


def present() -> str | None:
    """The architecture of the AMD device here, if there is one."""
    try:
        return HipRuntime.open().device(0).architecture
    except DeviceError:
        return None


def compiled(name: str, arch: str, place: Path, precision: str = "fp32") -> bytes:
    """The library of a compiled and saved model; its code objects are as they should be."""
    module = compiler.compile(model(name), target="hip", arch=arch, precision=precision)
    module.save(place)
    library = (place / "library.so").read_bytes()
    assert compiled_architectures(library) == tuple(arch.split(","))
    kernels = kernels_of(library)  # in code objects for these architectures and no others
    symbols = [launch.symbol for k in module.kernels.values() for launch in k.launches]
    assert set(kernels) == {f"{each} {s}" for each in arch.split(",") for s in symbols}
    for figures in kernels.values():
        assert figures["vector_spills"] == figures["stack_bytes"] == 0
        # scalar registers spill to lanes of vector registers, and not to memory
        assert figures["scalar_spills"] <= FEW_SCALARS
    assert module.requirements["runtime"] == needed_runtime(library)
    assert "clang version" in module.requirements["compiler"]
    return library


def test_the_compiler_leaves_no_temporary_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    script = tmp_path / "compiler"
    script.write_text('#!/bin/sh\nmkdir "$TMPDIR/left"\necho "$TMPDIR"\n')
    script.chmod(0o755)
    monkeypatch.setenv("FLOWLOOM_HIPCC", str(script))
    toolchain.hip_compiler.cache_clear()
    ran = toolchain.run_hip_compiler("file")
    toolchain.hip_compiler.cache_clear()
    assert ran.returncode == 0
    assert not Path(ran.stdout.strip()).exists()


@needs_hipcc
def test_models_compile_once_and_need_a_device(tmp_path: Path):
    library = compiled("image", "gfx90a", tmp_path / "module")
    assert b"flowloom_run_host" in library
    with patch("compiler.kernels.gpu.compilers.hipcc.run_hip_compiler", side_effect=AssertionError):
        assert compiled("image", "gfx90a", tmp_path / "again")
    if present() == "gfx90a":
        module = compiler.load(tmp_path / "module")
        inputs = random_inputs(module, 1)
        for name, expected in run_onnxruntime(model("image"), inputs).items():
            np.testing.assert_allclose(module.run(inputs)[name], expected, rtol=1e-4, atol=1e-4)
    else:
        with pytest.raises(DeviceError, match=r"AMD|compiled for gfx90a"):
            compiler.load(tmp_path / "module")


@needs_hipcc
@pytest.mark.deep
@pytest.mark.parametrize("precision", ["fp32", "fp16", "bf16"])
@pytest.mark.parametrize("arch", ["gfx90a", "gfx1030", "gfx906,gfx1030"])
def test_all_precisions(arch: str, precision: str, tmp_path: Path):
    compiled("both", arch, tmp_path / "module", precision)


@needs_hipcc
def test_an_architecture_that_the_compiler_does_not_know():
    with pytest.raises(KernelError, match=r"cannot compile for gfx9f9f: .*FLOWLOOM_HIPCC"):
        compiler.compile(model("image"), target="hip", arch="gfx9f9f")


def test_a_missing_compiler_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FLOWLOOM_HIPCC", "no-such-compiler --flag")
    for each in (toolchain.hip_compiler, toolchain.hip_version, toolchain.hip_generator):
        each.cache_clear()
    with pytest.raises(KernelError, match="no no-such-compiler on the PATH: install hipcc"):
        compiler.compile(model("image"), target="hip")
