"""Remedies in messages are true: what they name exists, and following one to the letter helps."""

import argparse
import ast
import re
import tomllib
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import numpy as np
import onnx
import pytest
from onnx import parser

import compiler
from compiler.errors import FlowloomError
from compiler.tools.cli import main, make_parser

ROOT = Path(__file__).parent.parent
EXTRAS: Mapping[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
    "optional-dependencies"
]

Feeds = Mapping[str, np.ndarray]
X = {"x": np.array([[-1, 2, -3, 4]], np.float32)}


@cache
def messages() -> list[tuple[str, str]]:
    """The texts of every error that Flowloom raises, each with its place."""
    texts = list[tuple[str, str]]()
    for path in sorted((ROOT / "compiler").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Raise) and node.exc is not None:
                words = (
                    part.value
                    for part in ast.walk(node.exc)
                    if isinstance(part, ast.Constant) and isinstance(part.value, str)
                )
                texts.append((f"{path.relative_to(ROOT)}:{node.lineno}", "".join(words)))
    return texts


def commands() -> dict[str, set[str]]:
    """The options of each command, and of each of its steps, by its words."""
    options: dict[str, set[str]] = {}

    def visit(words: str, own: argparse.ArgumentParser) -> None:
        options[words] = set()
        for action in vars(own)["_actions"]:
            options[words].update(action.option_strings)
            choices: object = action.choices
            if isinstance(choices, dict):
                parsers = cast(dict[str, argparse.ArgumentParser], choices)
                for name, inner in parsers.items():
                    visit(f"{words} {name}".strip(), inner)

    visit("", make_parser())
    return options


COMMANDS = commands()


def test_every_command_has_a_module_that_runs_it():
    whole = [words.replace(" ", ".") for words in COMMANDS if words not in ("", "tune")]
    assert {"compile", "tune.models", "tune.measure"} <= {*whole}
    for name in whole:
        assert callable(import_module(f"compiler.tools.cli.commands.{name}").run)


def test_commands_and_options_in_messages_exist():
    known = set[str]().union(*COMMANDS.values())
    for place, text in messages():
        for command in re.findall(r"`flowloom ((?:[a-z]+ ?)+)", text):
            words = command.split()
            assert words[0] in COMMANDS, f"{place}: flowloom {command}"
            inner = " ".join(words[:2])
            assert len(words) == 1 or inner in COMMANDS or words[0] != "tune", f"{place}: {command}"
        if not re.search(r"`(ray|npm|openssl) ", text):
            unknown = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", text)) - known
            assert not unknown, f"{place} names {unknown}"


def test_extras_in_messages_exist():
    named = [
        (place, extra)
        for place, text in messages()
        for extras in re.findall(r"flowloom\[([\w,]+)\]", text)
        for extra in extras.split(",")
    ]
    assert named
    assert {extra for _, extra in named} <= EXTRAS.keys(), named


def model(text: str) -> onnx.ModelProto:
    """A model of opset 21 from its text."""
    return parser.parse_model(f'<ir_version: 8, opset_import: ["": 21]> {text}')


FREE = model("g (float[n, 4] x) => (float[n, 4] y) { y = Relu(x) }")
LARGE_KERNEL = model(
    "g (float[1, 1, 2, 2] x) => (float[1, 1, a, b] y) { y = MaxPool<kernel_shape=[3, 3]>(x) }"
)
SMALL = model("g (float[1, 4] x) => (float[1, 4] y) { a = Neg(x) b = Exp(a) y = Relu(b) }")


def failing(work: Callable[[], object]) -> str:
    """The message of the error that some work raises."""
    with pytest.raises(FlowloomError) as caught:
        work()
    return str(caught.value)


def test_open_dimensions_are_fixed_by_input_shapes():
    message = failing(lambda: compiler.compile(FREE, dynamic=False, budget=0))
    assert "fix every dimension with input_shapes={name: [sizes]}" in message
    module = compiler.compile(FREE, dynamic=False, budget=0, input_shapes={"x": [1, 4]})
    np.testing.assert_array_equal(module.run(X)["y"], np.maximum(X["x"], 0))


def test_a_wrong_type_is_cast_to_the_one_in_the_message():
    module = compiler.compile(FREE, budget=0, input_shapes={"x": [1, 4]})
    message = failing(lambda: module.run({"x": X["x"].astype(np.float64)}))
    taken = re.search(r"the model takes 'x' (\w+)\[1, 4\]", message)
    assert taken is not None
    assert module.run({"x": X["x"].astype(taken[1])})["y"].shape == (1, 4)


def test_a_suggested_rule_is_taken():
    asked = {"resize-align-corner-scale": "onnxruntime"}
    message = failing(lambda: compiler.compile(FREE, semantics=asked))
    suggested = re.search(r"did you mean '([\w-]+)'\?", message)
    assert suggested is not None
    compiler.compile(FREE, semantics={suggested[1]: "onnxruntime"})


def test_a_refused_pool_is_compiled_with_the_semantics_that_it_names():
    message = failing(lambda: compiler.compile(LARGE_KERNEL, budget=0))
    choice = re.search(r"compile with semantics=(\{[^}]+\})", message)
    assert choice is not None
    compiler.compile(LARGE_KERNEL, budget=0, semantics=ast.literal_eval(choice[1]))


def test_the_bound_of_operators_is_raised_by_its_variable(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FLOWLOOM_MAX_OPERATORS", "3")
    message = failing(lambda: compiler.compile(SMALL, budget=0))
    variable = re.search(r"set (\w+) to a larger number", message)
    assert variable is not None
    monkeypatch.setenv(variable[1], "100")
    assert compiler.compile(SMALL, budget=0).run(X)["y"].shape == (1, 4)


def test_a_missing_artifact_is_made_by_the_command_that_is_named(tmp_path: Path):
    place = tmp_path / "small"
    message = failing(lambda: compiler.load(place))
    command = re.search(r"`flowloom (compile MODEL -o DIR)` makes one", message)
    assert command is not None
    (tmp_path / "small.onnx").write_bytes(SMALL.SerializeToString())
    words = {"MODEL": str(tmp_path / "small.onnx"), "DIR": str(place)}
    assert main([words.get(word, word) for word in command[1].split()]) == 0
    assert compiler.load(place).run(X)["y"].shape == (1, 4)


def test_an_artifact_of_another_format_is_compiled_again(tmp_path: Path):
    compiler.compile(SMALL, budget=0).save(tmp_path / "saved")
    manifest = tmp_path / "saved" / "manifest.json"
    manifest.write_text(re.sub(r'"version": \d+', '"version": 1', manifest.read_text()))
    assert "compile the model again" in failing(lambda: compiler.load(tmp_path / "saved"))
    compiler.compile(SMALL, budget=0).save(tmp_path / "saved")
    assert compiler.load(tmp_path / "saved").run(X)["y"].shape == (1, 4)


def test_a_program_without_segments_is_explored_by_its_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """Numpy runs small graphs, so that no run need have compiled one."""
    saved, page = tmp_path / "saved", tmp_path / "page.html"
    compiler.compile(FREE, budget=0).save(saved)
    assert main(["explore", str(saved), "-o", str(page)]) == 1
    named = re.search(r"flowloom (explore \S+ --input-shape) NAME=SIZES", capsys.readouterr().err)
    assert named is not None
    assert main([*named[1].split(), "x=1,4", "-o", str(page)]) == 0
    assert page.stat().st_size > 0


def test_a_program_without_segments_is_reported_when_it_is_compiled_for_its_sizes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    saved, static = tmp_path / "saved", str(tmp_path / "static")
    compiler.compile(FREE, budget=0).save(saved)
    assert main(["report", str(saved)]) == 1
    told = capsys.readouterr().err
    named = re.search(r"compile (\S+) with the sizes of its inputs \((\S+)\), and name", told)
    assert named is not None
    assert main(["compile", named[1], named[2], "x=1,4", "-o", static]) == 0
    assert main(["report", static]) == 0


def test_an_unknown_operator_is_defined_as_a_function():
    text = '<ir_version: 8, opset_import: ["": 21, "my": 1]> g (float[1, 4] x) => (float[1, 4] y)'
    call = f"{text} {{ y = my.Twice(x) }}"
    message = failing(lambda: compiler.compile(parser.parse_model(call), budget=0))
    assert "define it as a function of the model" in message
    function = '<domain: "my", opset_import: ["": 21]> Twice (x) => (y) { y = Add(x, x) }'
    module = compiler.compile(parser.parse_model(f"{call} {function}"), budget=0)
    np.testing.assert_array_equal(module.run(X)["y"], 2 * X["x"])


def test_a_random_tensor_is_made_an_input():
    drawn = model(
        "g (float[1, 4] x) => (float[1, 4] y) { r = RandomNormal<shape=[4]>() y = Add(x, r) }"
    )
    message = failing(lambda: compiler.compile(drawn, budget=0, dynamic=False))
    assert "make the random tensor an input" in message
    given = model("g (float[1, 4] x, float[4] r) => (float[1, 4] y) { y = Add(x, r) }")
    module = compiler.compile(given, budget=0, dynamic=False)
    assert module.run({**X, "r": np.ones(4, np.float32)})["y"].shape == (1, 4)
