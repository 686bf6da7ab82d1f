"""Views share the right bytes, and a plan names every copy that they need."""

import re

import pytest

from compiler.graph.aliases import ViewPlan, plan_views
from compiler.ir.context import parse_module
from compiler.ir.dataflow import GraphOp, OperatorOp


def plan(body: str, inputs: str = "%x: tensor<1x4xf32>", outputs: str = '"y"') -> ViewPlan:
    names = ", ".join(f'"{i}"' for i in range(inputs.count("%")))
    text = (
        f"dataflow.graph @main opset 21 inputs [{names}] outputs [{outputs}]"
        f" {{\n^bb0({inputs}):\n{body}\n}}"
    )
    module = parse_module(text)
    module.verify()
    graph = module.body.block.first_op
    assert isinstance(graph, GraphOp)
    return plan_views(graph)


def places(plan: ViewPlan) -> dict[str, tuple[str, int]]:
    """Locations by name hint, for the values that have a name."""
    return {
        str(value.name_hint): (str(place.root.name_hint), place.offset)
        for value, place in plan.locations.items()
    }


def copies(plan: ViewPlan) -> list[tuple[str, int]]:
    return [
        (str(c.user.results[0].name_hint) if c.user.results else "yield", c.operand)
        for c in plan.copies
    ]


def relu(name: str, source: str, width: int = 4) -> str:
    t = f"tensor<1x{width}xf32>"
    return f'%{name} = dataflow.op "Relu"(%{source}) : ({t}) -> {t}\n'


def concat(name: str, parts: dict[str, int], axis: int = 1) -> str:
    operands = ", ".join(f"%{p}" for p in parts)
    types = ", ".join(f"tensor<1x{w}xf32>" for w in parts.values())
    result = f"tensor<1x{sum(parts.values())}xf32>"
    return (
        f'%{name} = dataflow.op "Concat"({operands}) {{axis = {axis} : i64}}'
        f" : ({types}) -> {result}\n"
    )


def done(*values: str, width: int = 4) -> str:
    types = ", ".join([f"tensor<1x{width}xf32>"] * len(values))
    return f"dataflow.yield {', '.join('%' + v for v in values)} : {types}"


def test_contiguous_concat_embeds_its_operands():
    body = relu("a", "x") + relu("b", "x") + concat("y", {"a": 4, "b": 4}, 1)
    result = plan(body + relu("z", "y", 8) + done("z", width=8))
    assert places(result)["a"] == ("y", 0)
    assert places(result)["b"] == ("y", 16)
    assert len(result.views) == 1
    assert not result.copies


def test_concat_of_concat_is_free_of_copies():
    body = relu("a", "x") + relu("b", "x") + concat("c", {"a": 4, "b": 4})
    body += relu("d", "x") + concat("e", {"c": 8, "d": 4})
    result = plan(body + relu("z", "e", 12) + done("z", width=12))
    assert places(result) | {"a": ("e", 0), "b": ("e", 16), "c": ("e", 0), "d": ("e", 32)} == (
        places(result)
    )
    assert not result.copies


def test_concats_of_growing_prefixes_are_free_of_copies():
    body = relu("a", "x") + relu("b", "x") + concat("c", {"a": 4, "b": 4})
    body += relu("f", "c", 8) + concat("d", {"a": 4, "b": 4, "f": 8})
    result = plan(body + relu("z", "d", 16) + done("z", width=16))
    assert places(result)["c"] == ("d", 0)
    assert places(result)["f"] == ("d", 32)
    assert not result.copies


def test_concat_of_an_input_needs_one_copy_and_of_two_is_a_kernel():
    one = plan(relu("a", "x") + concat("y", {"a": 4, "x": 4}) + done("y", width=8))
    assert copies(one) == [("y", 1)]
    two = plan(
        concat("y", {"x": 4, "w": 4}) + done("y", width=8),
        "%x: tensor<1x4xf32>, %w: tensor<1x4xf32>",
    )
    assert not two.views
    assert not two.copies


def test_a_repeated_operand_and_a_second_concat_need_copies():
    repeated = plan(relu("a", "x") + concat("y", {"a": 4}) + done("y"))
    assert places(repeated)["a"] == ("y", 0)
    body = relu("a", "x") + relu("b", "x") + relu("c", "x")
    body += concat("p", {"a": 4, "b": 4}) + concat("q", {"a": 4, "c": 4})
    shared = plan(body + done("p", "q", width=8), outputs='"p", "q"')
    assert copies(shared) == [("q", 0)]


def test_an_output_keeps_a_root_of_its_own():
    body = relu("a", "x") + relu("b", "x") + concat("c", {"a": 4, "b": 4}) + relu("z", "c", 8)
    body += "dataflow.yield %a, %z : tensor<1x4xf32>, tensor<1x8xf32>"
    result = plan(body, outputs='"a", "z"')
    assert copies(result) == [("c", 0)]
    assert places(result)["a"] == ("a", 0)


def test_outputs_that_are_inputs_aliases_or_slices_need_copies():
    body = relu("a", "x")
    body += (
        '%r = dataflow.op "Identity"(%a) : (tensor<1x4xf32>) -> tensor<1x4xf32>\n'
        '%s, %t = dataflow.op "Split"(%a) {axis = 1 : i64}'
        " : (tensor<1x4xf32>) -> (tensor<1x2xf32>, tensor<1x2xf32>)\n"
        "dataflow.yield %x, %a, %r, %t : "
        "tensor<1x4xf32>, tensor<1x4xf32>, tensor<1x4xf32>, tensor<1x2xf32>"
    )
    result = plan(body, outputs='"0", "1", "2", "3"')
    assert copies(result) == [("yield", 0), ("yield", 2), ("yield", 3)]
    assert places(result)["t"] == ("a", 8)


def test_split_parts_concatenated_again_are_the_whole():
    body = (
        "%n = dataflow.constant dense<[1, 3]> : tensor<2xi64>\n"
        '%s, %t = dataflow.op "Split"(%x, %n) {axis = 1 : i64}'
        " : (tensor<1x4xf32>, tensor<2xi64>) -> (tensor<1x1xf32>, tensor<1x3xf32>)\n"
    )
    result = plan(body + concat("y", {"s": 1, "t": 3}) + relu("z", "y") + done("z"))
    assert places(result)["y"] == ("x", 0)
    assert not result.copies


@pytest.mark.parametrize(
    ("start", "end", "axis", "step", "offset"),
    [(1, 3, 1, 1, 4), (-3, -1, 1, 1, 4), (1, 3, -1, 1, 4), (0, 3, 1, 2, None)],
)
def test_slice_with_unit_steps_is_a_view(
    start: int, end: int, axis: int, step: int, offset: int | None
):
    body = "".join(
        f"%{name} = dataflow.constant dense<{value}> : tensor<1xi64>\n"
        for name, value in {"b": start, "e": end, "a": axis, "s": step}.items()
    )
    i = ", ".join(["tensor<1xi64>"] * 4)
    body += (
        f'%y = dataflow.op "Slice"(%x, %b, %e, %a, %s) : (tensor<1x4xf32>, {i})'
        " -> tensor<1x2xf32>\n"
    )
    result = plan(body + relu("z", "y", 2) + done("z", width=2))
    assert places(result)["y"] == (("y", 0) if offset is None else ("x", offset))


def test_split_and_concat_after_a_real_axis_are_kernels():
    body = (
        '%s, %t = dataflow.op "Split"(%x) {axis = 1 : i64}'
        " : (tensor<2x4xf32>) -> (tensor<2x2xf32>, tensor<2x2xf32>)\n"
        '%y = dataflow.op "Concat"(%t, %s) {axis = 1 : i64}'
        " : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x4xf32>\n"
        "dataflow.yield %y : tensor<2x4xf32>"
    )
    assert not plan(body, "%x: tensor<2x4xf32>").views


BLOCKED = ", #dataflow.channels<4>"


@pytest.mark.parametrize(
    ("body", "is_view"),
    [
        ('"Identity" (%a) : (T<1x8x3x3>) -> T<1x8x3x3>', True),
        ('"Identity" (%a) : (T<1x8x3x3>) -> P<1x8x3x3>', False),
        ('"Reshape" (%a, %s) : (T<1x8x3x3>, tensor<2xi64>) -> P<8x9>', False),
        ('"Concat" (%a, %a) {axis = 1 : i64} : (T<1x8x3x3>, T<1x8x3x3>) -> T<1x16x3x3>', True),
        ('"Concat" (%a, %a) {axis = 1 : i64} : (T<1x8x3x3>, T<1x8x3x3>) -> P<1x16x3x3>', False),
        ('"Slice" (%a, %b0, %b4, %s) : (T<1x8x3x3>, I, I, I) -> T<1x4x3x3>', True),
        ('"Slice" (%a, %b2, %b6, %s) : (T<1x8x3x3>, I, I, I) -> T<1x4x3x3>', False),
    ],
)
def test_views_keep_the_layout_and_divide_no_block(body: str, is_view: bool):
    body = re.sub(r"T<(\S+?)>", rf"tensor<\1xf32{BLOCKED}>", body)
    body = re.sub(r"P<(\S+?)>", r"tensor<\1xf32>", body).replace(" I", " tensor<1xi64>")
    axes = "dense<[8, 9]> : tensor<2xi64>" if "Reshape" in body else "dense<1> : tensor<1xi64>"
    result = body.rpartition("-> ")[2]
    module = parse_module(f"""
dataflow.graph @main opset 21 inputs ["x"] outputs ["y"] {{
^bb0(%x: tensor<1xf32>):
  %s = dataflow.constant {axes}
  %b0 = dataflow.constant dense<0> : tensor<1xi64>
  %b2 = dataflow.constant dense<2> : tensor<1xi64>
  %b4 = dataflow.constant dense<4> : tensor<1xi64>
  %b6 = dataflow.constant dense<6> : tensor<1xi64>
  %a = dataflow.group "a" (%x) : (tensor<1xf32>) -> tensor<1x8x3x3xf32{BLOCKED}> {{
  ^bb1(%p: tensor<1xf32>):
    %q = dataflow.op "Relu" (%p) : (tensor<1xf32>) -> tensor<1x8x3x3xf32>
    dataflow.yield %q : tensor<1x8x3x3xf32>
  }}
  %v = dataflow.op {body}
  %y = dataflow.group "y" (%v) : ({result}) -> tensor<1xf32> {{
  ^bb2(%p: {result.replace(BLOCKED, "")}):
    %q = dataflow.op "Relu" (%p) : ({result.replace(BLOCKED, "")}) -> tensor<1xf32>
    dataflow.yield %q : tensor<1xf32>
  }}
  dataflow.yield %y : tensor<1xf32>
}}""")
    (graph,) = module.ops
    assert isinstance(graph, GraphOp)
    (view,) = [op for op in graph.body.block.ops if isinstance(op, OperatorOp)]
    assert (view in plan_views(graph).views) == is_view
