"""The C interface: from Python, and from programs that strangers would write."""

import ctypes
import hashlib
import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np

from compiler.artifact.generate import StoredCheck
from tests.artifact.projects import attempt, export, needs_cmake, run, small_model
from tests.tools import needs

PROGRAMS = Path(__file__).parent / "programs"
HEADER = Path(__file__).parents[2] / "compiler" / "artifact" / "project" / "include" / "flowloom"
INTERFACES = {2: "4013ae992f1b7a2dc00190150082741d697d5ab0eb4a73096d454b6690412181"}
"""The SHA-256 of what each interface version declares, comments and spaces aside."""


def test_a_changed_header_has_a_new_version():
    text = (HEADER / "model.h").read_text()
    declared = "".join(re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL).split())
    version = int(re.findall(r"#define FLOWLOOM_INTERFACE (\d+)", text)[0])
    assert INTERFACES[version] == hashlib.sha256(declared.encode()).hexdigest()


@needs_cmake
def test_the_library_exports_what_the_header_declares(library: Path):
    declared = re.findall(r"FLOWLOOM_API [^;]*?(flowloom_\w+)\(", (HEADER / "model.h").read_text())
    table = run("nm", "-D", "--defined-only", library / "libflowloom.so")
    assert sorted(line.split()[-1] for line in table.splitlines()) == sorted(declared)


@needs_cmake
def test_programs_use_an_installed_project(installed: Path, tmp_path: Path):
    """By find_package, from C99 and C++17, on every kind of wrong argument and then for a run."""
    given = [f"-DCMAKE_PREFIX_PATH={installed}", "-S", PROGRAMS]
    run("cmake", *given, "-B", tmp_path / "build", "-DINTERFACE=2")
    run("cmake", "--build", tmp_path / "build")
    run("ctest", "--test-dir", tmp_path / "build", "--output-on-failure")
    refused = attempt("cmake", *given, "-B", tmp_path / "other", "-DINTERFACE=3")
    assert refused.returncode != 0
    assert 'compatible with requested version "3"' in refused.stderr
    several(installed, tmp_path)


@needs_cmake
@needs("pkg-config")
def test_pkg_config_finds_a_library_that_was_moved(installed: Path, tmp_path: Path):
    moved = shutil.move(installed, tmp_path / "elsewhere")
    source = tmp_path / "program.c"
    source.write_text(
        "#include <flowloom/model.h>\n#include <stdio.h>\n"
        "int main(void) { puts(flowloom_version()); return 0; }\n"
    )
    paths = {"PKG_CONFIG_PATH": str(Path(moved, "lib", "pkgconfig"))}
    flags = run("pkg-config", "--cflags", "--libs", "flowloom", **paths).split()
    run("g++", "-x", "c++", source, *flags, f"-Wl,-rpath,{moved}/lib", "-o", tmp_path / "program")
    assert run(tmp_path / "program").strip()
    weights = run("pkg-config", "--variable=weights", "flowloom", **paths).strip()
    assert Path(weights).is_file()
    assert run("pkg-config", "--modversion", "flowloom", **paths).strip() == "2"


def several(installed: Path, folder: Path) -> None:
    """Two libraries with other weights, and one of them twice, in one process."""
    library, weights = (
        installed / "lib" / "libflowloom.so",
        installed / "share/flowloom/weights.bin",
    )
    copy, halved = folder / "copy.so", folder / "halved.bin"
    shutil.copy(library, copy)
    content = bytearray(weights.read_bytes())
    np.frombuffer(content, np.float32, offset=256)[:] *= 0.5
    halved.write_bytes(content)
    said = run(folder / "build" / "several", library, weights, copy, halved, library, weights)
    lines = [line.split()[1:] for line in said.splitlines()]
    assert lines[:3] == lines[3:]
    assert lines[0] == lines[2] != lines[1]


@needs_cmake
def test_threads_and_streams(project: Path, emulated: Path, tmp_path: Path):
    """Two threads with a model each and with one model, and one model on two streams, by mode."""
    includes = [f"-I{project / 'include'}", f"-I{project / 'emulator'}", "-DFLOWLOOM_EMU"]
    libraries = [f"-L{emulated}", "-lflowloom", "-lflowloom_emulator", f"-Wl,-rpath,{emulated}"]
    program = tmp_path / "concurrent"
    source = PROGRAMS / "concurrent.cpp"
    run("g++", "-std=c++17", "-Wall", "-Werror", source, "-o", program, *includes, *libraries)
    for seed in range(3):
        said = run(program, project / "weights.bin", FLOWLOOM_EMU_SEED=str(seed))
        assert said.count("0 0 0 wrong") == 3


class Tensor(ctypes.Structure):
    """flowloom_tensor."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("dtype", ctypes.c_char_p),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("rank", ctypes.c_size_t),
        ("bytes", ctypes.c_size_t),
    )


ALLOCATE = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
RELEASE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)


class Allocator(ctypes.Structure):
    """flowloom_allocator."""

    _fields_ = (("allocate", ALLOCATE), ("release", RELEASE), ("context", ctypes.c_void_p))


class Options(ctypes.Structure):
    """flowloom_options."""

    _fields_ = (
        ("weights", ctypes.c_char_p),
        ("mode", ctypes.c_int),
        ("device", ctypes.c_int),
        ("allocator", ctypes.POINTER(Allocator)),
        ("threads", ctypes.c_int),
    )


class Library:
    """The C interface from Python."""

    def __init__(self, path: Path) -> None:
        self.c: Any = ctypes.CDLL(str(path))
        self.c.flowloom_error.restype = self.c.flowloom_version.restype = ctypes.c_char_p
        self.c.flowloom_default_options.restype = Options
        for each in ("input", "output"):
            getattr(self.c, f"flowloom_{each}").restype = ctypes.POINTER(Tensor)
            getattr(self.c, f"flowloom_{each}").argtypes = [ctypes.c_size_t]

    def create(self, options: Options) -> ctypes.c_void_p:
        """A model; the status must be 0."""
        model = ctypes.c_void_p()
        assert self.c.flowloom_create(ctypes.byref(model), ctypes.byref(options)) == 0, self.error
        return model

    def options(self, weights: Path) -> Options:
        """The default options."""
        self._path = str(weights).encode()  # which the options point to
        return self.c.flowloom_default_options(self._path)

    @property
    def error(self) -> str:
        """The last error's text."""
        return self.c.flowloom_error().decode()

    def run_host(self, model: ctypes.c_void_p, check: StoredCheck) -> list[Any]:
        """The outputs for the inputs of a check."""
        outputs = [np.full_like(array, np.nan) for array in check.outputs.values()]
        pointers = [
            (ctypes.c_void_p * len(arrays))(*[a.ctypes.data for a in arrays])
            for arrays in (list(check.inputs.values()), outputs)
        ]
        assert self.c.flowloom_run_host(model, *pointers) == 0, self.error
        return outputs


@needs_cmake
def test_c_interface(library: Path, tmp_path: Path):
    """Names, errors, an own allocator, other weights and a profile."""
    project, opened = library.parent, Library(library / "libflowloom.so")
    c, target = opened.c, opened.c.flowloom_version().decode().split()[-1]
    assert (c.flowloom_input_count(), c.flowloom_output_count()) == (2, 2)
    image = c.flowloom_output(0).contents
    assert (image.name, image.dtype, image.bytes) == (b"image", b"float32", 5600)
    assert image.shape[: image.rank] == [1, 14, 10, 10]
    assert not c.flowloom_input(2)

    model = ctypes.c_void_p()
    options = opened.options(tmp_path / "nowhere.bin")
    assert c.flowloom_create(ctypes.byref(model), ctypes.byref(options)) == 1
    assert not model
    assert "cannot read the weights" in opened.error

    taken: dict[int, Any] = {}

    def allocate(_: int, nbytes: int) -> int:
        raw = np.full(nbytes + 256, 0xFF, np.uint8)
        address = -(-raw.ctypes.data // 256) * 256
        taken[address] = raw
        return address

    def release(_: int, memory: int) -> None:
        taken.pop(memory)

    allocator = Allocator(ALLOCATE(allocate), RELEASE(release), None)
    options = opened.options(project / "weights.bin")
    options.allocator = ctypes.pointer(allocator)
    model = opened.create(options)
    assert len(taken) == 2
    other = tmp_path / "other"
    check = export(small_model(0), other, target)
    changed = export(small_model(5), tmp_path / "changed", target)
    for result, expected in zip(opened.run_host(model, check), check.outputs.values(), strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)
    weights = tmp_path / "changed" / "weights.bin"
    assert c.flowloom_load_weights(model, str(weights).encode()) == 0
    for result, expected in zip(
        opened.run_host(model, changed), changed.outputs.values(), strict=True
    ):
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)

    size = ctypes.c_size_t()
    text = ctypes.create_string_buffer(1 << 16)
    assert c.flowloom_profile(model, 2, text, len(text), ctypes.byref(size)) == 0
    tasks = json.loads(text.value)["tasks"]
    assert all(task["end"] >= task["start"] >= 0 for task in tasks)
    assert all(task["end"] > 0 for task in tasks if task["kernel"])
    assert {node for task in tasks for node in task["nodes"].split()}

    unaligned = (ctypes.c_void_p * 2)(8, 16)
    assert c.flowloom_run(model, unaligned, unaligned, None) == 1
    assert "x is not device memory aligned to 16 bytes" in opened.error
    shared = (ctypes.c_void_p * 2)(1 << 20, 1 << 20)
    assert c.flowloom_run(model, shared, shared, None) == 1
    assert "output image overlaps x" in opened.error
    c.flowloom_destroy(model)
    assert not taken
