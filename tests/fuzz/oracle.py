"""What a model should compute: onnxruntime a node at a time, and how far rounding may carry it.

A node at a time has three uses: every tensor is known while a graph grows, known mistakes of
onnxruntime are put right where they occur, and the spread of the results under small random errors
of every node is the measured condition of the graph (as in stochastic arithmetic).
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, cast

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import helper

from compiler.net.operators.fourier import FOURIER
from tests.fuzz.call import Call
from tests.fuzz.differences import call_of, corrected, is_chosen
from tests.fuzz.resizing import is_whole_resize, resized

Array = NDArray[Any]
Value = Any
"""An array, or a list of arrays where the tensor is a sequence; None where it is left out."""

EXACT = frozenset(
    "Abs And ArgMax ArgMin BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Cast CastLike Ceil"
    " Clip Compress Concat ConcatFromSequence Constant ConstantOfShape DepthToSpace Dropout Equal"
    " Expand EyeLike Flatten Floor Gather GatherElements GatherND GlobalMaxPool Greater"
    " GreaterOrEqual Hardmax Identity IsInf IsNaN Less LessOrEqual Max MaxPool Min Neg Not OneHot"
    " Or Pad Range ReduceMax ReduceMin Relu Reshape ReverseSequence Round ScatterND Scatter"
    " ScatterElements SequenceAt SequenceConstruct SequenceErase SequenceInsert SequenceLength"
    " Shape Sign Size Slice SpaceToDepth Split SplitToSequence Squeeze Tile TopK Transpose Trilu"
    " Unsqueeze Where Xor".split()
)
"""Operators that round nothing: what they get is exactly what they give."""


_SUMS = "Add Gelu Sub Sum Mean ReduceMean RNN GRU LSTM"
_NORMALISATIONS = "Batch Instance Group Layer"

ABSOLUTE = {
    **dict.fromkeys(_SUMS.split(), 1.0),
    **dict.fromkeys([f"{name}Normalization" for name in _NORMALISATIONS.split()], 1.0),
    **dict.fromkeys(("DFT", FOURIER, "Resize", "STFT", "Upsample"), 8.0),
    **dict.fromkeys(("If", "Loop", "Scan"), 1.0),
}
"""Operators whose rounding errors are relative to their operands, and how large they are.

Sums may be contracted with the products before them, also those in the cells of a recurrence, whose
functions onnxruntime approximates; a normalisation adds its bias to a product that may cancel it;
Resize rounds its coordinates, Gelu adds 1 to erf(x), and the sums of a transform may cancel, as may
those in a body, of which the operators do not err one by one.
"""


def absolute_error(op_type: str, scale: float) -> float:
    """What rounding errors are relative to, for operands of a size; 0 for the result itself.

    LogSoftmax adds the logarithm of a sum of at least 1, whose rounding is relative to 1.
    """
    return max(scale, 1.0) if op_type == "LogSoftmax" else scale * ABSOLUTE.get(op_type, 0.0)


class Refused(Exception):
    """onnxruntime does not run this node."""


def _options() -> Any:
    runtime: Any = onnxruntime
    options = runtime.SessionOptions()
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    return options


OPTIONS = _options()


@lru_cache(maxsize=512)
def _session(model: bytes) -> Any:
    return onnxruntime.InferenceSession(model, OPTIONS, ["CPUExecutionProvider"])


def run_model(model: bytes, feeds: Mapping[str, Array]) -> dict[str, Array]:
    """A whole model under onnxruntime without optimisation; raises Refused."""
    try:
        session = _session(model)
        names = [output.name for output in session.get_outputs()]
        return dict(zip(names, session.run(None, dict(feeds)), strict=True))
    except Exception as error:  # onnxruntime has a class of errors for each reason
        raise Refused(str(error)) from error


def free_names(node: onnx.NodeProto) -> list[str]:
    """The tensors that a node reads, those that its subgraphs take from outside among them."""
    names = [name for name in node.input if name]
    for attribute in node.attribute:
        for graph in (attribute.g, *attribute.graphs):
            names += _free_of_graph(graph)
    return list(dict.fromkeys(names))


def _free_of_graph(graph: onnx.GraphProto) -> Iterable[str]:
    inner = {i.name for i in (*graph.input, *graph.initializer)}
    inner |= {name for node in graph.node for name in node.output}
    used = [name for node in graph.node for name in free_names(node)]
    used += [output.name for output in graph.output]
    return (name for name in used if name not in inner)


def value_info(name: str, value: Value) -> onnx.ValueInfoProto:
    """The type of a tensor, or of a sequence, as models declare it."""
    if isinstance(value, list):
        items = cast(list[Array], value)
        dtype: np.dtype[Any] = items[0].dtype if items else np.dtype("float32")
        element = helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(dtype), None)
        return helper.make_value_info(name, helper.make_sequence_type_proto(element))
    element = helper.np_dtype_to_tensor_dtype(value.dtype)
    return helper.make_tensor_value_info(name, element, value.shape)


def is_narrow(value: Value) -> bool:
    """Whether numpy knows a tensor's type from ml_dtypes only, and onnxruntime does not pass it."""
    return not isinstance(value, list) and value.dtype.kind == "V"


_NARROW = {
    "tensor(bfloat16)": ml_dtypes.bfloat16,
    "tensor(float8e4m3fn)": ml_dtypes.float8_e4m3fn,
    "tensor(float8e5m2)": ml_dtypes.float8_e5m2,
    "tensor(int4)": ml_dtypes.int4,
    "tensor(uint4)": ml_dtypes.uint4,
}
"""Types of onnxruntime's that do not come out of it as they are; float32 holds all of each."""


def _run_any(model: onnx.ModelProto, feeds: Mapping[str, Array]) -> dict[str, Array]:
    """The outputs of a model, those of types that numpy lacks too; raises Refused."""
    try:
        types = [output.type for output in _session(model.SerializeToString()).get_outputs()]
    except Exception as error:
        raise Refused(str(error)) from error
    wide = onnx.ModelProto()
    wide.CopyFrom(model)
    for output, kind in zip(wide.graph.output, types, strict=True):
        if kind in _NARROW:
            name, output.name = output.name, f"{output.name}/wide"
            cast = helper.make_node("Cast", [name], [output.name], to=onnx.TensorProto.FLOAT)
            wide.graph.node.append(cast)
    outputs = run_model(wide.SerializeToString(), feeds).values()
    names = [output.name for output in model.graph.output]
    return {
        name: array.astype(_NARROW[kind]) if kind in _NARROW else array
        for name, kind, array in zip(names, types, outputs, strict=True)
    }


class Oracle:
    """Evaluates the nodes of a model, whose functions and opsets it takes, by some semantics."""

    def __init__(self, model: onnx.ModelProto, semantics: str = "onnx") -> None:
        self.semantics = semantics
        self.functions, self.imports = list(model.functions), list(model.opset_import)
        self.ir_version = model.ir_version
        self.opset = next((i.version for i in self.imports if i.domain in ("", "ai.onnx")), 0)

    def step(self, node: onnx.NodeProto, values: Mapping[str, Value]) -> dict[str, Value]:
        """The outputs of one node by name; raises Refused."""
        feeds = {name: values[name] for name in free_names(node)}
        _check_batches(call_of(node, self.opset, values))
        model = self.model_of(node, feeds)
        given = {name: value for name, value in feeds.items() if not is_narrow(value)}
        outputs = _run_any(model, given)
        return corrected(node, self.opset, feeds, outputs, self.semantics)

    def model_of(self, node: onnx.NodeProto, feeds: Mapping[str, Value]) -> onnx.ModelProto:
        """A model of one node; operands of types that numpy lacks are constants."""
        wanted = [onnx.ValueInfoProto(name=name) for name in node.output if name]
        infos = [value_info(name, value) for name, value in feeds.items() if not is_narrow(value)]
        graph = helper.make_graph([node], "node", infos, wanted)
        graph.initializer.extend(
            onnx.numpy_helper.from_array(value, name)
            for name, value in feeds.items()
            if is_narrow(value)
        )
        return helper.make_model(
            graph,
            opset_imports=self.imports,
            functions=self.functions,
            ir_version=self.ir_version,
        )

    def run(self, model: onnx.ModelProto, feeds: Mapping[str, Array]) -> dict[str, Value]:
        """Every tensor of a model by name."""
        values: dict[str, Value] = {**constants_of(model), **feeds}
        for node in model.graph.node:
            values.update(self.step(node, values))
        return values

    def perturbed(
        self,
        model: onnx.ModelProto,
        feeds: Mapping[str, Array],
        noise: "Noise",
        defined: Mapping[str, Value] | None = None,
    ) -> dict[str, Value]:
        """Every tensor of a model whose inexact nodes err by a few units in the last place.

        Where an error leaves an operator's domain, its result is that of `defined`, if given.
        """
        values: dict[str, Value] = {**constants_of(model), **feeds}
        for node in model.graph.node:
            call = call_of(node, self.opset, values)
            chosen = self.semantics == "onnxruntime" and is_chosen(call)
            if is_exact(node) or chosen:
                values.update(self.step(node, values))
                continue
            if is_whole_resize(call):
                values[node.output[0]] = noise.whole(resized(call, np.float64), call.inputs[0])
                continue
            near = {**values, **{n: noise.on(values[n]) for n in _measured(node)}}
            outputs = self.step(node, near)
            scale = largest(values[name] for name in free_names(node))
            grown = absolute_error(node.op_type, scale)
            erring = {name: noise.on(v, grown) for name, v in outputs.items()}
            values.update(_kept_defined(erring, defined) if defined else erring)
        return values


def _check_batches(call: Call) -> None:
    """Refuse GatherND of unequal batch dimensions: onnxruntime reads on in other batches."""
    if call.op == "GatherND" and (batch := call.attributes.get("batch_dims", 0)):
        data, indices = call.inputs
        if data.shape[:batch] != indices.shape[:batch]:
            raise Refused("GatherND: the batch dimensions differ")


def _kept_defined(erring: dict[str, Value], defined: Mapping[str, Value]) -> dict[str, Value]:
    """The values, those of `defined` where only an error made NaN of a number."""

    def kept(near: Array, exact: Array) -> Array:
        chosen: Array = np.where((near != near) & (exact == exact), exact, near)
        return chosen

    def alike(near: Value, exact: Value) -> bool:
        return not isinstance(near, list) and near.shape == np.shape(exact)

    return {
        name: kept(value, defined[name]) if alike(value, defined[name]) else value
        for name, value in erring.items()
    }


def is_exact(node: onnx.NodeProto) -> bool:
    """Whether a node rounds nothing."""
    reduces = any(a.name == "reduction" and a.s != b"none" for a in node.attribute)
    return node.op_type in EXACT and not reduces


def _measured(node: onnx.NodeProto) -> list[str]:
    """What a node computes with: not the scales that decide a size."""
    return list(node.input)[:1] if node.op_type in ("Resize", "Upsample") else free_names(node)


def largest(values: Iterable[Value]) -> float:
    """The largest magnitude of finite floats, 0 if there is none."""
    found = [
        float(np.abs(finite).max())
        for value in values
        if not isinstance(value, list) and is_float(value.dtype)
        if (finite := value[np.isfinite(value)]).size
    ]
    return max(found, default=0.0)


def is_float(dtype: np.dtype[Any]) -> bool:
    """Whether a dtype is a float, those of ml_dtypes included."""
    return "float" in dtype.name


def limits_of(dtype: Any) -> Any:
    """The limits of a float's dtype, those of ml_dtypes included."""
    finfo: Any = ml_dtypes.finfo
    return finfo(dtype)


class Noise:
    """Small random errors of floating point values."""

    def __init__(self, seed: int, units: float = 4.0) -> None:
        self.random, self.units = np.random.default_rng(seed), units

    def on(self, value: Value, least: float = 0.0, dtype: Any = None) -> Value:
        """The value with errors of some units in the last place, or of those of `least`.

        The units are those of `dtype`, if it is not the value's own.
        """
        if isinstance(value, list):
            return [self.on(item) for item in cast(list[Array], value)]
        if not is_float(value.dtype):
            return value
        limits = limits_of(dtype or value.dtype)
        wide = value.astype(np.float64)
        size = np.maximum(np.abs(wide), least) * float(limits.eps) * self.units
        share = np.asarray(self.random.random(wide.shape), np.float64) * 2 - 1
        noise = share * (size + float(limits.smallest_normal))
        with np.errstate(all="ignore"):
            near: Array = (wide + np.where(np.isfinite(wide), noise, 0)).astype(value.dtype)
        kept: Array = np.isfinite(wide) & np.isinf(near) | (wide == 0) & (least == 0)
        chosen: Array = np.where(kept, value, near)
        return chosen

    def whole(self, value: Array, like: Array) -> Array:
        """Numbers with errors as integers of the dtype of `like`, whose elements they come from."""
        unit = np.float64 if like.dtype.itemsize >= 4 else np.float32
        limits = np.iinfo(like.dtype)
        least = ABSOLUTE["Resize"] * float(np.abs(like.astype(np.float64)).max(initial=0))
        near: Array = np.rint(self.on(value, least, np.dtype(unit)))
        inside = np.clip(near, float(limits.min), np.nextafter(float(limits.max), 0)).astype(
            like.dtype
        )
        return np.where(near >= float(limits.max), limits.max, inside).astype(like.dtype)


def constants_of(model: onnx.ModelProto) -> dict[str, Array]:
    """The initializers by name."""
    return {t.name: onnx.numpy_helper.to_array(t) for t in model.graph.initializer}
