"""Nodes that do not fit their inputs are an error that names them, the shapes and the remedy."""

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import compiler
from compiler.errors import FlowloomError, ModelError, ShapeError
from compiler.frontend.importing import Imported, import_model
from compiler.ir.groups import graph_of
from compiler.ir.types import shape_of
from tests.frontend.checks import parse, run

FLOAT, INT64, UINT8 = TensorProto.FLOAT, TensorProto.INT64, TensorProto.UINT8


def ones(*shape: int) -> np.ndarray:
    """A float32 tensor of ones."""
    return np.ones(shape, np.float32)


def ints(*values: int) -> np.ndarray:
    """A vector of int64."""
    return np.array(values, np.int64)


def zeros(*shape: int) -> np.ndarray:
    """Indices of zeros."""
    return np.zeros(shape, np.int64)


def model(
    op_type: str,
    shape: list[int | str],
    constants: list[np.ndarray | None] | None = None,
    *,
    opset: int = 21,
    outputs: int = 1,
    element: int = FLOAT,
    **attributes: Any,
) -> onnx.ModelProto:
    """One node named `culprit`, of an input `x` and constants `c0`, `c1` and so on."""
    arrays = {f"c{i}": a for i, a in enumerate(constants or []) if a is not None}
    inputs = ["x", *(f"c{i}" if a is not None else "" for i, a in enumerate(constants or []))]
    results = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(op_type, inputs, results, name="culprit")
    for key, value in attributes.items():
        kind = None if value != [] else onnx.AttributeProto.INTS
        node.attribute.append(helper.make_attribute(key, value, attr_type=kind))
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", element, shape)],
        [helper.make_tensor_value_info(name, 0, None) for name in results],
        [numpy_helper.from_array(a, name) for name, a in arrays.items()],
    )
    imports = [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


SHAPES: list[tuple[str, list[int | str], list[np.ndarray | None], dict[str, Any]]] = [
    ("Conv", [1, 4, 8, 8], [ones(2, 3, 1, 1)], {}),
    ("Conv", [1, 4, 8, 8], [ones(4, 1, 1, 1)], {"group": 3}),
    ("Conv", [1, 4, 8, 8], [ones(4, 4, 1, 1)], {"kernel_shape": [3, 3]}),
    ("Conv", [1, 4, 8, 8], [ones(4, 4, 1, 1), ones(3)], {}),
    ("Conv", [1, 1, 4, 4], [np.broadcast_to(np.float32(0), (1, 1 << 16, 1, 1))], {}),
    ("Conv", [1, 1, 4, 4], [ones(1, 1, 5, 5)], {}),
    ("MaxPool", [1, 1, 4, 4], [], {"kernel_shape": [5, 5]}),
    ("RoiAlign", [1, 1, 4, 0], [ones(2, 4), zeros(2)], {}),
    ("ConvTranspose", [1, 4, 8, 8], [ones(3, 4, 1, 1)], {}),
    ("ConvTranspose", [1, 4, 8, 8], [ones(4, 4, 2, 2)], {"output_padding": [0, 1]}),
    (
        "ConvTranspose",
        [1, 4, 8, 8],
        [ones(4, 4, 2, 2)],
        {"output_padding": [1, 2], "strides": [2, 2]},
    ),
    *(
        ("ConvTranspose", [1, 4, 8, 8], [ones(4, 4, 2, 2)], {name: [], **mode})
        for name in ("strides", "dilations", "kernel_shape", "output_padding", "output_shape")
        for mode in ({}, {"auto_pad": "SAME_LOWER"}, {"auto_pad": "VALID"})
    ),
    ("LayerNormalization", [2, 4096], [ones(3)], {}),
    ("LayerNormalization", [2, 3, 4, 5], [ones(5)], {"axis": 7}),
    ("InstanceNormalization", [2, 3, 4, 5], [ones(1), ones(1)], {}),
    ("GroupNormalization", [2, 4, 4, 5], [ones(4), ones(4)], {"num_groups": 3}),
    ("GroupNormalization", [2, 4, 4], [ones(3), ones(3)], {"num_groups": 3, "opset": 18}),
    ("BatchNormalization", [2, 3, 4], [ones(3), ones(3), ones(2), ones(3)], {}),
    ("PRelu", [2, 4], [ones(3)], {}),
    ("Gemm", [2, 4], [ones(4, 3), ones(5, 5)], {}),
    ("Gemm", [2, 4], [ones(4, 3), ones(2)], {}),
    ("Reshape", [2, 3], [ints(2, 2)], {}),
    ("Reshape", [2, 3], [ints(20, 3)], {}),
    ("Reshape", [2, 3], [ints(-1, 5)], {}),
    ("Transpose", [2, 3, 4, 5], [], {"perm": [1, 0]}),
    ("GatherElements", [2, 3], [zeros(4, 4)], {}),
    ("ScatterElements", [2, 3], [zeros(4, 4), ones(4, 4)], {}),
    ("ScatterElements", [2, 3], [zeros(2, 2), ones(1, 2)], {}),
    ("ScatterND", [4, 3], [zeros(2, 1), ones(2, 2)], {}),
    ("DepthToSpace", [1, 10, 2, 2], [], {"blocksize": 3}),
    ("SpaceToDepth", [1, 1, 4, 4], [], {"blocksize": 3}),
    ("LSTM", [3, 2, 4], [ones(1, 12, 4), ones(1, 12, 3)], {"hidden_size": 5}),
    ("GRU", [3, 2, 4], [ones(1, 9, 4), ones(1, 8, 3)], {}),
    ("Pad", [4, 4], [ints(5, 0, 0, 0)], {"mode": "reflect"}),
    ("Split", [4, 4], [ints(5, -1)], {"outputs": 2}),
    ("CumSum", [2, 3], [np.array(7)], {}),
    ("Squeeze", [2, 3], [ints(0)], {}),
    ("TopK", [2, 3], [ints(5)], {"outputs": 2}),
    ("Tile", [2, 3], [ints(1)], {}),
    ("Einsum", [2, 3], [ones(4, 5)], {"equation": "ij,jk->ik"}),
    ("Expand", [2, 3], [ints(4, 4)], {}),
    ("QuantizeLinear", [2, 3], [ones(5)], {}),
    ("DequantizeLinear", [2, 3], [ones(2)], {"axis": 4, "element": UINT8}),
    ("Upsample", [1, 1, 2, 2], [ones(3)], {"opset": 9}),
    ("Relu", [1 << 40], [], {}),
    ("MatMul", [1 << 40, 1], [ones(1, 1)], {}),
    ("Gather", [5], [ints(9)], {}),
    ("GatherElements", [5], [ints(-6)], {}),
    ("GatherND", [5], [ints(5)], {}),
    ("ScatterND", [5], [np.array([[1 << 33]]), ones(1)], {}),
    ("ScatterElements", [5], [ints(5), ones(1)], {}),
    ("ReverseSequence", [4, 2], [ints(1, 99)], {}),
]


@pytest.mark.parametrize(("op_type", "shape", "constants", "options"), SHAPES)
def test_shapes(
    op_type: str,
    shape: list[int | str],
    constants: list[np.ndarray | None],
    options: dict[str, Any],
):
    with pytest.raises(ShapeError) as caught:
        import_model(model(op_type, shape, constants, **options))
    message = str(caught.value)
    assert message.startswith(f"{op_type} 'culprit' does not fit its inputs (x ")
    for given in [tuple(shape), *(a.shape for a in constants if a is not None)]:
        assert f"[{', '.join(map(str, given))}]" in message
    assert message.endswith("correct the model, or export it again")


ATTRIBUTES: list[tuple[str, list[int | str], list[np.ndarray | None], dict[str, Any], str]] = [
    ("Reshape", [2, 3], [ints(-1, -1)], {}, r"\[-1, -1\]"),
    ("Slice", [4, 4], [ints(0, 1), ints(2, 3), ints(0, 0)], {}, "repeat one"),
    ("Resize", [2, 2], [None, ones(2), ints(2, 2)], {}, "both or neither"),
    ("Pad", [4, 4], [ints(1, 0, 0, 0)], {"mode": "wurp"}, "'mode' is 'wurp'; it can be 'constant'"),
    ("Conv", [1, 4, 8], [ones(4, 4, 1)], {"auto_pad": "FOO"}, "'auto_pad' is 'FOO'"),
    ("Conv", [1, 4, 8], [ones(4, 4, 1)], {"group": 0}, "'group' is 0"),
    ("Resize", [2, 2], [None, ones(2)], {"mode": "magic"}, "'mode' is 'magic'"),
    ("LRN", [1, 4, 2, 2], [], {"size": 0}, "'size' is 0"),
    ("Split", [6], [], {"num_outputs": 2, "outputs": 3}, "num_outputs is 2, it has 3 outputs"),
    ("RNN", [3, 2, 4], [ones(1, 3, 4), ones(1, 3, 3)], {"direction": "up"}, "'direction' is 'up'"),
    ("Upsample", [2, 2], [ones(2)], {"mode": 1, "opset": 10}, "'mode' of type INT, not STRING"),
]


@pytest.mark.parametrize(("op_type", "shape", "constants", "options", "match"), ATTRIBUTES)
def test_attributes(
    op_type: str,
    shape: list[int | str],
    constants: list[np.ndarray | None],
    options: dict[str, Any],
    match: str,
):
    with pytest.raises(ModelError, match=f"{op_type} 'culprit' .*{match}"):
        import_model(model(op_type, shape, constants, **options))


@pytest.mark.parametrize(
    ("made", "shapes"),
    [
        (model("Conv", ["N", "C", 8, 8], [ones(2, 3, 1, 1)]), [1, 1, 8, 8]),
        (model("Reshape", ["N", 4], [ints(1, 4)]), [2, 4]),
    ],
)
def test_given_shapes_are_named_as_the_cause(made: onnx.ModelProto, shapes: list[int]):
    with pytest.raises(ShapeError, match=r"given shapes x=.*input_shapes, or --input-shape"):
        import_model(made, {"x": shapes})


def declaring(text: str, element: str, shape: str) -> onnx.ModelProto:
    """A Relu whose output is declared as something."""
    return parse(f"g (float[{text}] x) => ({element}[{shape}] y) {{ [culprit] y = Relu(x) }}")


def test_declared_types():
    with pytest.raises(ModelError, match=r"'culprit'.*declares 'y' as int64.*computed as float32"):
        import_model(declaring("2", "int64", "2"))
    with pytest.raises(ShapeError, match=r"declares 'y' as float32\[3\].*computed as float32\[2\]"):
        import_model(declaring("2", "float", "3"))


def test_declared_types_of_inner_tensors():
    made = parse("g (float[2] x) => (float[2] y) <int64[2] a> { [culprit] a = Relu(x) y = Abs(a) }")
    with pytest.raises(ModelError, match=r"'culprit'.*declares 'a' as int64"):
        import_model(made)


def test_an_output_that_is_an_input_has_its_declared_type():
    made = parse("g (float[2] x) => (float[3] x) { }")
    with pytest.raises(FlowloomError, match=r"'x'.*float32\[3\].*float32\[2\]"):
        import_model(made)


@pytest.mark.parametrize(("shape", "given"), [("batch", [4]), ("?", [4])])
def test_shapes_of_the_exported_batch_do_not_bind_another(shape: str, given: list[int]):
    import_model(declaring(shape, "float", "1"), {"x": given})


def test_element_types_bind_whatever_the_shapes():
    with pytest.raises(ModelError, match="declares 'y' as int64"):
        import_model(declaring("batch", "int64", "batch"), {"x": [4]})


def result_shape(imported: Imported) -> tuple[int, ...]:
    """The shape of a model's only output by the types of its graph."""
    (value,) = graph_of(imported.module).results_yielded
    return shape_of(value.type)


@pytest.mark.parametrize("size", [1, 7, 10, 13, 33])
def test_resize_has_the_sizes_of_onnxruntime(size: int):
    for scale in np.array([0.3, 0.7, 1.1, 2.3, 2.7, 3.3], np.float32):
        if np.float32(size) * scale < 1:
            continue
        text = f"g (float[{size}] x) => (float[?] y) {{ y = Resize(x, , s) }}"
        made = parse(text, s=np.array([scale], np.float32))
        (result,) = run(made, {"x": np.ones(size, np.float32)})
        assert result_shape(import_model(made)) == result.shape


POOLS = ["AveragePool", "MaxPool", "LpPool"]


@pytest.mark.parametrize("op_type", POOLS)
@pytest.mark.parametrize("opset", [18, 22])
def test_what_onnx_writes_after_a_shape_that_it_gets_wrong_does_not_bind(op_type: str, opset: int):
    pool = f"{op_type}<kernel_shape=[2], strides=[3], ceil_mode=1>(x)"
    text = f"g (float[1,2,3] x) => (float[1,2,n] y) {{ p = {pool} y = Relu(p) }}"
    made = onnx.shape_inference.infer_shapes(parse(text, opset))
    written = [d.dim_value for d in made.graph.value_info[0].type.tensor_type.shape.dim]
    assert written == [1, 2, 2 if opset < 22 else 1]
    (result,) = run(made, {"x": np.ones((1, 2, 3), np.float32)})
    imported = import_model(made)
    assert result_shape(imported) == result.shape == (1, 2, 1)
    made.graph.value_info[0].type.tensor_type.elem_type = TensorProto.DOUBLE
    with pytest.raises(ModelError, match="declares 'p' as float64"):
        import_model(made)


SEQUENCES = [
    ("s = SequenceConstruct(x, x) y = SequenceAt(s, p)", ints(2), "position 2 is outside"),
    ("s = SequenceEmpty() y = ConcatFromSequence<axis=0>(s)", ints(0), "no tensors"),
    ("s = SplitToSequence<axis=0>(x, p) y = SequenceAt(s, z)", np.array(0), "parts of 0"),
    ("s = SplitToSequence<axis=0>(x, p) y = SequenceAt(s, z)", ints(1, 1), r"into \[1, 1\]"),
]


@pytest.mark.parametrize(("nodes", "position", "match"), SEQUENCES)
def test_sequences(nodes: str, position: np.ndarray, match: str):
    made = parse(f"g (float[4] x) => (float[?] y) {{ {nodes} }}", p=position, z=np.array(0))
    with pytest.raises(ShapeError, match=match):
        import_model(made)


def loop(trips: np.ndarray, carried: str) -> onnx.ModelProto:
    """A Loop that doubles its carried value."""
    return parse(
        f"""g (float[2] x) => (float[?] y) {{ [culprit] y = Loop(n, c, {carried}) <body = b
        (int64 i, bool t, float[2] v) => (bool k, float[2] w)
        {{ k = Identity(t) w = Add(v, v) }}> }}""",
        n=trips,
        c=np.array(True),
    )


def test_loops():
    import_model(loop(np.array(2), "x"))
    with pytest.raises(ShapeError, match=r"Loop 'culprit'.*trip count has the shape \[2\]"):
        import_model(loop(ints(1, 2), "x"))
    with pytest.raises(ModelError, match=r"Loop 'culprit'.*3 inputs instead of 4"):
        import_model(loop(np.array(2), "x, x"))


SCAN = """g (float[3,2] x, float[4,2] z) => (float[?,?] y) {{
    [culprit] y = Scan<num_scan_inputs={count}, {axes} body = b
    (float[2] u, float[2] v) => (float[2] w) {{ w = Add(u, v) }}>(x, z) }}"""


@pytest.mark.parametrize(
    ("count", "axes", "match"),
    [
        (2, "", r"\[3, 2\] and \[4, 2\], which differ in length"),
        (3, "", "num_scan_inputs is 3, it has 2"),
        (2, "scan_input_axes=[0],", r"scan_input_axes \[0\] are 1 numbers instead of 2"),
        (2, "scan_input_axes=[0,5],", "axis 5 is outside"),
    ],
)
def test_scans(count: int, axes: str, match: str):
    with pytest.raises(FlowloomError, match=f"Scan 'culprit'.*{match}"):
        import_model(parse(SCAN.format(count=count, axes=axes)))


def test_what_a_loop_is_steered_by_and_carries():
    wrong = np.array(2, np.int32), np.array([1.5], np.float32)
    for trips in wrong:
        with pytest.raises(ModelError, match=f"trip count is {trips.dtype}, it must be int64"):
            import_model(loop(trips, "x"))
    conditioned = loop(np.array(2), "x")
    conditioned.graph.initializer[1].CopyFrom(numpy_helper.from_array(np.array([True]), "c"))
    with pytest.raises(ShapeError, match=r"declares 't' as bool\[\].*bool\[1\]"):
        import_model(conditioned)
    with pytest.raises(ModelError, match="a value that it carries is left out"):
        import_model(loop(np.array(2), '""'))


@pytest.mark.parametrize(
    ("condition", "error", "match"),
    [
        (np.array(1.0), ModelError, "condition is float64, it must be bool"),
        (np.array([True, True]), ShapeError, r"condition has the shape \[2\]"),
    ],
)
def test_conditions(condition: np.ndarray, error: type[FlowloomError], match: str):
    branches = "then_branch = t () => (float[2] a) { a = Neg(x) }"
    branches += ", else_branch = e () => (float[2] b) { b = Abs(x) }"
    text = f"g (float[2] x) => (float[2] y) {{ [culprit] y = If(c) <{branches}> }}"
    with pytest.raises(error, match=f"If 'culprit'.*{match}"):
        import_model(parse(text, c=condition))


def scan(state: str, element: str, direction: int) -> onnx.ModelProto:
    """A Scan that adds up the rows of `x`."""
    return parse(
        f"""g (float[3,2] x, float[{state}] s) => (float[?] y) {{ [culprit] y = Scan
        <num_scan_inputs = 1, scan_input_directions = [{direction}], body = b
        (float[?] v, float[{element}] e) => (float[?] w) {{ w = Add(v, e) }}>(s, x) }}"""
    )


def test_what_a_scan_passes_and_carries():
    import_model(scan("2", "2", 1))
    with pytest.raises(ShapeError, match=r"declares 'e' as float32\[3\].*float32\[2\]"):
        import_model(scan("2", "3", 0))
    with pytest.raises(ModelError, match=r"scan_input_directions are \[2\]"):
        import_model(scan("2", "2", 2))
    with pytest.raises(ShapeError, match=r"a state of shape \[1\] on as \[2\]"):
        import_model(scan("1", "2", 0))


def test_sequences_have_one_dtype_and_positions_are_integers():
    made = parse("g (float[2] x) => (float[2] y) { s = SequenceConstruct(x, p) y = Neg(x)"
        " n = SequenceLength(s) z = Cast<to=1>(n) }", p=ints(1))  # fmt: skip
    made.graph.output.add().CopyFrom(helper.make_tensor_value_info("z", FLOAT, []))
    with pytest.raises(ModelError, match="float32 and int64, a sequence has one dtype"):
        import_model(made)
    text = "g (float[2] x) => (float[2] y) { s = SequenceConstruct(x, x) y = SequenceAt(s, p) }"
    with pytest.raises(ModelError, match=r"input 1 is int16; it can be .*int32.*int64"):
        import_model(parse(text, p=np.array(0, np.int16)))


@pytest.mark.parametrize(
    "made",
    [
        "e = SequenceEmpty<dtype=7>()",
        "t = SequenceConstruct(p) e = SequenceErase(t, p)",
    ],
)
def test_a_sequence_without_tensors_has_a_dtype(made: str):
    text = (
        f"g (float[2] x) => (float[2] y) {{ {made} s = SequenceInsert(e, x) y = SequenceAt(s, p) }}"
    )
    with pytest.raises(ModelError, match="float32 and int64, a sequence has one dtype"):
        import_model(parse(text, p=np.array(0)))


def test_functions_get_no_more_inputs_than_they_have():
    made = parse("g (float[2] x) => (float[2] y) { [culprit] y = local.f(x, x) }")
    made.opset_import.append(helper.make_opsetid("local", 1))
    node = helper.make_node("Neg", ["a"], ["b"])
    imports = [helper.make_opsetid("", made.opset_import[0].version)]
    made.functions.append(helper.make_function("local", "f", ["a"], ["b"], [node], imports))
    with pytest.raises(ModelError, match=r"f 'culprit'.*has 2 inputs, the function has 1"):
        import_model(made)
    del made.graph.node[0].input[1]
    import_model(made)


@pytest.mark.parametrize("opset", [7, 8])
@pytest.mark.parametrize("dtype", ["int64", "bool", "int32"])
def test_constants_of_old_opsets_have_any_type(opset: int, dtype: str):
    text = "g (float[2] x) => (float[2] y) { [culprit] y = Cast<to=1>(c) }"
    made = parse(text, opset)
    value = numpy_helper.from_array(np.array([1, 0], dtype))
    made.graph.node.insert(0, helper.make_node("Constant", [], ["c"], value=value))
    (result,) = run(made, {"x": np.ones(2, np.float32)})
    imported = import_model(made)
    assert result_shape(imported) == result.shape


def test_sizes_that_onnx_writes_after_a_resize_do_not_bind():
    text = "g (float[10] x) => (float[?] y) { r = Resize(x, , s) y = Relu(r) }"
    made = onnx.shape_inference.infer_shapes(parse(text, s=np.array([0.7], np.float32)))
    sizes = [[d.dim_value for d in v.type.tensor_type.shape.dim] for v in made.graph.value_info]
    (result,) = run(made, {"x": np.ones(10, np.float32)})
    assert sizes != [list(result.shape)]
    imported = import_model(made)
    assert result_shape(imported) == result.shape
    made.graph.value_info[0].type.tensor_type.elem_type = TensorProto.DOUBLE
    with pytest.raises(ModelError, match="declares 'r' as float64"):
        import_model(made)


def test_inputs_have_types_that_the_operator_takes():
    made = parse("g (float[2] x) => (float[?] y) { [culprit] y = Tile(c, c) }", c=ones(1))
    with pytest.raises(ModelError, match=r"Tile 'culprit'.*input 1 is float32; it can be .*int64"):
        import_model(made)


def test_a_loop_that_is_too_long_is_refused_at_its_first_iteration():
    with pytest.raises(ModelError, match=r"Loop 'culprit' expands to more than.*iterations"):
        import_model(loop(np.array(2**63 - 1), "x"))


NAMED_TYPES: list[tuple[str, dict[str, Any]]] = [
    *(("Cast", {"to": number}) for number in (99, 0, -1)),
    ("BitCast", {"to": 99, "opset": 26}),
    ("QuantizeLinear", {"output_dtype": 99}),
    ("EyeLike", {"dtype": 99}),
    *((name, {"dtype": 99}) for name in ("RandomNormalLike", "Bernoulli", "Multinomial")),
]


@pytest.mark.parametrize("size", [3, "n"])
@pytest.mark.parametrize(("op_type", "attributes"), NAMED_TYPES)
def test_attributes_that_name_no_element_type_are_refused(
    op_type: str, attributes: dict[str, Any], size: int | str
):
    scale = [np.float32(0.5)] if op_type == "QuantizeLinear" else []
    made = model(op_type, [size, 4], [np.array(c) for c in scale], **attributes)
    with pytest.raises(ModelError, match=rf"{op_type} 'culprit': its attribute '(to|.*dtype)' is"):
        compiler.compile(made)


@pytest.mark.parametrize("where", ["input", "output", "value_info"])
def test_declared_types_are_element_types(where: str):
    made = parse("g (float[2] x) => (float[2] y) <float[2] t> { t = Relu(x) y = Relu(t) }")
    info = getattr(made.graph, where)[0]
    info.type.tensor_type.elem_type = 99
    with pytest.raises(ModelError, match=f"the type of '{info.name}' has the number 99"):
        compiler.compile(made)
