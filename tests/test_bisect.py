"""A planted pass, kernel and missing wait are each found, named and reduced, on cpu and emu."""

import json
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

import compiler
from compiler.artifact.module import Module
from compiler.driver.build import Build
from compiler.errors import ArgumentError, DifferenceError, FlowloomError, ShapeError
from compiler.kernels.ops.lowering import LOWERINGS, Context
from compiler.schedule.tasks import Allocation, AllocationKind, Schedule, Task, View
from compiler.tools.bisect.reduce import minimal
from compiler.tools.bisect.search import Question, search_cause
from compiler.tools.bisect.waits import missing_wait
from compiler.tools.checking.module import CheckedModule
from compiler.tools.checking.tasks import HostMemory, TaskRunner
from compiler.tools.cli import main
from compiler.tools.reference import Refusal
from tests.tools import needs, needs_nvrtc

TARGETS = [
    "cpu",
    pytest.param("emu", marks=needs("g++")),
    pytest.param("cuda", marks=pytest.mark.gpu),
]

MODEL = """<ir_version: 10, opset_import: ["" : 18]>
main (float[4,8] x) => (float[4,8] y) {
    a = MatMul (x, w)
    b = Relu (a)
    c = Tanh (x)
    d = Mul (c, b)
    y = Add (d, c)
}
"""

PIPELINE = (
    "canonicalize, fuse-operators{max-ops=1}, partition-graph{policy=none},"
    " assign-streams{policy=opara streams=2}, order-launches, lower-to-taskflow,"
    " insert-sync, elide-sync, plan-memory"
)

OWN_PASS = '''
from compiler.passes.base import GraphPass
from xdsl.dialects.builtin import StringAttr

class Own(GraphPass):
    """Makes every Tanh a Sigmoid."""

    name = "own"

    def apply(self, ctx, op):
        for operator in op.walk():
            if operator.name == "dataflow.op" and operator.op_type.data == "Tanh":
                operator.op_type = StringAttr("Sigmoid")
'''

LOOP = """<ir_version: 10, opset_import: ["" : 18]>
main (float[4,8] x, int64 n) => (float[4,8] y) {
    one = Constant <value = float[1] {1.0}> ()
    keep = Constant <value = bool {1}> ()
    z = Loop (n, keep, x) <body = body (int64 i, bool c, float[4,8] s) => (bool d, float[4,8] t) {
        d = Identity (c)
        u = Tanh (s)
        t = Add (u, one)
    }>
    y = Relu (z)
}
"""

DROP_WAITS = '''
from compiler.ir import taskflow
from compiler.passes.base import SchedulePass

class DropWaits(SchedulePass):
    """Removes every token."""

    name = "drop-waits"

    def apply(self, ctx, op):
        for graph in op.ops:
            for task in graph.tasks:
                taskflow.set_after(task, [])
'''


@pytest.fixture(params=TARGETS)
def target(request: pytest.FixtureRequest) -> str:
    """Each target that runs here."""
    if request.param == "cuda":
        request.getfixturevalue("cuda_device")
    return request.param


@pytest.fixture(params=TARGETS[1:])
def gpu_target(request: pytest.FixtureRequest) -> str:
    """Each GPU that runs here, which may be an emulated one."""
    if request.param == "cuda":
        request.getfixturevalue("cuda_device")
    return request.param


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Two branches that meet twice."""
    found = parser.parse_model(MODEL)
    w = np.random.default_rng(0).standard_normal((8, 8)).astype(np.float32)
    found.graph.initializer.append(numpy_helper.from_array(w, "w"))
    for node in found.graph.node:
        node.name = f"node_{node.output[0]}"
    cast(Any, onnx).save(found, str(tmp_path / "model.onnx"))
    return tmp_path / "model.onnx"


@pytest.fixture
def wrong_tanh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels that compute twice the hyperbolic tangent; they stay out of the cache."""
    import_module("compiler.kernels.ops.elementwise")
    right = LOWERINGS["Tanh"]

    def wrong(context: Context) -> Any:
        from tvm import te

        found: Any = right(context)
        return te.compute(found.shape, lambda *i: found(*i) * 2, name="twice")

    monkeypatch.setitem(LOWERINGS, "Tanh", wrong)


def unmeasured(target: str) -> list[str]:
    """The option by which a GPU measures nothing while it compiles."""
    return ["--budget", "0"] if target == "cuda" else []


def bisected(
    capsys: pytest.CaptureFixture[str], folder: Path, *arguments: str, status: int = 1
) -> dict[str, Any]:
    """The story that the command prints as JSON."""
    assert main(["bisect", *arguments, "-o", str(folder), "--json"]) == status
    return json.loads(capsys.readouterr().out)


def test_nothing_is_found_in_a_right_compilation(
    model: Path, target: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    options = ["--target", target, "--pipeline", PIPELINE, "--runs", "3"]
    story = bisected(capsys, tmp_path, str(model), *options, status=0)
    assert not story["different"]
    assert len(story["steps"]) == 3
    assert not (tmp_path / "repro.onnx").exists()


def test_a_wrong_pass_is_named_and_reduced_to_its_operator(
    model: Path, target: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    (tmp_path / "own.py").write_text(OWN_PASS)
    own = ["--pass", f"{tmp_path / 'own.py'}:Own", "--target", target]
    options = [*own, *unmeasured(target), "--pipeline", f"own, {PIPELINE}"]
    story = bisected(capsys, tmp_path, str(model), *options)
    assert (story["finding"]["cause"], story["finding"]["name"]) == ("pass", "own")
    assert story["finding"]["nodes"] == ["node_c"]
    assert story["finding"]["operators"] == ["Sigmoid"]
    repro = str(tmp_path / "repro.onnx")
    assert [node.op_type for node in cast(Any, onnx).load(repro).graph.node] == ["Tanh"]
    inputs = ["--inputs", str(tmp_path / "repro.npz"), "--reduce", "0"]
    again = bisected(capsys, tmp_path, repro, *inputs, *options)
    assert again["finding"]["name"] == "own"
    assert story["repro"]["command"].startswith(f"flowloom bisect {repro} --inputs")


@pytest.mark.usefixtures("wrong_tanh")
def test_a_wrong_kernel_is_named_and_reduced_to_its_operator(
    model: Path, target: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    options = ["--target", target, *unmeasured(target), "--no-cache", "--pipeline", PIPELINE]
    story = bisected(capsys, tmp_path, str(model), *options)
    assert story["finding"]["cause"] == "kernel"
    assert story["finding"]["operators"] == ["Tanh"]
    assert story["finding"]["nodes"] == ["node_c"]
    assert story["repro"]["nodes"] == ["Tanh"]


@pytest.mark.parametrize(
    "target",
    [
        "cpu",
        pytest.param("emu", marks=needs("g++")),
        pytest.param("cuda", marks=needs_nvrtc),
    ],
)
def test_a_missing_wait_is_found_by_the_verifier(
    model: Path, target: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    (tmp_path / "own.py").write_text(DROP_WAITS)
    own = ["--pass", f"{tmp_path / 'own.py'}:DropWaits"]
    options = [*own, "--target", target, *unmeasured(target)]
    story = bisected(
        capsys, tmp_path, str(model), *options, "--pipeline", f"{PIPELINE}, drop-waits"
    )
    found = story["finding"]
    assert (found["cause"], found["name"]) == ("schedule", "drop-waits")
    earlier, later = found["tasks"]
    assert f"does not wait for task {earlier}" in found["headline"]
    assert f"task {later} wait for task {earlier}" in found["difference"]
    assert len(story["repro"]["nodes"]) == 3


def test_a_missing_wait_that_the_verifier_overlooks_is_found_by_runs(
    gpu_target: str, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):

    def accept(schedule: Schedule) -> None:
        del schedule

    for room in (
        "passes.runner",
        "autotune.schedule.candidates",
        "tools.bisect.search",
        "verify.certificate",
    ):
        monkeypatch.setattr(f"compiler.{room}.check_schedule", accept)
    (tmp_path / "own.py").write_text(DROP_WAITS)
    arguments = {
        "target": gpu_target,
        "pipeline": f"{PIPELINE}, drop-waits",
        "passes": [f"{tmp_path / 'own.py'}:DropWaits"],
        "budget": 0,
    }
    found = search_cause(Question(str(model), None, arguments)).finding
    assert found is not None
    assert found.cause == "schedule"
    assert set(found.nodes) <= {"node_a", "node_b", "node_c", "node_d", "node_y"}
    assert found.tasks[0] < found.tasks[1]


def test_the_missing_wait_is_the_one_that_makes_runs_right():
    tasks = tuple(Task(f"k{i}", i % 2, (), (), ()) for i in range(6))

    def is_wrong(schedule: Schedule) -> bool:
        return 1 not in schedule.tasks[4].after

    assert missing_wait(Schedule("main", (), tasks), is_wrong) == (1, 4)
    assert missing_wait(Schedule("main", (), tasks), lambda schedule: True) is None


def test_delta_debugging_keeps_what_is_needed():
    assert minimal(range(20), lambda kept: {3, 11} <= set(kept), lambda: True) == (3, 11)
    assert minimal(range(20), lambda kept: 7 in kept, lambda: True) == (7,)
    assert minimal(range(20), lambda kept: True, lambda: False) == tuple(range(20))


def test_a_wrong_import_is_named(model: Path, monkeypatch: pytest.MonkeyPatch):
    from compiler.tools.bisect import search as module

    def other(question: Question, *_: Any) -> dict[str, Any]:
        return {"y": np.zeros((4, 8), np.float32)}

    monkeypatch.setattr(module, "reference_outputs", other)
    found = search_cause(Question(str(model), None, {"target": "cpu"})).finding
    assert found is not None
    assert found.cause == "import"


@pytest.mark.parametrize(
    ("element", "reference"),
    [
        (onnx.TensorProto.FLOAT8E4M3FN, "onnxruntime"),
        (onnx.TensorProto.FLOAT8E4M3FN, "interpreter"),
        (onnx.TensorProto.FLOAT8E5M2, "interpreter"),
        (onnx.TensorProto.BFLOAT16, "interpreter"),
        (onnx.TensorProto.FLOAT16, "interpreter"),
        (onnx.TensorProto.FLOAT16, "onnxruntime"),
    ],
)
def test_outputs_of_few_bits_are_compared_as_such(element: int, reference: Any, tmp_path: Path):
    x = onnx.helper.make_tensor_value_info("x", 1, [4, 8])
    y = onnx.helper.make_tensor_value_info("y", element, [4, 8])
    nodes = [
        onnx.helper.make_node("Mul", ["x", "x"], ["s"]),
        onnx.helper.make_node("Cast", ["s"], ["y"], to=element),
    ]
    imports = [onnx.helper.make_opsetid("", 21)]
    graph = onnx.helper.make_graph(nodes, "g", [x], [y])
    made = onnx.helper.make_model(graph, opset_imports=imports, ir_version=10)
    (tmp_path / "narrow.onnx").write_bytes(made.SerializeToString())
    path = str(tmp_path / "narrow.onnx")
    question = Question(path, None, {"target": "cpu"}, reference=reference)
    assert search_cause(question).finding is None


def test_the_interpreter_can_be_the_reference(model: Path):
    question = Question(str(model), None, {"target": "cpu"}, reference="interpreter")
    assert search_cause(question).finding is None


@pytest.mark.usefixtures("wrong_tanh")
def test_a_checked_run_raises_at_the_wrong_kernel(model: Path, target: str):
    options: dict[str, Any] = {"pipeline": PIPELINE, "cache": False, "check": True}
    module = compiler.compile(str(model), target=target, budget=0, **options)
    with pytest.raises(
        DifferenceError, match=r"task \d+, kernel 'Tanh_.*\(Tanh, nodes node_c\)"
    ) as e:
        module.run({"x": np.ones((4, 8), np.float32)})
    assert "relative error 1 (bound 0.0001)" in str(e.value)


def test_a_checked_run_gives_the_outputs_of_a_run(model: Path, target: str, tmp_path: Path):
    x = {"x": np.random.default_rng(1).standard_normal((4, 8)).astype(np.float32)}
    checked = compiler.compile(str(model), target=target, budget=0, check=True)
    plain = compiler.compile(str(model), target=target, budget=0).run(x)["y"]
    assert np.array_equal(checked.run(x)["y"], plain)
    checked.save(tmp_path / "saved")
    assert np.array_equal(compiler.load(tmp_path / "saved").run(x)["y"], plain)
    with pytest.raises(ShapeError, match="the model takes 'x'"):
        checked.run({"z": x["x"]})


def test_a_checked_module_is_not_copied_and_takes_no_options(model: Path):
    import copy

    checked = compiler.compile(str(model), check=True)
    with pytest.raises(ArgumentError, match="cannot be copied"):
        copy.copy(checked)
    with pytest.raises(ArgumentError, match="takes no options"):
        checked.run({"x": np.ones((4, 8), np.float32)}, stream=1)


def test_the_command_checks_groups_of_a_model_alone(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    assert main(["run", str(model), "--check-groups"]) == 0
    assert main(["compile", str(model), "-o", str(tmp_path / "built")]) == 0
    assert main(["run", str(tmp_path / "built"), "--check-groups"]) == 1
    assert "--check-groups needs its ONNX file" in capsys.readouterr().err
    assert main(["bisect", str(tmp_path / "built")]) == 1
    assert "name its ONNX file" in capsys.readouterr().err


def test_tasks_for_hip_are_linked_alone(monkeypatch: pytest.MonkeyPatch):
    kinds: tuple[tuple[AllocationKind, str], ...] = (("input", "x"), ("output", "y"))
    allocations = tuple(Allocation(kind, name, "float32", (4,)) for kind, name in kinds)
    view, out = (View(number, 0, "float32", (4,)) for number in range(2))
    tasks = (Task("k", 1, (), (view,), (out,), nodes=("n",)),)
    schedule = Schedule("main", allocations, tasks)
    given: list[Schedule] = []

    def linked(built: Build, cache: object) -> Build:
        given.append(built.schedule)
        return replace(built, library=b"library")

    def run(reads: dict[str, Any]) -> dict[str, Any]:
        return {"write 0": reads["read 0"] + 1}

    def load(alone: Schedule, kernels: object, weights: object, library: bytes) -> Any:
        assert (alone, library) == (given[0], b"library")
        return SimpleNamespace(run=run, close=lambda: None)

    def loader(target: str) -> Any:
        return SimpleNamespace(load=load)

    monkeypatch.setattr("compiler.tools.checking.tasks.with_library", linked)
    monkeypatch.setattr("compiler.tools.checking.tasks.backend", loader)
    memory = HostMemory(schedule, {"x": np.ones(4, np.float32)}, {})
    runner = TaskRunner("hip:gfx90a:fp32", schedule, {}, {}, {})
    runner.run(tasks[0], 1, memory)
    assert memory.outputs()["y"].tolist() == [2, 2, 2, 2]
    assert (given[0].tasks[0].stream, given[0].tasks[0].nodes) == (0, ())


def test_a_loop_is_one_task_and_checked_as_a_whole(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    found = parser.parse_model(LOOP)
    (tmp_path / "loop.onnx").write_bytes(found.SerializeToString())
    story = bisected(capsys, tmp_path, str(tmp_path / "loop.onnx"), "--runs", "2", status=0)
    assert not story["different"]
    module = cast(CheckedModule, compiler.compile(found, check=True))
    x = {"x": np.ones((4, 8), np.float32), "n": np.array(3)}
    checks = module.check_tasks(x).checks
    assert checks[0].operators == ("loop",)
    assert all(check.comparison is not None for check in checks)
    assert np.array_equal(module.run(x)["y"], Module.run(module, x)["y"])


def test_without_onnxruntime_the_other_reference_is_named(
    tmp_path: Path, model: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    def refuse(*_: object) -> None:
        raise Refusal("no such operator")

    monkeypatch.setattr("compiler.tools.bisect.search.run_onnxruntime", refuse)
    monkeypatch.setattr("compiler.tools.bisect.reduce.run_onnxruntime", refuse)
    assert main(["bisect", str(model)]) == 1
    assert "compare with --reference interpreter" in capsys.readouterr().err
    (tmp_path / "own.py").write_text(OWN_PASS)
    own = ["--pass", f"{tmp_path / 'own.py'}:Own", "--pipeline", f"own, {PIPELINE}"]
    story = bisected(capsys, tmp_path, str(model), *own, "--reference", "interpreter")
    assert story["finding"]["name"] == "own"
    assert "not, as that takes onnxruntime" in story["steps"][-1]


def test_other_errors_are_not_findings(model: Path):
    with pytest.raises(FlowloomError, match="unknown pass 'nothing'"):
        search_cause(Question(str(model), None, {"target": "cpu", "pipeline": "nothing"}))
