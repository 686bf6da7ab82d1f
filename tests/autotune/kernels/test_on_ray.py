"""`flowloom tune --ray`, with Ray's nodes as this process and on two nodes of which one dies."""

import pickle
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from functools import partial
from importlib import import_module
from pathlib import Path
from time import sleep
from typing import Any

import pytest

from compiler.autotune.kernels import compiling, on_ray, tune
from compiler.autotune.kernels.on_ray import RayCluster
from compiler.backends.cuda import device as cuda_target
from compiler.kernels import database
from compiler.progress import PartEnded, PartsBegan, ProgressEvent, StepEnded, listening
from compiler.tools.cli import main
from tests.autotune.kernels.make import bottleneck
from tests.autotune.kernels.test_tune import network
from tests.autotune.schedule.fakes import recorder

pytest.importorskip("ray", reason="pip install '.[ray]'")

ROOT = Path(__file__).parents[3]
NODE: dict[str, Any] = {"num_cpus": 1, "num_gpus": 1, "object_store_memory": 80 << 20}
HEAD: dict[str, Any] = {
    **NODE,
    "include_dashboard": False,
    "_system_config": {"health_check_period_ms": 500},
}
"""Ray takes a node for dead after five checks; by default those are 3 s apart."""


def compiled(texts: Sequence[str], **_: Any) -> Iterator[tuple[int, bytes | str]]:
    """A cubin for each text."""
    for number in range(len(texts)):
        yield number, b"\x7fELF"


def logged(texts: Sequence[str], log: Path, **_: Any) -> Iterator[tuple[int, bytes | str]]:
    """The same after a second, between two lines of a log that name the node."""
    node = import_module("ray").get_runtime_context().get_node_id()
    with log.open("a") as file:
        file.write(f"{node} begins\n")
    sleep(1.0)
    yield from compiled(texts)
    with log.open("a") as file:
        file.write(f"{node} ends\n")


@pytest.fixture
def ray_nodes(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Two nodes, each with a core and what it calls a GPU, whose workers find the tests."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    start: Any = import_module("ray.cluster_utils").Cluster
    nodes = start(initialize_head=True, head_node_args=HEAD)
    try:
        nodes.second = nodes.add_node(**NODE)
        yield nodes
    finally:
        nodes.shutdown()


STEPS = {"prepare", "measure"}
"""The steps that Ray's nodes do."""


def dead_nodes() -> int:
    """The nodes that Ray knows to be dead."""
    return sum(not node["Alive"] for node in import_module("ray").nodes())


class Killer:
    """Kills the second node when the first part of a step has ended, once for each step.

    One that measures is at work then, as its log says. The step goes on when Ray knows of the
    death; another node takes its place afterwards.
    """

    def __init__(self, cluster: Any, log: Path) -> None:
        self.cluster, self.log = cluster, log
        self.parts, self.killed = dict[str, int](), list[str]()

    def __call__(self, event: ProgressEvent) -> None:
        if isinstance(event, PartsBegan) and event.step in STEPS:
            self.parts.setdefault(event.step, event.total)
        elif isinstance(event, PartEnded) and event.step in STEPS - {*self.killed}:
            self.killed.append(event.step)
            while event.step == "measure" and not self.works():
                sleep(0.05)
            before = dead_nodes()
            self.cluster.remove_node(self.cluster.second, allow_graceful=False)
            while dead_nodes() == before:
                sleep(0.05)
            self.cluster.second = None
        elif isinstance(event, StepEnded) and self.cluster.second is None:
            self.cluster.second = self.cluster.add_node(**NODE)

    def works(self) -> bool:
        """Whether the second node measures."""
        text, node = self.log.read_text(), self.cluster.second.node_id
        return text.count(f"{node} begins") > text.count(f"{node} ends")


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Tuning of two models in two precisions, in several shares, for a device that records."""
    models = [tmp_path / "network.onnx", tmp_path / "bottleneck.onnx"]
    for path, model in zip(models, (network(), bottleneck()), strict=True):
        path.write_bytes(model.SerializeToString())
    monkeypatch.setattr(cuda_target, "device", recorder)
    monkeypatch.setattr(tune, "compile_all", compiled)
    monkeypatch.setattr(on_ray, "SHARE_CANDIDATES", 12)
    return ["tune", *map(str, models), "--precision", "tf32", "--precision", "fp16",
            "--candidates", "4"]  # fmt: skip


class Answer:
    """A part that ran, as it would on another machine: on a copy, whose result is copied."""

    def __init__(self, function: Any, part: Any) -> None:
        self.value = pickle.loads(pickle.dumps(function(pickle.loads(pickle.dumps(part)))))


class Task:
    """In place of a task of Ray: a part runs at once."""

    def __init__(self, function: Any) -> None:
        self.function = function

    def options(self, **_: Any) -> "Task":
        """The task on any node."""
        return self

    def remote(self, part: Any) -> Answer:
        """The answer to a part."""
        return Answer(self.function, part)


class RayOfThisProcess:
    """In place of Ray: two nodes that are this process, and the parts begun last end first."""

    def nodes(self) -> list[dict[str, Any]]:
        """Two nodes with a core and a GPU each."""
        resources = {"CPU": 1.0, "GPU": 1.0}
        return [{"NodeID": f"{n:056x}", "Alive": True, "Resources": resources} for n in range(2)]

    def remote(self, **_: Any) -> type[Task]:
        """A function as a task."""
        return Task

    def wait(self, references: list[Any], timeout: float) -> tuple[list[Any], list[Any]]:
        """The last one is ready."""
        return references[-1:], references[:-1]

    def get(self, reference: Answer) -> Any:
        """The result of a part."""
        return reference.value


def test_the_order_in_which_parts_end_changes_no_winner(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):  # fmt: skip
    """One process without Ray finds the same."""

    def connected(address: str) -> nullcontext[RayCluster]:
        return nullcontext(RayCluster(RayOfThisProcess(), address))

    monkeypatch.setattr(on_ray, "connected", connected)
    monkeypatch.setattr(compiling, "compile_all", compiled)
    events, found = list[ProgressEvent](), list[bytes]()
    for options in (["--in-context", "0"], ["--ray", "here"]):
        monkeypatch.setenv(database.DATABASE_VARIABLE, str(tmp_path / f"tuning{len(found)}"))
        with listening(events.append if found else None):
            assert main([*command, *options]) == 0
        found.append(database.user_file("sm_90").read_bytes())
    assert found[0] == found[1]
    begun = [(event.step, event.total) for event in events if isinstance(event, PartsBegan)]
    assert {("prepare", 4), ("measure", 4)} <= {*begun}
    assert "bottleneck.onnx fp16: 4 of 4 kernels tuned" in capsys.readouterr().out


@pytest.mark.deep
def test_nodes_that_die_change_no_winner(
    ray_nodes: Any, command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):  # fmt: skip
    """One dies while it prepares, its successor while it measures; one process finds the same."""
    log = tmp_path / "log"
    monkeypatch.setattr(compiling, "compile_all", partial(logged, log=log))
    killer, found = Killer(ray_nodes, log), list[bytes]()
    for options in (["--in-context", "0"], ["--ray", ray_nodes.address]):
        monkeypatch.setenv(database.DATABASE_VARIABLE, str(tmp_path / f"tuning{len(found)}"))
        with listening(killer if found else None):
            assert main([*command, *options]) == 0
        found.append(database.user_file("sm_90").read_bytes())
    assert found[0] == found[1]
    assert killer.killed == ["prepare", "measure"]
    assert killer.parts == {"prepare": 4, "measure": 4}
    assert log.read_text().count("begins") > 4, "nothing was done again"
    # a part that ends as its node dies may have to end twice
    assert log.read_text().count("ends") >= 4
    said = capsys.readouterr()
    assert said.err.count("a node of the Ray cluster died") == 2
    assert "bottleneck.onnx fp16: 4 of 4 kernels tuned" in said.out
