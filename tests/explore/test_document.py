"""The facts of the explorer: memory, layout, operators and passes agree with the schedule."""

import base64
import gzip
import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import compiler
from compiler.backends.cpu.driver import usable_threads
from compiler.schedule.kernels import KernelSpec, Launch
from compiler.scheduling.bounds import needs
from compiler.scheduling.prediction import Prediction
from compiler.scheduling.simulator import TaskDemand, Timeline
from compiler.target.devices import CORES, H200
from compiler.target.target import parse_target
from compiler.tools.cli import main
from compiler.tools.explore import page
from compiler.tools.explore.collect import launch_fact, memory_fact, task_facts
from compiler.tools.explore.layout import drawn
from compiler.tools.explore.sides import artifact_side
from compiler.tools.explore.sources import NOT_COMPILED, kernel_sources
from compiler.tools.measured import MeasuredRun, TaskTime
from tests.explore.modules import branches, side_of, wide_schedule


def written(html: Path) -> dict[str, Any]:
    """The document of a page."""
    text = html.read_text().rpartition('id="document">')[2].partition("</script>")[0]
    return json.loads(gzip.decompress(base64.b64decode(text)))


@pytest.fixture(scope="module")
def explored(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("explored")
    html = folder / "page.html"
    assert main(["explore", str(branches(folder / "model.onnx")), "-o", str(html)]) == 0
    return written(html)


def test_a_models_page_has_its_operators_passes_and_kernels(explored: dict[str, Any]):
    assert (explored["format"], explored["version"]) == ("flowloom-explore", 1)
    (side,) = explored["sides"]
    (module,) = side["modules"]
    types = sorted(each["type"] for each in module["operators"])
    assert types.count("MatMul") + types.count("Gemm") == 4
    tasks = [each["task"] for each in module["operators"] if each["task"] is not None]
    assert set(tasks) == set(range(len(module["tasks"])))
    for operator in module["operators"]:
        if operator["task"] is not None and operator["name"]:
            assert operator["name"] in module["tasks"][operator["task"]]["nodes"]
    specs = [each["spec"].partition("{")[0] for each in module["passes"]]
    assert specs[0].startswith("imported")
    assert specs[-1] == "plan-memory"
    counts = module["passes"][-1]["counts"]
    assert counts["tasks"] == len(module["tasks"])
    assert counts["operators"] == counts["groups"] == 0
    arena = sum(a["nbytes"] for a in module["memory"]["allocations"] if a["kind"] == "arena")
    assert counts["arena bytes"] == arena
    assert {each["provenance"] for each in module["kernels"]} == {"generic", "estimated"}
    assert "Nothing was searched" in module["choice"]["sentence"]


def test_each_task_of_a_cpu_has_the_thread_that_ran_it(explored: dict[str, Any]):
    (module,) = explored["sides"][0]["modules"]
    assert 1 <= module["threads"] <= usable_threads()
    threads = [task["thread"] for task in module["tasks"]]
    assert set(threads) <= set(range(module["threads"]))
    assert all(help["thread"] != threads[help["task"]] for help in module["helps"])


@pytest.mark.parametrize("on_cpu", [True, False])
def test_tasks_have_the_measured_times_and_on_a_cpu_the_threads(on_cpu: bool):
    schedule = wide_schedule(3, 1)
    line, works = Timeline((0.0, 1.0, 2.0), (1.0, 2.0, 3.0)), [TaskDemand(1.0)] * 3
    found = Prediction("streams", line, works, frozenset(), CORES)
    times = [TaskTime(thread, 10.0 * thread, 10.0 * thread + 5) for thread in (1, 0, 2)]
    facts = task_facts(schedule, found, MeasuredRun(times, ""), needs(schedule), on_cpu)
    assert [fact.thread for fact in facts] == ([1, 0, 2] if on_cpu else [None] * 3)
    assert [fact.measured for fact in facts] == [(10.0, 15.0), (0.0, 5.0), (20.0, 25.0)]


def test_a_launch_says_how_it_fills_the_device():
    launch = Launch("k", (), (528, 1, 1), (256, 1, 1), registers=64)
    facts = launch_fact(launch, H200)
    assert (facts["resident_blocks"], facts["occupancy"], facts["waves"]) == (4, 0.5, 1.0)
    assert launch_fact(replace(launch, registers=0), H200)["occupancy"] is None


def test_a_cpus_kernel_has_its_texts_from_the_expression_to_llvm(explored: dict[str, Any]):
    kernels = explored["sides"][0]["modules"][0]["kernels"]
    for kernel in kernels:
        assert list(kernel["sources"]) == ["tensor expression", "schedule", "LLVM"]
        assert f"define internal void @{kernel['name']}_0(" in kernel["sources"]["LLVM"]
        assert kernel["lacking"] == ""
    expressions = [kernel["sources"]["tensor expression"] for kernel in kernels]
    assert len(set(expressions)) == len(kernels)
    assert all('T.Buffer((16, 16), "float32")' in text for text in expressions)


def test_the_texts_of_a_kernel_without_its_group_or_beyond_the_limit_are_few():
    kernel = KernelSpec("k", "cuda", b"damaged", (), (), source="__global__")
    target = parse_target("cuda:sm_90:tf32")
    texts, lacking = kernel_sources(kernel, None, target, listed=False)
    assert texts == {"CUDA C++": "__global__"}
    assert lacking == NOT_COMPILED
    texts, lacking = kernel_sources(kernel, None, target, listed=True)
    assert texts == {"CUDA C++": "__global__"}
    assert "No SASS: " in lacking


def test_operators_read_what_makes_their_inputs(explored: dict[str, Any]):
    operators = explored["sides"][0]["modules"][0]["operators"]
    softmax = next(each for each in operators if each["name"] == "sm1")
    assert [operators[number]["name"] for number in softmax["reads"]] == ["Tanh_1"]


def test_an_artifact_says_how_to_get_dumps(tmp_path: Path):
    compiler.compile(branches(tmp_path / "model.onnx")).save(tmp_path / "built")
    side = artifact_side(tmp_path / "built")
    (module,) = side.modules
    assert module.passes == module.operators == []
    assert "flowloom explore MODEL" in side.note
    assert {kernel.provenance for kernel in module.kernels} == {"not recorded"}


def test_a_programs_page_has_an_outline(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    model, html = branches(tmp_path / "model.onnx", dynamic=True), tmp_path / "page.html"
    assert main(["explore", str(model), "-o", str(html)]) == 1
    assert "--input-shape" in capsys.readouterr().err
    program: Any = compiler.compile(model)
    program.prepare({"n": 16})
    program.save(tmp_path / "built")
    assert main(["explore", str(tmp_path / "built"), "-o", str(html)]) == 0
    (side,) = written(html)["sides"]
    assert [step["kind"] for step in side["steps"]] == ["segment"]
    assert len(side["modules"]) == 1


def test_three_models_and_options_of_artifacts_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    html = str(tmp_path / "page.html")
    assert main(["explore", "a", "b", "c", "-o", html]) == 1
    assert "one or two" in capsys.readouterr().err
    assert main(["explore", str(tmp_path), "--target", "cuda", "-o", html]) == 1
    assert "--target needs its ONNX file" in capsys.readouterr().err
    assert main(["explore", "a", "b", "--dump-ir", html, "-o", html]) == 1
    assert "--dump-ir takes one model" in capsys.readouterr().err


def test_a_document_is_the_same_for_the_same_facts():
    side = side_of(wide_schedule(24, 3), 2)
    assert page.document_bytes([side]) == page.document_bytes([side])


def test_tensors_that_share_bytes_are_not_in_use_at_once():
    schedule = wide_schedule(60, 3)
    starts = [1000.0 * (index // 3) for index in range(60)]
    timeline = Timeline(tuple(starts), tuple(start + 1000 for start in starts))
    found = memory_fact(schedule, timeline)
    assert len(found.regions) == 60
    assert found.apart == 60 * 64
    assert found.peak == 6 * 64
    for region in found.regions:
        for other in (found.regions[number] for number in region.reuses):
            assert other.end <= region.start
            assert other.offset < region.offset + region.nbytes
            assert region.offset < other.offset + other.nbytes
    assert sum(len(region.reuses) for region in found.regions) == 60 - 9


@given(st.data())
def test_a_layout_has_edges_downwards_and_no_overlaps(data: st.DataObject):
    count = data.draw(st.integers(1, 24))
    pairs = st.tuples(st.integers(0, count - 1), st.integers(0, count - 1))
    edges = sorted({(min(p), max(p)) for p in data.draw(st.lists(pairs)) if p[0] != p[1]})
    found = drawn(count, edges)
    assert all(found.layers[source] < found.layers[target] for source, target in edges)
    for (source, target), route in zip(edges, found.routes, strict=True):
        between = found.layers[target] - found.layers[source] - 1
        assert len(route) == between
    for layer in set(found.layers):
        places = sorted(p for p, at in zip(found.places, found.layers, strict=True) if at == layer)
        assert all(b - a > 0.98 for a, b in pairwise(places))


def test_a_chain_is_drawn_as_a_straight_line():
    found = drawn(9, [(i, i + 1) for i in range(8)])
    assert found.layers == list(range(9))
    assert set(found.places) == {0.0}


def test_needs_are_the_edges_of_the_layout():
    schedule = wide_schedule(12, 3)
    assert side_of(schedule, 1).modules[0].layout.edges == needs(schedule)
