"""ONNX models of one attention in the forms that exporters write, with their results in float64."""

from dataclasses import dataclass
from typing import Any

import numpy
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

FORMS = ("heads", "packed", "merged", "plain", "columns")
"""Q, K and V as (batch, rows, heads * columns); as one such tensor; as one whose keys are
transposed with batch and heads as one axis; as (batch, heads, rows, columns); and with K as
(batch, heads, columns, rows) and V halved."""

PACKED = ("packed", "merged")
"""The forms with one tensor."""

MASKS = ("none", "added", "each", "where", "keys", "windows")
"""No mask; one added to all heads; one for each score; a causal choice between score and -1e9;
keys that are left out, whose rows of V are NaN and replaced with zeros; one added to all heads of a
window, with the batch viewed as the windows of an image."""

FLOOR = 4.0
"""Less than the norms of some rows of random numbers, and more than those of others."""

Array = numpy.ndarray


@dataclass(frozen=True)
class Attention:
    """Sizes and form of an attention."""

    form: str = "heads"
    mask: str = "none"
    batch: int = 1
    heads: int = 2
    rows: int = 16
    columns: int = 16
    depth: int = 16
    width: int = 16
    cosine: bool = False
    """Whether rows of Q and K are divided by their norms, or by `FLOOR` where these are less."""

    def inputs(self, seed: int = 0) -> dict[str, Array]:
        """Random inputs by name, in the model's order."""
        generator = numpy.random.default_rng(seed)
        b, h, s, t, d, e = self.sizes
        shapes = {
            "heads": {"q": (b, s, h * d), "k": (b, t, h * d), "v": (b, t, h * e)},
            **{form: {"qkv": (b, s, 3 * h * d)} for form in PACKED},
            "plain": {"q": (b, h, s, d), "k": (b, h, t, d), "v": (b, h, t, e)},
            "columns": {"q": (b, h, s, d), "k": (b, h, d, t), "v": (b, h, t, e)},
        }[self.form]
        masks = {"added": (b, 1, s, t), "each": (b, h, s, t), "windows": (1, b, 1, s, t)}
        shapes |= {"m": masks[self.mask]} if self.mask in masks else {}
        inputs: dict[str, Array] = {
            name: generator.standard_normal(shape) for name, shape in shapes.items()
        }
        if self.mask == "where":
            inputs["m"] = numpy.tril(numpy.ones((s, t), bool), t - s)
        if self.leaves_out_keys:
            inputs["m"] = keep = generator.permutation(t) < (t + 1) // 2
            inputs["rows"] = keep[:, None]
            value = inputs.get("v")
            if value is None:
                value = inputs["qkv"][..., 2 * h * d :]
            value.swapaxes(1, -2)[:, ~keep] = numpy.nan
        return {n: x if x.dtype == bool else x.astype("float32") for n, x in inputs.items()}

    @property
    def sizes(self) -> tuple[int, int, int, int, int, int]:
        """Batch, heads, rows, keys, depth, width; a packed tensor has as many of each."""
        t, e = (self.rows, self.depth) if self.form in PACKED else (self.columns, self.width)
        return self.batch, self.heads, self.rows, t, self.depth, e

    @property
    def leaves_out_keys(self) -> bool:
        """Whether there are keys that are left out."""
        return self.mask == "keys" and self.sizes[3] > 1

    def model(self) -> ModelProto:
        """The ONNX model, with one output `y`."""
        return _Writer(self).model()

    def expected(self, inputs: dict[str, Array], masked: float = -1e9) -> Array:
        """The output in float64; scores that a `where` mask leaves out are `masked`."""
        b, h, s, t, d, e = self.sizes
        wide = {n: x.astype("float64") if x.dtype != bool else x for n, x in inputs.items()}
        if self.form in PACKED:
            q, k, v = wide["qkv"].reshape(b, s, 3, h, d).transpose(2, 0, 3, 1, 4)
        elif self.form == "heads":
            q = wide["q"].reshape(b, s, h, d).transpose(0, 2, 1, 3)
            k = wide["k"].reshape(b, t, h, d).transpose(0, 2, 1, 3)
            v = wide["v"].reshape(b, t, h, e).transpose(0, 2, 1, 3)
        else:
            q, k, v = wide["q"], wide["k"], wide["v"]
            if self.form == "columns":
                k, v = k.swapaxes(2, 3), v / 2
        if self.cosine:
            q, k = (x / numpy.linalg.norm(x, axis=-1, keepdims=True).clip(FLOOR) for x in (q, k))
        scores = q @ k.swapaxes(2, 3) * (4 if self.cosine else 0.25)
        if self.mask == "where":
            scores = numpy.where(wide["m"], scores, masked)
        elif self.leaves_out_keys:
            scores = numpy.where(wide["m"], scores, -numpy.inf)
            v = numpy.where(wide["m"][:, None], v, 0)
        elif self.mask in ("added", "each"):
            scores = scores + wide["m"]
        elif self.mask == "windows":
            scores = scores + wide["m"][0]
        with numpy.errstate(invalid="ignore"):
            weights = numpy.exp(scores - scores.max(-1, keepdims=True))
            y = weights / weights.sum(-1, keepdims=True) @ v
        joined = self.form in ("heads", *PACKED)
        return y.transpose(0, 2, 1, 3).reshape(b, s, h * e) if joined else y


class _Writer:
    def __init__(self, case: Attention):
        self.case = case
        self.nodes: list[NodeProto] = []
        self.constants: list[TensorProto] = []

    def op(self, type: str, *inputs: str, **attributes: Any) -> str:
        name = f"{type}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(type, list(inputs), [name], **attributes))
        return name

    def constant(self, array: Array) -> str:
        self.constants.append(numpy_helper.from_array(array, f"c{len(self.constants)}"))
        return self.constants[-1].name

    def split(self, value: str, count: int, columns: int) -> str:
        """(batch, rows, heads * columns) as (batch, rows, heads, columns)."""
        shape = numpy.array([self.case.batch, count, self.case.heads, columns])
        return self.op("Reshape", value, self.constant(shape))

    def operands(self) -> tuple[str, str, str]:
        b, h, s, t, d, e = self.case.sizes
        if self.case.form == "heads":
            q = self.unit(self.op("Transpose", self.split("q", s, d), perm=[0, 2, 1, 3]))
            k = self.op("Transpose", self.unit(self.split("k", t, d)), perm=[0, 2, 3, 1])
            v = self.split(self.kept("v"), t, e)
            return q, k, self.op("Transpose", v, perm=[0, 2, 1, 3])
        if self.case.form in PACKED:
            shape = self.constant(numpy.array([b, s, 3, h, d]))
            moved = self.op("Transpose", self.op("Reshape", "qkv", shape), perm=[2, 0, 3, 1, 4])
            q, k, v = (
                self.op("Gather", moved, self.constant(numpy.array(i)), axis=0) for i in range(3)
            )
            root = self.constant(numpy.array(2.0, "float32"))
            q, k = self.op("Div", self.unit(q), root), self.columns(self.unit(k))
            return q, k, self.kept(v)
        if self.case.form == "columns":
            half = self.constant(numpy.array(0.5, "float32"))
            return self.unit("q"), self.unit("k", 2), self.op("Mul", self.kept("v"), half)
        k = self.op("Transpose", self.unit("k"), perm=[0, 1, 3, 2])
        return self.unit("q"), k, self.kept("v")

    def unit(self, value: str, axis: int = 3) -> str:
        """A value divided by its norms along an axis, for a cosine."""
        if not self.case.cosine:
            return value
        norm = self.op("ReduceL2", value, self.constant(numpy.array([axis])))
        return self.op(
            "Div", value, self.op("Clip", norm, self.constant(numpy.array(FLOOR, "float32")))
        )

    def kept(self, v: str) -> str:
        """V with zeros for the keys that are left out: its second last axis."""
        if not self.case.leaves_out_keys:
            return v
        return self.op("Where", "rows", v, self.constant(numpy.array(0, "float32")))

    def columns(self, k: str) -> str:
        """(batch, heads, rows, columns) as (batch, heads, columns, rows)."""
        if self.case.form != "merged":
            return self.op("Transpose", k, perm=[0, 1, 3, 2])
        b, h, _, t, d, _ = self.case.sizes
        flat = self.op("Reshape", k, self.constant(numpy.array([b * h, t, d])))
        moved = self.op("Transpose", flat, perm=[0, 2, 1])
        return self.op("Reshape", moved, self.constant(numpy.array([b, h, d, t])))

    def model(self) -> ModelProto:
        case = self.case
        q, k, v = self.operands()
        factor = (0.5 if case.form in PACKED else 0.25) * (16 if case.cosine else 1)
        scores = self.op(
            "Mul", self.op("MatMul", q, k), self.constant(numpy.array(factor, "float32"))
        )
        if case.mask == "where":
            scores = self.op("Where", "m", scores, self.constant(numpy.array(-1e9, "float32")))
        elif case.leaves_out_keys:
            lowest = self.constant(numpy.array(-numpy.inf, "float32"))
            scores = self.op("Where", "m", scores, lowest)
        elif case.mask in ("added", "each"):
            scores = self.op("Add", scores, "m")
        elif case.mask == "windows":
            viewed = self.op("Unsqueeze", scores, self.constant(numpy.array([0])))
            added = self.op("Add", viewed, "m")
            scores = self.op("Reshape", added, self.constant(numpy.array(case.sizes[:4])))
        y = self.op("MatMul", self.op("Softmax", scores, axis=-1), v)
        if case.form in ("heads", *PACKED):
            b, h, s, _, _, e = case.sizes
            y = self.op("Transpose", y, perm=[0, 2, 1, 3])
            y = self.op("Reshape", y, self.constant(numpy.array([b, s, h * e])))
        self.nodes.append(helper.make_node("Identity", [y], ["y"]))
        inputs = [
            helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
            for n, x in case.inputs().items()
        ]
        output = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
        graph = helper.make_graph(self.nodes, "attention", inputs, [output], self.constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
