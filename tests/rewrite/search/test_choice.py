"""Which candidate is taken of graphs, by times and by the bytes of weights."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from compiler.ir.dataflow import WeightOp
from compiler.rewrite.search.choice import SHARING_COST, added_bytes, sparing
from tests.graphs import GraphBuilder


@given(st.data(), st.integers(1, 6))
def test_saving_memory_costs_little_and_no_memory(data: st.DataObject, count: int):
    times = data.draw(st.lists(st.floats(1.0, 2.0), min_size=count, max_size=count))
    added = data.draw(st.lists(st.integers(0, 3), min_size=count, max_size=count))
    taken = data.draw(st.integers(0, count - 1))
    order = sorted(range(count), key=lambda number: number != taken)
    by_name = {str(number): times[number] for number in order}
    found = int(sparing(by_name, {str(number): added[number] for number in range(count)}))
    assert times[found] <= SHARING_COST * times[taken]
    assert added[found] < added[taken] or found == taken
    cheap = [n for n in range(count) if times[n] <= SHARING_COST * times[taken]]
    assert added[found] == min(added[n] for n in cheap)


def test_weights_are_counted_once_and_resident_ones_not_at_all():
    build = GraphBuilder()
    x, w = build.input("x", (4, 4)), build.weight(np.ones((4, 4), np.float32))
    v = build.weight(np.ones((4, 2), np.float32))
    square = build.op("MatMul", x, w, shape=(4, 4))
    module = build.finish(build.op("MatMul", square, v, shape=(4, 2)))
    keys = [op.key.data for op in module.walk() if isinstance(op, WeightOp)]
    assert added_bytes(module, set()) == 64 + 32
    assert added_bytes(module, {keys[0]}) in (64, 32)
    assert added_bytes(module, set(keys)) == 0
