"""The page on interfaces works as written."""

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.test_docs_examples import Block, blocks, run_command

PAGE = [block for block in blocks("interfaces.md") if block.language in ("python", "sh")]


EXAMPLES = [block for block in PAGE if block.language == "python"][1:]


@pytest.fixture(autouse=True)
def _model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page's model, in the current folder."""
    monkeypatch.chdir(tmp_path)
    script, command, *_ = PAGE
    Path("make_model.py").write_text(script.text)
    run_command(command.text)


@pytest.mark.parametrize("example", EXAMPLES, ids=range(len(EXAMPLES)))
def test_an_example_runs(example: Block):
    if "import torch" in example.text:
        if not (find_spec("torch") and find_spec("onnxscript")):
            pytest.skip("PyTorch is an extra")
        register()
    exec(compile(example.text, "interfaces.md", "exec"), {})


def register() -> None:
    """Register the backend, as the entry point of an installed package does."""
    from compiler.interfaces.torch.entry import flowloom

    registry: Any = import_module("torch._dynamo.backends.registry")
    if "flowloom" not in registry.list_backends():
        registry.register_backend(flowloom, name="flowloom")


def test_the_examples_are_all_there():
    assert len(EXAMPLES) == 4


def test_shells_are_completed(capsys: pytest.CaptureFixture[str]):
    """The lines of the page, whose scripts go to this process instead of a user's files."""
    pytest.importorskip("shtab", reason="shtab is an extra")
    (lines,) = (block.text for block in PAGE[2:] if block.language == "sh")
    for line in lines.splitlines():
        command, _, file = line.partition(" > ")
        assert file.startswith("~/")
        run_command(command)
        assert "compile" in capsys.readouterr().out
