"""Slices of computed indices, moved before the operators that compute them."""

from xdsl.ir import SSAValue

from tests.graphs import GraphBuilder
from tests.passes.graph.test_canonicalize import after


def parts_of_indices(whole: bool, dtype: str) -> list[str]:
    """The operators left of an Add of a column and a row: columns of it are read, or also all."""

    def case(b: GraphBuilder, x: SSAValue) -> SSAValue:
        row = b.constant([3, 5], dtype)
        added = b.op("Add", x, row, shape=(3, 2))
        cuts = (([n], [n + 1]) for n in range(2))
        one, other = (
            b.op("Slice", added, *(b.constant(n, "int64") for n in (*cut, [1])), shape=(3, 1))
            for cut in cuts
        )
        both = b.op("Mul", one, other)
        return b.op("Sub", added, both) if whole else both

    return after(case, (3, 1), dtype)


def test_parts_of_indices_are_computed_where_they_are_read():
    moved = ["Add", "Add", "Mul", "Slice", "Slice"]  # of the row
    assert sorted(parts_of_indices(whole=False, dtype="int64")) == moved
    kept = ["Add", "Mul", "Slice", "Slice", "Sub"]
    assert sorted(parts_of_indices(whole=True, dtype="int64")) == kept
    kept = ["Add", "Mul", "Slice", "Slice"]
    assert sorted(parts_of_indices(whole=False, dtype="float32")) == kept


def test_parts_of_what_says_its_shape_are_read_from_it():
    def case(b: GraphBuilder, x: SSAValue) -> SSAValue:
        whole = b.op("Expand", x, b.constant([4, 2], "int64"), shape=(4, 2))
        bounds = (b.constant(n, "int64") for n in ([1], [3], [0]))
        return b.op("Slice", whole, *bounds, shape=(2, 2))

    assert sorted(after(case, (1, 2), "int64")) == ["Expand", "Slice"]
