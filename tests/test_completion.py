"""Completion scripts, and the package as a command."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from compiler.errors import MissingExtraError
from compiler.tools.cli import main, make_parser
from compiler.tools.cli.commands.completion import completion_script

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("shell", ["bash", "fish", "zsh"])
def test_a_shell_gets_all_commands(shell: str, capsys: pytest.CaptureFixture[str]):
    pytest.importorskip("shtab", reason="shtab is an extra")
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert all(word in script for word in ("compile", "report", "precision", "status"))
    if program := shutil.which(shell):
        subprocess.run([program, "-n"], input=script, text=True, check=True)


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "shtab", None)
    with pytest.raises(MissingExtraError, match=r"flowloom\[completion\]"):
        completion_script(make_parser(), "bash")


def test_the_package_is_a_command():
    command = [sys.executable, "-m", "compiler", "--version"]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    assert ran.stdout.startswith("flowloom ")
