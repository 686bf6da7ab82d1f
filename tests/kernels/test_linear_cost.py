"""Kernels grow with the number of operators, whatever is used twice."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
import tvm_ffi
from onnx import TensorProto, helper, numpy_helper, parser
from onnx.helper import tensor_dtype_to_np_dtype
from tvm import te, tirx
from tvm.ir import Expr

import compiler
from compiler.frontend.importing import import_model
from compiler.ir.edit import graphs_of
from compiler.kernels.building import kernel as kernel  # registers the lowerings
from compiler.kernels.building.cuda_kernel import generate
from compiler.kernels.cpu.codegen import llvm_text
from compiler.kernels.cpu.generic import schedule_cpu
from compiler.kernels.group import Group, Node, TensorInfo, extract_group
from compiler.kernels.tir.expand import expand
from compiler.kernels.tir.function import generic_function
from compiler.kernels.tir.launches import launch_module, lower_function, split_launches
from compiler.kernels.tir.narrow import widened
from compiler.passes.pipeline import parse
from compiler.passes.runner import Runner
from compiler.target.target import parse_cpu, parse_gpu

KINDS = "Relu LeakyRelu Elu Selu Celu Gelu HardSwish Mish Softplus Softsign ThresholdedRelu".split()


def recurrence(kind: str, steps: int, dtype: str = "float32", last: str = "") -> Group:
    """x = kind(x + first) some times, each step using the value before once and the input again."""
    info = TensorInfo(dtype, (4, 32))
    operators: list[Node[int]] = []
    for step in range(steps):
        operators.append(Node("Add", {}, (2 * step, 0), (2 * step + 1,)))
        operators.append(Node(kind, {}, (2 * step + 1,), (2 * step + 2,)))
    if last:
        operators.append(Node(last, {}, (2 * steps,), (2 * steps + 1,)))
    values = (info,) * (len(operators) + 1)
    return Group("chain", values, 1, (False,), {}, tuple(operators), (len(operators),))


def nodes(group: Group) -> int:
    """The expressions in what a group computes before it is scheduled."""
    found: list[Expr] = []
    tvm_ffi.structural_walk(generic_function(group).body, (Expr, found.append), order="pre")
    return len(found)


def cpu_text(group: Group) -> int:
    """The size of a group's LLVM code as TVM writes it."""
    target = parse_cpu("cpu")
    function = schedule_cpu(group, target).function
    assert function is not None
    lowered = lower_function(function, group.name)
    return len(llvm_text(launch_module(split_launches(lowered, group.name)[0]), target))


def cuda_text(group: Group) -> int:
    """The size of a group's CUDA code."""
    return len(generate(group, parse_gpu("cuda:sm_90")).text)


def grows_linearly(size: Callable[[int], int], steps: int) -> bool:
    """Whether the second half of a chain costs no more than a bit above the first."""
    first, second, third = (size(count) for count in (steps, 2 * steps, 3 * steps))
    return third - second <= 1.1 * (second - first) + 128


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_computed_grows_linearly(kind: str):
    assert grows_linearly(lambda steps: nodes(recurrence(kind, steps)), 8)


def test_prologues_of_reductions_grow_linearly():
    assert grows_linearly(lambda steps: nodes(recurrence("Relu", steps, last="Softmax")), 8)


@pytest.mark.parametrize("dtype", "float32 float16 bfloat16 int32 int8 int64".split())
def test_code_grows_linearly(dtype: str):
    assert grows_linearly(lambda steps: cpu_text(recurrence("Relu", steps, dtype)), 6)
    assert grows_linearly(lambda steps: cuda_text(recurrence("Relu", steps, dtype)), 18)


def test_large_webs_grow_linearly_on_cuda():
    assert grows_linearly(lambda steps: cuda_text(recurrence("Relu", steps)), 17)


def test_an_element_that_two_branches_need_is_computed_in_each():
    x = te.placeholder((8,), "float32", name="x")

    def twice(i: Expr) -> Expr:
        return x(i) * x(i) + x(i)

    inner = te.compute((8,), twice, name="inner")
    i = te.var("i")
    both = [inner(i) * inner(i), inner(i) + inner(i)]
    choice = tirx.if_then_else(i < 4, *both)
    code = expand([choice], lambda t, at: t(*at) if t.same_as(x) else None)
    assert not code.steps  # neither may run where the other does
    assert str(code.results[0]).count("once") == 2
    code = expand([choice * inner(i)], lambda t, at: t(*at) if t.same_as(x) else None)
    assert len(code.steps) == 1  # it is needed in any case


def residual_recurrence(steps: int, element_type: int, computed: int) -> onnx.ModelProto:
    """y = max(y + x, 0) some times from y = x, of x cast to another type."""
    names = ["c", *(f"t{i}" for i in range(2 * steps - 1)), "y"]
    made = [helper.make_node("Cast", ["x"], ["c"], to=computed)]
    for i in range(steps):
        made.append(helper.make_node("Add", [names[2 * i], "c"], [names[2 * i + 1]]))
        made.append(helper.make_node("Relu", [names[2 * i + 1]], [names[2 * i + 2]]))
    x = helper.make_tensor_value_info("x", element_type, [64])
    y = helper.make_tensor_value_info("y", computed, [64])
    return helper.make_model(helper.make_graph(made, "g", [x], [y]), ir_version=10)


def check_recurrence(steps: int, element_type: int, computed: int, target: str = "cpu") -> None:
    """Compile and run a recurrence of small integers, which are exact in every type."""
    model = residual_recurrence(steps, element_type, computed)
    dtypes = [tensor_dtype_to_np_dtype(kind) for kind in (element_type, computed)]
    values = np.random.default_rng().integers(-3, 4, 64).astype(dtypes[0])
    found = compiler.compile(model, target=target).run({"x": values})["y"]
    assert found.dtype == dtypes[1]
    expected = np.maximum(values.astype(np.float64), 0) * (steps + 1)
    np.testing.assert_array_equal(found.astype(np.float64), expected)


def test_a_residual_recurrence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FLOWLOOM_CACHE", str(tmp_path))
    check_recurrence(200, TensorProto.FLOAT, TensorProto.FLOAT)


@pytest.mark.parametrize("target", ["cpu", "emu"])
@pytest.mark.parametrize("narrow", ["FLOAT16", "BFLOAT16"])
def test_a_recurrence_of_narrow_floats(narrow: str, target: str):
    number = TensorProto.DataType.Value(narrow)
    check_recurrence(32, number, number, target)
    check_recurrence(3, number, TensorProto.FLOAT, target)
    check_recurrence(3, TensorProto.FLOAT, number, target)


def test_choices_of_narrow_floats_are_widened():
    x = te.placeholder((8,), dtype="bfloat16", name="x")
    i = te.var("i")
    zero = tirx.const(0, "bfloat16")
    halved = tirx.if_then_else(i < 4, x(i), zero) * tirx.Select(i < 2, x(i), zero)
    wide = widened(halved)
    assert str(wide.ty.dtype) == "float32"
    text = str(wide)
    assert text.count("reinterpret") == 4
    assert 'Cast("bfloat16"' not in text


def concat(count: int) -> Group:
    """A concat of many tensors."""
    part, whole = TensorInfo("float32", (2, 1)), TensorInfo("float32", (2, count))
    operator = Node("Concat", {"axis": 1}, tuple(range(count)), (count,))
    values = (*(part,) * count, whole)
    return Group("concat", values, count, (False,) * count, {}, (operator,), (count,))


def test_a_concat_of_a_thousand_inputs_has_an_expression():
    assert nodes(concat(1000)) < 11 * nodes(concat(100))


STEP = """
    n{i} = LayerNormalization (x{i}, scale, bias)
    m{i} = MatMul (n{i}, w)
    f{i} = Gelu (m{i})
    x{next} = Add (x{i}, f{i})
"""


def kernels_of(steps: int) -> list[str]:
    """The kernel of each task of x = x + gelu(normalised(x) w) some times."""
    body = "".join(STEP.format(i=i, next=i + 1) for i in range(steps))
    model = parser.parse_model(
        f"""<ir_version: 10, opset_import: ["" : 20]>
        g (float[4,32] x0) => (float[4,32] x{steps})
        <float[32] scale, float[32] bias, float[32,32] w>
        {{ {body} }}"""
    )
    for name, shape in (("scale", (32,)), ("bias", (32,)), ("w", (32, 32))):
        model.graph.initializer.append(numpy_helper.from_array(np.ones(shape, np.float32), name))
    module = import_model(model).module
    Runner().run(module, parse("fuse-operators"))
    groups = [group for graph in graphs_of(module) for group in graph.groups]
    return [group.kernel.data for group in groups if group.kernel is not None]


def test_steps_of_a_residual_network_share_their_kernels():
    few, many = kernels_of(10), kernels_of(40)
    assert len(few) == 20
    assert len(many) == 80
    assert len(set(many)) == len(set(few)) == 2


def look_up(steps: int, kind: str) -> Group:
    """An element at an index from data: a chain of operators that read the value before twice."""
    info = TensorInfo("int64", (8,))
    operators: list[Node[int]] = []
    for step in range(steps):
        twice = (step + 1, 0) if kind == "Mod" else (step + 1, step + 1)
        operators.append(Node(kind, {}, twice, (step + 2,)))
    operators.append(Node("Gather", {}, (0, steps + 1), (steps + 2,)))
    values = (info,) * (steps + 3)
    return Group("chain", values, 2, (False,) * 2, {}, tuple(operators), (steps + 2,))


@pytest.mark.parametrize("kind", ["Add", "Mul", "Mod"])
def test_the_index_of_a_look_up_grows_linearly(kind: str):
    assert grows_linearly(lambda steps: nodes(look_up(steps, kind)), 2)


@pytest.mark.parametrize("kind", ["Mul", "Mod"])
def test_code_of_the_index_of_a_look_up_grows_linearly(kind: str):
    assert grows_linearly(lambda steps: cpu_text(look_up(steps, kind)), 2)
    assert grows_linearly(lambda steps: cuda_text(look_up(steps, kind)), 2)


def look_ups(steps: int) -> Group:
    """Elements at an index that is computed by looking up: t[t[t[...] + i] + i]."""
    info = TensorInfo("int64", (8,))
    operators: list[Node[int]] = []
    for step in range(steps):
        operators.append(Node("Add", {}, (1, 2 * step + 1), (2 * step + 2,)))
        operators.append(Node("Gather", {}, (0, 2 * step + 2), (2 * step + 3,)))
    values, last = (info,) * (2 * steps + 2), 2 * steps + 1
    return Group("chain", values, 2, (False,) * 2, {}, tuple(operators), (last,))


def test_look_ups_at_looked_up_indices_grow_linearly():
    assert grows_linearly(lambda steps: nodes(look_ups(steps)), 3)


BISECTION = """
    s{i} = Add (lo{i}, hi{i})
    d{i} = Div (s{i}, two)
    r{i} = Mod (s{i}, two)
    q{i} = Cast <to = 9> (r{i})
    n{i} = Less (s{i}, zero)
    a{i} = And (n{i}, q{i})
    k{i} = Cast <to = 7> (a{i})
    m{i} = Sub (d{i}, k{i})
    u{i} = Unsqueeze (m{i}, last)
    g{i} = GatherND (b, u{i})
    c{i} = GreaterOrEqual (g{i}, x)
    p{i} = Add (m{i}, one)
    lo{next} = Where (c{i}, lo{i}, p{i})
    hi{next} = Where (c{i}, m{i}, hi{i})
"""


def bisection(steps: int) -> onnx.ModelProto:
    """A binary search of b for x between lo0 and hi0, as `torch.searchsorted` is exported."""
    body = "".join(BISECTION.format(i=i, next=i + 1) for i in range(steps))
    return parser.parse_model(
        f"""<ir_version: 10, opset_import: ["" : 20]>
        g (float[4,3] x, float[15] b, int64[4,3] lo0, int64[4,3] hi0) => (int64[4,3] lo{steps})
        <int64 two = {{2}}, int64 one = {{1}}, int64 zero = {{0}}, int64[1] last = {{-1}}>
        {{ {body} }}"""
    )


def kernel_groups(model: onnx.ModelProto, pipeline: str) -> list[Group]:
    """The groups of a model after some passes."""
    module = import_model(model).module
    Runner().run(module, parse(pipeline))
    return [extract_group(group) for graph in graphs_of(module) for group in graph.groups]


@pytest.mark.parametrize("options", ["", "{allow-longer-path=true max-ops=128}"])
def test_a_written_out_binary_search_grows_linearly(options: str):
    passes = f"canonicalize,fuse-gathers,fuse-operators{options}"

    def size(steps: int) -> int:
        return sum(map(nodes, kernel_groups(bisection(steps), passes)))

    assert grows_linearly(size, 2)


def many_look_ups(steps: int) -> onnx.ModelProto:
    """The largest of elements and their indices, each of which follows from the one before."""
    body = "".join(
        f"""a{i} = Mul (i{i}, three)
        i{i + 1} = Mod (a{i}, three)
        g{i} = GatherElements (t, i{i + 1})
        b{i} = Add (g{i}, i{i + 1})
        y{i + 1} = Max (y{i}, b{i})
        """
        for i in range(steps)
    )
    return parser.parse_model(
        f"""<ir_version: 10, opset_import: ["" : 20]>
        g (int64[8] i0, int64[8] t, int64[8] y0) => (int64[8] y{steps})
        <int64 three = {{3}}> {{ {body} }}"""
    )


def test_a_kernel_of_many_look_ups_grows_linearly():
    def size(steps: int) -> int:
        groups = kernel_groups(many_look_ups(steps), "fuse-operators{max-ops=128}")
        return sum(map(nodes, groups))

    assert grows_linearly(size, 8)


@pytest.mark.parametrize("target", ["cpu", "emu"])
def test_a_written_out_binary_search_finds(target: str):
    random = np.random.default_rng(3)
    x, b = random.standard_normal((4, 3)), np.sort(random.standard_normal(15))
    inputs = {"x": x.astype("float32"), "b": b.astype("float32")}
    inputs |= {"lo0": np.zeros((4, 3), np.int64), "hi0": np.full((4, 3), 15)}
    found = compiler.compile(bisection(4), target=target).run(inputs)["lo4"]
    np.testing.assert_array_equal(found, np.searchsorted(inputs["b"], inputs["x"]))


@pytest.mark.parametrize("target", ["cpu", "emu"])
def test_a_tensor_that_is_computed_is_read_at_an_index_that_is_computed(target: str):
    model = parser.parse_model(
        """<ir_version: 10, opset_import: ["" : 20]>
        g (int64[4,6] i, float[6,8] x, float[6,8] y) => (float[4,6,8] z) <int64 one = {1}>
        { m = Sub (i, one) n = Sub (m, one) s = Add (x, y) d = Mul (s, x) z = Gather (d, n) }"""
    )
    random = np.random.default_rng(4)
    x, y = (random.integers(-8, 9, (6, 8)).astype("float32") for _ in range(2))
    i = random.integers(0, 6, (4, 6))
    found = compiler.compile(model, target=target).run({"i": i, "x": x, "y": y})["z"]
    np.testing.assert_array_equal(found, ((x + y) * x)[i - 2])


def selections(steps: int) -> onnx.ModelProto:
    """Elements that are taken from another place or stay, some times."""
    body = "".join(
        f"m{i} = GatherElements (x{i}, at) x{i + 1} = Where (c, m{i}, x{i}) " for i in range(steps)
    )
    return parser.parse_model(
        f"""<ir_version: 10, opset_import: ["" : 20]>
        g (int64[8] x0, int64[8] at, bool[8] c) => (int64[8] x{steps}) {{ {body} }}"""
    )


def test_selections_from_selections_grow_linearly():
    def size(steps: int) -> int:
        groups = kernel_groups(selections(steps), "fuse-operators{max-ops=128}")
        return sum(map(nodes, groups))

    assert grows_linearly(size, 1)
