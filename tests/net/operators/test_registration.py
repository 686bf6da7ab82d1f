"""Operators of users: compiled, folded, dumped and read back, and refused with the remedy."""

import re
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, cast
from unittest.mock import patch

import numpy as np
import onnx
import pytest
from onnx import parser
from tvm import te, tirx

import compiler
from compiler.errors import (
    ArgumentError,
    FlowloomError,
    KernelError,
    ShapeError,
    UnsupportedOperatorError,
)
from compiler.frontend.export import export_model
from compiler.frontend.importing import import_model
from compiler.kernels.building import module as build
from compiler.kernels.ops.lowering import LOWERINGS, Context, lowering
from compiler.net.attributes import Shape, number
from compiler.net.node import ShapeMismatch, TypedNode
from compiler.net.operators import KINDS, OPERATORS, STRUCTURAL_INPUTS
from compiler.net.operators.registration import REGISTERED, register
from compiler.net.spec import Kind, operator
from compiler.tensors.dtypes import FLOATS
from compiler.tools.cli import main, make_parser, with_step
from tests.kernels.gpu.emulator import COMPILER

EMULATED = pytest.param(
    "emu", marks=pytest.mark.skipif(COMPILER is None, reason="g++ compiles the emulated kernels")
)
NAME = "my.domain::Bend"
X = np.random.default_rng(0).standard_normal((100, 8)).astype(np.float32)


def model_of(body: str, results: str = "float[100,8] y", opset: int = 2) -> onnx.ModelProto:
    """A model of the input `x`."""
    return parser.parse_model(
        f'<ir_version: 10, opset_import: ["" : 18, "my.domain" : {opset}]>'
        f" main (float[100,8] x) => ({results}) {{ {body} }}"
    )


CHAIN = model_of("n = Neg (x)  b = my.domain.Bend <by = 0.25> (n)  y = Tanh (b)")
EXPECTED = np.tanh(np.where(-X < 0, -X / 4, -X))


def bend(node: TypedNode) -> np.ndarray:
    """x, or x times `by` below zero."""
    x = node.array(0)
    return np.where(x < 0, x * node["by"], x).astype(x.dtype)


def matrices(node: TypedNode) -> list[Shape]:
    """The shape of a matrix."""
    if len(node.shape()) > 2:
        raise ShapeMismatch(f"its operand has {len(node.shape())} axes")
    return [node.shape()]


BEND = operator(Kind.ELEMENTWISE, "T -> T", matrices, {"by": number(0.5)}, evaluate=bend, T=FLOATS)


@pytest.fixture
def _own_tables() -> Iterator[None]:
    """Forget what a test registers."""
    tables = (OPERATORS, KINDS, STRUCTURAL_INPUTS, LOWERINGS)
    with ExitStack() as stack:
        for table in tables:
            stack.enter_context(patch.dict(cast(dict[str, Any], table)))
        yield
    REGISTERED.clear()


@pytest.fixture
def _bend(_own_tables: None) -> None:
    """Register an operator with its lowering."""
    register(NAME, BEND)

    @lowering(NAME)
    def lower(context: Context) -> te.Tensor:
        x, by = context.tensor(), context["by"]

        def element(*index: Any) -> Any:
            return tirx.Select(x(*index) < 0, x(*index) * tirx.const(by, x.dtype), x(*index))

        return te.compute(context.output.shape, element, name="bend")

    assert lower


def test_a_node_of_an_unknown_domain_is_refused_with_the_remedy():
    with pytest.raises(UnsupportedOperatorError, match=rf"Bend 'b'.* register {NAME} \(docs/"):
        compiler.compile(CHAIN)


@pytest.mark.usefixtures("_bend")
@pytest.mark.parametrize("target", ["cpu", EMULATED])
def test_an_operator_is_fused_with_its_neighbours(target: str):
    module = compiler.compile(CHAIN, target=target)
    assert len(module.schedule.tasks) == 1
    np.testing.assert_allclose(module.run({"x": X})["y"], EXPECTED, atol=1e-6)


@pytest.mark.usefixtures("_bend")
def test_constants_are_folded_by_its_meaning():
    body = "c = Constant <value = float[2] {4.0, -2.0}> ()  z = my.domain.Bend (c)  y = Relu (x)"
    imported = import_model(model_of(body, "float[100,8] y, float[2] z"))
    assert NAME not in str(imported.module)
    assert [array.tolist() for array in imported.weights.values()] == [[4.0, -1.0]]


@pytest.mark.usefixtures("_bend")
def test_it_comes_before_a_function_of_the_model():
    model = onnx.ModelProto.FromString(CHAIN.SerializeToString())
    nodes = [onnx.helper.make_node("Neg", ["a"], ["r"])]
    opsets = [onnx.helper.make_opsetid("", 18)]
    model.functions.append(
        onnx.helper.make_function("my.domain", "Bend", ["a"], ["r"], nodes, opsets, ["by"])
    )
    np.testing.assert_allclose(compiler.compile(model).run({"x": X})["y"], EXPECTED, atol=1e-6)


@pytest.mark.usefixtures("_bend")
def test_a_dump_is_read_back():
    imported = import_model(CHAIN)
    dump = export_model(imported.module, imported.weights)
    assert ["my.domain"] == [node.domain for node in dump.graph.node if node.op_type == "Bend"]
    np.testing.assert_allclose(compiler.compile(dump).run({"x": X})["y"], EXPECTED, atol=1e-6)


@pytest.mark.usefixtures("_bend")
def test_its_kernels_are_built_here_and_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FLOWLOOM_CACHE", str(tmp_path))
    monkeypatch.setattr(build, "WORKERS_PAY", 1)
    body = "y = my.domain.Bend (x)  z = ReduceMax <keepdims = 0> (x)"
    model = model_of(body, "float[100,8] y, float z")
    found = compiler.compile(model).run({"x": X})["y"]
    np.testing.assert_allclose(found, np.where(X < 0, X / 2, X))

    @lowering(NAME)
    def another(context: Context) -> te.Tensor:
        x = context.tensor()
        return te.compute(context.output.shape, lambda *index: -x(*index), name="another")

    assert another
    np.testing.assert_allclose(compiler.compile(model).run({"x": X})["y"], -X)


@pytest.mark.usefixtures("_own_tables")
def test_an_entry_without_a_lowering_has_no_kernel():
    register(NAME, BEND)
    with pytest.raises(KernelError, match=r"Bend_b.*no lowering: register one by @lowering"):
        compiler.compile(CHAIN)


@pytest.mark.usefixtures("_bend")
@pytest.mark.parametrize(
    ("body", "error", "message"),
    [
        ("y = my.domain.Bend <slope = 0.5> (x)", FlowloomError, "no attribute 'slope'"),
        ("y = my.domain.Bend <by = 3> (x)", None, ""),
        ("y = my.domain.Bend (x, x)", FlowloomError, "has 2 inputs instead of 1"),
        ("c = Cast <to = 7> (x)  d = my.domain.Bend (c)  y = Cast <to = 1> (d)", FlowloomError,
         "input 0 is int64"),
    ],
)  # fmt: skip
def test_a_node_is_checked_by_its_entry(body: str, error: type[Exception] | None, message: str):
    if error is None:
        compiler.compile(model_of(body))
    else:
        with pytest.raises(error, match=message):
            compiler.compile(model_of(body))


@pytest.mark.usefixtures("_bend")
def test_shapes_that_do_not_fit_are_named():
    shape = "s = Constant <value = int64[3] {10,10,8}> ()"
    body = f"{shape}  r = Reshape (x, s)  y = my.domain.Bend (r)"
    with pytest.raises(ShapeError, match=r"Bend.* its operand has 3 axes"):
        compiler.compile(model_of(body, "float[10,10,8] y"))


@pytest.mark.usefixtures("_own_tables")
@pytest.mark.parametrize("name", ["Relu", "MatMulNBits", "::Op", "my.domain::", "a b", ""])
def test_names_that_cannot_be_registered(name: str):
    with pytest.raises(ArgumentError):
        register(name, BEND)


@pytest.mark.usefixtures("_own_tables")
def test_an_entry_needs_its_meaning():
    with pytest.raises(ArgumentError, match="has no evaluate"):
        register(NAME, operator(Kind.OPAQUE, "T -> T", matrices, T=FLOATS))


SOURCE = """
import numpy as np
from helper import NAME
from compiler.net.operators.registration import register
from compiler.net.spec import Kind, operator
from compiler.tensors.dtypes import FLOATS

def evaluate(node):
    return np.abs(node.array(0))

def shapes(node):
    return [node.shape()]

register(NAME, operator(Kind.OPAQUE, "T -> T", shapes, evaluate=evaluate, T=FLOATS))
"""


@pytest.fixture
def _files(_own_tables: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model, and files of operators in another folder than the current one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    constant = "c = Constant <value = float[2] {4.0, -2.0}> ()  z = my.domain.Fold (c)"
    cast(Any, onnx).save(
        model_of(f"{constant}  y = Relu (x)", "float[100,8] y, float[2] z"), "model.onnx"
    )
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "helper.py").write_text('NAME = "my.domain::Fold"')
    (tmp_path / "own" / "fold.py").write_text(SOURCE)


COMPILES = ("compile", "inspect", "run", "bench --runs 1", "trace -o t.json", "explore -o p.html")


@pytest.mark.usefixtures("_files")
@pytest.mark.parametrize("command", COMPILES)
def test_commands_know_the_operators_of_a_file(command: str, monkeypatch: pytest.MonkeyPatch):
    arguments = [*command.split(), "model.onnx"]
    assert main(arguments) == 1
    assert main([*arguments, "--operators", "own/fold.py"]) == 0
    REGISTERED.clear()
    del OPERATORS["my.domain::Fold"]
    monkeypatch.setattr(sys, "path", [str(Path("own").resolve()), *sys.path])
    monkeypatch.delitem(sys.modules, "fold", raising=False)
    assert main([*arguments, "--operators", "fold"]) == 0


@pytest.mark.usefixtures("_files")
@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("missing.py", None, "--operators missing.py: there is no such file"),
        ("missing.module", None, "--operators missing.module: there is no such module"),
        ("own.py", "x = 1", "--operators own.py: it registers no operator"),
        ("own.py", "import missing_library", "own.py: it fails: ModuleNotFoundError: .*line 1"),
        ("own.py", "1 / 0", "own.py: it fails: ZeroDivisionError: .*own.py, line 1"),
        ("own.py", "raise SystemExit(0)", "own.py: it fails: SystemExit"),
        ("own.py", "def f(:", "own.py: it fails: SyntaxError"),
    ],
)
def test_a_file_of_operators_that_is_wrong_is_named(
    name: str, text: str | None, message: str, capsys: pytest.CaptureFixture[str]
):
    if text is not None:
        Path(name).write_text(text)
    assert main(["run", "model.onnx", "--operators", name]) == 1
    error = capsys.readouterr().err
    assert re.search(f"flowloom: ArgumentError: .*{message}", error), error
    assert error.count("\n") == 1


def test_every_command_that_compiles_takes_operators():
    for command in ("opt f", "bisect m", "tune m", "tune prepare m -o b", "tune status m"):
        words = with_step([*command.split(), "--operators", "a.py", "--operators", "b"])
        assert make_parser().parse_args(words).operators == ["a.py", "b"]
