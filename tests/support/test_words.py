"""Numbers with their units and nouns."""

import pytest

from compiler.support.words import counted, in_bytes


@pytest.mark.parametrize(
    ("nbytes", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (24_360, "24.4 kB"),
        (999_949, "999.9 kB"),
        (999_950, "1.0 MB"),
        (3_141_592_653, "3.1 GB"),
        (5e15, "5000.0 TB"),
    ],
)
def test_a_size_has_at_most_three_digits_before_its_point(nbytes: float, text: str):
    assert in_bytes(nbytes) == text


def test_one_thing_has_no_plural():
    assert [counted(number, "stream") for number in (0, 1, 2, 20_000)] == [
        "0 streams",
        "1 stream",
        "2 streams",
        "20,000 streams",
    ]
