"""SequenceMap, as exporters write `hstack`, `dstack` and `atleast_2d`, against onnxruntime."""

import numpy as np
import pytest
from onnx import ModelProto, parser

import compiler
from compiler.artifact.module import Module
from compiler.errors import InputDataError, ModelError, ShapeError
from compiler.program.model import DynamicModule
from tests.frontend.control.checks import reference

X = np.arange(6, dtype=np.float32).reshape(2, 3)
FEEDS = {"x": X, "y": X[::-1].copy(), "go": np.array(True), "n": np.array([1, 1])}

ADDED = "SequenceMap (s, r, k) <body = b (float[2,3] e, float[2,3] f, float[2,3] h)"

MODELS = {
    "atleast_2d": """s = SequenceConstruct (x, y)
        t = SequenceMap (s) <body = b (float[2,3] e) => (float[1,2,3] o)
        { o = Unsqueeze (e, zero) }>
        z = ConcatFromSequence <axis = 0> (t)""",
    "several": f"""s = SequenceConstruct (x, y) r = SequenceConstruct (y, y) k = Relu (y)
        t, u = {ADDED} => (float[2,3] o, float[2,3] p)
        {{ v = Add (e, f) o = Mul (v, x) p = Sub (h, e) }}>
        c = ConcatFromSequence <axis = 0> (t) d = ConcatFromSequence <axis = 0> (u)
        z = Concat <axis = 0> (c, d)""",
    "unlike shapes": """s = SplitToSequence <axis = 1> (x, sizes)
        t = SequenceMap (s) <body = b (float[2,N] e) => (float[1,N] o)
        { o = ReduceSum (e, zero) }>
        z = ConcatFromSequence <axis = 1> (t)""",
    "nested": """s = SequenceConstruct (x, y)
        t = SequenceMap (s) <body = b (float[2,3] e) => (float[4,3] o) {
          q = SequenceConstruct (e, x)
          w = SequenceMap (q) <body = c (float[2,3] g) => (float[2,3] a) { a = Add (g, e) }>
          o = ConcatFromSequence <axis = 0> (w) }>
        z = ConcatFromSequence <axis = 1> (t)""",
    "in a branch": """z = If (go) <
        then_branch = yes () => (float[4,3] a) {
          s = SequenceConstruct (x, y)
          t = SequenceMap (s) <body = b (float[2,3] e) => (float[2,3] o) { o = Neg (e) }>
          a = ConcatFromSequence <axis = 0> (t) },
        else_branch = no () => (float[4,3] b1) { b1 = Concat <axis = 0> (x, y) }>""",
    "of a known loop": """s = SplitToSequence <axis = 0, keepdims = 0> (x)
        t = SequenceMap (s) <body = b (float[3] e) => (float[3] o) { o = Relu (e) }>
        f = SequenceAt (t, one) z = Add (f, y)""",
    "of parts that data decide": """s = SplitToSequence <axis = 0> (x, n)
        t = SequenceMap (s) <body = b (float[1,3] e) => (float[1,3] o) { o = Neg (e) }>
        z = ConcatFromSequence <axis = 0> (t)""",
}


def model_of(body: str, rows: str = "2", opset: int = 17) -> ModelProto:
    """A model of two matrices, a truth value and two sizes."""
    inputs = f"float[{rows},3] x, float[{rows},3] y, bool go, int64[2] n"
    return parser.parse_model(
        f"""<ir_version: 8, opset_import: ["" : {opset}]>
        g ({inputs}) => (float[a,b] z) <int64[1] zero = {{0}}, int64 one = {{1}},
        int64[2] sizes = {{1, 2}}> {{ {body} }}"""
    )


def nested() -> np.ndarray:
    """The result of the nested maps, which onnxruntime 1.32 does not take."""
    pairs = [np.concatenate([e + e, X + e]) for e in (X, FEEDS["y"])]
    return np.concatenate(pairs, axis=1)


def check(model: ModelProto, expected: np.ndarray | None = None) -> Module | DynamicModule:
    """Compile, run and compare a model."""
    feeds = {info.name: FEEDS[info.name] for info in model.graph.input}
    module = compiler.compile(model)
    expected = reference(model, feeds)[0] if expected is None else expected
    np.testing.assert_array_equal(module.run(feeds)["z"], expected)
    return module


def with_rank(model: ModelProto, rank: int) -> ModelProto:
    """The model, whose result has other dimensions."""
    dims = model.graph.output[0].type.tensor_type.shape.dim
    while len(dims) < rank:
        dims.add(dim_param=f"r{len(dims)}")
    return model


@pytest.mark.parametrize("name", MODELS)
def test_maps_of_known_length_are_unrolled(name: str):
    model = with_rank(model_of(MODELS[name]), 3 if name == "atleast_2d" else 2)
    module = check(model, nested() if name == "nested" else None)
    assert isinstance(module, Module) == (name != "of parts that data decide")


@pytest.mark.parametrize("name", MODELS)
def test_maps_in_models_of_any_size(name: str):
    model = with_rank(model_of(MODELS[name], "rows"), 3 if name == "atleast_2d" else 2)
    check(model, nested() if name == "nested" else None)


@pytest.mark.parametrize("opset", [18, 21, 24])
def test_later_opsets(opset: int):
    check(model_of(MODELS["several"], opset=opset))


def test_a_function_that_maps():
    model = parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17, "own" : 1]>
        g (float[2,3] x, float[2,3] y) => (float[4,3] z) { z = own.stack (x, y) }
        <domain: "own", opset_import: ["" : 17]> stack (a, b) => (c) {
          s = SequenceConstruct (a, b)
          t = SequenceMap (s) <body = m (float[2,3] e) => (float[2,3] o) { o = Add (e, a) }>
          c = ConcatFromSequence <axis = 0> (t) }"""
    )
    feeds = {"x": X, "y": FEEDS["y"]}
    found = compiler.compile(model).run(feeds)["z"]
    np.testing.assert_array_equal(found, np.concatenate([X + X, FEEDS["y"] + X]))


def test_a_map_of_no_tensors_has_the_declared_type():
    body = """s = SequenceEmpty <dtype = 1> ()
        t = SequenceMap (s) <body = b (float[2,3] e) => (int64[2,3] o) { o = Cast <to = 7> (e) }>
        l = SequenceLength (t) i = Cast <to = 7> (y) u = SequenceInsert (t, i)
        v = ConcatFromSequence <axis = 0> (u) w = Cast <to = 1> (l)
        f = Cast <to = 1> (v) z = Add (f, w)"""
    check(model_of(body))


def sequence_input(body: str) -> ModelProto:
    """A model whose input is a sequence, whose length only a run knows."""
    return parser.parse_model(
        f"""<ir_version: 8, opset_import: ["" : 17]>
        g (seq(float[2,3]) s, seq(float[2,3]) r, float[2,3] k) => (float[a,b] z) {{
        t = {ADDED} => (float[2,3] o) {{ v = Add (e, f) o = Mul (v, h) }}> {body} }}"""
    )


@pytest.mark.parametrize("count", [1, 3])
def test_sequences_that_are_inputs(count: int):
    model = sequence_input("z = ConcatFromSequence <axis = 0> (t)")
    feeds = {"s": [X + i for i in range(count)], "r": [X * i for i in range(count)], "k": X}
    found = compiler.compile(model).run(feeds)["z"]
    np.testing.assert_array_equal(found, reference(model, feeds)[0])


def test_sequences_of_other_lengths_are_refused():
    module = compiler.compile(sequence_input("z = ConcatFromSequence <axis = 0> (t)"))
    with pytest.raises(InputDataError, match=r"sequences of .* have 2 and 1 tensors"):
        module.run({"s": [X, X], "r": [X], "k": X})
    unlike = MODELS["several"].replace("SequenceConstruct (y, y)", "SequenceConstruct (y)")
    with pytest.raises(ShapeError, match="its sequences have 2 and 1 tensors"):
        compiler.compile(model_of(unlike))
    tensor = MODELS["several"].replace("SequenceMap (s, r, k)", "SequenceMap (x, r, k)")
    with pytest.raises(ModelError, match="its first input is a tensor"):
        compiler.compile(model_of(tensor))
    fewer = MODELS["several"].replace("(s, r, k)", "(s, r)")
    with pytest.raises(ModelError, match="its body has 3 inputs instead of 2"):
        compiler.compile(model_of(fewer))
