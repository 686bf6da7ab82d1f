"""The count of networks that run in a bucket of their batch."""

import pytest

from benchmarks.dynamic.batches import networks, verdict


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("espcn", "in a bucket"),
        ("dlrm", "in a bucket"),
        ("lraspp", "refused: Resize"),
        ("graphsage", "no input has a batch"),
        ("crnn", "has its batch elsewhere: LSTM"),
    ],
)
def test_a_network_is_counted_once(name: str, found: str):
    ((_, model),) = networks([name])
    assert verdict(model, 4, [1, 3]).startswith(found)
