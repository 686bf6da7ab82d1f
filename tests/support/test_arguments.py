"""Any wrong argument of a public function is a FlowloomError that names it and the remedy."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import parser

import compiler
from compiler.artifact.artifact import Artifact
from compiler.artifact.module import Module
from compiler.errors import ArgumentError, FlowloomError
from compiler.support.arguments import COMPILE
from tests.backends.objects import chain, kernels, values

ODD: list[Any] = [
    *(None, 5, 2.5, True, b"x", [], {}, object(), "a\0b", "\udcff", "", float("nan"), -1, 2**70),
    *(np.float32(3), ["x"], {"x": 5}, {5: [1]}, {"x": "ab"}, {"x": [None]}, {"x": [-1, 4]}, type),
]

MODEL = parser.parse_model(
    '<ir_version: 10, opset_import: ["" : 18]>'
    "main (float[n,4] x) => (float[n,4] y) { y = Relu (x) }"
)


def refused(function: Any, *arguments: Any, **options: Any) -> str:
    """The error of a call, which must be Flowloom's; empty if there was none."""
    try:
        function(*arguments, **options)
    except FlowloomError as error:
        return f"{type(error).__name__}: {error}"
    return ""


@pytest.fixture
def nothing_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compilation ends once the model is imported."""

    def build_variants(*_: object) -> None:
        raise FlowloomError("built")

    monkeypatch.setattr("compiler.driver.build.build_variants", build_variants)


@pytest.mark.usefixtures("nothing_is_built")
@pytest.mark.parametrize("name", COMPILE)
@pytest.mark.parametrize("target", ["cpu", "cuda:sm_90"])
def test_compile_has_no_raw_exception(
    name: str, target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    for odd in ODD:
        shapes = {"x": [2, 4]}
        options: dict[str, Any] = {"input_shapes": shapes, "target": target, "dynamic": False}
        options[name] = odd
        message = refused(compiler.compile, options.pop("model", MODEL), **options)
        assert message, (name, odd)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"model": None}, "model is NoneType None: it must be a path without NUL, of at most 3072"),
        ({"pipeline": 5}, "pipeline is int 5: it must be a str of whole characters, or None"),
        ({"schedule": 5}, "schedule is int 5: it must be a path without NUL"),
        (
            {"budget": float("nan")},
            "budget is float nan: it must be a number of seconds, at least 0 and at most",
        ),
        (
            {"budget": 2**70},
            "budget is int 1180591620717411303424: it must be a number of seconds",
        ),
        ({"input_shapes": {"x": 5}}, "it must be a mapping from input names to lists of sizes"),
        (
            {"threads": 8193},
            "threads is int 8193: it must be a whole number, at least 1 and",
        ),
        ({"cache": None}, "cache is NoneType None: it must be True or False"),
    ],
)
def test_the_message_says_what_it_must_be(options: dict[str, Any], message: str):
    with pytest.raises(ArgumentError) as caught:
        compiler.compile(options.pop("model", MODEL), **options)
    assert message in str(caught.value)
    assert isinstance(caught.value, TypeError)


def test_a_module_has_no_raw_exception(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    module = Module(Artifact("cpu", chain(), kernels(), {"w": values(1)}), threads=1)
    module.save("built")
    for odd in ODD:
        assert refused(module.run, odd), odd
        assert refused(module.run, {"x": odd}), odd
        assert refused(module.run, {"x": values(1)}, option=odd), odd
        assert refused(module.executor, option=odd), odd
        assert refused(module.executor().run, {"x": values(1)}, option=odd), odd
        assert refused(compiler.load, odd), odd
        assert refused(compiler.load, "built", option=odd), odd
        if odd is not None and odd != 5:
            assert refused(compiler.load, "built", threads=odd), odd
        if not isinstance(odd, str) or "\0" in odd:
            assert refused(module.save, odd), odd
