"""Every way a model can be bad is an error that names the thing and the remedy."""

import re
from contextlib import suppress
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import compiler
from compiler.errors import FlowloomError, ModelError, ShapeError, UnsupportedOperatorError
from compiler.frontend.importing import import_model
from compiler.ir.groups import graph_of
from compiler.ir.types import shape_of
from tests.frontend.checks import parse, random_inputs, run, types

RELU = "g (float[2,3] x) => (float[2,3] y) { y = Relu(x) }"


def big_model(folder: Path) -> Path:
    """A model whose weight is in a separate file."""
    model = parse(
        "g (float[2,64] x) => (float[2,64] y) { y = MatMul(x, w) }",
        w=np.eye(64, dtype=np.float32),
    )
    path = folder / "model.onnx"
    onnx.save(model, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    return path


def test_not_a_file(tmp_path: Path):
    with pytest.raises(ModelError, match=r"missing\.onnx.*No such file"):
        import_model(tmp_path / "missing.onnx")


@pytest.mark.parametrize(
    "content", [b"", b"\x00" * 64, b"hello, this is not a model", b"PK\x03\x04"]
)
def test_not_onnx(tmp_path: Path, content: bytes):
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    with pytest.raises(ModelError, match="not an ONNX model"):
        import_model(path)
    with pytest.raises(ModelError, match="not an ONNX model"):
        import_model(content)


def test_truncated(tmp_path: Path):
    content = parse(RELU).SerializeToString()
    for size in range(1, len(content)):
        with pytest.raises(ModelError):
            import_model(content[:size])


def test_invalid_model():
    model = parse(RELU)
    model.graph.node[0].input[0] = "nothing"
    with pytest.raises(ModelError, match=r"not valid ONNX.*\n*.*nothing"):
        import_model(model)


@pytest.mark.parametrize(("opset", "remedy"), [(0, "export it again"), (999, "upgrade the onnx")])
def test_opset_out_of_range(opset: int, remedy: str):
    model = parse(RELU)
    model.opset_import[0].version = opset
    with pytest.raises(ModelError, match=f"opset {opset}.*{remedy}"):
        import_model(model)


def test_a_name_in_a_function_that_is_not_text():
    body = [helper.make_node("Relu", ["inner"], ["result"])]
    local = helper.make_function(
        "own", "f", ["inner"], ["result"], body, [helper.make_opsetid("", 17)]
    )
    made = parse("g (float[2] x) => (float[2] y) { y = own.f(x) }")
    made.opset_import.append(helper.make_opsetid("own", 1))
    made.functions.append(local)
    import_model(made)
    damaged = made.SerializeToString().replace(b"inner", b"\xffnner")
    with pytest.raises(ModelError, match="damaged"):
        import_model(damaged)


@pytest.mark.parametrize("depth", [40, 200, 2000])
def test_bodies_nested_too_deep(depth: int):
    made = parse("g (float[2] x) => (float[2] y) { y = Relu(x) }")
    graph = made.graph
    for level in range(depth):
        node = graph.node.add(op_type="If", input=["x"], output=[f"y{level}"])
        branch = node.attribute.add(name="then_branch", type=onnx.AttributeProto.GRAPH)
        graph = branch.g
        graph.name = "body"
    with pytest.raises(ModelError, match=r"damaged|not valid ONNX"):
        import_model(made)


def test_weight_of_wrong_size():
    model = parse("g (float[2] x) => (float[2] y) { y = Add(x, w) }", w=np.ones(2, np.float32))
    model.graph.initializer[0].raw_data = b"1234"
    with pytest.raises(ModelError, match=r"tensor 'w'.*damaged"):
        import_model(model)


def test_weights_that_were_left_out():
    path = Path(__file__).parents[2] / "examples" / "zoo" / "models" / "unet.light.onnx"
    with pytest.raises(ModelError, match="saved without its weights"):
        import_model(path)


def test_external_data_is_read(tmp_path: Path):
    path = big_model(tmp_path)
    imported = import_model(path)
    inputs = random_inputs(imported)
    np.testing.assert_allclose(imported.weights["w"], np.eye(64))
    assert run(onnx.load(path), inputs)[0].shape == (2, 64)


def test_missing_external_data(tmp_path: Path):
    path = big_model(tmp_path)
    (tmp_path / "weights.bin").unlink()
    with pytest.raises(ModelError, match=r"tensor 'w'.*weights\.bin"):
        import_model(path)


def test_truncated_external_data(tmp_path: Path):
    path = big_model(tmp_path)
    (tmp_path / "weights.bin").write_bytes(b"1234")
    with pytest.raises(ModelError, match=r"tensor 'w'.*weights\.bin"):
        import_model(path)


def test_external_data_without_a_folder(tmp_path: Path):
    path = big_model(tmp_path)
    with pytest.raises(ModelError, match="give the model's path"):
        import_model(path.read_bytes())


def test_external_data_outside_the_folder(tmp_path: Path):
    path = big_model(tmp_path)
    model = onnx.load(path, load_external_data=False)
    entry = next(e for e in model.graph.initializer[0].external_data if e.key == "location")
    entry.value = "../weights.bin"
    path.write_bytes(model.SerializeToString())
    with pytest.raises(ModelError, match="outside the model's folder"):
        import_model(path)


def test_every_unsupported_operator_is_listed():
    text = """<ir_version: 8, opset_import: ["": 18, "com.example": 1]>
    g (float[2,3] x) => (float[2,3] y, float d, int64[a,b] f) {
        [first] a = com.example.Fancy(x)
        [second] b = Nonsense(a)
        [third] c = Relu(b)
        [fourth] d = Det(c)
        [fifth] e = RandomNormalLike(x)
        [sixth] f = NonZero(x)
        y = Add(c, e)
    }"""
    with pytest.raises(UnsupportedOperatorError) as caught:
        import_model(parse(text))
    message = str(caught.value)
    assert "5 operators cannot be compiled" in message
    for node, op_type, where, reason in [
        ("first", "Fancy", "com.example opset 1", "domain 'com.example' are not known"),
        ("second", "Nonsense", "ai.onnx opset 18", "no such operator"),
        ("fourth", "Det", "ai.onnx opset 18", "no kernel"),
        ("fifth", "RandomNormalLike", "ai.onnx opset 18", "random"),
        ("sixth", "NonZero", "ai.onnx opset 18", "run time"),
    ]:
        line = next(line for line in message.splitlines() if repr(node) in line)
        assert f"{op_type} '{node}' ({where})" in line
        assert reason in line
        assert line.count(";") == 1, "a remedy follows the reason"
    assert "third" not in message


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("g (float[2,3] x, int64[2] s) => (float[a,b] y) { y = Reshape(x, s) }", "input 1 ('s')"),
        ("g (float[4] x, int64[1] k) => (float[n] y, int64[n] i) { y, i = TopK(x, k) }", "('k')"),
        ("g (float[4] x, int64[1] s) => (float[n] y) { y = Slice(x, s, s) }", "('s')"),
        ("g (int64 n) => (int64[m] y) { y = Range(n, n, n) }", "run time"),
        ("g (string[2] x) => (string[2] y) { y = Identity(x) }", "strings"),
        ("g (complex64[2] x) => (complex64[2] y) { y = Identity(x) }", "complex64"),
        ("g (float8e5m2fnuz[2] x) => (float[2] y) { y = Cast<to=1>(x) }", "float8_e5m2fnuz"),
        ("g (seq(float[2]) x) => (int64 y) { y = SequenceLength(x) }", "sequence"),
        ("g (optional(float[2]) x) => (bool y) { y = OptionalHasElement(x) }", "optional"),
        ("g (float[2] x) => (float8e5m2fnuz[2] y) { y = Cast<to=20>(x) }", "float8_e5m2fnuz"),
    ],
)  # fmt: skip
def test_unsupported(text: str, reason: str):
    with pytest.raises(UnsupportedOperatorError) as caught:
        import_model(parse(text, 19))
    assert reason in str(caught.value)


def test_dropout_in_training():
    model = parse(
        "g (float[9] x) => (float[9] y) { y = Dropout(x, r, t) }",
        r=np.float32(0.5),
        t=np.array(True),
    )
    with pytest.raises(UnsupportedOperatorError, match="training mode"):
        import_model(model)


def test_an_operator_that_does_not_fit_its_inputs():
    model = parse(
        "g (float[n,3] x) => (float[n,5] y) { [scores] y = MatMul(x, w) }",
        w=np.ones((4, 5), np.float32),
    )
    with pytest.raises(ShapeError, match=r"MatMul 'scores' does not fit.*\[2, 3\].*\[4, 5\]"):
        import_model(model, {"x": [2, 3]})


SYMBOLIC = """g (float[batch,3,size] x, float[batch,k] z, float[2,?] q) => (float[b,c,d] y) {
    y = Relu(x) }"""


@pytest.mark.parametrize(
    ("shapes", "parts"),
    [
        (None, ["'x'", "0 ('batch'), 2 ('size')", "'z'", "1 ('k')", "'q'", "1", "input_shapes"]),
        ({"x": [1, 3, 4], "q": [2, 2]}, ["'z'", "1 ('k')"]),
        ({"x": [1, 3]}, ["'x'", "3 dimensions"]),
        ({"x": [1, 4, 4]}, ["dimension 1 of input 'x' is 3", "says 4"]),
        ({"w": [1]}, ["no input 'w'", "x, z, q"]),
        ({"x": [1, 3, 4], "z": [2, 5]}, ["'batch'"]),
        ({"x": [1, 3, -1]}, ["at least 0"]),
        ({"x": [1, 3, 2.5]}, ["whole numbers"]),
    ],
)
def test_shapes_that_do_not_fix_the_inputs(shapes: dict[str, list[int]] | None, parts: list[str]):
    with pytest.raises(ShapeError) as caught:
        import_model(parse(SYMBOLIC), shapes)
    assert all(part in str(caught.value) for part in parts), str(caught.value)


def test_a_dimension_may_be_empty():
    text = "g (float[n,3] x, float[m,3] z) => (float[k,3] y) { y = Concat<axis = 0>(x, z) }"
    imported = import_model(parse(text), {"x": [0, 3], "z": [2, 3]})
    graph = graph_of(imported.module)
    assert [shape_of(a.type) for a in graph.body.block.args] == [(0, 3), (2, 3)]


def test_a_symbol_given_once_holds_everywhere():
    text = """g (float[batch,3] x, float[batch,size] z) => (float[batch,3] y) { y = Relu(x) }"""
    imported = import_model(parse(text), {"z": [5, 7]})
    graph = graph_of(imported.module)
    shapes = [shape_of(a.type) for a in graph.body.block.args]
    assert shapes == [(5, 3), (5, 7)]


def test_an_input_of_unknown_rank_needs_a_shape():
    info = helper.make_tensor_value_info("x", TensorProto.FLOAT, None)
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    node = helper.make_node("Relu", ["x"], ["y"])
    opset = helper.make_opsetid("", 18)
    model = helper.make_model(
        helper.make_graph([node], "g", [info], [result]), opset_imports=[opset]
    )
    with pytest.raises(ShapeError, match="'x' has no declared shape"):
        import_model(model)
    assert random_inputs(import_model(model, {"x": [2, 5]}))["x"].shape == (2, 5)


def test_a_problem_in_a_loop_is_listed_once():
    text = """g (float[2,2] x, float[5,2] r) => (float[2,2] y, float[5,2] s) {
        y, s = Scan<num_scan_inputs=1,
            body = b (float[2,2] v, float[2] t) => (float[2,2] w, float[2] z) {
                [bad] d = Det(v) z = Exp(t) w = Add(v, d) }>(x, r) }"""
    with pytest.raises(UnsupportedOperatorError) as caught:
        import_model(parse(text))
    assert str(caught.value).count("Det") == 1


def test_nodes_that_nothing_needs_are_not_judged():
    text = """g (float[2,2] x) => (float[2,2] y) {
        [bad] d = Det(x) [after] e = Unheard(d)
        c = Constant<value_int = 1>() t = Cast<to = 9>(c) used = Neg(x)
        y = If(t) <
            then_branch = a () => (float[2,2] p) { [worse] f = Det(x) p = Exp(used) },
            else_branch = b () => (float[2,2] q) { q = Identity(used) }> }"""
    assert types(import_model(parse(text))) == ["Neg", "Exp"]
    with pytest.raises(UnsupportedOperatorError, match="Det 'bad'"):
        import_model(parse(text.replace("=> (float[2,2] y)", "=> (float[2,2] y, float d)")))


SCAN = """g (float[2] x, float[0,2] r) => (float[2] y%s) {
    y, s = Scan<num_scan_inputs=1,
        body = b (float[2] v, float[2] t) => (float[2] w, float[2] z) {
            w = Add(v, t) z = Exp(w) }>(x, r) }"""


def test_a_scan_over_nothing():
    unknown = (SCAN % ", float[0,2] s").replace("Exp(w)", "NonZero(w)")
    with pytest.raises(UnsupportedOperatorError, match="runs zero times, and the shapes"):
        import_model(parse(unknown))
    assert types(import_model(parse(SCAN % ", float[0,2] s"))) == []
    assert types(import_model(parse((SCAN % "").replace("y, s =", "y =")))) == []


def test_bounds_of_different_length():
    model = parse(
        "g (float[4,4] x) => (float[a,b] y) { [crop] y = Slice(x, s, e) }",
        s=np.array([0, 0]),
        e=np.array([2]),
    )
    with pytest.raises(ShapeError, match="Slice 'crop' does not fit"):
        import_model(model)


def test_constants_that_contradict_each_other():
    model = parse(
        "g (float[2] x) => (float[2] y) { [bad] c = Add(a, b) y = Mul(x, c) }",
        a=np.ones(2, np.float32),
        b=np.ones(3, np.float32),
    )
    with pytest.raises(ShapeError, match="Add 'bad' does not fit its inputs"):
        import_model(model)


def test_changed_bytes_are_an_error_or_a_model():
    content = parse(
        """g (float[1,2,6,6] x) => (float[1,36] y) {
            c = Conv<pads=[1,1,1,1]>(x, w) n = BatchNormalization(c, b, b, b, b)
            p = Slice(n, s, e) y = Flatten(p) }""",
        w=np.ones((1, 2, 3, 3), np.float32),
        b=np.ones(1, np.float32),
        s=np.array([0]),
        e=np.array([6]),
    ).SerializeToString()
    generator = np.random.default_rng(0)
    failed = 0
    for _ in range(500):
        changed = bytearray(content)
        changed[generator.integers(len(content))] = generator.integers(256)
        try:
            import_model(bytes(changed))
        except FlowloomError:
            failed += 1
    assert failed > 250


@pytest.mark.parametrize("place", ["output", "body"])
def test_a_name_that_is_not_text_is_an_error(place: str):
    model = parse("""g (float[2] x, bool c) => (float[2] yyyy) {
        yyyy = If (c) <then_branch = t () => (float[2] aaaa) { aaaa = Relu(x) },
                       else_branch = e () => (float[2] bbbb) { bbbb = Identity(x) }>
    }""")
    name = b"yyyy" if place == "output" else b"aaaa"
    damaged = model.SerializeToString().replace(name, b"\x95" + name[1:])
    with pytest.raises(ModelError, match="the model is damaged"):
        import_model(damaged)


def _model_of_texts() -> onnx.ModelProto:
    """A model whose names and texts are all unlike each other and of four letters."""
    imports = [onnx.helper.make_opsetid("", 18), onnx.helper.make_opsetid("doma", 1)]
    inner = onnx.helper.make_node("Relu", ["funi"], ["funo"])
    function = onnx.helper.make_function(
        "doma", "func", ["funi"], ["funo"], [inner], imports[:1], ["attr"]
    )
    call = onnx.helper.make_node("func", ["inpu"], ["outp"], domain="doma", name="node")
    infos = [onnx.helper.make_tensor_value_info(name, 1, ["dimp"]) for name in ("inpu", "outp")]
    call.doc_string, infos[0].doc_string, function.doc_string = "ndoc", "idoc", "fdoc"
    graph = onnx.helper.make_graph([call], "grap", infos[:1], infos[1:], doc_string="gdoc")
    return onnx.helper.make_model(
        graph, opset_imports=imports, functions=[function], ir_version=10, producer_name="prod",
        producer_version="pver", domain="mdom", doc_string="mdoc",
    )  # fmt: skip


TEXTS = (
    *("doma", "func", "funi", "funo", "attr", "inpu", "outp", "node", "dimp", "grap"),
    *("gdoc", "ndoc", "idoc", "fdoc", "prod", "pver", "mdom", "mdoc"),
)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("text", TEXTS)
def test_a_text_that_is_not_utf8_is_an_error_or_unread(text: str, dynamic: bool):
    content = _model_of_texts().SerializeToString()
    letters = text.encode()
    places = [match.start() for match in re.finditer(letters, content)]
    assert places
    for start in places:
        damaged = content[:start] + b"\xff" + content[start + 1 :]
        with suppress(ModelError):
            compiler.compile(damaged, input_shapes={} if dynamic else {"inpu": [2]})
