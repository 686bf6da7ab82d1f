"""Models in 16 bits on a CPU, against the same models in float32 and in onnxruntime.

    python benchmarks/cpu/half.py [--operators [NAME...]] [--blocks [NAME...]] [--networks NAME...]
                                  [--types float16 bfloat16] [--precisions fp16 bf16] [--seconds 3]

Single operators of the shapes that BERT and ResNet have, parts of networks, and networks of
`examples` whose floats are converted, on one thread; with `--precisions` the float32 model in
these, too. All contenders take turns in one process; figures are the least CPU
time of a run in microseconds. `/fp32` is ours in 16 bits over ours in float32, `/ort` over
onnxruntime's on the same model; onnxruntime has hardly a CPU kernel of bfloat16, so that such rows
are compared with its float16.
"""

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import geometric_mean
from time import perf_counter, thread_time_ns
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnx.parser
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

import compiler
from benchmarks.cpu import runtimes
from examples import named

Array = np.ndarray[Any, np.dtype[Any]]
Run = Callable[[], Any]

NUMBERS = {"float32": TensorProto.FLOAT, "float16": TensorProto.FLOAT16}
NUMBERS["bfloat16"] = TensorProto.BFLOAT16
TYPES: dict[str, np.dtype[Any]] = {name: np.dtype(name) for name in ("float32", "float16")}
TYPES["bfloat16"] = np.dtype(ml_dtypes.bfloat16)

FLOAT_ATTRIBUTES = ("to", "dtype")
"""Attributes that name an element's type."""

OPERATORS: Mapping[
    str, tuple[str, dict[str, Any], tuple[tuple[int, ...], ...], tuple[int, ...]]
] = {
    "gemv": ("MatMul", {}, ((1, 768), (768, 3072)), (1,)),
    "gemv-large": ("MatMul", {}, ((1, 2048), (2048, 8192)), (1,)),
    "matmul-8": ("MatMul", {}, ((8, 768), (768, 3072)), (1,)),
    "matmul-128": ("MatMul", {}, ((128, 768), (768, 768)), (1,)),
    "gemm-T": ("Gemm", {"transB": 1}, ((64, 512), (1000, 512), (1000,)), (1, 2)),
    "matmul-batch": ("MatMul", {}, ((12, 128, 64), (12, 64, 128)), ()),
    "conv-1x1": ("Conv", {}, ((1, 64, 56, 56), (256, 64, 1, 1), (256,)), (1, 2)),
    "conv-1x1-s2": (
        "Conv",
        {"strides": [2, 2]},
        ((1, 256, 28, 28), (128, 256, 1, 1), (128,)),
        (1, 2),
    ),
    "conv-3x3": ("Conv", {"pads": [1, 1, 1, 1]}, ((1, 64, 56, 56), (64, 64, 3, 3), (64,)), (1, 2)),
    "conv-3x3-s2": (
        "Conv",
        {"pads": [1, 1, 1, 1], "strides": [2, 2]},
        ((1, 64, 56, 56), (64, 64, 3, 3), (64,)),
        (1, 2),
    ),
    "conv-7x7-s2": (
        "Conv",
        {"pads": [3, 3, 3, 3], "strides": [2, 2]},
        ((1, 3, 224, 224), (64, 3, 7, 7), (64,)),
        (1, 2),
    ),
    "depthwise": (
        "Conv",
        {"pads": [1, 1, 1, 1], "group": 128},
        ((1, 128, 56, 56), (128, 1, 3, 3), (128,)),
        (1, 2),
    ),
    "layer-norm": ("LayerNormalization", {}, ((128, 768), (768,), (768,)), (1, 2)),
    "softmax": ("Softmax", {}, ((12, 128, 128),), ()),
    "add": ("Add", {}, ((128, 3072), (128, 3072)), ()),
    "gelu": ("Gelu", {}, ((128, 3072),), ()),
    "sigmoid": ("Sigmoid", {}, ((128, 3072),), ()),
    "transpose": ("Transpose", {"perm": [0, 2, 1]}, ((12, 128, 64),), ()),
    "max-pool": (
        "MaxPool",
        {"kernel_shape": [3, 3], "strides": [2, 2]},
        ((1, 64, 112, 112),),
        (),
    ),
    "mean": ("GlobalAveragePool", {}, ((1, 512, 14, 14),), ()),
}
"""An operator's type and attributes, the shapes of its operands and which of these are weights."""


def operator_model(name: str) -> onnx.ModelProto:
    """A model of one operator, with float32 weights; attention is three."""
    if name == "attention":
        return attention_model()
    type_, attributes, shapes, weights = OPERATORS[name]
    names = [f"x{i}" for i in range(len(shapes))]
    generator = np.random.default_rng(0)
    arrays = {
        names[i]: (0.05 * generator.standard_normal(shapes[i])).astype("float32") for i in weights
    }
    nodes = [helper.make_node(type_, names, ["y"], **attributes)]
    inputs = {n: s for i, (n, s) in enumerate(zip(names, shapes, strict=True)) if i not in weights}
    return _model(nodes, inputs, arrays)


BLOCKS = {
    "bert-layer": """net (float[128,512] x) => (float[128,512] y) {
        q = Gemm <transB=1> (x, wq, bq) k = Gemm <transB=1> (x, wk, bk)
        v = Gemm <transB=1> (x, wv, bv)
        qh = Reshape (q, heads) kh = Reshape (k, heads) vh = Reshape (v, heads)
        qt = Transpose <perm=[1, 0, 2]> (qh) kt = Transpose <perm=[1, 2, 0]> (kh)
        vt = Transpose <perm=[1, 0, 2]> (vh)
        s = MatMul (qt, kt) c = Mul (s, scale) p = Softmax <axis=-1> (c)
        a = MatMul (p, vt) at = Transpose <perm=[1, 0, 2]> (a) am = Reshape (at, rows)
        o = Gemm <transB=1> (am, wo, bo) r = Add (x, o)
        n = LayerNormalization (r, g1, b1) f = Gemm <transB=1> (n, wf, bf) e = Gelu (f)
        d = Gemm <transB=1> (e, wd, bd) t = Add (n, d) y = LayerNormalization (t, g2, b2)
    }""",
    "decoder-layer": """net (float[1,1024] x) => (float[1,1024] y) {
        n = LayerNormalization (x, g1, b1) q = MatMul (n, mq) k = MatMul (n, mk)
        s = Sigmoid (k) h = Mul (q, s) o = MatMul (h, mo) r = Add (x, o)
        z = LayerNormalization (r, g2, b2) u = MatMul (z, mu) e = Gelu (u) d = MatMul (e, md)
        y = Add (r, d)
    }""",
    "resnet-block": """net (float[1,256,28,28] x) => (float[1,256,28,28] y) {
        a = Conv (x, c1, k1) ar = Relu (a) b = Conv <pads=[1, 1, 1, 1]> (ar, c2, k2)
        br = Relu (b) c = Conv (br, c3, k3) s = Add (c, x) y = Relu (s)
    }""",
    "mobile-block": """net (float[1,40,28,28] x) => (float[1,40,28,28] y) {
        a = Conv (x, e1, l1) ar = HardSwish (a)
        b = Conv <pads=[2, 2, 2, 2], group=120> (ar, e2, l2) br = HardSwish (b)
        m = GlobalAveragePool (br) f = Conv (m, e4, l4) fr = Relu (f) g = Conv (fr, e5, l2)
        gs = HardSigmoid (g) bs = Mul (br, gs) c = Conv (bs, e3, l3) y = Add (c, x)
    }""",
}
"""Parts of networks: a layer of a small BERT, of a decoder's step, of ResNet-50, of MobileNetV3."""

WEIGHTS: Mapping[str, tuple[int, ...]] = {
    **dict.fromkeys(("wq", "wk", "wv", "wo"), (512, 512)),
    **dict.fromkeys(("bq", "bk", "bv", "bo", "bd"), (512,)),
    **{"wf": (2048, 512), "bf": (2048,), "wd": (512, 2048)},
    **dict.fromkeys(("mq", "mk", "mo"), (1024, 1024)),
    **{"mu": (1024, 4096), "md": (4096, 1024)},
    **{"c1": (64, 256, 1, 1), "c2": (64, 64, 3, 3), "c3": (256, 64, 1, 1)},
    **{"k1": (64,), "k2": (64,), "k3": (256,)},
    **{"e1": (120, 40, 1, 1), "e2": (120, 1, 5, 5), "e3": (40, 120, 1, 1)},
    **{"e4": (32, 120, 1, 1), "e5": (120, 32, 1, 1)},
    **{"l1": (120,), "l2": (120,), "l3": (40,), "l4": (32,)},
}


def block_model(name: str) -> onnx.ModelProto:
    """A part of a network with random weights."""
    text = BLOCKS[name]
    model = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["" : 20]> {text}')
    generator, columns = np.random.default_rng(0), 512 if name == "bert-layer" else 1024
    norms = dict.fromkeys(("g1", "b1", "g2", "b2"), (columns,))
    arrays = {
        n: (generator.standard_normal(shape) * 0.05).astype("float32")
        for n, shape in {**WEIGHTS, **norms}.items()
    }
    arrays["scale"] = np.array(0.125, "float32")
    arrays["heads"], arrays["rows"] = np.array([128, 8, 64]), np.array([128, 512])
    used = {value for node in model.graph.node for value in node.input}
    model.graph.initializer.extend(
        numpy_helper.from_array(array, n) for n, array in arrays.items() if n in used
    )
    return onnx.shape_inference.infer_shapes(model)


def attention_model() -> onnx.ModelProto:
    """Attention of 12 heads of 64 over 128 tokens, Q, K and V from one projection."""
    nodes = [
        helper.make_node("MatMul", ["q", "k"], ["scores"]),
        helper.make_node("Mul", ["scores", "scale"], ["scaled"]),
        helper.make_node("Softmax", ["scaled"], ["weights"], axis=-1),
        helper.make_node("MatMul", ["weights", "v"], ["y"]),
    ]
    inputs = {"q": (1, 12, 128, 64), "k": (1, 12, 64, 128), "v": (1, 12, 128, 64)}
    return _model(nodes, inputs, {"scale": np.array(0.125, "float32")})


def _model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Sequence[int]],
    weights: Mapping[str, Array],
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "operator",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in inputs.items()],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    opsets = [helper.make_opsetid("", 20)]
    return onnx.shape_inference.infer_shapes(
        helper.make_model(graph, opset_imports=opsets, ir_version=9)
    )


def converted(model: onnx.ModelProto, dtype: str) -> onnx.ModelProto:
    """A model whose float32 tensors all have another type, those of nested graphs included."""
    found = onnx.ModelProto()
    found.CopyFrom(model)
    _convert(found.graph, dtype)
    return found


def _convert(graph: onnx.GraphProto, dtype: str) -> None:
    for tensor in graph.initializer:
        _convert_tensor(tensor, dtype)
    for info in (*graph.input, *graph.output, *graph.value_info):
        if info.type.tensor_type.elem_type == TensorProto.FLOAT:
            info.type.tensor_type.elem_type = NUMBERS[dtype]
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.name in FLOAT_ATTRIBUTES and attribute.i == TensorProto.FLOAT:
                attribute.i = NUMBERS[dtype]
            if attribute.HasField("t"):
                _convert_tensor(attribute.t, dtype)
            if attribute.HasField("g"):
                _convert(attribute.g, dtype)


def _convert_tensor(tensor: onnx.TensorProto, dtype: str) -> None:
    if tensor.data_type == TensorProto.FLOAT:
        array = numpy_helper.to_array(tensor)
        limit = 65504.0 if dtype == "float16" else np.inf
        narrow = np.clip(array, -limit, limit).astype(TYPES[dtype])
        raw = narrow.tobytes()
        name, dims = tensor.name, list(tensor.dims)
        tensor.Clear()
        tensor.name, tensor.data_type, tensor.raw_data = name, NUMBERS[dtype], raw
        tensor.dims.extend(dims)


def inputs_of(model: onnx.ModelProto) -> dict[str, Array]:
    """Random float32 inputs, and integers of zero or one."""
    generator = np.random.default_rng(1)
    given = {tensor.name for tensor in model.graph.initializer}
    found: dict[str, Array] = {}
    for info in model.graph.input:
        if info.name not in given:
            shape = [d.dim_value for d in info.type.tensor_type.shape.dim]
            if info.type.tensor_type.elem_type == TensorProto.FLOAT:
                found[info.name] = generator.standard_normal(shape).astype("float32")
            else:
                dtype = helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type)
                found[info.name] = generator.integers(0, 2, shape).astype(dtype)
    return found


def as_type(inputs: Mapping[str, Array], dtype: str) -> dict[str, Array]:
    """The inputs, the floats of them in another type."""
    floats = np.dtype("float32")
    return {n: a.astype(TYPES[dtype]) if a.dtype == floats else a for n, a in inputs.items()}


def least(runs: Mapping[str, Run], seconds: float) -> dict[str, float]:
    """The least CPU microseconds of each, taking turns."""
    best = dict.fromkeys(runs, float("inf"))
    end = perf_counter() + seconds
    rounds = 0
    while perf_counter() < end or rounds < 3:
        rounds += 1
        for name, run in runs.items():
            for _ in range(2):
                start = thread_time_ns()
                run()
                best[name] = min(best[name], (thread_time_ns() - start) / 1e3)
    return best


def measure(
    name: str,
    model: onnx.ModelProto,
    types: Sequence[str],
    precisions: Sequence[str],
    seconds: float,
) -> list[float]:
    """Print one line of the table; gives ours over onnxruntime's in float16, for each type."""
    inputs = inputs_of(model)
    runs: dict[str, Run] = {}
    results: dict[str, Any] = {}
    for dtype in ("float32", *types):
        own = model if dtype == "float32" else converted(model, dtype)
        given = as_type(inputs, dtype)
        module = compiler.compile(own, threads=1, budget=0)
        runs[dtype] = lambda m=module, g=given: m.run(g)
        if dtype != "bfloat16":
            try:
                runs[f"ort {dtype}"] = runtimes.prepare_peer("onnxruntime", own, given, 1)
            except Exception as error:
                print(f"{name}: onnxruntime refuses {dtype}: {' '.join(str(error).split())[:100]}")
        results[dtype] = runs[dtype]()
    for precision in precisions:
        module = compiler.compile(model, threads=1, budget=0, precision=precision)
        runs[precision] = lambda m=module: m.run(inputs)
    for dtype in types:
        for key, exact in results["float32"].items():
            error = np.abs(results[dtype][key].astype("float32") - exact)
            if exact.dtype.kind == "f" and not np.nanmax(error) <= 0.1 * np.nanmax(np.abs(exact)):
                print(f"{name}: {dtype} differs from float32 by {np.nanmax(error)}")
    times = least(runs, seconds)
    peer = times.get("ort float16", float("nan"))
    cells = " ".join(f"{key} {value:9.1f}" for key, value in times.items())
    ratios = " ".join(
        f"{t}/fp32 {times[t] / times['float32']:.2f} /ort {times[t] / peer:.2f}" for t in types
    )
    stored = " ".join(f"{p}/fp32 {times[p] / times['float32']:.2f}" for p in precisions)
    print(f"{name:14} {cells}  {ratios} {stored}", flush=True)
    return [times[t] / peer for t in types]


def main() -> None:
    """Print a line for each operator and network, and the mean of the ratios."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--operators", nargs="*")
    parser.add_argument("--blocks", nargs="*")
    parser.add_argument("--networks", nargs="*", default=[])
    parser.add_argument("--precisions", nargs="*", default=[], choices=["fp16", "bf16"])
    parser.add_argument("--types", nargs="+", default=["float16", "bfloat16"])
    parser.add_argument("--seconds", type=float, default=3)
    options = parser.parse_args()
    operators = options.operators
    if operators is not None and not operators:
        operators = [*OPERATORS, "attention"]
    print(runtimes.host(["onnxruntime"]))
    blocks = [*BLOCKS] if options.blocks == [] else options.blocks
    models = [(name, operator_model) for name in operators or []]
    models += [(name, block_model) for name in blocks or []]
    models += [(name, named.load) for name in options.networks]
    ratios = [
        measure(name, load(name), options.types, options.precisions, options.seconds)
        for name, load in models
    ]
    for number, dtype in enumerate(options.types):
        kept = [row[number] for row in ratios if np.isfinite(row[number])]
        if kept:
            print(f"{dtype} over onnxruntime: {geometric_mean(kept):.2f}, worst {max(kept):.2f}")


if __name__ == "__main__":
    main()
