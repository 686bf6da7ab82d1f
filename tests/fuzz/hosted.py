"""Single nodes that run on the host: random attributes, and several runs of one compiled model."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import onnx
from onnx import helper

import compiler
from compiler.errors import FlowloomError
from tests.fuzz.case import Array, Case, Failure
from tests.fuzz.differences import Incomparable, call_of, known
from tests.fuzz.draw import Draw
from tests.fuzz.oracle import Refused, run_model

ML = "ai.onnx.ml"


@dataclass(frozen=True)
class Hosted:
    """A node that reads x0, x1, ... and writes y0, y1, ..., and the inputs of each run.

    The runs' inputs differ in shapes and contents, not in types and ranks. `outputs` are element
    types, 0 where a sequence of maps with the key type `keys` is meant.
    """

    node: onnx.NodeProto
    runs: Sequence[Sequence[Array]]
    outputs: Sequence[int]
    opset: int
    keys: int = 0


HostedGenerator = Callable[[Draw, str], Hosted]

HOSTED: dict[str, HostedGenerator] = {}
"""The generator of every operator of the host, by name."""


def generates_hosted(names: str) -> Callable[[HostedGenerator], HostedGenerator]:
    """Register a generator for operators."""

    def register(function: HostedGenerator) -> HostedGenerator:
        HOSTED.update(dict.fromkeys(names.split(), function))
        return function

    return register


def hosted(
    op_type: str,
    runs: Sequence[Sequence[Array]],
    outputs: Sequence[int],
    opset: int,
    *,
    domain: str = "",
    keys: int = 0,
    **attributes: Any,
) -> Hosted:
    """A node with its attributes; None leaves one out."""
    node = helper.make_node(
        op_type,
        [f"x{i}" for i in range(len(runs[0]))],
        [f"y{i}" for i in range(len(outputs))],
        domain=domain,
        **{name: value for name, value in attributes.items() if value is not None},
    )
    return Hosted(node, runs, outputs, opset, keys)


def runs_of(draw: Draw, make: Callable[[], Sequence[Array]]) -> list[Sequence[Array]]:
    """The inputs of one to four runs."""
    return [make() for _ in range(draw.choice([1, 1, 2, 3, 4]))]


def any_shape(draw: Draw, rank: int) -> tuple[int, ...]:
    """A small shape of a rank, now and then without elements."""
    return tuple(draw.choice([1, 2, 2, 3, 4, 5, 0 if draw.chance(0.2) else 3]) for _ in range(rank))


def random_hosted(seed: int, target: str) -> Case | None:
    """The case of one node."""
    return case_of(Draw(seed).choice(sorted(HOSTED)), seed, target)


def case_of(op_type: str, seed: int, target: str) -> Case:
    """The case of a seed for an operator."""
    draw = Draw(seed)
    draw.extremes()
    example = HOSTED[op_type](draw, op_type)
    model = _model_of(example, draw.chance(0.3))
    first, *later = [{f"x{i}": array for i, array in enumerate(arrays)} for arrays in example.runs]
    return Case("texts", seed, model.SerializeToString(), first, later=later, target=target)


def _model_of(example: Hosted, fixed: bool) -> onnx.ModelProto:
    """The model of a node, whose sizes are fixed if all runs have them."""
    node, runs = example.node, example.runs
    shapes = [[x.shape for x in run] for run in runs]
    alike = fixed and all(shape == shapes[0] for shape in shapes)
    inputs = [
        helper.make_tensor_value_info(
            f"x{i}",
            helper.np_dtype_to_tensor_dtype(array.dtype),
            [
                size if alike or {run[i][axis] for run in shapes} == {1} else None
                for axis, size in enumerate(array.shape)
            ],
        )
        for i, array in enumerate(runs[0])
    ]
    floats = helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, [])
    outputs = [
        helper.make_tensor_value_info(name, element, None)
        if element
        else helper.make_value_info(
            name,
            helper.make_sequence_type_proto(helper.make_map_type_proto(example.keys, floats)),
        )
        for name, element in zip(node.output, example.outputs, strict=True)
    ]
    versions = {"": 21, node.domain: example.opset}
    imports = [helper.make_opsetid(domain, version) for domain, version in versions.items()]
    graph = helper.make_graph([node], "hosted", inputs, outputs)
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


def check_hosted(case: Case) -> Failure | None:
    """A node compiles once and gives in each run what onnxruntime does, or refuses with it."""
    from tests.fuzz.checks import Skipped, raised

    feeds = [case.feeds, *case.later]
    expected = [_expected(case, run) for run in feeds]
    try:
        module = compiler.compile(case.model, target=case.target)
    except FlowloomError as error:
        return None if not any(expected) else raised(error)
    except Exception as error:
        return raised(error)
    for number, (run, wanted) in enumerate(zip(feeds, expected, strict=True)):
        try:
            results = module.run(run)
        except FlowloomError as error:
            if wanted:
                return raised(error)
            continue
        except Exception as error:
            return raised(error)
        for name, value in (wanted or {}).items():
            if wrong := difference(results[name], value):
                return Failure("wrong", f"run {number}, output {name!r}: {wrong}")
    if not any(expected):
        raise Skipped("onnxruntime refuses every run")
    return None


def _expected(case: Case, feeds: Mapping[str, Array]) -> dict[str, Any] | None:
    """onnxruntime's outputs, corrected; None where it refuses, or is known to differ."""
    proto = case.proto
    node, versions = proto.graph.node[0], {i.domain: i.version for i in proto.opset_import}
    call = call_of(node, versions[node.domain], feeds)
    found = known(call)
    try:
        if found is not None:
            return (
                None
                if found.correct is None
                else dict(zip(node.output, found.correct(call), strict=True))
            )
        return run_model(case.model, feeds)
    except (Refused, Incomparable):
        return None


def difference(result: Any, expected: Any) -> str:
    """How a result differs from what is expected, by more than the last digits; "" if it does not.

    Texts, integers and truth are compared exactly, so are types and shapes.
    """
    if isinstance(expected, dict):
        ours, theirs = cast(dict[Any, Any], result), cast(dict[Any, Any], expected)
        if ours.keys() != theirs.keys():
            return f"keys {[*ours]}, not {[*theirs]}"
        result, expected = [*map(ours.get, theirs)], [*theirs.values()]
        return difference(np.array(result), np.array(expected))
    if isinstance(expected, list):
        items, others = cast(list[Any], result), cast(list[Any], expected)
        if len(items) != len(others):
            return f"{len(items)} items, not {len(others)}"
        found = (difference(ours, theirs) for ours, theirs in zip(items, others, strict=True))
        return next(filter(None, found), "")
    return _unlike(result, np.asarray(expected))


def _unlike(result: Any, expected: Array) -> str:
    """How an array differs from another."""
    if not isinstance(result, np.ndarray):
        return f"{type(result)}, not an array"
    array = cast(Array, result)
    if array.dtype != expected.dtype or array.shape != expected.shape:
        return f"{array.dtype}{list(array.shape)}, not {expected.dtype}{list(expected.shape)}"
    with np.errstate(all="ignore"):
        if expected.dtype.kind == "f":
            same = np.isclose(array, expected, 1e-4, 1e-5, equal_nan=True)
        else:
            same = array == expected
    return "" if np.all(same) else f"{array.tolist()!r}, not {expected.tolist()!r}"
