"""Launch orders: hand-worked graphs, and properties of any graph."""

from random import Random
from time import process_time

from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.scheduling.policies.ordering import (
    ORDERINGS,
    Demand,
    order_critical_path,
    order_opara,
)
from compiler.support.dag import DAG, is_order
from tests.strategies import dags


def demands_of(count: int, random: Random) -> list[Demand]:
    """Random demands."""
    return [Demand(random.random() < 0.5, random.random()) for _ in range(count)]


def test_critical_path_starts_the_longest_work_first():
    """Ranks are 3, 7, 2, 6: node 1 leads to the expensive node 3."""
    dag = DAG.from_edges([1, 1, 2, 6], [(0, 2), (1, 3)])
    assert order_critical_path(dag, demands_of(4, Random(0))) == [1, 3, 0, 2]


def test_opara_alternates_and_takes_the_least_demand():
    """Compute: 0 (0.9), 1 (0.2). Memory: 2 (0.5), 3 (0.4), 4 (0.1)."""
    dag = DAG.from_edges([1] * 5, [])
    demands = [Demand(i > 1, share) for i, share in enumerate((0.9, 0.2, 0.5, 0.4, 0.1))]
    assert order_opara(dag, demands) == [1, 4, 0, 3, 2]


def test_opara_releases_successors():
    dag = DAG.from_edges([1] * 3, [(0, 1), (0, 2)])
    demands = [Demand(True, 0.9), Demand(True, 0.5), Demand(False, 0.9)]
    assert order_opara(dag, demands) == [0, 2, 1]


@settings(max_examples=100, deadline=None)
@given(dags(), st.sampled_from(sorted(ORDERINGS)), st.integers(0, 99))
def test_every_order_is_legal(dag: DAG, policy: str, seed: int):
    assert is_order(dag, ORDERINGS[policy](dag, demands_of(len(dag), Random(seed))))


@settings(max_examples=50, deadline=None)
@given(dags(), st.integers(0, 99))
def test_opara_switches_lists_whenever_it_can(dag: DAG, seed: int):
    demands = demands_of(len(dag), Random(seed))
    order = order_opara(dag, demands)
    for place in range(1, len(order)):
        done = set(order[:place])
        ready = [v for v in order[place:] if done.issuperset(dag.predecessors[v])]
        last, this = (demands[order[i]].memory_bound for i in (place - 1, place))
        assert last != this or all(demands[v].memory_bound == last for v in ready)
        rivals = [demands[v].share for v in ready if demands[v].memory_bound == this]
        assert demands[order[place]].share == min(rivals)


def test_a_hundred_thousand_nodes():
    count = 100_000
    edges = [(v - d, v) for v in range(count) for d in (1, 7, 400) if v >= d and v % d != 1]
    dag = DAG.from_edges([1] * count, edges)
    demands = demands_of(count, Random(1))
    start = process_time()
    for policy in ORDERINGS.values():
        policy(dag, demands)
    assert process_time() - start < 10
