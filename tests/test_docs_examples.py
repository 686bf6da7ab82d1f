"""The tour, the pages on how to add things, and the emulator's first command work as written."""

import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast
from unittest.mock import patch

import pytest
from onnx import numpy_helper, parser

from compiler.kernels.ops.lowering import LOWERINGS
from compiler.net.operators import KINDS, OPERATORS
from compiler.net.operators.registration import REGISTERED
from compiler.target.devices import DEVICES
from compiler.tools.cli import main
from tests.kernels.gpu.emulator import COMPILER
from tests.tools import needs

DOCS = Path(__file__).parent.parent / "docs"


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    language: str
    text: str


def blocks(page: str) -> list[Block]:
    """The fenced blocks of a page, in order."""
    found = re.findall(r"^```(\w+)\n(.*?)^```$", (DOCS / page).read_text(), re.M | re.S)
    return [Block(language, text) for language, text in found]


def run_command(line: str) -> None:
    """Run one line of a shell block here, as `flowloom`, `python FILE`, `cat FILE...` and `ls` are.

    A script of the project runs in another process, as do programs of other projects.
    """
    program, *arguments = shlex.split(line, comments=True)
    if program in ("cmake", "ctest", "openssl"):
        print(
            subprocess.run(
                [program, *arguments], check=True, stdout=subprocess.PIPE, text=True
            ).stdout
        )
    elif program == "flowloom":
        assert main(arguments) == (1 if line.endswith("# fails") else 0), line
    elif program == "python" and arguments[0].startswith("benchmarks/"):
        command = [sys.executable, str(DOCS.parent / arguments[0]), *arguments[1:]]
        print(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    elif program == "python":
        runpy.run_path(arguments[0])
    elif program == "cat":
        print("".join(Path(name).read_text() for name in arguments))
    else:
        assert program == "ls", f"{program} is not run here"
        print("\n".join(sorted(os.listdir(arguments[0]))))


def check_output(expected: str, printed: str) -> None:
    """Each line expected must follow the ones before; `...` stands for anything."""
    lines = iter(printed.splitlines())
    for line in expected.splitlines():
        pattern = ".*".join(map(re.escape, line.split("...")))
        assert line == "..." or any(re.fullmatch(pattern, text) for text in lines), line


def follow(page: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Do what a page says, in the current folder."""
    printed = ""
    for block in blocks(page):
        name = re.match(r"# (\w+\.py)\n", block.text)
        if block.language == "text":
            check_output(block.text, printed)
        elif block.language == "sh":
            capsys.readouterr()
            for line in block.text.splitlines():
                run_command(line)
            printed = "".join(capsys.readouterr())
        elif name:
            Path(name[1]).write_text(block.text)
        else:
            exec(compile(block.text, page, "exec"), {})


EMULATES = pytest.mark.skipif(COMPILER is None, reason="g++ compiles the emulated kernels")


@pytest.mark.parametrize(
    "page",
    [
        "adding-a-pass.md",
        "debugging-a-pass.md",
        "comparing-policies.md",
        "writing-a-policy.md",
        pytest.param("tour.md", marks=EMULATES),
    ],
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
def test_the_first_command_of_the_emulators_page_passes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    import numpy as np

    monkeypatch.chdir(tmp_path)
    model = parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 18]>'
        "main (float[16,64] x) => (float[16,64] y) { a = MatMul (x, w)  b = Relu (a)"
        " y = MatMul (b, w) }"
    )
    weight = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)
    model.graph.initializer.append(numpy_helper.from_array(weight, "w"))
    Path("model.onnx").write_bytes(model.SerializeToString())
    (first, *_) = next(b for b in blocks("emulator.md") if b.language == "sh").text.splitlines()
    assert "--check" in first
    run_command(first)


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
