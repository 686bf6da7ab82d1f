"""A placement as a text: exact, and refused where it is damaged or of another graph."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.errors import PipelineError
from compiler.scheduling.placement import assign_streams, partition_graph
from compiler.scheduling.placement_text import placement_from_text, placement_to_text
from compiler.support.dag import DAG
from tests.strategies import STREAMS, dags

DIAMOND = DAG.from_edges([5, 3, 4, 2], [(0, 1), (0, 2), (1, 3), (2, 3)])


@given(dags(12), st.sampled_from(STREAMS), st.sampled_from(["none", "ppd", "balanced"]))
@settings(max_examples=60, deadline=None)
def test_a_text_gives_the_same_placement_again(dag: DAG, policy: str, partition: str):
    for placement in (
        partition_graph(dag, partition, 3),
        assign_streams(dag, partition_graph(dag, partition, 3), policy, 3),
    ):
        assert placement_from_text(dag, placement_to_text(dag, placement)) == placement


def test_a_placement_of_another_graph_is_refused():
    text = placement_to_text(DIAMOND, partition_graph(DIAMOND, "none", 1))
    shorter = DAG.from_edges([5, 3], [(0, 1)])
    with pytest.raises(PipelineError, match="another graph of 4 groups; this one has 2"):
        placement_from_text(shorter, text)
    chain = DAG.from_edges([5, 3, 4, 2], [(0, 1), (1, 2), (2, 3)])
    with pytest.raises(PipelineError, match="another graph"):
        placement_from_text(chain, text)


def test_a_damaged_text_is_refused():
    text = placement_to_text(DIAMOND, partition_graph(DIAMOND, "ppd", 2))
    head, random = len(text) - len(text.split("-", 2)[2]), Random(0)
    damaged = [text[:-3], text[:head], text + "A"]
    for _ in range(200):
        place = random.randrange(head, len(text))
        damaged.append(text[:place] + random.choice("AZaz09_") + text[place + 1 :])
    for wrong in damaged:
        try:
            found = placement_from_text(DIAMOND, wrong)
        except PipelineError:
            continue
        assert found == placement_from_text(DIAMOND, text)
