"""Models of a few bytes that ask for large constants: compiling takes bounded memory and time."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import compiler
from compiler.errors import FlowloomError
from compiler.net.building.expansion import MODEL_GROWTH, SPARE_BYTES
from tests.fuzz.case import Array, Case, Failure
from tests.fuzz.draw import Draw

OPSET = 22
MOST_ELEMENTS = 2 * 10**9
"""The elements of the largest tensor, which is about what Flowloom's may have."""


class Unsuitable(Exception):
    """A step does not suit what is there."""


@dataclass
class Growth:
    """A chain of nodes on constants, or on an input of the model, that grows."""

    draw: Draw
    nodes: list[onnx.NodeProto] = field(default_factory=list[onnx.NodeProto])
    inputs: list[onnx.ValueInfoProto] = field(default_factory=list[onnx.ValueInfoProto])
    end: str = ""
    shape: tuple[int, ...] = ()
    """The end's; empty before the first step."""
    element: int = TensorProto.FLOAT

    def size(self, least: float = 2.0, most: float = 9.0) -> int:
        """A number whose decimal logarithm is evenly distributed."""
        return int(10 ** self.draw.uniform(least, most))

    def name(self) -> str:
        """A name that no node has."""
        return f"t{len(self.nodes)}"

    def constant(self, value: Any, dtype: Any = None) -> str:
        """A node Constant, which may be in any graph or function."""
        array: Array = np.asarray(value, dtype)
        tensor = numpy_helper.from_array(array, "value")
        self.nodes.append(helper.make_node("Constant", [], [self.name()], value=tensor))
        return self.nodes[-1].output[0]

    def random(self, *shape: int) -> str:
        """A constant of random float32."""
        return self.constant(self.draw.numpy.uniform(-1, 1, shape), np.float32)

    def input(self, *shape: int) -> str:
        """An input of the model; the end, if it fits, where there is none."""
        name = f"x{len(self.inputs)}"
        info = helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        self.inputs.append(info)
        return name

    def emit(self, op: str, inputs: list[str], **attributes: Any) -> str:
        """A node of one output."""
        made = helper.make_node(op, inputs, [self.name()], **attributes)
        self.nodes.append(made)
        return made.output[0]

    def require(self, condition: bool) -> None:
        """Raise Unsuitable unless the condition holds."""
        if not condition:
            raise Unsuitable

    def operand(self, rank: int, *shape: int) -> str:
        """The end, if it has the rank and floats; else a random constant or an input."""
        if len(self.shape) == rank and self.element == TensorProto.FLOAT and self.draw.chance(0.8):
            return self.end
        return self.random(*shape) if self.draw.chance(0.6) else self.input(*shape)


def _repeated(g: Growth) -> str:
    kind = g.draw.choice(["ConstantOfShape", "Expand", "Range", "HannWindow", "Tile"])
    if kind == "Tile" and g.shape:
        times = [g.size(0, 4 / len(g.shape)) for _ in g.shape]
        return g.emit(kind, [g.end, g.constant(times)])
    rank = g.draw.randint(1, 4)
    shape = [g.size(0.2, 9 / rank) for _ in range(rank)]
    if kind == "Expand":
        return g.emit(kind, [g.random(*[1] * rank), g.constant(shape)])
    if kind == "Range":
        dtype = g.draw.choice([np.int64, np.float32, np.int32, np.float64])
        numbers = (g.constant(n, dtype) for n in (g.draw.randint(-9, 9), g.size(2, 8.9), 1))
        return g.emit(kind, [*numbers])
    if kind == "HannWindow":
        return g.emit(kind, [g.constant(g.size())])
    value = numpy_helper.from_array(np.ones(1, g.draw.choice([np.float32, np.int64, np.int8])))
    return g.emit("ConstantOfShape", [g.constant(shape)], value=value)


def _diagonal(g: Growth) -> str:
    if len(g.shape) == 2:
        return g.emit(g.draw.choice(["EyeLike", "Trilu"]), [g.end])
    sides = [g.size(1, 4.5), g.size(1, 4.5)]
    square = g.emit("ConstantOfShape", [g.constant(sides)])
    return g.emit("EyeLike", [square], k=g.draw.randint(-3, 3))


def _one_hot(g: Growth) -> str:
    indices = g.constant(g.draw.numpy.integers(0, 9, g.size(1, 4)))
    values = g.constant([0, 1], g.draw.choice([np.float32, np.int64]))
    return g.emit("OneHot", [indices, g.constant(g.size(1, 5)), values])


def _outer(g: Growth) -> str:
    op = g.draw.choice(["Add", "MatMul", "Equal", "Einsum"])
    rows, columns = g.random(g.size(1, 4.5), 1), g.random(1, g.size(1, 4.5))
    attributes = {"equation": "ab,bc->ac"} if op == "Einsum" else {}
    return g.emit(op, [rows, columns], **attributes)


def _padded(g: Growth) -> str:
    x = g.operand(len(g.shape) or 1, *[3] * (len(g.shape) or 1))
    rank = len(g.shape) or 1
    if g.draw.chance(0.3):
        return g.emit("CenterCropPad", [x, g.constant([g.size(1, 9 / rank) for _ in range(rank)])])
    pads = [g.draw.choice([0, g.size(1, 8 / rank)]) for _ in range(2 * rank)]
    return g.emit("Pad", [x, g.constant(pads)], mode=g.draw.choice(["constant", "wrap"]))


def _doubled(g: Growth) -> str:
    g.require(bool(g.shape))
    for _ in range(g.draw.randint(1, 9)):
        g.end = g.emit("Concat", [g.end, g.end], axis=0)
    return g.end


def _gathered(g: Growth) -> str:
    if g.shape and g.element == TensorProto.INT64 and len(g.shape) < 3:
        return g.emit("Gather", [g.random(5, g.draw.choice([1, 100])), g.end], axis=0)
    g.require(bool(g.shape))
    index = g.constant(g.draw.numpy.integers(0, g.shape[0], g.size(1, 4)))
    return g.emit("Gather", [g.end, index], axis=0)


def _resized(g: Growth) -> str:
    rank = g.draw.choice([1, 2, 4])
    x = g.operand(rank, *[1] * (rank - 2), *[g.draw.randint(2, 2000) for _ in range(min(rank, 2))])
    scales = [1.0] * max(0, rank - 2) + [10 ** g.draw.uniform(-1, 3) for _ in range(min(rank, 2))]
    return g.emit(
        "Resize",
        [x, "", g.constant(scales, np.float32)],
        mode=g.draw.choice(["nearest", "linear", "cubic"]),
        antialias=g.draw.choice([0, 0, 1]),
        coordinate_transformation_mode=g.draw.choice(["half_pixel", "align_corners"]),
    )


def _transformed(g: Growth) -> str:
    samples = g.size(2, 5.5)
    if g.draw.chance(0.5):
        inverse, onesided = g.draw.randint(0, 1), g.draw.randint(0, 1)
        parts = inverse + 1 if onesided else g.draw.randint(1, 2)
        x = g.operand(3, 1, samples, parts)
        sized = [g.constant(g.size(2, 8))] if g.draw.chance(0.3) else [""]
        inputs = [x, *sized, g.constant(1)]
        return g.emit("DFT", inputs, inverse=inverse, onesided=onesided)
    x = g.operand(3, 1, samples, 1)
    frame = min(samples, g.draw.choice([16, 64, 400, 512, 1024]))
    step = g.draw.choice([1, 1, 2, frame // 4])
    return g.emit("STFT", [x, g.constant(step), "", g.constant(frame)])


def _mel(g: Growth) -> str:
    numbers = g.size(1, 5), g.size(2, 7), 16_000
    bounds = [g.constant(f, np.float32) for f in (0, 8_000)]
    return g.emit("MelWeightMatrix", [*map(g.constant, numbers), *bounds])


def _sampled(g: Growth) -> str:
    sides = [g.size(1, 4.3), g.size(1, 4.3)]
    theta = g.random(1, 2, 3) if g.draw.chance(0.5) else g.input(1, 2, 3)
    grid = g.emit("AffineGrid", [theta, g.constant([1, 1, *sides])])
    return g.emit("GridSample", [g.random(1, 1, 4, 4), grid]) if g.draw.chance(0.5) else grid


def _windows(g: Growth) -> str:
    kind = g.draw.choice(["Conv", "ConvTranspose", "AveragePool", "MaxPool", "MaxUnpool", "Col2Im"])
    side = g.draw.choice([3, 50, 1000])
    if kind == "MaxUnpool":
        index = g.constant(np.zeros((1, 1, 3, 3)), np.int64)
        sides = [1, 1, g.size(1, 4.5), g.size(1, 4.5)]
        ends = [g.operand(4, 1, 1, 3, 3), index, g.constant(sides)]
        return g.emit(kind, ends, kernel_shape=[2, 2], strides=[2, 2])
    if kind == "Col2Im":
        sides, block = [g.size(1, 3.5), g.size(1, 3.5)], g.draw.choice([1, 3, 7])
        block = min(block, *sides)
        count = int(np.prod([n - block + 1 for n in sides]))
        x = g.emit("Expand", [g.operand(3, 1, 1, 1), g.constant([1, block**2, count])])
        return g.emit(kind, [x, g.constant(sides), g.constant([block, block])])
    x = g.operand(4, 1, 1, side, side)
    pads = [g.draw.choice([0, 1, g.size(1, 3.5)])] * 4
    if kind == "ConvTranspose":
        return g.emit(kind, [x, g.random(1, 1, 2, 2)], strides=[g.draw.choice([2, 100])] * 2)
    if kind == "Conv":
        return g.emit(kind, [x, g.random(g.draw.choice([1, 9]), 1, 3, 3)], pads=pads)
    pads = [min(n, 6) for n in pads]
    counted = {"count_include_pad": 1} if kind == "AveragePool" else {}
    return g.emit(kind, [x], kernel_shape=[7, 7], pads=pads, ceil_mode=1, **counted)


def _kept(g: Growth) -> str:
    op = g.draw.choice("Cast CumSum Dropout Flatten Identity NonZero Neg Transpose Unique".split())
    g.require(bool(g.shape))
    if op == "Cast":
        kinds = TensorProto.DOUBLE, TensorProto.FLOAT, TensorProto.INT64, TensorProto.STRING
        return g.emit(op, [g.end], to=g.draw.choice(kinds))
    if op == "CumSum":
        return g.emit(op, [g.end, g.constant(0)])
    if op == "Dropout":
        g.nodes.append(helper.make_node(op, [g.end], [g.name() + "d", g.name()]))
        return g.nodes[-1].output[1]
    return g.emit(op, [g.end])


STEPS: tuple[Callable[[Growth], str], ...] = (
    _diagonal,
    _doubled,
    _gathered,
    _kept,
    _mel,
    _one_hot,
    _outer,
    _padded,
    _repeated,
    _resized,
    _sampled,
    _transformed,
    _windows,
)
"""Each adds nodes and gives the name of the last one's result."""


def _step(g: Growth, make: Callable[[Growth], str]) -> None:
    """Add a step, unless it does not suit or ONNX's inference does not know what it gives."""
    state = list(g.nodes), list(g.inputs), g.end
    try:
        g.end = make(g)
        kind = _inferred(g)
        shape = tuple(d.dim_value for d in kind.shape.dim)
        g.require(bool(shape) and 0 < np.prod(shape, dtype=float) < MOST_ELEMENTS)
        g.shape, g.element = shape, kind.elem_type
    except (Unsuitable, onnx.shape_inference.InferenceError):
        g.nodes, g.inputs, g.end = state


def _inferred(g: Growth) -> onnx.TypeProto.Tensor:
    """The type of the end.

    Shapes are constants, so that no data need be propagated: onnx would write down each element
    of a vector as long as these, for minutes.
    """
    end = onnx.ValueInfoProto(name=g.end)
    graph = helper.make_graph(g.nodes, "growth", g.inputs, [end])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)
    inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True)
    return inferred.graph.output[0].type.tensor_type


def random_growth(seed: int, target: str) -> Case | None:
    """A model that reads one element of what has grown, in its graph, a body or a function."""
    draw = Draw(seed)
    g = Growth(draw)
    for _ in range(draw.randint(1, 5)):
        _step(g, draw.choice(STEPS))
    if not g.shape:
        return None
    index = helper.make_tensor_value_info("i", TensorProto.INT64, [1, len(g.shape)])
    result = g.emit("GatherND", [g.end, "i"])
    output = helper.make_tensor_value_info(result, g.element, [1])
    inputs = [*g.inputs, index]
    places = [_in_graph, _in_graph, _in_branch, _in_loop, _in_nest, _in_function]
    within = draw.choice(places)
    model = within(g.nodes, inputs, output)
    return Case("growth", seed, model.SerializeToString(), target=target)


Nodes = list[onnx.NodeProto]
Infos = list[onnx.ValueInfoProto]


def _model(
    nodes: Nodes, inputs: Infos, output: onnx.ValueInfoProto, *functions: onnx.FunctionProto
) -> onnx.ModelProto:
    graph = helper.make_graph(nodes, "growth", inputs, [output])
    imports = [helper.make_opsetid("", OPSET), helper.make_opsetid("local", 1)]
    return helper.make_model(graph, opset_imports=imports, functions=list(functions), ir_version=10)


def _in_graph(nodes: Nodes, inputs: Infos, output: onnx.ValueInfoProto) -> onnx.ModelProto:
    return _model(nodes, inputs, output)


def _in_branch(nodes: Nodes, inputs: Infos, output: onnx.ValueInfoProto) -> onnx.ModelProto:
    """The nodes in a branch that data choose."""
    nothing = helper.make_node("ConstantOfShape", ["one"], ["else"], value=_zero(output))
    one = helper.make_node("Constant", [], ["one"], value_ints=[1])
    other = onnx.ValueInfoProto()
    other.CopyFrom(output)
    other.name = "else"
    branches: dict[str, Any] = {
        "then_branch": helper.make_graph(nodes, "then", [], [output]),
        "else_branch": helper.make_graph([one, nothing], "other", [], [other]),
    }
    condition = helper.make_tensor_value_info("c", TensorProto.BOOL, [])
    made = helper.make_node("If", ["c"], ["y"], **branches)
    return _model([made], [*inputs, condition], _renamed(output))


def _zero(output: onnx.ValueInfoProto) -> TensorProto:
    dtype = helper.tensor_dtype_to_np_dtype(output.type.tensor_type.elem_type)
    return numpy_helper.from_array(np.full(1, "" if dtype.kind == "O" else 0, dtype))


def _renamed(output: onnx.ValueInfoProto) -> onnx.ValueInfoProto:
    kind = output.type.tensor_type
    return helper.make_tensor_value_info("y", kind.elem_type, None)


def _in_loop(nodes: Nodes, inputs: Infos, output: onnx.ValueInfoProto) -> onnx.ModelProto:
    """The nodes in a body that runs three times."""
    return _in_loops(nodes, inputs, output, 1, 3)


def _in_nest(nodes: Nodes, inputs: Infos, output: onnx.ValueInfoProto) -> onnx.ModelProto:
    """The nodes in a body that runs 27,000 times, in three loops in each other."""
    return _in_loops(nodes, inputs, output, 3, 30)


def _in_loops(
    nodes: Nodes, inputs: Infos, output: onnx.ValueInfoProto, depth: int, trips: int
) -> onnx.ModelProto:
    for level in range(depth):
        number, go = (
            helper.make_tensor_value_info(f"{name}{level}", kind, [])
            for name, kind in (("n", TensorProto.INT64), ("g", TensorProto.BOOL))
        )
        on = helper.make_tensor_value_info(f"o{level}", TensorProto.BOOL, [])
        keep = helper.make_node("Identity", [go.name], [on.name])
        body = helper.make_graph([keep, *nodes], "body", [number, go], [on, output])
        name = "y" if level == depth - 1 else f"y{level}"
        nodes = [helper.make_node("Loop", ["trips", ""], [name], body=body)]
        output = helper.make_tensor_value_info(name, output.type.tensor_type.elem_type, None)
    count = helper.make_node("Constant", [], ["trips"], value_int=trips)
    return _model([count, *nodes], inputs, output)


def _in_function(nodes: Nodes, inputs: Infos, output: onnx.ValueInfoProto) -> onnx.ModelProto:
    """The nodes in a function of the model's own."""
    names = [info.name for info in inputs]
    imports = [helper.make_opsetid("", OPSET)]
    function = helper.make_function("local", "Large", names, [output.name], nodes, imports)
    call = helper.make_node("Large", names, ["y"], domain="local")
    return _model([call], inputs, _renamed(output), function)


MOST_SECONDS = 30.0
"""Of processor time, which other work on the machine does not change much."""

PROCESS = Path("/proc/self")


def _resident(name: str) -> int:
    """Bytes that this process has (VmRSS), or had at most (VmHWM)."""
    lines = (PROCESS / "status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


def _processor_seconds() -> float:
    uses = (getrusage(who) for who in (RUSAGE_SELF, RUSAGE_CHILDREN))
    return sum(use.ru_utime + use.ru_stime for use in uses)


def most_bytes(model: bytes) -> int:
    """The most that compiling a model may hold besides what the process had before.

    That is twice the bytes that constants of the model may have (`Expansion.folds`): those, and
    what computes or packs the last of them.
    """
    return 2 * (SPARE_BYTES + MODEL_GROWTH * len(model))


def check_growth(case: Case) -> Failure | None:
    """Compiling ends soon, in Flowloom's own words if not in a module, and holds little memory."""
    from tests.fuzz.checks import Skipped, raised

    try:
        (PROCESS / "clear_refs").write_text("5")  # the peak is that of what follows
    except OSError as error:
        raise Skipped("the system does not say how much memory a process had at most") from error
    before, start = _resident("VmRSS"), _processor_seconds()
    try:
        compiler.compile(case.model, target=case.target, budget=0)
    except FlowloomError:
        pass
    except Exception as error:
        return raised(error)
    held, seconds = _resident("VmHWM") - before, _processor_seconds() - start
    if held > (bound := most_bytes(case.model)):
        return Failure("memory", f"compiling held {held:,} bytes, more than {bound:,}")
    if seconds > MOST_SECONDS:
        return Failure("time", f"compiling took {seconds:.0f} s of processor time")
    return None
