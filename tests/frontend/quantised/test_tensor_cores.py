"""Contractions for tensor cores have no zero points, and the same sums."""

from collections import Counter

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings

from compiler.frontend.interpreter import interpret
from compiler.ir.dataflow import OperatorOp
from compiler.net.building.expansion import Expansion
from compiler.tensors.contraction import Contraction
from tests.frontend.checks import parse
from tests.frontend.quantised.models import quantised_models
from tests.lowered import import_lowered

RANDOM = np.random.default_rng(5)


def imported(model: onnx.ModelProto, way: Contraction) -> tuple[Counter[str], np.ndarray]:
    """The operators of an imported model by type, and its first result for random inputs."""
    found = import_lowered(model, contraction=way)
    types = Counter(op.type_name for op in found.module.walk() if isinstance(op, OperatorOp))
    random, inputs = np.random.default_rng(7), dict[str, np.ndarray]()
    for info in model.graph.input:
        shape = [d.dim_value for d in info.type.tensor_type.shape.dim]
        kind = {1: "f4", 2: "u1", 3: "i1"}[info.type.tensor_type.elem_type]
        values = random.integers(0, 100, shape) if kind != "f4" else random.standard_normal(shape)
        inputs[info.name] = np.asarray(values).astype(kind)
    results = interpret(found.module, found.weights, inputs)
    return types, next(iter(results.values()))


CONVOLUTION = """g (uint8[2,16,{size},5] x) => (int32[a,b,c,d] y) {{
 y = ConvInteger<pads=[{pads}], strides=[{stride},1]>(x, w, xz) }}"""


@pytest.mark.parametrize("pads", ["0,0,0,0", "1,1,1,1", "0,2,1,0"])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("zero", [0, 130])
def test_images_are_padded_by_zeros(pads: str, stride: int, zero: int):
    weights = RANDOM.integers(-128, 128, (8, 16, 3, 3)).astype("i1")
    text = CONVOLUTION.format(size=6, pads=pads, stride=stride)
    model = parse(text, 21, w=weights, xz=np.uint8(zero))
    types, found = imported(model, Contraction.TILES)
    _, expected = imported(model, Contraction.BYTES)
    np.testing.assert_array_equal(found, expected)
    assert types["ConvInteger"] == 1
    assert types["Conv"] == 0
    assert types["Sub"] == (zero > 0)


def test_a_zero_point_of_an_image_that_is_too_large_for_constants(monkeypatch: pytest.MonkeyPatch):
    def spares(expansion: Expansion, work: int) -> bool:
        return work == 0

    weights = RANDOM.integers(-128, 128, (8, 16, 3, 3)).astype("i1")
    text = CONVOLUTION.format(size=6, pads="1,1,1,1", stride=1)
    model = parse(text, 21, w=weights, xz=np.uint8(130))
    monkeypatch.setattr(Expansion, "spares", spares)
    types, found = imported(model, Contraction.TILES)
    _, expected = imported(model, Contraction.BYTES)
    np.testing.assert_array_equal(found, expected)
    assert types["Conv"] == types["ConvInteger"] == 1


def test_the_zero_point_of_a_run_is_subtracted_from_sums():
    text = "g (uint8[3,70] x, uint8 z) => (int32[3,5] y) { y = MatMulInteger(x, w, z) }"
    model = parse(text, 21, w=RANDOM.integers(-128, 128, (70, 5)).astype("i1"))
    types, found = imported(model, Contraction.TILES)
    _, expected = imported(model, Contraction.BYTES)
    np.testing.assert_array_equal(found, expected)
    assert types == {"MatMulInteger": 1, "Cast": 1, "Mul": 1, "Sub": 1}


NUMBERS = """g (uint8[1,{channels},6,6] x) => (float[a,b,c,d] y) {{
 a = DequantizeLinear(x, s, z)  w = DequantizeLinear<axis=0>(v, ws)
 y = Conv<group={groups}>(a, w) }}"""


@pytest.mark.parametrize(("channels", "groups", "tiled"), [(16, 1, 1), (3, 1, 0), (32, 2, 0)])
def test_what_tiles_do_not_take_contracts_floats(channels: int, groups: int, tiled: bool):
    weights = RANDOM.integers(-127, 128, (4, channels // groups, 3, 3)).astype("i1")
    scales = np.array([0.1, 0.2, 0.3, 0.4], "f4")
    constants = {"v": weights, "s": np.float32(0.05), "z": np.uint8(128), "ws": scales}
    model = parse(NUMBERS.format(channels=channels, groups=groups), 21, **constants)
    types, found = imported(model, Contraction.TILES)
    _, expected = imported(model, Contraction.BYTES)
    assert (types["ConvInteger"], types["Conv"]) == (tiled, not tiled)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(quantised_models())
def test_any_quantised_model(model: onnx.ModelProto):
    layers = sum(node.op_type == "QuantizeLinear" for node in model.graph.node)
    _, expected = imported(model, Contraction.FLOATS)
    _, found = imported(model, Contraction.TILES)
    # A number close to a tie may be rounded the other way, which a layer multiplies by its weights.
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=0.11 if layers < 3 else 1.0)
