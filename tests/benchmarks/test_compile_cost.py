"""The measurement of compile times counts work that grows with the model."""

from benchmarks.compile_cost import measure, recurrence


def test_a_longer_chain_makes_more_code():
    model = recurrence("Relu", 40)
    assert len(model.graph.node) == 80
    seconds, size = measure(model, "cpu")
    assert seconds > 0
    assert size > measure(recurrence("Relu", 1), "cpu")[1] > 0
