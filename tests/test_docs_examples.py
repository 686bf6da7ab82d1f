"""Every block of code and every command in the README and the pages of docs/ works as written."""

import json
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast
from unittest.mock import patch

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

import flowloom
from compiler.kernels.ops.lowering import LOWERINGS
from compiler.net.operators import KINDS, OPERATORS
from compiler.net.operators.registration import REGISTERED
from compiler.target.devices import DEVICES
from compiler.tools.cli import main
from tests.kernels.gpu.emulator import COMPILER
from tests.tools import needs

DOCS = Path(__file__).parent.parent / "docs"
PROJECT: dict[str, Any] = tomllib.loads((DOCS.parent / "pyproject.toml").read_text())


@dataclass(frozen=True)
class Block:
    """A fenced block of a page; its title is the file that it is written to."""

    language: str
    title: str
    text: str


def blocks(page: str) -> list[Block]:
    """The fenced blocks of a page that say their language, in order."""
    fences = r"^```(\w+)(?: title=\"(.*)\")?\n(.*?)^```$"
    return [Block(*groups) for groups in re.findall(fences, (DOCS / page).read_text(), re.M | re.S)]


def run_command(line: str) -> None:
    """Run one line of a shell block here, as `flowloom`, `python FILE`, `cat FILE...` and `ls` are.

    A script of the project runs in another process, as do other projects' programs. What `pip`
    would install must be an extra.
    """
    program, *arguments = shlex.split(line.replace("$PWD", os.getcwd()), comments=True)
    if "&&" in arguments:
        for part in line.split("&&"):
            run_command(part.strip())
    elif "=" in program:
        variable, _, value = program.partition("=")
        with patch.dict(os.environ, {variable: value}):
            run_command(line.partition(" ")[2])
    elif program in ("cmake", "ctest", "openssl"):
        print(run_program(program, *arguments))
    elif program == "flowloom":
        assert main(arguments) == (1 if line.endswith("# fails") else 0), line
    elif program == "pip":
        extra = re.fullmatch(r"flowloom\[(\w+)\]", arguments[-1])
        assert extra, line
        assert extra[1] in PROJECT["project"]["optional-dependencies"], line
    elif program == "python" and arguments[0].startswith("benchmarks/"):
        print(run_program(sys.executable, str(DOCS.parent / arguments[0]), *arguments[1:]))
    elif program == "python":
        runpy.run_path(arguments[0])
    elif program == "cat":
        print("".join(Path(name).read_text() for name in arguments))
    else:
        assert program == "ls", f"{program} is not run here"
        print("\n".join(sorted(os.listdir(arguments[0]))))


def run_program(*command: str) -> str:
    """The standard output of a program that must end well."""
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def check_output(expected: str, printed: str) -> None:
    """Each line expected must follow the ones before; `...` stands for anything."""
    lines = iter(printed.splitlines())
    for line in expected.splitlines():
        pattern = ".*".join(map(re.escape, line.split("...")))
        assert line == "..." or any(re.fullmatch(pattern, text) for text in lines), line


def follow(page: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Do what a page says, in the current folder; text before any command is not its output."""
    printed = None
    for block in blocks(page):
        name = block.title or re.match(r"# (\w+\.py)\n", block.text)
        if block.language == "text":
            if printed is not None:
                check_output(block.text, printed)
        elif block.language == "sh":
            capsys.readouterr()
            for line in filter(None, block.text.splitlines()):
                run_command(line)
            printed = "".join(capsys.readouterr())
        elif name:
            Path(name if isinstance(name, str) else name[1]).write_text(block.text)
        elif block.language == "json":
            json.loads(block.text)
        else:
            assert block.language == "python", block
            exec(compile(block.text, page, "exec"), {})


EMULATES = pytest.mark.skipif(COMPILER is None, reason="g++ compiles the emulated kernels")


WHOLE = (
    "adding-a-pass.md",
    "debugging-a-pass.md",
    "comparing-policies.md",
    "writing-a-policy.md",
    "tour.md",
)
"""Pages that make all that they use."""

APART = {
    "adding-a-kernel-template.md",
    "adding-a-target.md",
    "adding-an-operator.md",
    "deploying.md",
    "export.md",
    "interfaces.md",
}
"""Pages with a separate test."""

NOT_RUN = {"targets.md": "it installs packages of Debian's"}
"""Pages with code that is not run, and why."""


@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=EMULATES if page == "tour.md" else ()) for page in WHOLE]
)
def test_a_page_can_be_followed(
    page: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    monkeypatch.chdir(tmp_path)
    assert {block.language for block in blocks(page)} == {"python", "sh", "text"}
    follow(page, capsys)


@pytest.fixture
def _own_entries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Forget the entries that a test adds to tables; let it import from its folder."""
    monkeypatch.syspath_prepend(tmp_path)  # pyright: ignore[reportUnknownMemberType]
    with ExitStack() as stack:
        for table in (OPERATORS, KINDS, LOWERINGS, DEVICES, sys.modules):
            stack.enter_context(patch.dict(cast(dict[str, Any], table)))
        yield
    REGISTERED.clear()


@pytest.mark.usefixtures("_own_entries")
def test_the_page_on_operators_can_be_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    follow("adding-an-operator.md", capsys)
    assert {"Det", "my.domain::Bend"} <= OPERATORS.keys()


@EMULATES
@pytest.mark.usefixtures("_own_entries")
def test_the_page_on_targets_can_be_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    follow("adding-a-target.md", capsys)
    assert "sm_121" in DEVICES


@needs("cmake", "g++")
@pytest.mark.usefixtures("_own_entries")
def test_the_page_on_deploying_can_be_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    follow("deploying.md", capsys)


def test_no_entry_of_those_pages_is_left():
    own = {"Det", "my.domain::Bend"}
    assert not any(own & table.keys() for table in (OPERATORS, KINDS, LOWERINGS))
    assert "sm_121" not in DEVICES


MODELS = {
    "../README.md": ("model.onnx", "float[1,3,32,32] x", "y = Relu (x)"),
    "dynamic.md": ("bert.onnx", "int64[batch,length] ids", "y = Abs (ids)"),
    "emulator.md": ("model.onnx", "float[16,64] x", "a = MatMul (x, w)  y = Relu (a)"),
    "explorer.md": ("model.onnx", "float[16,64] x", "a = MatMul (x, w)  y = Relu (a)"),
    "schedules.md": (
        "model.onnx",
        "float[16,64] x",
        """a = MatMul (x, w)  b = Relu (a)  c = MatMul (b, w)
           s, t, u, v = Split <axis = 0, num_outputs = 4> (c)
           d = MatMul (s, w1)  e = MatMul (t, w2)  f = MatMul (u, w3)  g = MatMul (v, w4)
           y = Concat <axis = 0> (d, e, f, g)""",
    ),
    "trust.md": ("model.onnx", "float[16,64] x", "y = Relu (x)"),
}
"""The models that pages take for given: the file, the input and the nodes."""

NAMES = {
    "a": "layer1/conv",
    "c": "layer2/conv",
    "d": "aux/fc",
    "e": "head/fc",
    "f": "big1",
    "g": "big2",
}
"""The names of nodes by their result, as the page on schedules has them."""


@pytest.mark.parametrize(
    "page",
    [
        "../README.md",
        "dynamic.md",
        pytest.param("emulator.md", marks=EMULATES),
        "explorer.md",
        "schedules.md",
        pytest.param("trust.md", marks=needs("openssl")),
    ],
)
def test_a_page_on_a_model_of_the_readers_can_be_followed(
    page: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    monkeypatch.chdir(tmp_path)
    file, taken, nodes = MODELS[page]
    model = parser.parse_model(
        f'<ir_version: 10, opset_import: ["" : 18]> main ({taken}) => (y) {{ {nodes} }}'
    )
    for node in model.graph.node:
        node.name = NAMES.get(node.output[0], "")
    for seed, name in enumerate(sorted(set(re.findall(r"w\d?(?=\))", nodes)))):
        weight = np.random.default_rng(seed).standard_normal((64, 64)).astype(np.float32)
        model.graph.initializer.append(numpy_helper.from_array(weight, name))
    model = onnx.shape_inference.infer_shapes(model)
    Path(file).write_bytes(model.SerializeToString())
    if page == "trust.md":
        flowloom.compile(file).save("build")
    follow(page, capsys)


PROGRAM = """
int main() {
  alignas(16) float x[16 * 64] = {}, y[16 * 64];
  std::vector<void*> outputs = {y};
  void* stream = nullptr;
  BODY
  return y[0] == 0 ? 0 : 1;
}
"""
"""The program around the lines of the page."""


def make_exported_model() -> None:
    """The model that the page on exported projects takes for given."""
    model = parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 18]>'
        " main (float[16,64] x) => (float[16,64] y) { y = Relu (x) }"
    )
    Path("model.onnx").write_bytes(model.SerializeToString())


@needs("cmake", "g++")
def test_a_program_of_the_page_on_exported_projects_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    make_exported_model()
    for line in (
        "flowloom compile model.onnx -o build",
        "flowloom export build -o project",
        "cmake -S project -B out",
        "cmake --build out -j 2",
        "cmake --install out --prefix installed",
    ):
        run_command(line)
    (build,) = (block.text for block in blocks("export.md") if block.language == "cmake")
    (lines,) = (block.text for block in blocks("export.md") if block.language == "cpp")
    include, _, body = lines.partition("\n")
    Path("program.cpp").write_text(
        f"{include}\n#include <vector>\n" + PROGRAM.replace("BODY", body)
    )
    Path("CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.18)\nproject(p LANGUAGES C CXX)\n"
        f"add_executable(program program.cpp)\n{build}"
    )
    run_program("cmake", "-S", ".", "-B", "own", f"-DCMAKE_PREFIX_PATH={tmp_path / 'installed'}")
    run_program("cmake", "--build", "own")
    run_program("own/program")


@pytest.mark.deep
@pytest.mark.parametrize(
    "block",
    [
        pytest.param(0, marks=needs("cmake", "nvcc", "nvrtc")),
        pytest.param(1, marks=needs("cmake", "hipcc")),
        pytest.param(2, marks=needs("cmake", "aarch64-linux-gnu-g++", "qemu-aarch64")),
    ],
)
def test_the_commands_on_exported_projects_work(
    block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    make_exported_model()
    shell = [block for block in blocks("export.md") if block.language == "sh"]
    assert len(shell) == 3
    for line in shell[block].text.splitlines():
        run_command(line)


def test_the_blocks_of_every_page_are_run():
    """Text apart; only the README's two commands, which CI runs, have no language."""
    pages = ("../README.md", "../CONTRIBUTING.md", *(page.name for page in DOCS.glob("*.md")))
    code = {page for page in pages if {block.language for block in blocks(page)} - {"text"}}
    assert code == {*WHOLE, *APART, *MODELS, *NOT_RUN}
    for page in pages:
        fences = [line for line in (DOCS / page).read_text().splitlines() if line[:3] == "```"]
        untagged = [line for line in fences[::2] if line == "```"]
        assert len(untagged) == (2 if page == "../README.md" else 0), page


@pytest.mark.parametrize(
    ("expected", "printed", "fits"),
    [("a\n...\nc", "a\nb\nc", True), ("a...d", "abcd", True), ("c\na", "a\nc", False)],
)
def test_output_is_compared_line_by_line(expected: str, printed: str, fits: bool):
    if fits:
        check_output(expected, printed)
    else:
        with pytest.raises(AssertionError):
            check_output(expected, printed)


@EMULATES
def test_the_page_on_kernel_templates_can_be_followed(tmp_path: Path):
    for folder in ("compiler", "tests"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(DOCS.parent / folder, tmp_path / folder, ignore=ignored)
    printed = ""
    for block in blocks("adding-a-kernel-template.md"):
        if name := re.match(r"(?:#|//) ([\w/]+/\w+\.\w+)\n", block.text):
            (tmp_path / name[1]).parent.mkdir(exist_ok=True)
            (tmp_path / name[1]).write_text(block.text)
        elif block.language == "diff":
            subprocess.run(
                ["git", "apply", "-"], input=block.text.encode(), cwd=tmp_path, check=True
            )
        elif block.language == "sh":
            command = [sys.executable, *shlex.split(block.text)[1:]]
            environment = os.environ | {"PYTHONPATH": str(tmp_path)}
            ran = subprocess.run(
                command, cwd=tmp_path, env=environment, capture_output=True, text=True
            )
            printed = ran.stdout
        else:
            assert block.language == "text", block.text
            check_output(block.text, printed)
    assert printed
