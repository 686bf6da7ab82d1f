"""Models whose inputs' sizes are open, run at several sizes: one compilation is for all of them."""

import numpy as np
import onnx

import compiler
from compiler.errors import FlowloomError
from compiler.program.model import DynamicModule
from tests.fuzz.case import Array, Case, Failure
from tests.fuzz.compare import Expected, compared, judges
from tests.fuzz.draw import Draw
from tests.fuzz.graphs import random_graph, random_node
from tests.fuzz.oracle import Refused

LARGEST_GRAPH = 12
"""The most nodes of a model: each set of sizes may need a compilation of its own."""


def opened(model: onnx.ModelProto) -> tuple[onnx.ModelProto, dict[str, int]]:
    """A model without the sizes of its inputs above 1, and these sizes by symbol."""
    copy, sizes = onnx.ModelProto(), dict[str, int]()
    copy.CopyFrom(model)
    initial = {tensor.name for tensor in copy.graph.initializer}
    for info in copy.graph.input:
        for axis, dim in enumerate(info.type.tensor_type.shape.dim):
            if dim.dim_value > 1 and info.name not in initial:
                name = f"{info.name}_{axis}"
                sizes[name] = dim.dim_value
                dim.dim_param = name
    del copy.graph.value_info[:]
    for output in copy.graph.output:
        output.type.tensor_type.ClearField("shape")
    return copy, sizes


def random_sizes(seed: int, target: str) -> Case | None:
    """A node or a small graph with open sizes, and inputs of three sizes."""
    draw = Draw(seed)
    case = (
        random_node(seed, target, 0.3, "sizes")
        if draw.chance(0.5)
        else random_graph(seed, target, LARGEST_GRAPH)
    )
    if case is None or not all(array.size for array in case.feeds.values()):
        return None
    model, sizes = opened(case.proto)
    if not sizes:
        return None
    return case.changed(
        kind="sizes",
        model=model.SerializeToString(),
        later=[_at_other_sizes(case, sizes, draw) for _ in range(2)],
        pipeline=None,
        threads=1,
    )


def _at_other_sizes(case: Case, sizes: dict[str, int], draw: Draw) -> dict[str, Array]:
    """Elements of the inputs, drawn anew, for sizes as large or larger.

    Inputs that had the same size mostly keep one in common, as operators need of most of them.
    """
    more = {size: draw.choice([0, 1, 2, 5]) for size in sorted({*sizes.values()})}
    alone = draw.chance(0.2)
    feeds = dict(case.feeds)
    for name, array in case.feeds.items():
        shape = [
            size + (draw.choice([0, 1, 2, 5]) if alone else more[size])
            if f"{name}_{axis}" in sizes
            else size
            for axis, size in enumerate(array.shape)
        ]
        if shape != [*array.shape]:
            picked = draw.numpy.integers(0, array.size, shape)
            feeds[name] = array.reshape(-1)[picked]
    return feeds


def check_sizes(case: Case) -> Failure | None:
    """Each run is what its judges say; a fault while compiling for all sizes is a failure."""
    from tests.fuzz.checks import Skipped, raised

    try:
        module = compiler.compile(case.model, threads=1, semantics=case.semantics)
    except FlowloomError as error:
        raise Skipped(f"refused: {str(error)[:60]}") from error
    except Exception as error:
        return raised(error)
    runs = [case.feeds, *case.later] if isinstance(module, DynamicModule) else []
    judged = [(feeds, expected) for feeds in runs if (expected := _expected(case, feeds))]
    if not judged:
        raise Skipped("nothing is open, or no judge")
    for number, (feeds, expected) in enumerate(judged):
        try:
            results = {name: np.array(array) for name, array in module.run(feeds).items()}
            module.verify()
        except Exception as error:
            return raised(error)
        if wrong := compared(expected, results):
            return Failure(wrong.key, f"run {number}: {wrong.message}")
    return None


def _expected(case: Case, feeds: dict[str, Array]) -> list[Expected]:
    """What judges give for inputs; none where nothing can judge, as where sizes do not fit."""
    try:
        return judges(case.changed(feeds=feeds))
    except Refused:
        return []
