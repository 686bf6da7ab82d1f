"""Merging nodes of random graphs in random pairs."""

from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.graph.fusion.fused_sets import FusedSets
from compiler.support.dag import DAG, quotient
from tests.strategies import dags


def is_acyclic(dag: DAG, unit_of: list[int]) -> bool:
    """The slow oracle: build the whole quotient graph."""
    try:
        quotient(dag, unit_of)
    except ValueError:
        return False
    return True


@settings(max_examples=150, deadline=None)
@given(dags(16), st.lists(st.tuples(st.integers(0, 15), st.integers(0, 15)), max_size=30))
def test_a_merge_is_allowed_exactly_when_the_quotient_has_no_circle(
    dag: DAG, pairs: list[tuple[int, int]]
):
    sets = FusedSets(dag)
    for u, v in pairs:
        if max(u, v) >= len(dag) or sets.set_of[u] == sets.set_of[v]:
            continue
        a, b = sets.set_of[u], sets.set_of[v]
        together = [a if c == b else c for c in sets.set_of]
        allowed = sets.can_merge(a, b)
        assert allowed == is_acyclic(dag, together)
        if allowed:
            merged = sets.merge(a, b)
            assert merged == sets.set_of[u] == sets.set_of[v]
        check(sets)


def check(sets: FusedSets) -> None:
    """Members agree with `set_of`, and `order` is topological and without repetition."""
    dag, of = sets.dag, sets.set_of
    members = {c: [v for v in range(len(dag)) if of[v] == c] for c in set(of)}
    assert members == sets.members
    order = sets.order
    assert len({order[c] for c in members}) == len(members)
    assert all(order[of[u]] < order[of[v]] for u, v in dag.edges if of[u] != of[v])
