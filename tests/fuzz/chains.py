"""Chains of index arithmetic: each step moves what the one before gave, or looks up at it."""

import re
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module

import numpy as np
import onnx
import tvm_ffi
from onnx import helper
from tvm.ir import Expr

from compiler.frontend.importing import import_model
from compiler.ir.edit import graphs_of
from compiler.kernels.group import Group, extract_group
from compiler.kernels.tir.function import generic_function
from compiler.passes.pipeline import parse
from compiler.passes.runner import Runner
from tests.fuzz.case import Case, Failure
from tests.fuzz.draw import Draw, Shape
from tests.fuzz.graphs import NEWEST, generate, make_case
from tests.fuzz.grower import Grower
from tests.fuzz.pipelines import pipeline

MOVES = (
    "Concat DepthToSpace Expand Flatten Gather GatherElements GatherND Pad Reshape"
    " Resize ReverseSequence Slice SpaceToDepth Split Squeeze Tile Transpose Trilu Unsqueeze"
).split()
"""Operators of the catalogue that move elements."""

FEWEST, MOST = 6, 600
"""The elements of what a chain has reached."""

LONGEST = 40
"""Steps of the longest chain."""

OPSETS = [11, 13, 16, *range(18, NEWEST + 1)]


class Chain(Grower):
    """A grower whose generators take what the last step gave, wherever it suits them."""

    end = ""
    """The tensor that the next step reads."""

    def tensor(
        self,
        dtypes: Sequence[str],
        shape: Callable[[Shape], bool] | None = None,
        make: Callable[[], Shape] | None = None,
        values: tuple[float, float] = (-2.0, 2.0),
        within: bool = False,
    ) -> str:
        """What the last step gave, or another tensor where it does not suit."""
        last = self.values[self.end]
        inside = not within or bool(((last >= values[0]) & (last <= values[1])).all())
        if last.dtype.name in dtypes and (shape is None or shape(last.shape)) and inside:
            return self.end
        return super().tensor(dtypes, shape, make, values, within)

    def step(self, make: Callable[["Chain"], None]) -> bool:
        """Add a step that reads the last one's; it leaves neither too few nor too many elements."""

        def bounded(_: Grower) -> None:
            before, reached = len(self.model.graph.node), {self.end}
            make(self)
            for node in self.model.graph.node[before:]:
                if reached.intersection(node.input):
                    reached.update(filter(None, node.output))
            sizes = {name: np.size(self.values[name]) for name in reached - {self.end}}
            self.require(bool(sizes))
            end = max(sorted(sizes), key=lambda name: sizes[name])
            self.require(FEWEST <= sizes[end] <= MOST)
            self.end = end

        return self.attempt(bounded)


def _flipped(chain: Chain, x: str, axis: int) -> str:
    ends = [chain.ints([n]) for n in (-1, -(2**31), axis, -1)]
    (y,) = chain.emit("Slice", [x, *ends])
    return y


def _rolled(chain: Chain, x: str, axis: int) -> str:
    by = chain.draw.randrange(chain.values[x].shape[axis])
    head, tail = (
        chain.emit("Slice", [x, *(chain.ints([n]) for n in (*ends, axis))])[0]
        for ends in ((0, by), (by, 2**31))
    )
    (y,) = chain.emit("Concat", [tail, head], axis=axis)
    return y


def turned(chain: Chain) -> None:
    """The elements in another order, alone or with those in the old order."""
    x, draw = chain.end, chain.draw
    chain.require(chain.values[x].ndim > 0)
    axis = draw.randrange(chain.values[x].ndim)
    y = draw.choice([_flipped, _rolled])(chain, x, axis)
    joined = draw.choice(["", "Max", "Concat", "Where"])
    if joined == "Max":
        chain.emit(joined, [x, y])
    elif joined == "Concat":
        chain.emit(joined, draw.sample([x, y], 2), axis=axis)
    elif joined == "Where":
        chosen = chain.constant(draw.array(chain.values[x].shape, "bool"))
        chain.emit(joined, [chosen, x, y])


def looked_up(chain: Chain) -> None:
    """Numbers that become indices of a table, whose elements are the next numbers."""
    draw, x = chain.draw, chain.end
    shape = chain.values[x].shape
    extent = draw.randint(2, 9)
    if chain.values[x].dtype != np.int64:
        (x,) = chain.emit("Cast", [x], to=onnx.TensorProto.INT64)
    number = partial(chain.constant, np.array(draw.randint(2, 5)))
    for op in draw.choices(["Add", "Mul", "Div", "Sub"], k=draw.randint(1, 3)):
        (x,) = chain.emit(op, [x, x if draw.chance(0.3) and op == "Add" else number()])
    (index,) = chain.emit("Mod", [x, chain.constant(np.array(extent))])
    table = draw.numpy.integers(-20, 20, extent)
    op = draw.choice(["Gather", "GatherND", "GatherElements"])
    if op == "GatherElements":
        chain.require(len(shape) > 0)
        filled = np.broadcast_to(table, (*shape[:-1], extent)).copy()
        chain.emit(op, [chain.new(filled), index], axis=-1)
    elif op == "GatherND":
        (tuples,) = chain.emit("Reshape", [index, chain.ints([*shape, 1])])
        chain.emit(op, [chain.new(table), tuples])
    else:
        chain.emit(op, [chain.new(table), index])


def random_chain(seed: int, target: str) -> Case | None:
    """A chain of up to 40 steps, whose end alone is the model's output."""
    draw = Draw(seed)
    chain = Chain(draw, draw.choice(OPSETS), constants=0.0, reuse=0.5)
    shape = draw.shape(1, 4, 200)
    while np.prod(shape) < FEWEST:
        shape = draw.shape(1, 4, 200)
    chain.end = chain.new(draw.array(shape, draw.dtype(["float32", "int64"])))
    chain.constants = 0.8
    length, steps = draw.choice([4, 10, 20, LONGEST]), 0
    for _ in range(4 * length):
        own = draw.choices([turned, looked_up, None], [2, 1, 6])[0]
        steps += chain.step(own or partial(generate, draw.choice(MOVES)))
        if steps == length:
            break
    if not steps:
        return None
    end = chain.values[chain.end]
    element = helper.np_dtype_to_tensor_dtype(end.dtype)
    output = helper.make_tensor_value_info(chain.end, element, end.shape)
    chain.model.graph.output.append(output)
    return make_case("chains", seed, draw, chain, target, _pipeline(draw), most=0)


_FUSE = re.compile(r"fuse-operators(\{[^}]*\})?")


def _pipeline(draw: Draw) -> str | None:
    """A pipeline, every second one of which fuses as much as kernels may have."""
    passes = pipeline(draw)
    if passes is None or draw.chance(0.5):
        return passes
    return _FUSE.sub("fuse-operators{max-ops=128 allow-longer-path=true}", passes)


def expressions(group: Group) -> int:
    """The expressions in what a group computes before it is scheduled."""
    import_module("compiler.kernels.building.kernel")  # lowerings: a cached kernel needs none
    count: list[Expr] = []
    tvm_ffi.structural_walk(generic_function(group).body, (Expr, count.append), order="pre")
    return len(count)


def fused(model: bytes, passes: str) -> list[Group]:
    """The groups of a model after some passes."""
    module = import_model(model).module
    Runner().run(module, parse(passes))
    return [extract_group(group) for graph in graphs_of(module) for group in graph.groups]


MOST_EXPRESSIONS = 1000
"""Of a kernel for each of its operators: the largest of 300 chains had 271."""


def check_chain(case: Case) -> Failure | None:
    """A chain is right, and its kernels are no larger than their operators ask."""
    from tests.fuzz.checks import differential

    failure = differential(case)
    passes = case.pipeline or "canonicalize,fuse-gathers,fuse-operators"
    fusing = _FUSE.search(passes)
    if failure is not None or fusing is None:
        return failure
    for group in fused(case.model, passes[: fusing.end()]):
        size, bound = expressions(group), MOST_EXPRESSIONS * len(group.operators)
        if size > bound:
            return Failure("grows", f"{group.name} has {size} expressions, more than {bound}")
    return None
