"""The search's class of nodes on the host is whole, its page fresh, and it finds what is wrong."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

import compiler
from compiler.frontend.interpreter.constants import ON_CONSTANTS
from compiler.net.node import TypedNode
from tests.fuzz import contents, host_page
from tests.fuzz.case import Failure, load, save
from tests.fuzz.contents import NAMES, check_contents, random_contents
from tests.fuzz.hosted import HOSTED
from tests.fuzz.oracle import run_model


def test_every_operator_that_can_run_on_the_host_is_searched():
    searched = {*NAMES, *HOSTED, *host_page.NOT_ON_HOST}
    assert not host_page.on_the_host() - searched


def test_the_page_of_host_operators_is_fresh():
    fresh = host_page.generate()
    assert host_page.PAGE.read_text() == fresh, "run python -m tests.fuzz.host_page"


def _cases(monkeypatch: pytest.MonkeyPatch, name: str, count: int) -> list[Any]:
    monkeypatch.setattr(contents, "NAMES", [name])
    drawn = (random_contents(seed, "cpu") for seed in range(100))
    cases = [case for case in drawn if case is not None]
    return cases[:count]


def test_a_wrong_operator_is_found(monkeypatch: pytest.MonkeyPatch):
    cases = _cases(monkeypatch, "Unique", 6)
    assert [check_contents(case) for case in cases] == [None] * len(cases)
    right = ON_CONSTANTS["Unique"]

    def reversed_elements(node: TypedNode) -> Any:
        values, *others = right(node)
        return [np.asarray(values)[::-1], *others]

    monkeypatch.setitem(ON_CONSTANTS, "Unique", reversed_elements)
    found = [failure for case in cases if (failure := check_contents(case)) is not None]
    assert found
    assert {failure.key for failure in found} == {"wrong"}


def test_optionals_of_tensors_are_judged_in_all_opsets(monkeypatch: pytest.MonkeyPatch):
    cases = _cases(monkeypatch, "Optional", 30)
    assert len({case.proto.opset_import[0].version for case in cases}) > 3
    assert [check_contents(case) for case in cases] == [None] * len(cases)


def test_an_exception_that_is_not_ours_is_found(monkeypatch: pytest.MonkeyPatch):
    (case, *_) = _cases(monkeypatch, "Det", 1)

    def broken(node: Any) -> Any:
        raise AssertionError

    monkeypatch.setitem(ON_CONSTANTS, "Det", broken)
    failure = check_contents(case)
    assert failure is not None
    assert failure.key.startswith("raised AssertionError")


def test_a_case_of_several_runs_is_saved_whole(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    case = next(c for c in _cases(monkeypatch, "ConcatFromSequence", 40) if len(c.later) > 2)
    save(case, Failure("key", "message"), tmp_path / "case.json")
    again = load(tmp_path / "case.json")
    assert again.model == case.model
    for runs in zip([case.feeds, *case.later], [again.feeds, *again.later], strict=True):
        first, second = (run["i0"] for run in runs)
        assert [x.tolist() for x in first] == [x.tolist() for x in second]
        assert all(isinstance(x, np.ndarray) for x in second)


@pytest.mark.parametrize(
    ("op_type", "feeds", "ours", "theirs"),
    [
        ("NonZero", {"x": np.array(3, np.float32)}, np.zeros((0, 1)), np.zeros((1, 1))),
        (
            "Gather",
            {"x": np.array([["a", "b"], ["c", "d"]], object), "i": np.array([1, 0])},
            np.array([["c", "d"], ["a", "b"]], object),
            np.array([["c", ""], ["a", ""]], object),
        ),
    ],
)
def test_differences_that_the_page_tells(
    op_type: str, feeds: dict[str, Any], ours: Any, theirs: Any
):
    node, x = helper.make_node(op_type, [*feeds], ["y"]), feeds["x"]
    types = {n: helper.np_dtype_to_tensor_dtype(v.dtype) for n, v in feeds.items()}
    infos = [helper.make_tensor_value_info(n, t, feeds[n].shape) for n, t in types.items()]
    element = 8 if x.dtype.hasobject else 7
    outputs = [helper.make_tensor_value_info("y", element, None)]
    graph = helper.make_graph([node], "g", infos, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    for found, wanted in (
        (compiler.compile(model).run(feeds)["y"], ours),
        (run_model(model.SerializeToString(), feeds)["y"], theirs),
    ):
        assert found.shape == wanted.shape
        assert (found == wanted).all()
