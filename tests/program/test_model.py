"""Models whose shapes only a run decides, against onnxruntime."""

import logging
import pickle
from types import MappingProxyType

import numpy as np
import onnx
import pytest
from onnx.numpy_helper import from_array

import compiler
from compiler.artifact.module import Module
from compiler.errors import InputDataError, OpenShapeError, ShapeError, UnsupportedOperatorError
from compiler.program.model import DynamicModule
from compiler.program.request import SegmentRequest
from compiler.program.segment import SegmentSource
from compiler.schedule.symbolic import EXTENTS
from tests.program.checks import HEADER, check, compiled, model_of, reference

BATCH = """g (float[n, 16] x) => (float[n, 4] y) {
    m = MatMul(x, w)
    s = Add(m, b)
    y = Softmax<axis = -1>(s)
}"""


def batch_model() -> onnx.ModelProto:
    """A linear layer and a softmax for any batch."""
    model = onnx.parser.parse_model(f"{HEADER}\n{BATCH}")
    generator = np.random.default_rng(0)
    weights = {"w": (16, 4), "b": (4,)}
    for name, shape in weights.items():
        array = generator.standard_normal(shape).astype("f4")
        model.graph.initializer.append(from_array(array, name))
    return model


def test_a_static_model_is_one_schedule():
    assert isinstance(compiler.compile(batch_model(), input_shapes={"x": [2, 16]}), Module)


def test_a_batch_that_varies_is_compiled_once_for_all_sizes(caplog: pytest.LogCaptureFixture):
    model = batch_model()
    module = compiler.compile(model)
    assert isinstance(module, DynamicModule)
    assert [(i.name, i.dtype, i.shape) for i in module.inputs] == [("x", "float32", ("n", 16))]
    with caplog.at_level(logging.WARNING, "compiler.program"):
        for size in (30, 50, 30, 10):
            check(module, model, {"x": np.random.randn(size, 16).astype("f4")})
    compilations = [record.getMessage() for record in caplog.records]
    assert len(compilations) == 1
    assert "x float32[30, 16] for all sizes of n in " in compilations[0]


def test_specialisations_share_weights():
    module = compiled_batch()
    for size in (30, 50):
        module.run({"x": np.zeros((size, 16), "f4")})
    first, second = (
        {id(array) for name, array in one.weights.items() if not name.startswith(EXTENTS)}
        for one in module.compiler.modules.values()
    )
    assert first
    assert first == second


def test_specialisations_share_one_arena():
    text = """g (float[n, 8] x) => (float[n, n] y)
        { t = Transpose(x)  p = MatMul(x, t)  s = Softmax(p)  y = MatMul(s, p) }"""
    module, model = compiled(text), model_of(text)
    for size in (60, 20, 60, 40):
        check(module, model, {"x": np.random.randn(size, 8).astype("f4")})
    arenas = [m.memory.arena for m in module.compiler.modules.values()]
    assert len(arenas) == 3
    assert module.memory.arena == max(arenas) > min(arenas) > 0
    assert module.compiler.options["arenas"].idle_bytes == max(arenas)


def test_modules_of_dropped_specialisations_are_released():
    module = compiled_batch()
    few = DynamicModule(module._model, module.compiler, most=2)  # pyright: ignore[reportPrivateUsage]
    for size in (30, 50, 70, 30):
        few.run({"x": np.zeros((size, 16), "f4")})
    assert [m.inputs[0].shape[0] for m in few.compiler.modules.values()] == [70, 30]


def compiled_batch() -> DynamicModule:
    module = compiler.compile(batch_model())
    assert isinstance(module, DynamicModule)
    return module


def test_run_time_shapes_can_be_refused():
    with pytest.raises(OpenShapeError, match="leaves dimension 0 \\('n'\\) open"):
        compiler.compile(batch_model(), dynamic=False)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({}, "the input 'x' is missing"),
        ({"x": np.zeros((2, 16)), "z": np.zeros(1)}, "no input 'z'; its inputs are x"),
        ({"x": np.zeros((2, 16))}, "the input x float32\\[n, 16\\] was given float64\\[2, 16\\]"),
        ({"x": np.zeros((2, 3), "f4")}, "dimension 1 of the input x .* was given the size 3"),
        ({"x": np.zeros(16, "f4")}, "was given the shape \\[16\\]"),
    ],
)
def test_inputs_that_do_not_fit_are_refused(inputs: dict[str, np.ndarray], message: str):
    with pytest.raises(ShapeError, match=message):
        compiled_batch().run(inputs)


def test_inputs_are_checked_after_runs_with_others():
    module, x = compiled_batch(), np.ones((2, 16), "f4")
    expected = module.run({"x": x})["y"]
    np.testing.assert_array_equal(module.run(MappingProxyType({"x": x}))["y"], expected)
    for wrong in ({}, {"x": x, "z": x}, {"z": x}, {"x": x.astype("f8")}, {"x": x.tolist()}):
        with pytest.raises(ShapeError, match="input"):
            module.run(wrong)
    masked = np.ma.masked_array(x, mask=x > 0)
    np.testing.assert_array_equal(module.run({"x": masked})["y"], expected)


def test_a_symbol_has_one_size_in_a_run_and_unnamed_dimensions_any():
    text = "g (float[n] x, float[n] y, float[?] z) => (float[n] a, float[?] b) {\n"
    module = compiled(text + "a = Add(x, y)\nb = Neg(z)\n}")
    x, z = np.ones(100, "f4"), np.ones(70, "f4")
    np.testing.assert_array_equal(module.run({"x": x, "y": x, "z": z})["a"], x + x)
    assert module.run({"z": z, "x": z, "y": z})["a"].shape == (70,)
    with pytest.raises(ShapeError, match="'n' is 70 in input 'y' and 100 in 'x'"):
        module.run({"x": x, "y": z, "z": z})


@pytest.mark.parametrize("name", ["?", "None", "-1", "unknown", " Dynamic "])
def test_what_exporters_write_for_unknown_dimensions_is_no_symbol(name: str):
    x = onnx.helper.make_tensor_value_info("x", 1, (1, name, name))
    z = onnx.helper.make_tensor_value_info("z", 1, (name,))
    outputs = [onnx.helper.make_tensor_value_info(n, 1, None) for n in ("y", "w")]
    nodes = [onnx.helper.make_node("Relu", [i], [o]) for i, o in (("x", "y"), ("z", "w"))]
    module = compiler.compile(
        onnx.helper.make_model(onnx.helper.make_graph(nodes, "g", [x, z], outputs))
    )
    assert [i.shape for i in module.inputs] == [(1, None, None), (None,)]
    found = module.run({"x": np.ones((1, 4, 5), "f4"), "z": np.ones(6, "f4")})
    assert found["y"].shape == (1, 4, 5)
    assert found["w"].shape == (6,)


SHAPE_INPUTS = """g (float[a, b] x, int64[2] shape, int64[1] k, int64[1] start)
    => (float[c, d] y, float[c, e] values, int64[c, e] indices, float[c, f] rest) {
    y = Reshape(x, shape)
    wide = Relu(y)
    values, indices = TopK(wide, k)
    one = Constant<value_ints = [1]>()
    end = Constant<value_ints = [9223372036854775807]>()
    rest = Slice(wide, start, end, one)
}"""


def test_shapes_come_as_inputs():
    module, model = compiled(SHAPE_INPUTS), model_of(SHAPE_INPUTS)
    x = np.random.default_rng(0).permutation(240).astype("f4").reshape(12, 20) - 100
    for shape, k, start in (([10, 24], 3, 2), ([6, 40], 7, -5), ([10, 24], 3, 2)):
        inputs = {"shape": np.array(shape), "k": np.array([k]), "start": np.array([start])}
        check(module, model, {"x": x, **inputs})
    assert not module.on_host


def test_contents_that_change_in_every_run_end_on_the_host():
    module, model = compiled(SHAPE_INPUTS), model_of(SHAPE_INPUTS)
    x = np.random.default_rng(0).permutation(240).astype("f4").reshape(12, 20) - 100
    sizes = np.array([10, 24])
    for start in range(12):
        given = {"shape": sizes, "k": np.array([start + 1]), "start": np.array([start])}
        check(module, model, {"x": x, **given})
    assert "contents on which shapes depend change" in module.summary()


DATA = """g (float[n, 32] x) => (int64[2, m] where, float[m] found, float[n, 32] y, float[r] kept) {
    r = Relu(x)
    where = NonZero(r)
    pairs = Transpose<perm = [1, 0]>(where)
    found = GatherND(r, pairs)
    sums = ReduceSum<keepdims = 0>(r, axes)
    big = Greater(sums, limit)
    kept = Compress<axis = 0>(sums, big)
    y = Mul(r, x)
    axes = Constant<value_ints = [1]>()
    limit = Constant<value_float = 12.0>()
}"""


def ordered(text: str) -> str:
    """A graph's text with its constants first."""
    head, *lines, tail = text.splitlines()
    lines.sort(key=lambda line: "= Constant" not in line)
    return "\n".join([head, *lines, tail])


@pytest.mark.parametrize("size", [1, 7])
def test_shapes_depend_on_data(size: int):
    text = ordered(DATA)
    module = compiled(text)
    generator = np.random.default_rng(size)
    for _ in range(2):
        inputs = {"x": generator.standard_normal((size, 32)).astype("f4")}
        check(module, model_of(text), inputs)
    assert {label.split()[0] for label in module.on_host} == {"NonZero", "Compress"}


@pytest.mark.parametrize("value", ["", "<value = int64[1] {7}>"])
def test_the_shape_of_a_constant_depends_on_data(value: str):
    dtype = "int64" if value else "float"
    text = f"""g (bool[n, 5] x) => (int64[2, m] where, {dtype}[m] made) {{
        where = NonZero(x)
        largest = ReduceMax<keepdims = 0>(where)
        one = Constant<value_ints = [1]>()
        shape = Reshape(largest, one)
        made = ConstantOfShape{value}(shape)
    }}"""
    module = compiled(text)
    for seed in range(2):
        x = np.random.default_rng(seed).random((4, 5)) < 0.5
        check(module, model_of(text), {"x": x})
    assert "ConstantOfShape" in module.summary()


def test_outputs_are_the_callers():
    text = "g (float[n] x) => (float[n] y, int64[1] s) {\ny = Identity(x)\ns = Shape(x)\n}"
    module = compiled(text)
    x = np.ones(4, "f4")
    first = module.run({"x": x})
    first["y"][0] = 5
    first["s"][0] = 5
    assert x[0] == 1
    assert module.run({"x": x})["s"].tolist() == [4]


def test_constants_may_be_outputs():
    text = "g (float[n] x) => (float[n] y, int64[2] c) <int64[2] c = {1, 2}> { y = Neg(x) }"
    module, model = compiled(text), model_of(text)
    for _ in range(2):
        check(module, model, {"x": np.ones(40, "f4")})


def test_a_host_node_that_does_not_fit_its_inputs_is_named():
    module = compiled(
        "g (float[n] x, bool[m] c) => (float[k] y) {\ny = Compress<axis = 3>(x, c)\n}"
    )
    with pytest.raises(InputDataError, match="Compress 'y' does not fit its inputs \\(c: bool"):
        module.run({"x": np.ones(4, "f4"), "c": np.ones(4, bool)})


@pytest.mark.parametrize("axis", ["", "<axis = 0>", "<axis = -1>"])
@pytest.mark.parametrize("shape", [(2, 2), (1, 5)])
def test_a_condition_of_any_rank_counts_as_flat(axis: str, shape: tuple[int, ...]):
    kept, sizes = "k, 4" if "0" in axis else "3, k", ", ".join(map(str, shape))
    kept = kept if axis else "k"
    head = f"g (float[3, 4] x, bool[{sizes}] c) => (float[{kept}] y)"
    model = model_of(f"{head} {{\ny = Compress{axis}(x, c)\n}}")
    generator = np.random.default_rng(3)
    x = generator.standard_normal((3, 4)).astype("f4")
    condition = generator.integers(0, 2, shape) > 0
    module = compiler.compile(model)
    assert isinstance(module, DynamicModule)
    check(module, model, {"x": x, "c": condition})


def test_unknown_operators_are_refused_when_compiled():
    text = f'{HEADER[:-1].replace("]", ", ")}"own": 1]>\n'
    model = onnx.parser.parse_model(
        f"{text}g (float[n] x) => (float[n] y, float[m] z) "
        "{\ny = own.Frobnicate(x)\nz = Relu(y)\n}"
    )
    with pytest.raises(UnsupportedOperatorError, match=r"domain 'own' .* register own::Frobnicate"):
        compiler.compile(model)


@pytest.mark.parametrize("opset", [21, 18])
def test_functions_of_the_model_are_inlined(opset: int):
    model = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["": 21, "own": 1]>\n'
        "g (float[n] x) => (int64[1, m] y) {\ny = own.Positive(x)\n}\n"
        f'<domain: "own", opset_import: ["": {opset}]>\n'
        "Positive (a) => (b) {\nr = Relu(a)\nb = NonZero(r)\n}"
    )
    module = compiler.compile(model)
    x = np.random.default_rng(0).standard_normal(100).astype("f4")
    np.testing.assert_array_equal(module.run({"x": x})["y"], np.array(np.nonzero(x > 0)))


def test_static_segments_are_compiled_before_the_first_run(caplog: pytest.LogCaptureFixture):
    text = ordered(DATA).replace("float[n, 32]", "float[7, 32]")
    with caplog.at_level(logging.WARNING, "compiler.program"):
        module = compiled(text)
        check(module, model_of(text), {"x": np.random.default_rng(0).random((7, 32), "f4")})
        assert len(caplog.records) == 1
    assert not module.on_host


def test_a_shape_that_is_an_input_waits_for_its_content():
    module = compiled(SHAPE_INPUTS.replace("float[a, b] x", "float[12, 20] x"))
    assert not module.build_seconds
    assert not module.on_host


@pytest.mark.parametrize(
    ("kind", "numbers"),
    [
        (
            "float",
            np.array([1 / 3, 1e5, 1e-5, 123456789, -0.0, np.inf, -np.inf, np.nan, 1e20], "float32"),
        ),
        ("double", np.array([1 / 3, 1e5, np.nan, 1e300], "float64")),
        ("float16", np.array([0.1, 100, np.inf], "float16")),
        ("int8", np.array([-128, 0, 7], "int8")),
        ("uint64", np.array([0, 2**64 - 1], "uint64")),
        ("bool", np.array([True, False])),
    ],
)
def test_numbers_become_strings_as_in_onnxruntime(kind: str, numbers: np.ndarray):
    model = model_of(f"g ({kind}[n] x) => (string[n] y) {{ y = Cast<to=8>(x) }}")
    expected = reference(model, {"x": numbers})["y"]
    assert compiler.compile(model).run({"x": numbers})["y"].tolist() == list(expected)


def test_a_map_over_a_sequence_may_capture_values():
    text = """g (seq(float[n]) s, float[1] w, float[1] b) => (seq(float[n]) y, seq(int64[1]) z) {
        v = Neg(w)
        y, z = SequenceMap(s, b) <
            body = each (float[n] e, float[1] f) => (float[n] r, int64[1] t) {
                a = Add(e, v) r = Mul(a, f) t = Shape(e)
            }
        >
    }"""
    module, one = compiled(text), np.ones(1, np.float32)
    for sizes in ((3, 2), ()):
        rows = [np.arange(size, dtype=np.float32) for size in sizes]
        check(module, model_of(text), {"s": rows, "w": one * 2, "b": one * 3})


def test_strings_run_on_the_host():
    text = "g (string[3] x, string[3] y) => (string[3] z) { z = StringConcat(x, y) }"
    module = compiled(text)
    x = np.array(["a", "b", "c"])
    assert module.run({"x": x, "y": x})["z"].tolist() == ["aa", "bb", "cc"]


def test_a_program_runs_on_an_emulated_gpu():
    text = ordered(DATA)
    module, model = compiled(text, target="emu"), model_of(text)
    inputs = {"x": np.random.default_rng(0).standard_normal((5, 32)).astype("f4")}
    check(module, model, inputs)


def test_inputs_on_a_device_are_refused():
    class OnDevice:
        def __dlpack__(self, **_: object) -> object:
            raise BufferError("the array is on a device")

        def __dlpack_device__(self) -> tuple[int, int]:
            return 2, 0

    with pytest.raises(ShapeError, match="the input 'x' cannot be read"):
        compiled_batch().run({"x": OnDevice()})


def test_a_copy_compiles_nothing_again(caplog: pytest.LogCaptureFixture):
    module = compiled(ordered(DATA))
    inputs = {"x": np.random.default_rng(0).standard_normal((7, 32)).astype("f4")}
    expected = module.run(inputs)
    copied = pickle.loads(pickle.dumps(module))
    caplog.clear()
    found = copied.run(inputs)
    assert not caplog.records
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array)


def test_messages_list_some_of_many_inputs():
    source = SegmentSource("g.0", "", {}, (), (), frozenset(), {})
    inputs = {f"x{i}": np.zeros(i, np.float32) for i in range(9)}
    few = {name: inputs[name] for name in [*inputs][:7]}
    shown = [str(SegmentRequest(source, given, frozenset())) for given in (few, inputs)]
    assert shown[0].endswith("x5 float32[5], x6 float32[6]")
    assert shown[1].endswith("x5 float32[5], 3 more")


def test_a_scale_that_a_run_gives_is_that_of_moved_integers():
    """The scale is reshaped for the integers alone, which nothing else reads."""
    text = """g (float s, float[n] x) => (float[n] w, float[7] y)
        <int8[7] c = {1, 7, -3, -2, -3, 3, 3}, int8 z = {14}>
        { w = Tanh(x) d = DequantizeLinear(c, s, z) y = Hardmax(d) }"""
    inputs = {"s": np.array(0.5, "f4"), "x": np.ones(100, "f4")}
    check(compiled(text), model_of(text), inputs)
