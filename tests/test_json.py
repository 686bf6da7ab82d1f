"""Every command with `--json` prints one object, whose keys docs/json.md lists."""

import json
import re
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

import onnx
import pytest

import compiler
from compiler.tools.cli import main
from compiler.tools.cli.parser import make_parser

PAGE = Path(__file__).parents[1] / "docs" / "json.md"

LINES = {
    "compile": "compile MODEL -o NEW",
    "run": "run MODEL --check",
    "bisect": "bisect MODEL -o FOLDER",
    "bench": "bench DIR --runs 2",
    "compare": "compare MODEL flowloom --duration 0.05",
    "inspect": "inspect MODEL",
    "explore": "explore DIR -o FOLDER/page.html",
    "export": "export DIR -o FOLDER/project",
    "trace": "trace DIR -o FOLDER/trace.json",
    "check": "check DIR",
    "passes": "passes",
    "cache status": "cache status",
    "cache clear": "cache clear",
    "doctor": "doctor",
}


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A model, its artifact and folders to write to."""
    folder = tmp_path_factory.mktemp("json")
    model = folder / "small.onnx"
    parsed = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 20]> g (float[4,8] x) => (float[4,8] y) {'
        " e = Exp(x) y = Tanh(e) }"
    )
    model.write_bytes(parsed.SerializeToString())
    compiler.compile(model).save(folder / "built")
    return {
        "MODEL": str(model),
        "DIR": str(folder / "built"),
        "NEW": str(folder / "new"),
        "FOLDER": str(folder),
    }


def listed() -> dict[str, list[str]]:
    """The keys of each command's object, by the page."""
    rows = re.findall(r"^\| `([a-z ]+)` \| (.*) \|$", PAGE.read_text(), re.MULTILINE)
    return {command: sorted(re.findall(r"`(\w+)`", keys)) for command, keys in rows}


@pytest.mark.parametrize("command", LINES)
def test_the_object_has_the_keys_of_the_page(
    command: str,
    paths: dict[str, str],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setenv("FLOWLOOM_CACHE", str(tmp_path))
    line = re.sub(r"\b[A-Z]+\b", lambda match: paths[match[0]], LINES[command])
    assert main([*line.split(), "--json"]) == 0

    def refuse(text: str) -> Any:
        raise AssertionError(f"{text} is not JSON")

    figures = json.loads(capsys.readouterr().out, parse_constant=refuse)
    assert sorted(figures) == listed()[command]


def test_the_page_has_every_command_that_takes_the_option():
    actions = make_parser()._subparsers  # pyright: ignore[reportPrivateUsage]
    assert actions is not None
    (choices,) = (action.choices for action in actions._group_actions)  # pyright: ignore
    parsers: dict[str, ArgumentParser] = dict(choices or {})
    takes = {name for name, sub in parsers.items() if "--json" in sub.format_usage()}
    assert takes - {"tune"} == {name.split()[0] for name in listed()}
    assert listed().keys() == LINES.keys()
