"""Parts of tuning for other machines, without any: values in and out, and refusals."""

import socket
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from compiler.autotune.kernels.bundle import Bundle, shares
from compiler.autotune.kernels.duration import device_seconds, within
from compiler.autotune.kernels.installation import Installation, installed
from compiler.autotune.kernels.measure import header_here, unmeasured
from compiler.autotune.kernels.on_ray import (
    PreparePart,
    RayCluster,
    database_content,
    using_database,
)
from compiler.autotune.kernels.prepare import prepare_bundle
from compiler.autotune.kernels.remote_measure import DevicePart, MeasurePart, MeasuringTools
from compiler.autotune.kernels.results import Result
from compiler.backends.gpu.driver import Handle
from compiler.errors import ClusterError, DeviceError
from compiler.frontend.importing import import_model
from compiler.kernels import database
from compiler.kernels.database import Database, Entry, Measured
from compiler.kernels.database.fields import full_version
from compiler.target.nvrtc import nvrtc_version
from compiler.tools.cli import main
from tests.autotune.kernels.make import (
    ELF,
    bottleneck,
    candidate,
    compiled,
    config,
    double,
    driver,
    kernel,
    make_bundle,
)
from tests.backends.gpu.recording import RecordingDriver

OTHER = Installation("another", "NVRTC: none")


def three() -> Bundle:
    """Kernels of 2, 3 and 2 candidates, the heaviest in the middle."""
    candidates = [candidate(n, "double", n + 1) for n in range(3)]
    kernels = (
        kernel("a", *candidates[:2], weight=1.0),
        kernel("b", *candidates, weight=3.0),
        kernel("c", *candidates[:2], weight=2.0),
    )
    return replace(make_bundle(), kernels=kernels)


def compile_texts(texts: Sequence[str], **_: Any) -> Iterator[tuple[int, bytes | str]]:
    """As `compiled`, with the arguments of `compile_all`."""
    return compiled(texts)


def part_of_all(bundle: Bundle, device: RecordingDriver) -> MeasurePart:
    """The part that measures all of a bundle on a device."""
    tools = MeasuringTools(lambda: device, compile_texts)
    return MeasurePart(installed(False), bundle, (), header_here(device), tools, 1)


def test_shares_are_of_whole_kernels_the_heaviest_first():
    found = [[k.name for k in share.kernels] for share in shares(three(), 4)]
    assert found == [["kernel_b"], ["kernel_c", "kernel_a"]]
    assert [len(share.kernels) for share in shares(three(), 1)] == [1, 1, 1]
    assert [len(share.kernels) for share in shares(three(), 7)] == [3]


def test_a_budget_takes_heavy_kernels_first_and_the_same_each_time():
    bundle = three()
    assert within(bundle, float("inf")) == bundle
    assert within(bundle, 0.0).kernels == ()
    heavy = device_seconds(replace(bundle, kernels=bundle.kernels[1:2]))
    kept = within(bundle, 1.001 * heavy)
    assert [k.name for k in kept.kernels] == ["kernel_b"]
    assert kept.kernels[0] == bundle.kernels[1]


def test_only_kernels_with_an_open_candidate_are_unmeasured():
    bundle = three()
    results = [Result(k.key, c.config, k.version) for k in bundle.kernels for c in k.candidates]
    assert unmeasured(bundle, results).kernels == ()
    assert unmeasured(bundle, results[1:]).kernels == bundle.kernels[:1]
    assert unmeasured(bundle, [replace(r, version="old") for r in results]) == bundle


def test_a_part_measures_what_is_not_known():
    part = part_of_all(three(), driver())
    results = part.run()
    assert len(results) == 7
    assert part.rest(results) is None
    rest = part.rest(results[:5])
    assert rest is not None
    again = rest.run()
    assert {r.identity for r in again} == {r.identity for r in results[5:]}


class Lost(RecordingDriver):
    """A device that a candidate makes unusable; the candidate has a result by then."""

    def load_module(self, image: bytes) -> Handle:
        if image.endswith(b"bad"):
            self.lost = True
        return super().load_module(image[:4])

    lost = False

    def synchronize_stream(self, stream: Handle) -> None:
        if self.lost:
            raise DeviceError("the device is lost")
        super().synchronize_stream(stream)


def test_another_process_goes_on_after_a_candidate_that_lost_the_device():
    def bad_first(texts: Sequence[str], **_: Any) -> Iterator[tuple[int, bytes | str]]:
        for number, text in enumerate(texts):
            yield number, ELF + (b"bad" if text == "bad" else b"")

    bad = replace(candidate(1, "double"), text="bad")
    bundle = make_bundle(candidate(0, "double"), bad, candidate(2, "double"))
    part: MeasurePart | None = part_of_all(bundle, driver())
    found: list[Result] = []
    for _ in range(2):
        assert part is not None
        tools = MeasuringTools(lambda: Lost({"double": double}), bad_first)
        results = replace(part, tools=tools).run()
        found += results
        part = part.rest(results)
    assert part is None
    assert [(r.config, r.problem) for r in found] == [
        (config(0), ""), (config(1), "the device is lost"), (config(2), "")
    ]  # fmt: skip


def test_a_device_that_measures_nothing_is_an_error():
    small = RecordingDriver({"double": double}, memory=64)
    with pytest.raises(DeviceError, match="flushing the cache needs"):
        part_of_all(make_bundle(candidate(0, "double"), candidate(1, "double")), small).run()


def test_other_versions_and_devices_are_refused():
    part = part_of_all(three(), driver())
    tools = part.tools
    for other in (replace(part, installation=OTHER), DevicePart(OTHER, tools)):
        with pytest.raises(ClusterError, match=r"content another.*pip install 'flowloom"):
            other.run()
    prepare = PreparePart(OTHER, "", "cuda:sm_90:tf32", "sm_90", 4, None)
    with pytest.raises(ClusterError, match="install the same versions on every node"):
        prepare.run()
    header = replace(part.header, device="sm_90/78 another")
    with pytest.raises(ClusterError, match="GPUs of one kind"):
        replace(part, header=header).run()
    assert DevicePart(installed(False), tools).run() == part.header


def test_a_graph_as_text_and_a_database_as_bytes_give_the_same_bundle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The database of the machine that asks counts, not the one where the part runs."""
    monkeypatch.setenv(database.DATABASE_VARIABLE, str(tmp_path / "asking"))
    model = bottleneck().SerializeToString()
    first = prepare_bundle([("", model)], ["fp16"], "sm_90", 4)
    known = first.kernels[0]
    version = full_version(known.version, nvrtc_version())
    slow = Measured(known.candidates[-1].config, 1.0, 1.0)
    entry = Entry(known.key, "d", version, (slow,))
    database.save(database.user_file("sm_90"), Database([entry], "d"))
    expected = prepare_bundle([("", model)], ["fp16"], "sm_90", 4)
    content = database_content("sm_90")
    assert expected != first
    monkeypatch.setenv(database.DATABASE_VARIABLE, str(tmp_path / "working"))
    assert database_content("sm_90") is None
    text = str(import_model(model).module)
    part = PreparePart(installed(True), text, "cuda:sm_90:fp16", "sm_90", 4, content)
    assert part.run() == expected
    assert replace(part, database=None).run() == first
    others = {kernel.key for kernel in replace(part, device="d").run().kernels}
    assert others == {kernel.key for kernel in expected.kernels} - {known.key}
    with using_database("sm_90", content):
        assert database_content("sm_90") == content
    assert database_content("sm_90") is None


class Nodes:
    """In place of Ray: what it says of its nodes."""

    def __init__(self, *resources: dict[str, float]) -> None:
        self.resources = resources

    def nodes(self) -> list[dict[str, Any]]:
        """The nodes, the last one first; a node without resources is dead."""
        return [
            {"NodeID": str(n), "Alive": bool(r), "Resources": r}
            for n, r in [*enumerate(self.resources)][::-1]
        ]


def test_nodes_that_are_alive_count_and_one_needs_a_gpu():
    cluster = RayCluster(Nodes({"CPU": 8.0, "GPU": 2.0}, {"CPU": 4.0}, {}), "here")
    assert [node["NodeID"] for node in cluster.nodes()] == ["0", "1"]
    assert [node["NodeID"] for node in cluster.nodes(gpus=True)] == ["0"]
    assert (cluster.count("CPU"), cluster.count("GPU"), cluster.jobs()) == (12, 2, 4)
    with pytest.raises(ClusterError, match=r"'here' has a GPU.*flowloom tune prepare"):
        RayCluster(Nodes({"CPU": 8.0}, {}), "here").nodes(gpus=True)


class Failing:
    """In place of Ray: every part fails."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def nodes(self) -> list[dict[str, Any]]:
        """No node."""
        return []

    def wait(self, references: list[Any], timeout: float) -> tuple[list[Any], list[Any]]:
        """All are ready."""
        return references, []

    def get(self, reference: Any) -> Any:
        """The error."""
        raise self.error


class Task:
    """In place of a task of Ray: a reference is the part."""

    def remote(self, part: Any) -> Any:
        """A part that is under way."""
        return part


def test_errors_of_workers_are_said_in_our_words():
    pytest.importorskip("ray", reason="pip install '.[ray]'")
    errors = import_module("ray.exceptions")
    ours = errors.RayTaskError("run_part", "traceback", DeviceError("no GPU"))
    bare = errors.RayTaskError("run_part", "No module named 'compiler'", ImportError())
    for error, kind, words in (
        (ours, DeviceError, "^no GPU$"),
        (bare, ClusterError, r"says: No module named 'compiler': install the same version"),
        (errors.WorkerCrashedError(), ClusterError, r"`measure` was lost 6 times.*`ray status`"),
    ):
        with pytest.raises(kind, match=words):
            list(RayCluster(Failing(error), "").each("measure", Task(), [("a", "b")]))


@pytest.fixture
def model(tmp_path: Path) -> str:
    """A model's file."""
    path = tmp_path / "model.onnx"
    path.write_bytes(bottleneck().SerializeToString())
    return str(path)


def test_without_ray_the_error_names_the_extra(
    model: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setitem(sys.modules, "ray", None)
    assert main(["tune", model, "--ray", "auto"]) == 1
    assert "pip install 'flowloom[cuda,ray]'" in capsys.readouterr().err


def test_an_address_where_nobody_listens_is_an_error_at_once(
    model: str, capsys: pytest.CaptureFixture[str]
):
    pytest.importorskip("ray", reason="pip install '.[ray]'")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    assert main(["tune", model, "--ray", f"127.0.0.1:{port}"]) == 1
    said = capsys.readouterr().err
    assert f"cannot connect to a Ray cluster at '127.0.0.1:{port}'" in said
    assert "ray start --head" in said


def test_whole_models_do_not_run_on_other_machines(model: str, capsys: pytest.CaptureFixture[str]):
    assert main(["tune", model, "--ray", "auto", "--in-context", "5"]) == 1
    assert "leave one out" in capsys.readouterr().err
