"""Modules, documents and pages that the explorer's tests share."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, parser

from compiler.schedule.tasks import Allocation, Schedule, Task, View
from compiler.scheduling.bounds import needs
from compiler.scheduling.simulator import Timeline
from compiler.tools.explore.collect import memory_fact
from compiler.tools.explore.document import (
    ChoiceFact,
    DeviceFact,
    HelpFact,
    KernelFact,
    ModuleFact,
    OperatorFact,
    SideFact,
    TaskFact,
    TileFact,
)
from compiler.tools.explore.layout import drawn

SIZE = 64
"""Bytes of every tensor of a large module."""


def branches(path: Path, dynamic: bool = False) -> Path:
    """A model: four branches of a MatMul and an activation, summed."""
    generator = np.random.default_rng(0)
    nodes, weights = list[onnx.NodeProto](), list[onnx.TensorProto]()
    for branch, kind in enumerate(("Relu", "Tanh", "Sigmoid", "Softplus")):
        values = generator.standard_normal((16, 16)).astype(np.float32)
        weights.append(onnx.numpy_helper.from_array(values, f"w{branch}"))
        nodes.append(helper.make_node("MatMul", ["x", f"w{branch}"], [f"m{branch}"], f"mm{branch}"))
        nodes.append(helper.make_node(kind, [f"m{branch}"], [f"a{branch}"], f"{kind}_{branch}"))
        nodes.append(helper.make_node("Softmax", [f"a{branch}"], [f"s{branch}"], f"sm{branch}"))
    nodes.append(helper.make_node("Sum", [f"s{i}" for i in range(4)], ["y"], "total"))
    shape = ["n" if dynamic else 16, 16]
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in "xy"]
    graph = helper.make_graph(nodes, "branches", infos[:1], infos[1:], weights)
    opsets = [helper.make_opsetid("", 18)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    path.write_bytes(model.SerializeToString())
    return path


DETECTOR = """<ir_version: 10, opset_import: ["" : 18]>
detector (float[n, 3, 16, 16] image) => (float[found, 4] boxes, float[found] scores) {
  [stem] features = Conv <pads = [1, 1, 1, 1]> (image, kernels)
  [stem_relu] active = Relu (features)
  [head] maps = Conv (active, heads)
  [rows] rows = Reshape (maps, shape)
  [parts] raw, offsets = Split <axis = 1> (rows, sizes)
  [score] column = Sigmoid (raw)
  [column] scored = Squeeze (column, axis)
  [likely] likely = Greater (scored, threshold)
  [find] indices = NonZero (likely)
  [places] places = Transpose (indices)
  [best] scores = GatherND (scored, places)
  [chosen] chosen = GatherND (offsets, places)
  [boxes] boxes = Tanh (chosen)
}"""


def detector(path: Path) -> Path:
    """A model that finds boxes: their number depends on data, so that a node runs on the host."""
    model = parser.parse_model(DETECTOR)
    generator = np.random.default_rng(0)
    weights = {
        "kernels": generator.standard_normal((8, 3, 3, 3)).astype(np.float32),
        "heads": generator.standard_normal((5, 8, 1, 1)).astype(np.float32),
        "shape": np.array([-1, 5]),
        "sizes": np.array([1, 4]),
        "axis": np.array([1]),
        "threshold": np.array(0.9, np.float32),
    }
    stored = [onnx.numpy_helper.from_array(value, name) for name, value in weights.items()]
    model.graph.initializer.extend(stored)
    path.write_bytes(model.SerializeToString())
    return path


def wide_schedule(tasks: int, streams: int) -> Schedule:
    """A schedule in which each task reads the results of the one before on its stream and beside.

    Two generations of tensors share the arena's bytes.
    """
    arena = Allocation("arena", "arena", "uint8", (3 * streams * SIZE,))
    found: list[Task] = []
    for index in range(tasks):
        row, stream = divmod(index, streams)
        other = (stream + 1) % streams
        before = [(row - 1) * streams + s for s in dict.fromkeys((stream, other))] if row else []
        found.append(
            Task(
                kernel=f"K{index % 97}_Relu",
                stream=stream,
                after=tuple(sorted(before)),
                reads=tuple(_place(task, streams) for task in before),
                writes=(_place(index, streams),),
                nodes=(f"node_{index}",),
            )
        )
    return Schedule("wide", (arena,), tuple(found))


def _place(task: int, streams: int) -> View:
    row, stream = divmod(task, streams)
    return View(0, (row % 3 * streams + stream) * SIZE, "float32", (SIZE // 4,))


def side_of(schedule: Schedule, operators: int) -> SideFact:
    """A module of a schedule whose tasks take 1 µs and hold so many operators each."""
    streams = schedule.streams
    starts = [1000.0 * (index // streams) for index in range(len(schedule.tasks))]
    timeline = Timeline(tuple(starts), tuple(start + 1000.0 for start in starts))
    tasks = [
        TaskFact(
            kernel=task.kernel,
            stream=task.stream,
            subflow=None,
            after=task.after,
            start=timeline.start[index],
            end=timeline.end[index],
            alone=1000.0,
            measured=None,
            thread=None,
            critical=task.stream == 0,
            nodes=task.nodes,
            reads=[],
            writes=[],
        )
        for index, task in enumerate(schedule.tasks)
    ]
    module = ModuleFact(
        name="wide",
        target="cpu",
        mode="streams",
        makespan=timeline.makespan,
        bound=timeline.makespan,
        measured="not measured: no device",
        device=DeviceFact("a core", 40.0, 0.0, 10.0, 1),
        streams=streams,
        threads=0,
        helps=[],
        options=[("target", "cpu")],
        tasks=tasks,
        kernels=[_kernel(name) for name in sorted({task.kernel for task in schedule.tasks})],
        operators=_operators(len(tasks), operators),
        layout=drawn(len(tasks), needs(schedule)),
        memory=memory_fact(schedule, timeline),
        passes=[],
        choice=ChoiceFact("Nothing was searched.", [], [], "", {}, "", []),
    )
    return SideFact("wide", "", ["wide"], [module])


def with_tiles(side: SideFact, target: str) -> SideFact:
    """The side with two measured tiles of its first kernel, of which the slower was built."""
    (module,) = side.modules
    first, *others = module.kernels
    tiles = [
        TileFact("gemm", {"rows": "64"}, 900.0, 850.0, 990.0, 1200.0, "a GPU", False),
        TileFact("gemm", {"rows": "128"}, 1000.0, None, None, None, "a GPU", True),
    ]
    module = replace(module, target=target, kernels=[replace(first, candidates=tiles), *others])
    return replace(side, modules=[module])


def on_threads(side: SideFact) -> SideFact:
    """The side as a CPU's with two threads: the first runs all tasks, and the second helps."""
    (module,) = side.modules
    spans = [(2000.0 * index, 2000.0 * index + 1900.0) for index in range(len(module.tasks))]
    tasks = [
        replace(task, measured=span, thread=0)
        for task, span in zip(module.tasks, spans, strict=True)
    ]
    helps = [HelpFact(index, 1, start + 500, end) for index, (start, end) in enumerate(spans)]
    return replace(side, modules=[replace(module, tasks=tasks, threads=2, helps=helps)])


def _operators(tasks: int, each: int) -> list[OperatorFact]:
    return [
        OperatorFact(
            type="Relu" if number % each else "Conv",
            name=f"operator_{number}",
            task=number // each,
            reads=(number - 1,) if number % each else (),
            inputs=("tensor<16xf32>",),
            outputs=("tensor<16xf32>",),
            attributes={"axis": str(number)},
        )
        for number in range(tasks * each)
    ]


def _kernel(name: str) -> KernelFact:
    return KernelFact(
        name=name,
        language="object",
        tasks=1,
        time=1000.0,
        floor=10.0,
        measured=False,
        flops=1000,
        traffic=128,
        flops_peak=40.0,
        code=100,
        reads=("float32[16]",),
        writes=("float32[16]",),
        packings=("",),
        workspaces=(),
        launches=[],
        template="",
        provenance="generic",
        config={},
        candidates=[],
        sources={},
        lacking="",
    )
