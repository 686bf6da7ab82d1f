"""Where onnxruntime's results are not ONNX's: each with who is right, and why.

`docs/differences.md` is made from this file: `python -m tests.fuzz.differences_page`.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx
from onnx import helper

from compiler.frontend.node import ModelNode, with_texts
from compiler.frontend.semantics import SEMANTICS_RULES, SemanticsRule
from compiler.frontend.semantics.choice import rules_of
from compiler.net.graph import constant
from tests.fuzz.call import Array, Call
from tests.fuzz.corrections import (
    Incomparable,
    contracted,
    exponential_unit,
    folded,
    gathered,
    gelu,
    gives_masked_scores,
    hard_swish,
    has_texts,
    instance_normalization,
    keeps_initial_state,
    large_contractions,
    large_integers,
    large_powers,
    masked_by_infinity,
    mean_variance,
    out_of_range,
    power,
    rounded_beyond,
    shrink,
    shrinks_out_of_range,
    stacks_nothing,
    starts_without_steps,
    wider_than_float32,
)
from tests.fuzz.difference import OPEN, ROUNDING, Difference
from tests.fuzz.hosted_differences import HOSTED_DIFFERENCES
from tests.fuzz.resizing import interpolates, is_whole_resize, resized


def _is_wild(call: Call) -> bool:
    """Whether NaN or infinities take part in arithmetic: the nearest pixels are only chosen."""
    chosen = call.op in ("Resize", "Upsample") and not interpolates(call)
    return not chosen and (call.has_nan() or call.has_infinity())


DIFFERENCES = [
    Difference(
        "Gather Loop",
        "elements are texts",
        has_texts,
        "loses elements of slices, at negative indices, and of rows after the first",
        "gives them",
        "the ONNX text makes no exception for texts",
        gathered,
    ),
    Difference(
        "Loop",
        "it ends before its first iteration, and stacks results whose sizes its body leaves open",
        stacks_nothing,
        "gives results of 0 elements along these sizes, too",
        "gives the sizes that the results of an iteration would have",
        "the ONNX text: a scan output has one more dimension than the body's",
    ),
    Difference(
        "NonZero",
        "the input is a scalar",
        lambda call: not call.inputs[0].ndim,
        "gives indices of one axis",
        "gives indices of no axis, as the input has none",
        "the ONNX text: for scalar input, NonZero produces output shape (0, N) instead of (1, N)",
        lambda call: [np.zeros((0, int(call.inputs[0] != 0)), np.int64)],
    ),
    Difference(
        "ReduceMax ReduceMin ArgMax ArgMin TopK MaxPool GlobalMaxPool MaxRoiPool Softmax LogSoftmax"
        " Hardmax Clip ThresholdedRelu Sign DynamicQuantizeLinear",
        "an element is NaN",
        lambda call: call.has_nan(),
        "passes over NaN, or not, depending on its place and on the vector instructions used",
        "keeps NaN: ReduceMax and MaxPool of NaN are NaN, TopK sorts it first",
        "the ONNX text does not say; numpy keeps NaN, and results must not depend on places",
    ),
    Difference(
        "MaxPool",
        "an element is minus infinity",
        lambda call: bool((call.inputs[0] == -np.inf).any()),
        "gives the least number of the type",
        "gives minus infinity",
        "the largest element of a window that holds nothing else",
    ),
    Difference(
        "InstanceNormalization",
        "no operand is NaN or infinite",
        lambda call: not (call.has_nan() or call.has_infinity()),
        "computes x * a + (bias - mean * a), which leaves few digits of a small variance",
        "subtracts the mean first",
        "the text's formula without its rounding errors",
        instance_normalization,
        kind=ROUNDING,
    ),
    Difference(
        "Pow",
        "a power of integers is so large that floating point does not hold it",
        large_powers,
        "computes in floating point and gives the least integer, or digits that are wrong",
        "computes with integers, which wrap around",
        "the results of ONNX's text are of the integer type; numpy wraps around",
        power,
    ),
    Difference(
        "Cast CastLike",
        "a float becomes an integer that cannot hold it",
        lambda call: out_of_range(call),
        "gives what the processor gives",
        "goes by int32 (int64 for 64 bits and uint32), whose least integer is what it cannot hold,"
        " and wraps around, on every processor",
        "the ONNX text: undefined",
        kind=OPEN,
    ),
    Difference(
        "Cast CastLike QuantizeLinear",
        "`saturate` is 0, and an element is rounded to a number that is too large for"
        " float8e4m3fn or float8e5m2",
        rounded_beyond,
        "gives 448 for 480 up to 496 in float8e4m3fn, and NaN for 61440 up to 65536 in float8e5m2",
        "gives NaN in float8e4m3fn, and an infinity in float8e5m2",
        "the ONNX text: the rounded number is larger than FLT_MAX",
    ),
    Difference(
        "Elu Selu Celu",
        "an element is negative, or 0 and `alpha` is infinite",
        lambda call: call.inputs[0].dtype.kind == "f" and bool((call.inputs[0] <= 0).any()),
        "subtracts 1 from the exponential, which leaves few digits close to 0",
        "computes expm1, which keeps them",
        "the text's formula without its rounding errors",
        exponential_unit,
        kind=ROUNDING,
    ),
    Difference(
        "MeanVarianceNormalization",
        "all elements of a row are equal",
        lambda call: True,
        "divides zero by zero: NaN",
        "gives 0",
        "the ONNX text adds 1e-9 to the standard deviation",
        mean_variance,
    ),
    Difference(
        "Clip",
        "an element of float16 is infinite, before opset 12",
        lambda call: call.opset < 12 and call.inputs[0].dtype == np.float16 and call.has_infinity(),
        "keeps it where there is no bound, as it computes in float32",
        "gives float16's largest or least number",
        "the ONNX text: bounds default to the numeric limits of the type",
    ),
    Difference(
        "Resize Upsample",
        "integers are interpolated with antialias, or along the second of four axes",
        lambda call: is_whole_resize(call) and not is_chosen(call),
        "rounds in fixed point, and with antialias cuts off what is below zero",
        "rounds to the nearest integer, and saturates",
        "ONNX's reference rounds, and the type holds negative numbers",
        lambda call: [resized(call, call.inputs[0].dtype)],
        kind=OPEN,
    ),
    Difference(
        "DFT STFT RNN GRU LSTM Resize Upsample BatchNormalization InstanceNormalization"
        " GroupNormalization LayerNormalization RMSNormalization MeanVarianceNormalization"
        " LpNormalization LRN",
        "an operand holds NaN or infinities",
        lambda call: _is_wild(call),
        "clamps what goes into Sigmoid and Tanh, leaves out neighbours of weight zero, adds in"
        " another order",
        "computes with them by the text's formula or one that equals it for finite numbers",
        "neither is more right where a formula has infinity minus infinity, or times zero",
    ),
    Difference(
        "Conv",
        "the kernel is 3 x 3, and an operand holds NaN or infinities",
        lambda call: call.inputs[1].shape[2:] == (3, 3) and _is_wild(call),
        "confines them to the results that read them",
        "may give NaN for the others of a tile of 2 x 2 or 4 x 4, too",
        "so does Winograd's filtering, which a CPU's kernels use; the ONNX text does not say",
    ),
    Difference(
        "GroupNormalization",
        "elements are float64, or `stash_type` is not float32",
        lambda call: (
            call.inputs[0].dtype == np.float64 or call.attributes.get("stash_type", 1) != 1
        ),
        "computes in the type of `stash_type`, which is float32 by default",
        "computes in float64, or in float32 where elements are smaller",
        "both do so for LayerNormalization, and lose no digits that the ONNX text asks for",
        kind=ROUNDING,
    ),
    Difference(
        "DynamicQuantizeLinear",
        "an element is NaN or infinite",
        lambda call: call.has_nan() or call.has_infinity(),
        "gives a scale and integers that depend on the vector instructions used",
        "gives a scale that is no finite number, and integers of no meaning",
        "the ONNX text: undefined, as a float becomes an integer that cannot hold it",
        kind=OPEN,
    ),
    Difference(
        "Celu",
        "`alpha` is 0, NaN or larger than 1000",
        lambda call: not 0 < abs(call.attributes.get("alpha", 1.0)) <= 1000,
        "loses the digits of e**(x / alpha), which is near 1, or gives NaN everywhere",
        "keeps them, and gives NaN below zero only",
        "the ONNX text's formula, in which nothing is rounded; above zero alpha has no part in it",
        kind=OPEN,
    ),
    Difference(
        "RNN GRU LSTM",
        "a sequence has no step, and an initial state that is not 0",
        starts_without_steps,
        "gives a last state of 0 for it",
        "gives the initial state",
        "the ONNX text does not say; no step has changed the state, and a Loop of the equations"
        " gives it",
        repair=keeps_initial_state,
    ),
    Difference(
        "QuantizeLinear QLinearConv QLinearMatMul",
        "an element is NaN, or a scale NaN, infinite or 0",
        lambda call: (
            call.has_nan()
            or (call.op != "QuantizeLinear" and call.has_infinity())
            or not np.isfinite(call.inputs[1]).all()
            or not call.inputs[1 if call.op == "QuantizeLinear" else 6].all()
        ),
        "gives what the processor makes of NaN",
        "gives what it gives for 0, or a bound",
        "the ONNX text does not say to which integer NaN is rounded",
    ),
    Difference(
        "Shrink",
        "a result is an integer that its type cannot hold",
        shrinks_out_of_range,
        "gives what the processor makes of a float that is out of range",
        "computes with integers, which wrap around",
        "the ONNX text: undefined",
        kind=OPEN,
    ),
    Difference(
        "Shrink",
        "elements are float64, or integers that float32 does not hold",
        wider_than_float32,
        "computes in float32",
        "computes in float64, or with integers",
        "the ONNX text: the result is x + bias or x - bias",
        shrink,
        kind=ROUNDING,
    ),
    Difference(
        "Gelu",
        "`approximate` is tanh and the elements are float64",
        lambda call: (
            call.attributes.get("approximate") == b"tanh" and call.inputs[0].dtype == np.float64
        ),
        "rounds the formula's constants to float32",
        "computes the formula in float64",
        "the ONNX text gives the constants",
        gelu,
        kind=ROUNDING,
    ),
    Difference(
        "HardSwish",
        "the elements are float64",
        lambda call: call.inputs[0].dtype == np.float64,
        "rounds 1/6 to float32, as the operator's function body does",
        "computes with 1/6 in float64",
        "the ONNX text says that alpha is 1/6",
        hard_swish,
        kind=ROUNDING,
    ),
    Difference(
        "ReduceSum ReduceSumSquare ReduceProd ReduceL1 ReduceL2 ReduceMean",
        "a reduction of integers is so large that floating point does not hold it",
        large_integers,
        "computes in floating point and saturates",
        "computes with integers, which wrap around",
        "the results of ONNX's text are of the integer type; numpy wraps around",
        folded,
    ),
    Difference(
        "GridSample DeformConv RoiAlign",
        "an operand, or `spatial_scale`, holds NaN or infinities",
        lambda call: _is_wild(call) or not np.isfinite(call.attributes.get("spatial_scale", 1)),
        "takes a position that is no number for one outside, and leaves out pixels of weight zero",
        "computes with them by the text's formula",
        "the ONNX text does not say",
    ),
    Difference(
        "GridSample",
        "a position is so large that float32 has no fractions there",
        lambda call: bool((np.abs(call.inputs[1]) > 1 / np.finfo(np.float32).eps).any()),
        "reflects what is left of it after rounding",
        "reflects it with other roundings",
        "the ONNX text does not say how the result is rounded",
    ),
    Difference(
        "TopK",
        "`sorted` is 0",
        lambda call: call.attributes.get("sorted", 1) == 0,
        "gives the elements in some order",
        "sorts them",
        "the ONNX text: the order is not defined",
        kind=OPEN,
    ),
    Difference(
        "Einsum",
        "a sum of integers is so large that floating point does not hold it",
        large_contractions,
        "computes in floating point and saturates, or not",
        "computes with integers, which wrap around",
        "the results of ONNX's text are of the integer type; numpy wraps around",
        contracted,
    ),
    Difference(
        "BatchNormalization",
        "a variance plus `epsilon` is 0",
        lambda call: bool((call.inputs[4] + call.attributes.get("epsilon", 1e-5) == 0).any()),
        "computes x * a + (bias - mean * a) with an infinite a: NaN",
        "divides x - mean by 0: an infinity where they differ",
        "the ONNX text: (X - input_mean) / sqrt(input_var + epsilon) * scale + B",
    ),
    Difference(
        "ScatterElements ScatterND",
        "`reduction` is max or min, and an element or update is NaN",
        lambda call: call.attributes.get("reduction") in (b"max", b"min") and call.has_nan(),
        "gives NaN or the other number, depending on their order",
        "gives NaN",
        "as for Max and Min, of which numpy keeps NaN",
    ),
    Difference(
        "ReduceLogSumExp",
        "an element is infinite",
        lambda call: call.has_infinity(),
        "up to release 1.23 at least subtracts the largest element from itself: NaN",
        "gives the infinity",
        "the ONNX text: log(sum(exp(x)))",
    ),
    Difference(
        "Sigmoid Swish",
        "an element of float32, by `alpha` of Swish, is below -18",
        lambda call: (
            call.inputs[0].dtype == np.float32
            and bool((call.inputs[0] * call.attributes.get("alpha", 1) < -18).any())
        ),
        "gives 0, as it clamps what it computes with",
        "gives the small number",
        "the ONNX text: 1 / (1 + exp(-x))",
        kind=ROUNDING,
    ),
    Difference(
        "LRN",
        "`alpha`, `beta` or `bias` is infinite",
        lambda call: any(np.isinf(call.attributes.get(n, 1)) for n in ("alpha", "beta", "bias")),
        "gives NaN",
        "computes the formula",
        "ONNX has the formula",
        kind=OPEN,
    ),
    Difference(
        "LRN",
        "`bias` is 0",
        lambda call: call.attributes.get("bias", 1.0) == 0,
        "adds and subtracts squares as the window moves, and divides by what is left",
        "adds the squares of each window",
        "a small sum that remains of large ones has few right digits",
        kind=ROUNDING,
    ),
    Difference(
        "Attention",
        "`qk_matmul_output_mode` is 2, and the scores are masked by booleans or causally",
        gives_masked_scores,
        "gives the type's lowest number for a masked score",
        "gives minus infinity",
        "the ONNX text: a function that adds minus infinity to them, as its reference does",
        repair=masked_by_infinity,
        kind=OPEN,
    ),
    *HOSTED_DIFFERENCES,
]
"""The differences without a choice; `correct` gives the right results where that is simple."""


def _resized_again(call: Call) -> list[Array]:
    return [resized(call, call.inputs[0].dtype)]


def _unchanged(call: Call) -> list[Array]:
    return [call.inputs[0]]


CORRECTIONS: Mapping[str, Callable[[Call], list[Array]]] = {
    **{
        rule.name: _resized_again
        for rule in SEMANTICS_RULES
        if "Resize" in rule.operators and rule.name != "resize-crop-same-size"
    },
    "squeeze-empty-axes": _unchanged,
}
"""The ONNX text's results by the name of a rule, where they are simple."""


def is_chosen(call: Call) -> bool:
    """Whether a rule decides how integers are interpolated, or that they are not."""
    return any(rule.name in ("resize-integers", "resize-same-size") for rule in rules_met(call))


def call_of(node: onnx.NodeProto, opset: int, values: Mapping[str, Any]) -> Call:
    """A node with the values of its operands."""
    attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    inputs = [values[name] if name else None for name in node.input]
    return Call(node.op_type, attributes, opset, inputs, sum(map(bool, node.output)))


def known(call: Call) -> Difference | None:
    """The difference without a choice that a node meets, if any."""
    return next(
        (d for d in DIFFERENCES if call.op in d.operators.split() and d.applies(call)), None
    )


def rules_met(call: Call) -> list[SemanticsRule]:
    """The rules that a node meets."""
    if any(isinstance(value, list) for value in call.inputs):
        return []
    inputs = [value if value is None else constant("", value) for value in call.inputs]
    attributes = with_texts(call.attributes)
    use = ModelNode(call.op, call.opset, inputs, attributes, [True] * call.outputs)
    return [rule for rule in rules_of(call.op) if rule.meets(use)]


def may_differ_inside(model: onnx.ModelProto) -> bool:
    """Whether a subgraph or a function, whose operands nobody sees, has such an operator."""
    operators = {op for difference in DIFFERENCES for op in difference.operators.split()}
    operators |= {op for rule in SEMANTICS_RULES for op in rule.operators}
    inner = [node for function in model.functions for node in function.node]
    inner += [node for outer in model.graph.node for node in _inside(outer)]
    return any(node.op_type in operators for node in inner)


def _inside(node: onnx.NodeProto) -> list[onnx.NodeProto]:
    """The nodes of a node's subgraphs, at any depth."""
    bodies = [graph for a in node.attribute for graph in (a.g, *a.graphs)]
    nodes = [inner for body in bodies for inner in body.node]
    return [*nodes, *(deeper for inner in nodes for deeper in _inside(inner))]


def corrected(
    node: onnx.NodeProto,
    opset: int,
    values: Mapping[str, Any],
    outputs: dict[str, Any],
    semantics: str = "onnx",
) -> dict[str, Any]:
    """onnxruntime's outputs put right; raises Incomparable where they cannot be.

    With the semantics of onnxruntime its rules are right already.
    """
    if node.domain not in ("", "ai.onnx"):
        return outputs
    call = call_of(node, opset, values)
    rules = rules_met(call)
    if rules and semantics == "onnx":
        return _replaced(call, outputs, rules[0].when, CORRECTIONS.get(rules[0].name))
    difference = known(call)
    if difference is None:
        return outputs
    if difference.repair is not None:
        repaired = difference.repair(call, list(outputs.values()))
        return dict(zip(outputs, repaired, strict=True))
    return _replaced(call, outputs, difference.when, difference.correct)


def _replaced(
    call: Call,
    outputs: dict[str, Any],
    when: str,
    correct: Callable[[Call], list[Array]] | None,
) -> dict[str, Any]:
    """The right results in place of onnxruntime's; raises Incomparable without any."""
    if correct is None:
        raise Incomparable(f"{call.op}: {when}")
    results = correct(call)
    return dict(zip(outputs, results[: len(outputs)], strict=True))
