"""Random int32 networks with many streams and shared bytes, and large synthetic ones."""

import random as chances

import numpy as np
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from compiler.ir.types import shape_of
from tests.graphs import GraphBuilder
from tests.grouped import Scheduled, group_each, lower, schedule_groups
from tests.strategies import Model


def network(random: chances.Random, count: int, reach: int, wide: bool = False) -> Model:
    """`count` operators on tensors [1, n], each on some of the last `reach` values.

    A value that nobody reads is an output, so every wrong byte can be seen. With `wide` every value
    reads the input alone and one operator adds neighbours.
    """
    build = GraphBuilder()
    values = [build.input("x", (1, 4), "int32")]
    weight = build.weight(np.arange(4, dtype=np.int32).reshape(1, 4))
    used: set[SSAValue] = set()
    while len(values) <= count:
        recent = values[:1] if wide and random.random() < 0.8 else values[-reach:]
        operands = random.choices(recent, k=random.choice([1, 2, 2, 3]))
        used.update(operands)
        values += _node(build, random, operands, weight)
    outputs = [value for value in values[1:] if value not in used]
    module = build.finish(*outputs)
    return Model(module, build.weights, {"x": np.array([[3, -1, 4, 1]], np.int32)})


def _node(
    build: GraphBuilder, random: chances.Random, operands: list[SSAValue], weight: SSAValue
) -> list[SSAValue]:
    first, width = operands[0], shape_of(operands[0].type)[1]
    same = next((v for v in operands[1:] if shape_of(v.type) == shape_of(first.type)), None)
    total = sum(shape_of(v.type)[1] for v in operands)
    choice = random.random()
    if len(operands) > 1 and choice < 0.4 and total <= 24:
        return [build.op("Concat", *operands, shape=(1, total), axis=1)]
    if len(operands) == 1 and choice < 0.25 and width > 1:
        cut = random.randint(1, width - 1)
        sizes = build.constant([cut, width - cut], "int64")
        return build.split("Split", [first, sizes], [(1, cut), (1, width - cut)], axis=1)
    if same is not None:
        return [build.op(random.choice(["Add", "Sub", "Max"]), first, same)]
    if width == 4:
        return [build.op("Add", first, weight)]
    return [build.op(random.choice(["Neg", "Abs"]), first)]


def scheduled_network(
    random: chances.Random, count: int, reach: int, streams: int, wide: bool = False
) -> Scheduled:
    """A lowered network on random streams, with partitions and workspaces here and there."""
    model = network(random, count, reach, wide)
    group_each(model.module)
    prepare(model.module, random, count, streams)
    return lower(model)


def prepare(module: ModuleOp, random: chances.Random, count: int, streams: int) -> None:
    """Draw partitions, streams and workspaces."""
    schedule_groups(
        module,
        [random.randrange(streams) for _ in range(count)],
        [random.random() < 0.7 for _ in range(count)],
        [random.choice([0, 0, 0, 40]) for _ in range(count)],
    )


@st.composite
def networks(draw: st.DrawFn, max_count: int = 24) -> Scheduled:
    """Lowered networks of up to about `max_count` tasks on 1 to 5 streams, not synchronised."""
    random = draw(st.randoms(use_true_random=False))
    count, reach = draw(st.integers(1, max_count)), draw(st.sampled_from([2, 4, 12]))
    return scheduled_network(random, count, reach, draw(st.integers(1, 5)))
