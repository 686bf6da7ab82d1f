"""Of the ways to contract bytes the faster is kept, and the record says so."""

import numpy as np
import pytest

import compiler
from compiler.artifact.choice_json import choice_from_json, choice_to_json
from compiler.autotune.substitution.kernels import predicted
from compiler.errors import ArgumentError
from compiler.graph.targets import set_target
from compiler.passes.pipeline import parse as passes
from compiler.passes.runner import Runner
from compiler.schedule.choices import CONTRACTIONS
from compiler.target.nvrtc import load_nvrtc
from compiler.target.target import contractions_of, parse_target
from compiler.tensors.contraction import contraction_text
from compiler.tools.explore.choice import choice_fact
from compiler.tools.report import report
from tests.frontend.checks import parse
from tests.frontend.quantised.float8_models import matmul
from tests.lowered import import_lowered

needs_nvrtc = pytest.mark.skipif(load_nvrtc() is None, reason="needs nvidia-cuda-nvrtc")

MODEL = parse(
    """g (float[64,256] x) => (float[64,128] y) {
 a = QuantizeLinear(x, s, z)  b = DequantizeLinear(a, s, z)  c = DequantizeLinear(v, s)
 y = MatMul(b, c) }""",
    21,
    s=np.float32(0.02),
    z=np.uint8(120),
    v=np.random.default_rng(0).integers(-127, 128, (256, 128)).astype("i1"),
)


@needs_nvrtc
@pytest.mark.parametrize(
    ("precision", "bytes", "floats"),
    [("fp16", "float8-operands", "unrounded"), ("tf32", "float8-tiles", "floats")],
)
def test_without_a_device_the_estimates_decide(precision: str, bytes: str, floats: str):
    module = compiler.compile(MODEL, target="cuda:sm_90", precision=precision, budget=0)
    assert module.choice is not None
    times = contraction_times(module)
    assert {*times} == {bytes, floats}
    kept = next(iter(times))
    assert times[kept] == min(times.values())
    assert any("MatMulInteger" in name for name in module.kernels) == (kept == bytes)
    assert choice_from_json(choice_to_json(module.choice), "choice") == module.choice
    assert_named(module)


def contraction_times(module: compiler.Module) -> dict[str, float]:
    """The time of each way to contract quantised operators, the one taken first."""
    assert module.choice is not None
    choice = module.choice.of(CONTRACTIONS)
    return {} if choice is None else choice.times


def assert_named(module: compiler.Module) -> None:
    """The report, the text of the choice and the page's facts name the way taken, and all times."""
    choice = module.choice
    assert choice is not None
    kept, *others = times = contraction_times(module)
    ways = [f"{contraction_text(way)} {time / 1e3:.1f} us" for way, time in times.items()]
    sentence = f"quantised operators contract {contraction_text(kept)}: {', '.join(ways)}"
    assert sentence in report(module)
    assert sentence in str(choice)
    facts = dict(choice_fact(module, {}).facts)
    assert facts[f"contractions of {contraction_text(kept)}"].endswith("µs, taken")
    assert all(facts[f"contractions of {contraction_text(way)}"].endswith("µs") for way in others)


def test_kernels_are_estimated_in_their_precision():
    wide = "g (float[512,2048] x) => (float[512,2048] y)"
    text = f"""{wide} {{ a = QuantizeLinear(x, s, z)  b = DequantizeLinear(a, s, z)
 c = DequantizeLinear(v, s)  y = MatMul(b, c) }}"""
    weights = np.random.default_rng(0).integers(-127, 128, (2048, 2048)).astype("i1")
    model = parse(text, 21, s=np.float32(0.02), z=np.uint8(120), v=weights)
    target = parse_target("cuda:sm_90:fp16")
    times = dict[str, float]()
    for way in target.compared_contractions:
        module = import_lowered(model, contraction=way).module
        set_target(module, str(target))
        Runner().run(module, passes("canonicalize,fuse-operators,reduce-precision"))
        times[way] = predicted(module, str(target))
        assert predicted(module, "emu:sm_90:fp16") == 0
    assert 0 < times["float8-operands"] < times["unrounded"]


@needs_nvrtc
@pytest.mark.parametrize("quantised", ["bytes", "operands", "floats", "unrounded"])
def test_one_way_can_be_asked_for(quantised: str):
    module = compiler.compile(MODEL, target="cuda:sm_90", budget=0, quantised=quantised)
    assert module.choice is not None
    way = {"bytes": "float8-tiles", "operands": "float8-operands"}.get(quantised, quantised)
    assert [*contraction_times(module)] == [way]
    assert_named(module)
    assert any("MatMulInteger" in name for name in module.kernels) == (way != quantised)


@needs_nvrtc
@pytest.mark.parametrize("target", ["cuda:sm_80", "cuda:sm_89"])
def test_float8s_are_contracted_where_tensor_cores_have_them(target: str):
    module = compiler.compile(matmul("float8_e4m3fn", "float8_e5m2"), target=target, budget=0)
    assert module.choice is not None
    times, newer = contraction_times(module), target == "cuda:sm_89"
    assert {*times} == ({"float8-tiles", "floats"} if newer else {"floats"})
    kept = next(iter(times))
    assert any("MatMulFloat8" in name for name in module.kernels) == (kept != "floats")
    assert_named(module)


@needs_nvrtc
def test_without_bytes_only_16_bits_are_compiled():
    text = """g (float[1,3,8,8] x) => (float[1,4,8,8] y) {
     a = QuantizeLinear(x, s, z)  b = DequantizeLinear(a, s, z)  c = DequantizeLinear(v, s)
     y = Conv(b, c) }"""
    weights = np.random.default_rng(0).integers(-127, 128, (4, 3, 1, 1)).astype("i1")
    model = parse(text, 21, s=np.float32(0.02), z=np.uint8(120), v=weights)
    for precision, way in (("fp16", "unrounded"), ("tf32", "floats")):
        module = compiler.compile(model, target="cuda:sm_90", precision=precision, budget=0)
        assert module.choice is not None
        assert [*contraction_times(module)] == [way]
        assert_named(module)


@needs_nvrtc
def test_a_model_that_is_not_quantised_says_nothing():
    text = "g (float[4,8] x) => (float[4,8] y) { y = Relu(x) }"
    module = compiler.compile(parse(text), target="cuda:sm_90", budget=0)
    assert module.choice is not None
    assert not contraction_times(module)
    said = report(module) + str(module.choice)
    assert "quantised" not in said.replace("lower-quantised", "")


def test_the_cpu_contracts_floats_if_asked():
    names = [
        "".join(compiler.compile(MODEL, quantised=quantised).kernels)
        for quantised in ("auto", "bytes", "floats")
    ]
    assert ["MatMulInteger" in name for name in names] == [True, True, False]


def test_what_cannot_be_asked_for_is_refused():
    with pytest.raises(
        ArgumentError, match="quantised='int8': use one of auto, bytes, operands, floats, unrounded"
    ):
        compiler.compile(MODEL, quantised="int8")
    with pytest.raises(ArgumentError, match="for hip:gfx90a:fp32 use one of auto, floats, unrou"):
        contractions_of("bytes", "hip:gfx90a:fp32")
    with pytest.raises(ArgumentError, match="'operands': for cpu use one of auto, bytes, floats"):
        compiler.compile(MODEL, quantised="operands")
