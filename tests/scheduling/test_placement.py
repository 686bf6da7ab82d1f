"""The demand of groups on the device, alone and one after another."""

import pytest

from compiler.scheduling.placement import Groups
from compiler.scheduling.policies.ordering import Demand
from compiler.support.dag import DAG


@pytest.mark.parametrize(
    ("nodes", "demand"),
    [
        ([0], Demand(memory_bound=False, share=0.1)),
        ([1], Demand(memory_bound=True, share=10.0)),
        ([2], Demand(memory_bound=False, share=0.0)),
        ([0, 1], Demand(memory_bound=True, share=10.0)),
        ([0, 2], Demand(memory_bound=False, share=0.1)),
    ],
)
def test_demands_add_up_and_the_largest_traffic_counts(nodes: list[int], demand: Demand):
    flops, nbytes = [1000, 10, 0], [10, 1000, 0]
    groups = Groups(DAG.from_edges([1, 1, 1], []), flops, nbytes, balance=5.0, cache_bytes=100)
    assert groups.demand(nodes) == demand
