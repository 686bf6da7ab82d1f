"""Numbers in a small model or its inputs ask for no more memory than there is, nor for ever."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import compiler
from compiler.errors import DeviceError, FlowloomError, InputDataError, ShapeError
from compiler.program.host import text
from compiler.support import memory

LIMIT = 1 << 22
"""The bytes that tests leave for results."""
MANY = 1 << 28
"""Elements that take more."""

node = helper.make_node
Typed = tuple[str, int, Sequence[int | str]]


def module_of(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[Typed],
    weights: Mapping[str, Any],
    dtype: int = TensorProto.FLOAT,
) -> Any:
    """The compiled model of nodes that compute `y`."""
    graph = helper.make_graph(
        nodes,
        "sized",
        [helper.make_tensor_value_info(*typed) for typed in inputs],
        [helper.make_tensor_value_info("y", dtype, None)],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in weights.items()],
    )
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("ai.onnx.ml", 4)]
    return compiler.compile(helper.make_model(graph, opset_imports=opsets, ir_version=10))


@pytest.fixture
def little_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A limit as a container has it."""
    (tmp_path / "memory.max").write_text(str(LIMIT))
    monkeypatch.setattr(memory, "CGROUPS", tmp_path)


SHAPE = node("Unsqueeze", ["n", "zeros"], ["s"])
BY_INPUT = {
    "Range": [node("Range", ["zero", "n", "one"], ["y"])],
    "Expand": [SHAPE, node("Expand", ["one", "s"], ["y"])],
    "ConstantOfShape": [
        SHAPE,
        node("ConstantOfShape", ["s"], ["f"]),
        node("Cast", ["f"], ["y"], to=7),
    ],
    "MelWeightMatrix": [
        node("MelWeightMatrix", ["one", "n", "one", "low", "low"], ["y"], output_datatype=7)
    ],
    "HannWindow": [node("HannWindow", ["n"], ["f"]), node("Cast", ["f"], ["y"], to=7)],
}
"""Nodes whose result is as large as the input `n` says, in int64."""


@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize("name", BY_INPUT)
def test_an_input_that_asks_for_much(name: str):
    weights = {"zero": 0, "one": 1, "zeros": [0], "low": np.float32(0)}
    module = module_of(BY_INPUT[name], [("n", TensorProto.INT64, [])], weights, TensorProto.INT64)
    assert module.run({"n": np.array(6)})["y"].size in (4, 6)
    with pytest.raises(DeviceError, match=f"needs .* bytes and {LIMIT} are available"):
        module.run({"n": np.array(MANY)})
    with pytest.raises((ShapeError, InputDataError), match="kernels index at most"):
        module.run({"n": np.array(MANY << 6)})


X: Mapping[str, np.ndarray] = {"x": np.ones((1, 3), np.float32)}
NGRAMS: dict[str, Any] = {
    "mode": "TF",
    "min_gram_length": 1,
    "max_gram_length": 2,
    "ngram_counts": [0, 1],
}
BY_ATTRIBUTE: dict[str, tuple[onnx.NodeProto, Mapping[str, np.ndarray], int]] = {
    "RandomNormal": (node("RandomNormal", [], ["y"], shape=[MANY]), {}, 1),
    "RandomUniform": (node("RandomUniform", [], ["y"], shape=[MANY]), {}, 1),
    "Multinomial": (node("Multinomial", ["x"], ["y"], sample_size=MANY), X, 6),
    "FeatureVectorizer": (
        node("FeatureVectorizer", ["x"], ["y"], domain="ai.onnx.ml", inputdimensions=[MANY]),
        X,
        1,
    ),
    "TfIdfVectorizer": (
        node(
            "TfIdfVectorizer",
            ["x"],
            ["y"],
            **NGRAMS,
            max_skip_count=0,
            ngram_indexes=[0, MANY],
            pool_int64s=[1, 1, 2],
        ),
        {"x": np.array([1, 2], np.int64)},
        1,
    ),
}
"""Nodes whose attributes ask for many elements, with their inputs and the type of their result."""


@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize("name", BY_ATTRIBUTE)
def test_an_attribute_that_asks_for_much(name: str):
    asking, feeds, dtype = BY_ATTRIBUTE[name]
    inputs = [(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape) for n, x in feeds.items()]
    module = module_of([asking], inputs, {}, dtype)
    with pytest.raises(DeviceError, match=f"needs .* bytes and {LIMIT} are available"):
        module.run(feeds)


def test_skips_beyond_the_end_of_a_text_take_no_time():
    counting = node(
        "TfIdfVectorizer",
        ["x"],
        ["y"],
        **NGRAMS,
        max_skip_count=1 << 40,
        ngram_indexes=[0, 1],
        pool_int64s=[1, 1, 2],
    )
    module = module_of([counting], [("x", TensorProto.INT64, [5])], {})
    found = module.run({"x": np.array([1, 2, 9, 2, 2])})["y"]
    np.testing.assert_array_equal(found, [1, 3])


@pytest.mark.usefixtures("little_memory")
def test_the_rows_of_a_loop_that_does_not_end_soon():
    """Half of what there is is taken before it is stacked."""
    row = helper.make_tensor_value_info("row", TensorProto.STRING, [1 << 10])
    flag = helper.make_tensor_value_info("going", TensorProto.BOOL, [])
    out = helper.make_tensor_value_info("same", TensorProto.BOOL, [])
    number = helper.make_tensor_value_info("number", TensorProto.INT64, [])
    nodes = [node("Identity", ["going"], ["same"]), node("Identity", ["x"], ["row"])]
    body = helper.make_graph(nodes, "body", [number, flag], [out, row])
    loop = node("Loop", ["n", "yes"], ["y"], body=body)
    inputs: list[Typed] = [("n", TensorProto.INT64, []), ("x", TensorProto.STRING, [1 << 10])]
    module = module_of([loop], inputs, {"yes": True}, TensorProto.STRING)
    x = np.full(1 << 10, "a", object)
    assert module.run({"n": np.array(3), "x": x})["y"].shape == (3, 1 << 10)
    with pytest.raises(FlowloomError, match=f"the rows of .* and {LIMIT} are available"):
        module.run({"n": np.array(1 << 40), "x": x})


MANY_TEXTS = np.full(1 << 16, "a", object)
TEXTS: dict[str, tuple[onnx.NodeProto, Mapping[str, np.ndarray]]] = {
    "split": (
        node("StringSplit", ["x"], ["y", "counts"], delimiter=","),
        {"x": np.array([",".join(MANY_TEXTS), *MANY_TEXTS], object)},
    ),
    "broadcast": (
        node("StringConcat", ["x", "z"], ["y"]),
        {"x": MANY_TEXTS[:, None], "z": MANY_TEXTS[None]},
    ),
}
"""Nodes on texts that have more elements than they read, and inputs of 2^32 of them."""


@pytest.mark.parametrize("name", TEXTS)
def test_texts_that_become_too_many(name: str):
    asking, feeds = TEXTS[name]
    axes = {n: [f"{n}{axis}" for axis in range(x.ndim)] for n, x in feeds.items()}
    inputs: list[Typed] = [(n, TensorProto.STRING, shape) for n, shape in axes.items()]
    module = module_of([asking], inputs, {}, TensorProto.STRING)
    module.run({n: x[-1:] for n, x in feeds.items()})
    with pytest.raises(InputDataError, match=f"{asking.op_type} .*has .* elements"):
        module.run(feeds)


@pytest.mark.usefixtures("little_memory")
def test_texts_that_become_too_long():
    module = module_of(
        [node("StringConcat", ["x", "x"], ["y"])],
        [("x", TensorProto.STRING, [1])],
        {},
        TensorProto.STRING,
    )
    assert module.run({"x": np.array(["ab"], object)})["y"].tolist() == ["abab"]
    with pytest.raises(DeviceError, match=f"a result of texts needs {2 * LIMIT} bytes"):
        module.run({"x": np.array(["a" * LIMIT], object)})


def test_a_node_that_runs_out_of_memory_says_so(monkeypatch: pytest.MonkeyPatch):
    def exhausted(texts: np.ndarray) -> None:
        raise MemoryError

    module = module_of(
        [node("StringNormalizer", ["x"], ["y"], name="n")],
        [("x", TensorProto.STRING, [2])],
        {},
        TensorProto.STRING,
    )
    monkeypatch.setattr(text, "texts_in", exhausted)
    with pytest.raises(DeviceError, match=r"out of memory: StringNormalizer 'n' \(x: object\[2\]"):
        module.run({"x": np.array(["a", "b"], object)})


@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize(("side", "error"), [(1e9, FlowloomError), (3e7, DeviceError)])
@pytest.mark.usefixtures("little_memory")
def test_regions_that_would_be_sampled_for_ever(side: float, error: Any, constant: bool):
    """Without a sampling ratio a region has a sample for each pixel, also outside of the image."""
    given: dict[str, np.ndarray] = {
        "regions": np.array([[0, 0, side, 1]], np.float32),
        "batches": np.zeros(1, np.int64),
    }
    x: Mapping[str, np.ndarray] = {"x": np.ones((1, 1, 4, 4), np.float32)}
    feeds = dict(x) if constant else {**x, **given}
    inputs = [(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for n, a in feeds.items()]
    align = node("RoiAlign", ["x", "regions", "batches"], ["y"])

    def work() -> object:
        return module_of([align], inputs, given if constant else {}).run(feeds)

    with pytest.raises(error):
        work()
