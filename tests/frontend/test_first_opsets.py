"""Models of opsets 1 to 6 compute what the same operators of a newer form do."""

import numpy as np
import pytest

from compiler.errors import ModelError, ShapeError, UnsupportedOperatorError
from compiler.frontend.export import export_model
from compiler.frontend.importing import import_model
from tests.frontend.checks import assert_close, parse, random_inputs, run

X, CHANNELS = "float[2,3,4,4] x", "float[3] w"
BATCH = "float[2,3,4,4] x, float[3] s, float[3] b, float[3] m, float[3] v"

FORMS: dict[str, tuple[str, range, str, str]] = {
    "operands broadcast from an axis": (
        f"{X}, {CHANNELS}",
        range(1, 7),
        "float[2,3,4,4] y { y = Mul<axis=1, broadcast=1>(x, w) }",
        "float[2,3,4,4] y { u = Unsqueeze<axes=[1,2]>(w) y = Mul(x, u) }",
    ),
    "operands broadcast to the last axes": (
        f"{X}, float[4] w",
        range(1, 7),
        "float[2,3,4,4] y { y = Sub<broadcast=1>(x, w) }",
        "float[2,3,4,4] y { y = Sub(x, w) }",
    ),
    "comparisons broadcast too": (
        f"{X}, {CHANNELS}",
        range(1, 7),
        "bool[2,3,4,4] y { y = Greater<axis=-3, broadcast=1>(x, w) }",
        "bool[2,3,4,4] y { u = Unsqueeze<axes=[1,2]>(w) y = Greater(x, u) }",
    ),
    "a slope for each channel": (
        f"{X}, {CHANNELS}",
        range(1, 7),
        "float[2,3,4,4] y { y = PRelu(x, w) }",
        "float[2,3,4,4] y { u = Unsqueeze<axes=[1,2]>(w) y = PRelu(x, u) }",
    ),
    "one slope": (
        f"{X}, float[1] w",
        range(1, 7),
        "float[2,3,4,4] y { y = PRelu(x, w) }",
        "float[2,3,4,4] y { y = PRelu(x, w) }",
    ),
    "removed attributes": (
        X,
        range(1, 6),
        "float[2,3,4,4] y { y = Relu<consumed_inputs=[0]>(x) }",
        "float[2,3,4,4] y { y = Relu(x) }",
    ),
    "Gemm that broadcasts": (
        "float[2,3] x, float[3,5] w, float[5] b",
        range(1, 7),
        "float[2,5] y { y = Gemm<broadcast=1>(x, w, b) }",
        "float[2,5] y { y = Gemm(x, w, b) }",
    ),
    "batch normalisation in inference": (
        BATCH,
        range(6, 7),
        "float[2,3,4,4] y { q = Abs(v) y = BatchNormalization<is_test=1>(x, s, b, m, q) }",
        "float[2,3,4,4] y { q = Abs(v) y = BatchNormalization(x, s, b, m, q) }",
    ),
    "dropout in inference": (
        X,
        range(1, 7),
        "float[2,3,4,4] y { z = Dropout<is_test=1>(x) y = Neg(z) }",
        "float[2,3,4,4] y { y = Neg(x) }",
    ),
    "a shape as attribute": (
        X,
        range(1, 5),
        "float[2,48] y { y = Reshape<shape=[0,-1]>(x) }",
        "float[2,48] y { y = Flatten(x) }",
    ),
    "Concat of channels": (
        X,
        range(1, 4),
        "float[2,6,4,4] y { y = Concat(x, x) }",
        "float[2,6,4,4] y { y = Concat<axis=1>(x, x) }",
    ),
    "types by name": (
        X,
        range(1, 6),
        'int32[2,3,4,4] y { y = Cast<to="INT32">(x) }',
        "int32[2,3,4,4] y { y = Cast<to=6>(x) }",
    ),
    "paddings": (
        X,
        range(1, 2),
        "float[2,3,5,6] y { y = Pad<paddings=[0,0,1,0,0,0,0,2], value=1.5>(x) }",
        "float[2,3,5,6] y { y = Pad<pads=[0,0,1,0,0,0,0,2], value=1.5>(x) }",
    ),
    "a norm of float order": (
        X,
        range(1, 2),
        "float[2,3,3,3] y { y = LpPool<p=1.0, kernel_shape=[2,2]>(x) }",
        "float[2,3,3,3] y { y = LpPool<p=1, kernel_shape=[2,2]>(x) }",
    ),
    "rounded defaults": (
        X,
        range(1, 6),
        "float[2,3,4,4] y { y = Selu(x) }",
        "float[2,3,4,4] y { y = Selu<alpha=1.6732, gamma=1.0507>(x) }",
    ),
    "sizes of parts as input": (
        X,
        range(1, 2),
        """float[2,1,4,4] y, float[2,2,4,4] z {
            sizes = Constant<value = float[2] {1, 2}>()
            y, z = Split<axis=1>(x, sizes) }""",
        "float[2,1,4,4] y, float[2,2,4,4] z { y, z = Split<axis=1, split=[1,2]>(x) }",
    ),
    "one axis tiled": (
        X,
        range(1, 6),
        """float[2,6,4,4] y {
            n = Constant<value = float {2}>() axis = Constant<value = float {1}>()
            y = Tile(x, n, axis) }""",
        "float[2,6,4,4] y { y = Concat<axis=1>(x, x) }",
    ),
    "Upsample by a scale for each side": (
        X,
        range(1, 7),
        "float[2,3,8,12] y { y = Upsample<height_scale=2.0, width_scale=3.0>(x) }",
        "float[2,3,8,12] y { y = Upsample<scales=[1.0,1.0,2.0,3.0]>(x) }",
    ),
}


@pytest.mark.parametrize("name", FORMS)
def test_first_forms(name: str):
    inputs, opsets, old, new = FORMS[name]
    old, new = (f"g ({inputs}) => ({form.replace(' {', ') {', 1)}" for form in (old, new))
    wanted = parse(new, 8 if "Upsample" in new else 9)
    for opset in (opsets[0], opsets[-1]):
        imported = import_model(parse(old, opset))
        again, arrays = export_model(imported.module, imported.weights), random_inputs(imported)
        assert_close(run(again, arrays), run(wanted, arrays))


RELU = "g (float[2] x) => (float[2] y) { y = Relu(x) }"


def refused(text: str, opset: int, kind: type[Exception], match: str):
    """Check that a model of an opset is refused by an error."""
    with pytest.raises(kind, match=match):
        import_model(parse(text, opset))


def test_what_is_refused():
    shapes = "g (float[2,3] x, float[3] w) => (float[2,3] y) { y = Add(x, w) }"
    refused(shapes, 6, ShapeError, "differ without broadcast=1")
    drops = "g (float[2] x) => (float[2] y) { y = Dropout(x) }"
    refused(drops, 6, UnsupportedOperatorError, "drops values at random")
    cast = 'g (float[2] x) => (int32[2] y) { y = Cast<to="INT33">(x) }'
    refused(cast, 5, ModelError, "'INT33', which is not an element type")


def test_a_model_need_not_import_the_default_domain_unless_it_uses_it():
    text = """<ir_version: 10, opset_import: ["own" : 1]>
        g (float[2] x) => (float[2] y) { y = own.Twice(x) }
        <domain: "own", opset_import: ["" : 18]> Twice (x) => (y) { y = Add(x, x) }"""
    imported = import_model(parse(text))
    arrays = {"x": np.array([1, -2], np.float32)}
    (result,) = run(export_model(imported.module, imported.weights), arrays)
    assert result.tolist() == [2, -4]
    model = parse(RELU)
    model.opset_import[0].domain = "own"
    with pytest.raises(ModelError, match="No opset import for domain ''"):
        import_model(model)
