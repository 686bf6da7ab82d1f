"""Single nodes in many runs of one compiled model: other contents, shapes and types each time.

The inputs of a node that decide shapes are inputs of the model, so that after some contents the
node runs on the host; so it does from the first run on where elements have a type without kernels,
where an input is a sequence, and where no kernel exists.
"""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, cast

import ml_dtypes
import numpy as np
import onnx
from onnx import helper
from onnx.reference import ReferenceEvaluator

import compiler
from compiler.errors import FlowloomError
from tests.fuzz.case import Array, Case, Failure
from tests.fuzz.catalogue import FAMILIES
from tests.fuzz.catalogue.hosts import DRAWN, HOST_FAMILIES, OPTIMIZERS, TRAINING
from tests.fuzz.differences import Incomparable
from tests.fuzz.draw import Draw
from tests.fuzz.graphs import OPSETS
from tests.fuzz.grower import Grower
from tests.fuzz.oracle import (
    ABSOLUTE,
    EXACT,
    Oracle,
    Refused,
    Value,
    free_names,
    is_float,
    is_narrow,
    limits_of,
)

DECIDE_SHAPES = (
    "CenterCropPad Col2Im ConstantOfShape CumSum DFT Expand MaxUnpool OneHot Pad Range ReduceL1"
    " ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum"
    " ReduceSumSquare Reshape Resize Slice Split SplitToSequence Squeeze STFT Tile TopK Trilu"
    " Unsqueeze Upsample"
).split()
"""Operators with an input whose content decides a shape."""

MOVE = (
    "Cast CastLike Compress Concat DepthToSpace Expand Flatten Gather GatherElements GatherND"
    " Identity IsInf IsNaN OneHot Pad Reshape ReverseSequence Scatter ScatterElements ScatterND"
    " Shape Size Slice SpaceToDepth Split Squeeze TensorScatter Tile Transpose Trilu Unique"
    " Unsqueeze Where"
).split()
"""Operators whose elements may have types without kernels."""

NAMES = sorted({*HOST_FAMILIES, *DECIDE_SHAPES, *MOVE})

SPOILED = "the last run's inputs are spoiled"
"""The note of a case whose last run may be refused; onnxruntime is not asked, it may end."""

SINGLE = frozenset({"BlackmanWindow", "HammingWindow", "HannWindow"})
"""Operators that ONNX defines as functions with constants of float32, whatever they give."""

_TYPES = {
    "tensor(string)": np.dtype(object),
    "tensor(complex64)": np.dtype(np.complex64),
    "tensor(complex128)": np.dtype(np.complex128),
    "tensor(bfloat16)": np.dtype(ml_dtypes.bfloat16),
    "tensor(float8e4m3fn)": np.dtype(ml_dtypes.float8_e4m3fn),
    "tensor(float8e4m3fnuz)": np.dtype(ml_dtypes.float8_e4m3fnuz),
    "tensor(float8e5m2)": np.dtype(ml_dtypes.float8_e5m2),
    "tensor(float8e5m2fnuz)": np.dtype(ml_dtypes.float8_e5m2fnuz),
    "tensor(float8e8m0)": np.dtype(ml_dtypes.float8_e8m0fnu),
    "tensor(float4e2m1)": np.dtype(ml_dtypes.float4_e2m1fn),
    "tensor(int2)": np.dtype(ml_dtypes.int2),
    "tensor(uint2)": np.dtype(ml_dtypes.uint2),
    "tensor(int4)": np.dtype(ml_dtypes.int4),
    "tensor(uint4)": np.dtype(ml_dtypes.uint4),
}
"""Types that kernels lack, or that few operators have, by the schemas' names for them."""


def random_contents(seed: int, target: str) -> Case | None:
    """The case of one node, or None where nothing came of the seed."""
    draw = Draw(seed)
    draw.extremes()
    name = draw.choice(NAMES)
    opset = draw.choice([n for n in OPSETS if _exists(name, n)])
    nodes = _alike(draw, name, opset)
    if not nodes:
        return None
    node, _ = nodes[0]
    wanted = 12 if draw.chance(0.25) else draw.randint(1, 3)
    runs = [values for _, values in nodes[:wanted]]
    dtype = _other_type(draw, node, opset)
    places = [] if dtype is None else _same_type(node, opset)
    if dtype is not None and all(_is_number(run[name]) for run in runs for name in places):
        runs = [_of_type(values, places, dtype) for values in runs]
    model = _model(node, opset, runs, draw)
    if model is None:
        return None
    note = SPOILED if runs[0] and draw.chance(0.5) else ""
    first, *later = [*runs, _spoiled(draw, runs[0])] if note else runs
    data = model.SerializeToString()
    return Case("contents", seed, data, first, later=later, target=target, note=note)


def _spoiled(draw: Draw, values: Mapping[str, Value]) -> dict[str, Value]:
    """The inputs with other numbers, another shape, or nothing in one of them."""
    name = draw.choice([*values])
    value = values[name]
    if _is_list(value):
        return {**values, name: value[: draw.randint(0, 1)]}
    whole, ways = value.dtype.kind in "iu", [value[None], value[:0] if value.ndim else value]
    ways += [value[0]] if value.ndim and len(value) else []
    if whole:
        numbers = [n for n in (-9, -2, -1, 0, 1, 7, 30) if n >= 0 or value.dtype.kind == "i"]
        ways += [draw.numpy.choice(numbers, value.shape).astype(value.dtype)] * 4
    return {**values, name: np.asarray(draw.choice(ways), value.dtype)}


def _exists(name: str, opset: int) -> bool:
    if name in OPTIMIZERS:
        return True
    return onnx.defs.has(name, opset, "") and not onnx.defs.get_schema(name, opset, "").deprecated


def _alike(
    draw: Draw, name: str, opset: int, tries: int = 30
) -> list[tuple[onnx.NodeProto, dict[str, Value]]]:
    """Drawn nodes of one form, each with its inputs i0, i1, ... by name."""
    found: defaultdict[Any, list[tuple[onnx.NodeProto, dict[str, Value]]]] = defaultdict(list)
    for _ in range(tries):
        grower = Grower(draw, opset, 0.0, reuse=0.2)
        grower.most_inputs = 16
        generator = HOST_FAMILIES.get(name) or FAMILIES[name]
        if not grower.attempt(partial(_generate, generator, name)):
            continue
        made = [node for node in grower.model.graph.node if node.op_type == name]
        if not made:
            continue
        node, values = _renamed(made[-1], grower.values)
        form = node.SerializeToString(deterministic=True)
        types = tuple((key, _type(value)) for key, value in values.items())
        found[form, types].append((node, values))
    return max(found.values(), key=len) if found else []


def _generate(generator: Any, name: str, grower: Grower) -> None:
    generator(grower, name)


def _type(value: Value) -> Any:
    return ("sequence", _type(value[0]) if value else None) if _is_list(value) else value.dtype


def _is_number(value: Value) -> bool:
    return not _is_list(value) and value.dtype != object


def _is_list(value: Value) -> bool:
    return isinstance(value, list)


def _renamed(
    node: onnx.NodeProto, values: Mapping[str, Value]
) -> tuple[onnx.NodeProto, dict[str, Value]]:
    """A node that reads i0, i1, ... and writes o0, o1, ..., and its inputs."""
    made = onnx.NodeProto()
    made.CopyFrom(node)
    inputs = [f"i{i}" if name else "" for i, name in enumerate(node.input)]
    captured = [name for name in free_names(node) if name not in node.input]
    del made.input[:], made.output[:]
    made.input.extend(inputs)
    made.output.extend(f"o{i}" if name else "" for i, name in enumerate(node.output))
    given = {new: values[old] for new, old in zip(inputs, node.input, strict=True) if new}
    return made, given | {name: values[name] for name in captured}


def _same_type(node: onnx.NodeProto, opset: int) -> list[str]:
    """The inputs that have the type variable of the first one of an operator that moves."""
    schema = onnx.defs.get_schema(node.op_type, opset, node.domain)
    index = 2 if node.op_type == "OneHot" else 1 if node.op_type == "Where" else 0
    variable = schema.inputs[index].type_str
    formals = [schema.inputs[min(i, len(schema.inputs) - 1)] for i in range(len(node.input))]
    pairs = zip(node.input, formals, strict=True)
    return [name for name, formal in pairs if name and formal.type_str == variable]


def _other_type(draw: Draw, node: onnx.NodeProto, opset: int) -> np.dtype[Any] | None:
    """A type without kernels that the operator may have, if it moves numbers."""
    if node.op_type not in MOVE or node.op_type in ("Cast", "CastLike") or draw.chance(0.3):
        return None
    if any(a.name in ("reduction", "value") for a in node.attribute):
        return None
    schema = onnx.defs.get_schema(node.op_type, opset, node.domain)
    index = 2 if node.op_type == "OneHot" else 1 if node.op_type == "Where" else 0
    allowed = sorted({*schema.inputs[index].types} & _TYPES.keys())
    texts = [name for name in allowed if name == "tensor(string)"]
    return _TYPES[draw.choice([*texts * 4, *allowed])] if allowed else None


def _of_type(
    values: Mapping[str, Value], places: Sequence[str], dtype: np.dtype[Any]
) -> dict[str, Value]:
    return {n: _converted(v, dtype) if n in places else v for n, v in values.items()}


def _converted(array: Array, dtype: np.dtype[Any]) -> Array:
    """Numbers as texts, as complex numbers, or in few bits."""
    with np.errstate(all="ignore"):
        if dtype.hasobject:
            texts = np.empty(array.size, object)
            texts[:] = [f"{number:.3g}" for number in array.reshape(-1).astype(float)]
            return texts.reshape(array.shape)
        if dtype.kind == "c":
            return np.asarray(array.astype(float) * (1 + 2j)).astype(dtype)
        return np.asarray(array.astype(np.float32)).astype(dtype)


def _model(
    node: onnx.NodeProto, opset: int, runs: Sequence[Mapping[str, Value]], draw: Draw
) -> onnx.ModelProto | None:
    """The model of a node; its inputs have sizes where all runs have the same, now and then."""
    judged = (_judged(node, opset, run) for run in runs)
    # an empty sequence does not say what the type of its tensors is
    expected = next((e for e in judged if e and all(map(_has_type, e.values()))), None)
    if expected is None:
        return None
    fixed = draw.chance(0.3)
    infos = [_info(name, [run[name] for run in runs], fixed) for name in runs[0]]
    outputs = [_info(name, [expected[name]], False) for name in node.output if name]
    graph = helper.make_graph([node], "contents", infos, outputs)
    return helper.make_model(graph, opset_imports=_imports(opset), ir_version=10)


def _has_type(value: Value) -> bool:
    return not _is_list(value) or len(value) > 0


def _imports(opset: int) -> list[onnx.OperatorSetIdProto]:
    return [helper.make_opsetid("", opset), helper.make_opsetid(TRAINING, 1)]


def _info(name: str, values: Sequence[Value], fixed: bool) -> onnx.ValueInfoProto:
    """The type of a tensor, or of a sequence, without the sizes that differ."""
    if _is_list(values[0]):
        items = [item for value in values for item in cast(list[Array], value)]
        dtype = items[0].dtype if items else np.dtype(np.float32)
        element = helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(dtype), None)
        return helper.make_value_info(name, helper.make_sequence_type_proto(element))
    shapes = {value.shape for value in values}
    ranks = {len(shape) for shape in shapes}
    shape: Any = None
    if len(ranks) == 1:
        shape = next(iter(shapes)) if fixed and len(shapes) == 1 else [None] * ranks.pop()
    return helper.make_tensor_value_info(
        name, helper.np_dtype_to_tensor_dtype(values[0].dtype), shape
    )


def _judged(
    node: onnx.NodeProto, opset: int, feeds: Mapping[str, Value]
) -> dict[str, Value] | None:
    """What a node should give, by onnxruntime, else by onnx's reference; None if neither knows."""
    graph = helper.make_graph([], "judge", [], [])
    model = helper.make_model(graph, opset_imports=_imports(opset), ir_version=10)
    if node.op_type == "Unique" and not feeds["i0"].size:  # onnxruntime aborts
        return None
    try:
        return Oracle(model).step(node, feeds)
    except Incomparable:
        if node.op_type != "Loop":
            return None
    except Refused as refusal:
        if not (node.domain or _lacks(str(refusal))) or node.op_type in NO_REFERENCE:
            return None
    return _by_reference(node, opset, feeds)


def _lacks(refusal: str) -> bool:
    """Whether onnxruntime has no kernel for these types, rather than something against inputs."""
    words = "NOT_IMPLEMENTED|Could not find an impl|not supported|INVALID_GRAPH|bound to"
    return re.search(words, refusal) is not None


NO_REFERENCE: Mapping[str, str] = {
    "Optional": "it makes a sequence of a tensor",
    "RoiAlign": "it has half a pixel in every opset",
    "Unique": "it ignores `sorted`, and sorts along the first axis alone",
}
"""Operators of which onnx's reference implementation is known to be wrong, and how."""


def _by_reference(
    node: onnx.NodeProto, opset: int, feeds: Mapping[str, Value]
) -> dict[str, Value] | None:
    infos = [onnx.ValueInfoProto(name=name) for name in feeds]
    results = [onnx.ValueInfoProto(name=name) for name in node.output if name]
    graph = helper.make_graph([node], "reference", infos, results)
    model = helper.make_model(graph, opset_imports=_imports(opset))
    try:
        evaluator: Any = ReferenceEvaluator(model)
        found = evaluator.run(None, dict(feeds))
    except Exception:  # it raises whatever numpy does
        return None
    names = [name for name in node.output if name]
    if node.domain:  # it computes some steps of optimizers in float64
        found = [array.astype(feeds["i2"].dtype) for array in found]
    return {n: v if _is_list(v) else _padded_by_texts(v) for n, v in zip(names, found, strict=True)}


def _padded_by_texts(value: Any) -> np.ndarray:
    """A result of the reference implementation, which pads texts by the number 0."""
    array = np.asarray(value)
    return np.where(array == 0, "", array).astype(object) if array.dtype == object else array


def check_contents(case: Case) -> Failure | None:
    """One compiled model gives in each run what a judge says; it refuses in Flowloom's words."""
    from tests.fuzz.checks import Skipped, raised

    proto = case.proto
    (node,), opset = proto.graph.node, proto.opset_import[0].version
    try:
        module = compiler.compile(case.model, target=case.target)
    except FlowloomError as error:
        raise Skipped(f"refused: {node.op_type}: {str(error)[:60]}") from error
    except Exception as error:
        return raised(error)
    runs = [case.feeds, *case.later]
    for number, feeds in enumerate(runs):
        spoiled = case.note == SPOILED and number == len(runs) - 1
        expected = None if spoiled else _judged(node, opset, feeds)
        try:
            results = module.run(feeds)
        except FlowloomError as error:
            if expected is not None:
                return raised(error)
            continue
        except Exception as error:
            return raised(error)
        for name, wanted in (expected or {}).items():
            reads = [value for value in feeds.values() if not _is_list(value)]
            if wrong := unlike(node, results[name], wanted, reads):
                return Failure("wrong", f"run {number}, output {name!r}: {wrong}")
    return None


def unlike(node: onnx.NodeProto, result: Value, wanted: Value, reads: Sequence[Array]) -> str:
    """How a result differs from what is wanted by more than rounding; "" if it does not."""
    if _is_list(wanted):
        mine, others = cast(list[Array], result), cast(list[Array], wanted)
        if not _is_list(result) or len(mine) != len(others):
            return f"{result!r} is no sequence of {len(others)}"
        pairs = zip(mine, others, strict=True)
        return next(filter(None, (unlike(node, a, b, reads) for a, b in pairs)), "")
    wanted = np.asarray(wanted)
    if wanted.dtype.kind in "US":
        wanted = wanted.astype(object)
    if (result.dtype, result.shape) != (wanted.dtype, wanted.shape):
        return f"{result.dtype}{list(result.shape)}, not {wanted.dtype}{list(wanted.shape)}"
    if node.op_type in DRAWN or _near(node, result, wanted, reads):
        return ""
    return f"{result.tolist()!r}, not {wanted.tolist()!r}"


def _near(node: onnx.NodeProto, result: Array, wanted: Array, reads: Sequence[Array]) -> bool:
    with np.errstate(all="ignore"):
        if not is_float(result.dtype):
            same = (result == wanted) | ((result != result) & (wanted != wanted))
            return bool(np.all(same))
        mine, other = result.astype(np.float64), wanted.astype(np.float64)
        same = (mine == other) | (np.isnan(mine) & np.isnan(other))
        if node.op_type in EXACT and not any(a.name == "reduction" for a in node.attribute):
            return bool(same.all())
        scale = _scale(node, reads)
        dtype = np.float32 if node.op_type in SINGLE else result.dtype
        limits = limits_of(dtype)
        bound = 64 * float(limits.eps) * np.fmax(np.abs(other), scale)
        bound += float(limits.smallest_normal)
        return bool((same | np.isinf(bound) | (np.abs(mine - other) <= bound)).all())


def _scale(node: onnx.NodeProto, reads: Sequence[Array]) -> float | Array:
    """What rounding errors are relative to, besides the result itself."""
    if node.op_type == "Det":
        # Elimination errs by units of the largest element in every element (Higham, ch. 9): huge
        # ones leave no digit of a determinant, and its order decides between infinity and NaN.
        size = np.abs(reads[0].astype(np.float64)).max((-1, -2), initial=0)
        return np.where(np.isfinite(size), size, np.inf) ** reads[0].shape[-1]
    floats = [x[np.isfinite(x)] for x in reads if is_float(x.dtype) and not is_narrow(x)]
    scale = max((float(np.abs(x.astype(float)).max(initial=0)) for x in floats), default=0)
    scale = max(scale, 1) if node.op_type in SINGLE else scale
    return scale * ABSOLUTE.get(node.op_type, 1.0)
