"""The imported graph: names, constants, shapes, functions and control flow."""

import gc

import numpy as np
import pytest
from onnx import TensorProto, helper
from xdsl.dialects.builtin import ModuleOp

from compiler.errors import UnsupportedOperatorError
from compiler.frontend.importing import Imported, import_model
from compiler.frontend.importing import model as importer
from compiler.frontend.interpreter import interpret
from compiler.ir.context import parse_module
from compiler.ir.dataflow import ConstantOp, GraphOp, OperatorOp, WeightOp
from compiler.ir.emit import emit
from compiler.net.graph import Graph
from tests.frontend.checks import check, counts, operators, parse, types


def normal(*shape: int) -> np.ndarray:
    """Random float32 numbers."""
    return np.random.default_rng(3).standard_normal(shape).astype(np.float32)


def graph_of(imported: Imported) -> GraphOp:
    """The graph of an imported module."""
    return next(op for op in imported.module.walk() if isinstance(op, GraphOp))


def test_node_names_stay_and_missing_ones_are_unique():
    text = """g (float[2] x) => (float[2] y) {
        [mine] a = Relu(x) b = Exp(a) c = Exp(b) [mine2] d = Abs(c) y = Neg(d) }"""
    names = [op.node_name for op in operators(check(parse(text)))]
    assert names[0] == "mine"
    assert names[3] == "mine2"
    assert all(names)
    assert len(set(names)) == 5


def test_the_text_round_trips():
    text = """g (float[1,2,6,6] x) => (float[1,36] y) {
        c = Conv<pads=[1,1,1,1]>(x, w, b) d = Clip(c, , high) e = Max(d, low)
        y = Reshape(e, s) }"""
    model = parse(
        text,
        w=normal(1, 2, 3, 3),
        b=normal(1),
        high=np.float32(6),
        low=np.float32(-np.inf),
        s=np.array([1, -1]),
    )
    imported = check(model)
    again = parse_module(str(imported.module))
    again.verify()
    assert str(again) == str(imported.module)


def test_constants_are_inline_where_they_are_single():
    model = parse(
        """g (float[2,6] x) => (float[3,4] y) {
            a = Mul(x, one) b = Add(a, row) y = Reshape(b, shape) }""",
        one=np.array([2], np.float32),
        row=normal(6),
        shape=np.array([3, -1]),
    )
    imported = check(model)
    assert list(imported.weights) == ["row"]
    kinds = [type(op) for op in graph_of(imported).body.block.ops]
    assert kinds.count(ConstantOp) == 1
    assert kinds.count(WeightOp) == 1


def test_outputs_may_be_inputs_constants_or_each_other():
    model = parse(
        """g (float[2] x, float[3] unused) => (float[2] a, float[2] b, float[2] c, float[2] d) {
            a = Identity(x) b = Relu(x) c = Identity(b) d = Identity(w) }""",
        w=normal(2),
    )
    graph = graph_of(check(model))
    x, _ = graph.body.block.args
    first, second, third, fourth = graph.results_yielded
    assert first is x
    assert second is third
    assert isinstance(fourth.owner, WeightOp)
    assert [n.data for n in graph.output_names] == ["a", "b", "c", "d"]


def test_shape_chains_become_constants():
    text = """g (float[batch,3,8] x) => (float[batch,24] y) {
        s = Shape(x) zero = Constant<value_int=0>() b = Gather(s, zero)
        axes = Constant<value_ints=[0]>() u = Unsqueeze(b, axes)
        rest = Constant<value_ints=[-1]>() t = Concat<axis=0>(u, rest) y = Reshape(x, t) }"""
    assert types(check(parse(text), {"x": [4, 3, 8]})) == ["Reshape"]


def test_a_mask_from_the_sequence_length_is_folded():
    text = """g (float[1,n] x) => (float[n,n] y) {
        s = Shape<start=1>(x) one = ConstantOfShape<value=float[1]{1.0}>(t)
        z = Squeeze(s) w = Cast<to=7>(z) q = Range(zero, w, step)
        r = Unsqueeze(q, axis) m = Less(q, r) f = Cast<to=1>(m) y = Mul(f, x) }"""
    values = {"zero": np.int64(0), "step": np.int64(1), "axis": np.array([1]), "t": np.array([2])}
    imported = check(parse(text, **values), {"x": [1, 5]})
    assert types(imported) == ["Mul"]


def test_a_large_constant_that_repeats_is_expanded_at_run_time():
    text = """g (float[2048,2048] x) => (float[2048,2048] y) {
        c = ConstantOfShape<value=float[1]{2.0}>(s) e = Expand(row, s)
        a = Add(x, c) y = Add(a, e) }"""
    imported = check(parse(text, s=np.array([2048, 2048]), row=normal(2048)))
    assert sum(w.nbytes for w in imported.weights.values()) < 10_000
    assert counts(imported) == {"Add": 2, "Expand": 2}


def test_a_repeated_constant_may_itself_be_large():
    """The part that repeats has axes of one element, whose stride is 0 as well."""
    text = "g (float[2, 1100000] x) => (float[2, 1100000] y) { e = Expand(w, s) y = Add(x, e) }"
    weight = normal(1, 1_100_000)
    imported = check(parse(text, w=weight, s=np.array([2, 1_100_000])))
    assert [op.type_name for op in operators(imported)] == ["Expand", "Add"]
    assert max(array.nbytes for array in imported.weights.values()) == weight.nbytes


def test_dead_code_and_unused_optional_results_are_dropped():
    text = """g (float[1,2,4,4] x) => (float[1,2,2,2] y) {
        y, i = MaxPool<kernel_shape=[2,2], strides=[2,2]>(x) dead = Exp(x) }"""
    (pool,) = operators(check(parse(text)))
    assert len(pool.outputs) == 1


def test_both_results_of_a_pool_stay_when_used():
    text = """g (float[1,2,4,4] x) => (float[1,2,2,2] y, int64[1,2,2,2] i) {
        y, i = MaxPool<kernel_shape=[2,2], strides=[2,2]>(x) }"""
    (pool,) = operators(check(parse(text)))
    assert len(pool.outputs) == 2


def test_functions_are_inlined_with_their_attributes():
    text = """<ir_version: 8, opset_import: ["": 18, "local": 1]>
    g (float[2,3] x) => (float[2,3] y) { [call] y = local.scaled<factor=2.5>(x) }
    <opset_import: ["": 18], domain: "local">
    scaled<factor>(a) => (c) {
        f = Constant<value_float: float = @factor>() b = Mul(a, f) [inner] c = Relu(b) }"""
    imported = check(parse(text))
    assert types(imported) == ["Mul", "Relu"]
    assert operators(imported)[1].node_name == "call/inner"


def test_results_of_a_function_that_nothing_uses_are_not_computed():
    text = """<ir_version: 8, opset_import: ["": 18, "local": 1]>
    g (float[2,3] x) => (float[2,3] y) { y, unused = local.both(x) }
    <opset_import: ["": 18], domain: "local">
    both(a) => (b, c) { b = Relu(a) c = RandomNormalLike(a) }"""
    assert types(check(parse(text))) == ["Relu"]


def test_operators_with_a_schema_function_are_expanded():
    text = """g (float[1,2,4,8] q, float[1,2,6,8] k, float[1,2,6,8] v) => (float[1,2,4,8] y) {
        y = Attention<is_causal=1>(q, k, v) }"""
    imported = check(parse(text, 23))
    assert counts(imported)["MatMul"] == 2


@pytest.mark.parametrize("flag", [True, False])
def test_a_constant_condition_chooses_a_branch(flag: bool):
    text = """g (float[2,3] x) => (float[2,3] y) {
        y = If(flag) <then_branch = t () => (float[2,3] a) { [one] a = Exp(x) },
                      else_branch = e () => (float[2,3] b) { [two] b = Add(x, w) }> }"""
    imported = check(parse(text, flag=np.array(flag), w=normal(3)))
    assert types(imported) == ["Exp" if flag else "Add"]
    assert operators(imported)[0].node_name == ("one" if flag else "two")


def test_a_condition_on_the_rank_chooses_a_branch():
    text = """g (float[a,b,1] x) => (float[a,b] y) {
        s = Shape(x) n = Size(s) c = Equal(n, three)
        y = If(c) <then_branch = t () => (float[a,b] p) { p = Squeeze(x, last) },
                   else_branch = e () => (float[a,b] q) { q = Identity(x) }> }"""
    model = parse(text, three=np.int64(3), last=np.array([2]))
    assert types(check(model, {"x": [2, 3, 1]})) == ["Squeeze"]


def test_a_condition_at_run_time_is_unsupported():
    text = """g (bool c, float[2] x) => (float[2] y) {
        y = If(c) <then_branch = t () => (float[2] a) { a = Exp(x) },
                   else_branch = e () => (float[2] b) { b = Abs(x) }> }"""
    with pytest.raises(UnsupportedOperatorError, match="condition is computed at run time"):
        import_model(parse(text))


LOOP = """g (float[2] x) => (float[2] y, float[n,2] s) {
    y, s = Loop(trips, cond, x) <body =
        b (int64 i, bool c, float[2] v) => (bool d, float[2] w, float[2] z) {
        d = %s f = Cast<to=1>(i) u = Add(v, f) w = Sin(u) z = Identity(u) }> }"""


@pytest.mark.parametrize("body", ["Identity(c)", "Less(i, two)"])
def test_a_loop_of_constant_length_is_unrolled(body: str):
    values = {"trips": np.int64(4), "cond": np.array(True), "two": np.int64(2)}
    imported = check(parse(LOOP % body, **values))
    rounds = 4 if body.startswith("Identity") else 3
    assert counts(imported)["Sin"] == rounds
    assert counts(imported)["Concat"] == 1


def test_an_endless_loop_meets_the_bound_at_once():
    values = {"trips": np.int64(2**40), "cond": np.array(True)}
    with pytest.raises(UnsupportedOperatorError, match="would become 2,199,023,255,552 operators"):
        import_model(parse(LOOP % "Identity(c)", **values))


@pytest.mark.parametrize("direction", [0, 1])
def test_a_scan_is_unrolled(direction: int):
    text = f"""g (float[2] x, float[5,2] r) => (float[2] y, float[5,2] s) {{
        y, s = Scan<num_scan_inputs=1, scan_input_directions=[{direction}],
                    scan_output_directions=[{direction}],
            body = b (float[2] v, float[2] t) => (float[2] w, float[2] z) {{
                u = Add(v, t) w = Tanh(u) z = Exp(w) }}>(x, r) }}"""
    assert counts(check(parse(text)))["Tanh"] == 5


def test_bfloat16_weights_are_kept():
    weight = helper.make_tensor("w", TensorProto.BFLOAT16, [2], [1.5, -2.0])
    model = parse("g (bfloat16[2] x) => (bfloat16[2] y) { y = Add(x, w) }", 18)
    model.graph.initializer.append(weight)
    imported = import_model(model)
    assert str(imported.weights["w"].dtype) == "bfloat16"
    x = imported.weights["w"]
    outputs = interpret(imported.module, imported.weights, {"x": x})
    assert outputs["y"].astype(np.float32).tolist() == [3.0, -4.0]


def test_overridable_initializers_are_constants():
    text = "<ir_version: 3, opset_import: ['': 9]> g (float[2] x, float[2] w) => (float[2] y) {}"
    model = parse(text.replace("'", '"'), w=normal(2))
    model.graph.node.append(helper.make_node("Add", ["x", "w"], ["y"]))
    graph = graph_of(check(model))
    assert [n.data for n in graph.input_names] == ["x"]


def test_the_import_does_not_change_the_model():
    model = parse("g (float[2] x) => (float[2] y) { a = Identity(x) y = Relu(a) }", 9)
    before = model.SerializeToString(deterministic=True)
    import_model(model)
    assert model.SerializeToString(deterministic=True) == before


def test_the_collector_pauses_while_a_model_is_imported(monkeypatch: pytest.MonkeyPatch):
    running: list[bool] = []

    def watched(graph: Graph) -> tuple[ModuleOp, dict[str, np.ndarray]]:
        running.append(gc.isenabled())
        return emit(graph)

    monkeypatch.setattr(importer, "emit", watched)
    import_model(parse("g (float[2] x) => (float[2] y) { y = Relu(x) }"))
    assert running == [False]
    assert gc.isenabled()


def test_import_time_grows_linearly():
    import time

    def seconds(length: int) -> float:
        nodes = [helper.make_node("Sin", [f"t{i}"], [f"t{i + 1}"]) for i in range(length)]
        info = [helper.make_tensor_value_info(f"t{i}", 1, [4]) for i in (0, length)]
        model = helper.make_model(helper.make_graph(nodes, "g", info[:1], info[1:]))
        model.opset_import[0].version = 18
        start = time.process_time()
        assert (
            len([o for o in import_model(model).module.walk() if isinstance(o, OperatorOp)])
            == length
        )
        return time.process_time() - start

    seconds(100)
    assert seconds(4000) < 16 * max(seconds(500), 0.02)


def test_a_weight_of_a_loop_is_stored_once():
    text = """g (float[2] x) => (float[2] y) {
        y = Loop(trips, cond, x) <body = b (int64 i, bool c, float[2] v) => (bool d, float[2] w) {
            d = Identity(c) k = Constant<value=float[2]{1.0, 2.0}>()
            t = Mul(k, outer) w = Add(v, t) }> }"""
    values = {"trips": np.int64(5), "cond": np.array(True), "outer": normal(2)}
    imported = check(parse(text, **values))
    assert counts(imported) == {"Add": 5}
    assert len(imported.weights) == 1


def test_a_default_is_the_float32_next_to_its_decimal():
    text = "g (double[2,8] x, double[8] s) => (double[2,8] y) { y = LayerNormalization(x, s) }"
    (norm,) = operators(check(parse(text)))
    assert norm["epsilon"] == float(np.float32(1e-5))
