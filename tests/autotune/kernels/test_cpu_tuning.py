"""`compile` measures kernels that this CPU's database has not, and learns."""

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from os import getpid
from pathlib import Path
from time import monotonic

import numpy as np
import onnx
import pytest
from onnx import parser

import compiler
from compiler.autotune.kernels import cpu_bench
from compiler.autotune.kernels.cpu_bench import CandidateRunner
from compiler.autotune.kernels.kernel_tuner import KernelTuner
from compiler.autotune.kernels.plan import TuningLimits
from compiler.autotune.lock import locked
from compiler.backends.cpu.bound import BoundKernel
from compiler.choice.timing import Timing
from compiler.errors import DeviceError, KernelError
from compiler.kernels import database
from compiler.kernels.building import KernelCache
from compiler.kernels.building.kernel import build_candidate, build_kernel
from compiler.kernels.building.select import Candidate, Provenance, best
from compiler.kernels.cpu.host import database_name, host_cpu
from compiler.kernels.cpu.machine import host_target
from compiler.kernels.database.fields import Config
from compiler.kernels.group import Group, Node, TensorInfo
from compiler.progress import CandidateMeasured, ProgressEvent, TuningBegan, listening
from compiler.schedule.choices import TuningRecord
from compiler.schedule.kernels import KernelSpec
from compiler.target.target import CpuTarget, parse_cpu
from compiler.tools.report import report

SLOW, FAST = 5e6, 1e6


def group_of(activation: str = "Relu") -> Group:
    """A small convolution and an activation."""
    values = [(1, 6, 10, 10), (20, 6, 1, 1), (1, 20, 10, 10), (1, 20, 10, 10)]
    operators = (Node("Conv", {}, (0, 1), (2,)), Node(activation, {}, (2,), (3,)))
    infos = tuple(TensorInfo("float32", shape) for shape in values)
    return Group("kernel", infos, 2, (False, True), {}, operators, (3,))


_candidates: dict[tuple[str, Config], KernelSpec] = {}


def candidate(group: Group, config: Config) -> KernelSpec:
    """A group's kernel with a config, for this machine, built once for all tests."""
    key = group.content_hash(), config
    if key not in _candidates:
        _candidates[key] = build_candidate(group, host_target(), config)
    return _candidates[key]


def tunable() -> Candidate:
    """The ways to compute the small convolution."""
    return best(group_of(), host_target()).candidate


class Builders:
    """Stands for the processes that build kernels: this one builds, as `change` says."""

    change: Callable[[Group, Config], Group] | None = None
    built: int = 0

    @classmethod
    def of(cls, count: int) -> "Builders":
        """The pool of so many processes."""
        return cls()

    @contextmanager
    def one(self) -> Generator["Builders"]:
        """This one."""
        yield self

    def build(self, group: Group, target: CpuTarget, config: Config) -> KernelSpec:
        """A kernel."""
        Builders.built += 1
        return candidate(Builders.change(group, config) if Builders.change else group, config)

    def stop(self) -> None:
        """Nothing is to be ended."""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new folder for the user's database; kernels are built in this process."""
    monkeypatch.setenv(database.DATABASE_VARIABLE, str(tmp_path / "tuning"))
    monkeypatch.setattr(cpu_bench, "WorkerPool", Builders)
    monkeypatch.setattr(Builders, "built", 0)


def liked(monkeypatch: pytest.MonkeyPatch, number: int) -> Config:
    """A config that is fast from now on; the others are not."""
    wanted = [*tunable().by_fields][number]
    fast = candidate(group_of(), wanted).code

    def time(spec: KernelSpec) -> float:
        return FAST if spec.code == fast else SLOW

    def least(_: CandidateRunner, kernel: BoundKernel, best: float) -> float:
        return time(kernel.spec)

    def compare(_: CandidateRunner, group: Group, specs: Sequence[KernelSpec]) -> list[Timing]:
        return [Timing(time(spec), time(spec), time(spec), 5) for spec in specs]

    monkeypatch.setattr(CandidateRunner, "least", least)
    monkeypatch.setattr(CandidateRunner, "compare", compare)
    return wanted


def tuned(cache: KernelCache | None = None, seconds: float = 120.0) -> TuningRecord:
    """The record of a tuner that has some seconds for the small convolution."""
    tuner = KernelTuner(TuningLimits.on_cpu(seconds))
    return tuner.tune(None, [(group_of(), 3)], host_target(), cache)


def test_a_faster_config_is_found_kept_and_built(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    before, cache = build_kernel(group_of(), host_target()), KernelCache(tmp_path)
    wanted = liked(monkeypatch, 5)
    record = tuned(cache)
    assert (record.kernels, record.improved) == (1, 1)
    assert (record.before, record.after) == (3 * SLOW, 3 * FAST)
    assert record.tried == Builders.built > 4
    found = tunable()
    assert found.choose() == (found.by_fields[wanted], Provenance.TUNED)
    after = build_kernel(group_of(), host_target())
    assert after.code == candidate(group_of(), wanted).code != before.code
    saved = database.load(database.user_file(database_name(host_target())))
    assert saved.device == host_cpu(host_target())
    assert tuned(cache).kernels == tuned().kernels == 0, "it measured again"


def test_without_a_faster_config_nothing_changes(monkeypatch: pytest.MonkeyPatch):
    before = build_kernel(group_of(), host_target())
    liked(monkeypatch, 0)
    record = tuned()
    assert record.tried > 4
    assert record.improved == 0
    assert build_kernel(group_of(), host_target()) == before


def test_wrong_and_broken_candidates_never_win(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    wanted = liked(monkeypatch, 3)
    broken = [*tunable().by_fields][1]

    def change(group: Group, config: Config) -> Group:
        if config == broken:
            raise KernelError("LLVM does not like it")
        return group_of("Sigmoid") if config == wanted else group

    fast = candidate(group_of("Sigmoid"), wanted).code
    monkeypatch.setattr(Builders, "change", change)
    caplog.set_level("INFO", "compiler.autotune.kernels.cpu_bench")
    assert tuned().improved == 0
    assert "LLVM does not like it" in caplog.text
    assert "the results differ from the first's" in caplog.text
    assert build_kernel(group_of(), host_target()).code != fast


def test_what_was_built_is_not_built_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    cache = KernelCache(tmp_path)
    liked(monkeypatch, 2)
    tried = tuned(cache).tried
    database.user_file(database_name(host_target())).unlink()
    first, _ = Builders.built, monkeypatch.setattr(Builders, "built", 0)
    assert first == tried
    tuned(cache)
    assert Builders.built == 0


def test_an_interrupt_keeps_what_was_learnt(monkeypatch: pytest.MonkeyPatch):
    wanted = liked(monkeypatch, 2)

    def interrupt(event: ProgressEvent) -> None:
        if isinstance(event, CandidateMeasured) and event.done == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), listening(interrupt):
        tuned()
    assert tunable().choose() == (tunable().by_fields[wanted], Provenance.TUNED)


MODEL = """
<ir_version: 10, opset_import: ["" : 18]>
main (float[40,64] x) => (float[40,64] y)
<float[64,64] w = {WEIGHTS}> { z = MatMul (x, w) y = Relu (z) }
"""


def model() -> onnx.ModelProto:
    """A multiplication by a weight."""
    weights = np.random.default_rng(0).standard_normal(64 * 64)
    return parser.parse_model(MODEL.replace("WEIGHTS", ", ".join(f"{w:.4f}" for w in weights)))


def test_compile_says_what_it_did_also_when_it_is_loaded(tmp_path: Path):
    """Candidates run and are timed for real."""
    heard: list[ProgressEvent] = []
    module = compiler.compile(model(), budget=10, cache=False, progress=heard.append)
    assert module.tuning is not None
    assert module.tuning.kernels == 1
    assert module.tuning.tried > 4
    assert sum(isinstance(event, CandidateMeasured) for event in heard) == module.tuning.tried
    assert f"tuning   {module.tuning}" in report(module)
    module.save(tmp_path / "saved")
    assert compiler.load(tmp_path / "saved").tuning == module.tuning
    x = np.random.default_rng(1).standard_normal((40, 64)).astype(np.float32)
    plain = compiler.compile(model(), budget=0, cache=False)
    results = [found.run({"x": x})["y"] for found in (module, plain)]
    np.testing.assert_allclose(*results, rtol=1e-5, atol=1e-4)
    assert plain.tuning is None
    assert plain.kernels == module.kernels, "the database decides without measuring, too"


def test_a_database_that_is_held_is_not_waited_for_beyond_the_budget(
    caplog: pytest.LogCaptureFixture,
):
    path = database.user_file(database_name(host_target()))
    start = monotonic()
    with locked(path, 60.0):
        module = compiler.compile(model(), budget=0.5, cache=False)
    assert module.tuning is not None
    assert f"not kept: process {getpid()} " in caplog.text
    assert not path.exists()
    assert monotonic() - start < 30.0


@pytest.mark.parametrize("budget", [None, 0])
def test_nothing_is_measured_unless_it_is_asked_for(budget: float | None):
    heard: list[ProgressEvent] = []
    module = compiler.compile(model(), budget=budget, cache=False, progress=heard.append)
    assert not any(isinstance(event, TuningBegan) for event in heard)
    assert module.kernels == compiler.compile(model(), budget=0, cache=False).kernels
    assert not database.user_file(database_name(host_target())).exists()


def test_another_cpu_is_not_measured_here():
    with pytest.raises(DeviceError, match="another CPU than this one: leave out the budget"):
        compiler.compile(model(), target="cpu:x86-64-v3", budget=1)
    assert host_cpu(parse_cpu("cpu:x86-64-v3")) == database_name(parse_cpu("cpu:x86-64-v3")) == ""


def test_a_cpu_is_known_by_what_makes_it_fast():
    host = host_target()
    fewer = CpuTarget(mcpu=host.mcpu, features=host.features.replace("+avx512f", "-avx512f"))
    assert host_cpu(host).endswith(" KB of caches")
    assert host_cpu(parse_cpu("cpu")) == host_cpu(host)
    assert database_name(host).startswith(f"{host.mcpu}-")
    assert (fewer == host) == (host_cpu(fewer) == host_cpu(host))
