"""Bytes of weights that a cache misses, and orders and streams that miss fewer."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler.scheduling.placement import Placement, check_placement
from compiler.scheduling.reuse import KEPT, LOST, keep_weights, missed_bytes
from compiler.support.dag import DAG, depth_first_order, is_order
from tests.strategies import dags

MEBIBYTE = 1 << 20


def placed(dag: DAG, streams: list[int | None]) -> Placement:
    none = [None] * len(dag)
    return Placement(range(len(dag)), none, streams, none)


def two_recurrences(steps: int) -> tuple[DAG, Placement]:
    """Two chains whose steps take turns, each on its own stream."""
    count = 2 * steps
    dag = DAG.from_edges([1] * count, [(v - 2, v) for v in range(2, count)])
    return dag, placed(dag, [v % 2 for v in range(count)])


def weights_of(steps: int, nbytes: int) -> list[dict[str, int]]:
    return [{"ab"[v % 2]: nbytes} for v in range(2 * steps)]


@given(st.lists(st.sampled_from("abcd"), max_size=20), st.integers(1, 40))
def test_a_cache_misses_what_was_used_too_long_ago(names: list[str], cache: int):
    sizes = dict(zip("abcd", (1, 4, 9, 16), strict=True))
    reads = [{name: sizes[name]} for name in names]
    missed = missed_bytes(range(len(names)), reads, cache)
    least, most = 0, 0
    for place, name in enumerate(names):
        last = max((i for i in range(place) if names[i] == name), default=None)
        since = set(names[last:place]) if last is not None else set[str]()
        distance = sum(sizes[other] for other in since)
        least += sizes[name] if last is None or distance >= LOST * cache else 0
        most += sizes[name] if last is None or distance > KEPT * cache else 0
    assert least - 1e-6 <= missed <= most + 1e-6


@given(dags(), st.data())
def test_a_placement_stays_one_and_misses_no_more(dag: DAG, data: st.DataObject):
    name = st.sampled_from("abc")
    reads = [{data.draw(name): data.draw(st.integers(1, 4)) * MEBIBYTE} for _ in dag.costs]
    before = placed(dag, [data.draw(st.integers(0, 2)) for _ in dag.costs])
    cache = data.draw(st.integers(1, 8)) * MEBIBYTE
    found = keep_weights(dag, before, reads, (cache, 4 * cache))
    check_placement(dag, found)
    if found.streams == before.streams:
        now, then = (missed_bytes(p.order, reads, cache) for p in (found, before))
        assert now <= then
    else:
        assert len({*found.streams}) < len({*before.streams})


@given(dags())
def test_a_depth_first_order_goes_on_with_what_it_released(dag: DAG):
    order = depth_first_order(dag)
    assert is_order(dag, order)
    for place, v in enumerate(order[:-1]):
        done = set(order[: place + 1])
        released = [w for w in dag.successors[v] if done.issuperset(dag.predecessors[w])]
        assert order[place + 1] == min(released, default=order[place + 1])


@pytest.mark.parametrize(
    ("kib", "turns", "streams"),
    [
        (256, True, {0, 1}),
        (512, False, {0, 1}),
        (1400, False, {0}),
        (8192, False, {0, 1}),
        (32 << 10, True, {0, 1}),
    ],
)
def test_recurrences_follow_each_other_by_the_size_of_their_weights(
    kib: int, turns: bool, streams: set[int]
):
    """With caches of 1 and 16 MB: both fit a small one, one does, one fits two, one a large one."""
    dag, before = two_recurrences(16)
    found = keep_weights(dag, before, weights_of(16, kib << 10), (MEBIBYTE, 16 * MEBIBYTE))
    in_turns, apart = [*range(32)], [*range(0, 32, 2), *range(1, 32, 2)]
    assert list(found.order) == (in_turns if turns else apart)
    assert {*found.streams} == streams


def test_partitions_and_stages_stay_as_they_are():
    dag, before = two_recurrences(4)
    reads = weights_of(4, MEBIBYTE)
    none = [None] * 8
    for partitions, stages in (([v // 2 for v in range(8)], none), (none, [0] * 8)):
        given_ = Placement(before.order, partitions, before.streams, stages)
        assert keep_weights(dag, given_, reads, [MEBIBYTE]) is given_
