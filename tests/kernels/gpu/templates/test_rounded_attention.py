"""Attention whose scores, weights and result are quantised, as one kernel on the emulator."""

from dataclasses import dataclass, replace
from typing import Any

import numpy
import pytest
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from compiler.graph.targets import set_target
from compiler.ir.dataflow import GraphOp
from compiler.kernels.gpu.compilers.nvrtc import compile_cubin
from compiler.kernels.gpu.cubin import check_resources
from compiler.kernels.gpu.source import complete_text
from compiler.kernels.gpu.templates.attention.config import (
    Config,
    ahead,
    candidates,
    keeps_scores,
)
from compiler.kernels.group import Group, extract_group
from compiler.passes.pipeline import parse
from compiler.passes.runner import Runner
from compiler.target.target import parse_gpu
from compiler.tensors.contraction import Contraction
from tests.kernels.gpu.emulator import COMPILER, run_twice
from tests.kernels.gpu.of_template import kernel_in, problem_in
from tests.lowered import import_lowered
from tests.tools import needs_nvrtc

Array = numpy.ndarray

emulated = pytest.mark.skipif(COMPILER is None, reason="g++ compiles the emulated kernels")


@dataclass(frozen=True)
class Case:
    """An attention with QDQ pairs around its scores and weights, and a quantised result.

    Q, K and V are small integers in 16 bits, so that dot products are exact.
    """

    rows: int = 20
    columns: int = 37
    depth: int = 24
    width: int = 40
    weight_zero: int = 0
    weight_type: str = "uint8"
    heads: int = 2

    @property
    def scales(self) -> dict[str, float]:
        """The scales of scores, weights and results, as float32 has them."""
        scales = {"scores": 0.11, "weights": 0.0037, "result": 0.01127}
        if self.weight_type == "uint16":
            scales["weights"] = 1 / 65535
        return {name: float(numpy.float32(scale)) for name, scale in scales.items()}

    @property
    def zeros(self) -> dict[str, Array]:
        """The zero points."""
        weights = numpy.array(self.weight_zero, self.weight_type)
        scores, result = (numpy.array(zero, "uint8") for zero in (117, 121))
        return {"scores": scores, "weights": weights, "result": result}

    def inputs(self) -> dict[str, Array]:
        """Random operands, and a mask that is added to quantised scores."""
        generator = numpy.random.default_rng(self.columns)
        sizes = {"q": (self.rows, self.depth), "k": (self.columns, self.depth)}
        sizes |= {"v": (self.columns, self.width)}
        found: dict[str, Array] = {
            name: generator.integers(-3, 4, (1, self.heads, *size)).astype("float16")
            for name, size in sizes.items()
        }
        keep = generator.random((1, 1, self.rows, self.columns)) < 0.8
        return {**found, "m": numpy.where(keep, 0, -40).astype("float32")}

    def model(self) -> ModelProto:
        """The ONNX model, with the codes of the result as its output."""
        make = helper.make_node
        nodes = [
            *(make("Cast", [n], [f"{n}_wide"], to=TensorProto.FLOAT) for n in "qkv"),
            make("Transpose", ["k_wide"], ["keys"], perm=[0, 1, 3, 2]),
            make("MatMul", ["q_wide", "keys"], ["dots"]),
            make("Mul", ["dots", "factor"], ["scores"]),
            *_pair("scores"),
            make("Add", ["scores_rounded", "m"], ["masked"]),
            make("Softmax", ["masked"], ["weights"], axis=-1),
            *_pair("weights"),
            make("MatMul", ["weights_rounded", "v_wide"], ["result"]),
            *_pair("result")[:1],
            make("Transpose", ["result_codes"], ["y"], perm=[0, 2, 1, 3]),
        ]
        constants: dict[str, Any] = {"factor": numpy.float32(0.25)}
        constants |= {f"{n}_scale": numpy.float32(scale) for n, scale in self.scales.items()}
        constants |= {f"{n}_zero": zero for n, zero in self.zeros.items()}
        values = [
            helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
            for n, x in self.inputs().items()
        ]
        shape = [1, self.rows, self.heads, self.width]
        output = helper.make_tensor_value_info("y", TensorProto.UINT8, shape)
        arrays = [numpy_helper.from_array(numpy.asarray(x), n) for n, x in constants.items()]
        graph = helper.make_graph(nodes, "attention", values, [output], arrays)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])

    def expected(self, inputs: dict[str, Array]) -> Array:
        """The codes of the result, by float64."""
        q, k, v = (inputs[name].astype("float64") for name in "qkv")
        scores = self.rounded("scores", q @ k.swapaxes(2, 3) * 0.25) + inputs["m"]
        weights = numpy.exp(scores - scores.max(-1, keepdims=True))
        weights = self.rounded("weights", weights / weights.sum(-1, keepdims=True))
        return self.codes("result", weights @ v).transpose(0, 2, 1, 3)

    def codes(self, name: str, value: Array) -> Array:
        """A value as integers."""
        zero, limits = self.zeros[name], numpy.iinfo(self.zeros[name].dtype)
        codes = numpy.rint(value / self.scales[name]) + int(zero)
        return numpy.clip(codes, limits.min, limits.max)

    def rounded(self, name: str, value: Array) -> Array:
        """A value after a pair."""
        return (self.codes(name, value) - int(self.zeros[name])) * self.scales[name]


def _pair(name: str) -> list[NodeProto]:
    scale, zero = f"{name}_scale", f"{name}_zero"
    return [
        helper.make_node("QuantizeLinear", [name, scale, zero], [f"{name}_codes"]),
        helper.make_node("DequantizeLinear", [f"{name}_codes", scale, zero], [f"{name}_rounded"]),
    ]


def group_of(case: Case, precision: str = "fp16") -> Group:
    """The only group of the model."""
    module = import_lowered(case.model(), contraction=Contraction.FLOATS).module
    set_target(module, f"cuda:sm_90:{precision}")
    Runner().run(module, parse("canonicalize,fuse-attention,fuse-operators"))
    (graph,) = module.ops
    assert isinstance(graph, GraphOp)
    (group,) = graph.groups
    return extract_group(group)


def differing(case: Case, precision: str = "fp16", config: Config | None = None,
              offset: int = 0) -> float:  # fmt: skip
    """The share of codes that are not those of float64; none is more than one apart."""
    group, inputs = group_of(case, precision), case.inputs()
    kernel = kernel_in("attention", group, parse_gpu(f"cuda:sm_90:{precision}"), config)
    assert kernel is not None, "the kernel does not take it"
    (found,) = run_twice(kernel, group, [*inputs.values()], offset)
    difference = numpy.abs(found - case.expected(inputs))
    assert difference.max() <= 1
    return float((difference > 0).mean())


@emulated
@pytest.mark.parametrize(
    ("precision", "config"),
    [
        ("fp16", None),
        ("fp16", Config(2, 1, 2)),
        ("fp16", Config(1, 1, 2, 32)),
        ("fp16", Config(2, 1, 1, 16)),
        ("bf16", Config(1, 3, 2)),
        ("tf32", Config(1, 2, 1)),
    ],
)
def test_weights_are_rounded_exactly(precision: str, config: Config | None):
    assert differing(Case(), precision, config) < 0.002


@emulated
@pytest.mark.parametrize("config", [Config(1, 5), Config(2, 3), Config(1, 3, 2)])
def test_scores_are_kept_where_warps_have_few_keys(config: Config):
    case, target = Case(rows=37, columns=45), parse_gpu("cuda:sm_90:fp16")
    problem = problem_in("attention", group_of(case), target)
    assert problem is not None
    assert keeps_scores(problem, config)
    assert not keeps_scores(problem, replace(config, warps=2))
    assert differing(case, config=config) < 0.002


@emulated
def test_other_codes_of_weights():
    assert differing(Case(weight_zero=-128, weight_type="int8")) < 0.002
    assert (
        differing(Case(columns=64, width=17, weight_zero=3), config=Config(1, 2), offset=2) < 0.002
    )


@emulated
def test_codes_that_overflow_float16_are_scaled_first():
    """65535 is not in float16: weights of 16 bits are multiplied as numbers, and are not exact."""
    assert differing(Case(weight_type="uint16")) < 0.1


@needs_nvrtc
def test_every_candidate_keeps_what_it_reads_again():
    case = Case(rows=256, columns=300, depth=64, width=64, heads=12)
    group, target = group_of(case), parse_gpu("cuda:sm_90:fp16")
    problem = problem_in("attention", group, target)
    assert problem is not None
    staged = [config for config in candidates(problem, target) if config.staged]
    assert staged
    assert all(
        config.warps == 1 and ahead(problem, config) * config.round >= 300 for config in staged
    )
    kernel = kernel_in("attention", group, target, staged[0])
    assert kernel is not None
    code = compile_cubin(complete_text(kernel.text), target)
    (found,) = check_resources(code, kernel.launches, target).values()
    assert found.stack_bytes == 0
