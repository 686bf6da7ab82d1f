"""Indices that loops keep in local memory are followed from turn to turn."""

from collections.abc import Callable
from typing import Any

import pytest
from tvm.ir import PointerType, PrimType, Var
from tvm.tirx import (
    AllocBuffer,
    BufferLoad,
    BufferStore,
    For,
    ForKind,
    IfThenElse,
    PrimFunc,
    SeqStmt,
    const,
    decl_buffer,
)
from tvm.tirx.stmt import DeclBuffer, While

from compiler.kernels.tir.accesses import accesses_of
from compiler.kernels.tir.containment import Verdict, judge

PLACE: Any = decl_buffer((1,), "int32", "place", scope="local")
Body = Callable[[Any, Any], list[Any]]


def number(value: int) -> Any:
    """An index."""
    return const(value, "int32")


def stored(value: Any) -> Any:
    """Keep an index in memory."""
    return BufferStore(PLACE, value, [number(0)])


def verdict(extent: int, body: Body) -> Verdict:
    """The verdict on a function whose body has the place in memory and a tensor's store."""
    pointer = Var("pointer", PointerType(PrimType("float32")))
    begin, end = (Var(name, PrimType("int32")) for name in ("begin", "end"))
    tensor: Any = decl_buffer((extent,), "float32", "x")
    place = BufferLoad(PLACE, [number(0)])

    def store(index: Any) -> Any:
        return BufferStore(tensor, const(0.0, "float32"), [index])

    steps = SeqStmt([AllocBuffer(PLACE), *body(place, store)])
    loop = For(Var("block", PrimType("int32")), begin, end - begin, ForKind.SERIAL, steps)
    declared = DeclBuffer(tensor, data=pointer)
    return judge(accesses_of(PrimFunc([pointer, begin, end], SeqStmt([declared, loop])), 3))


def heap(place: Any, store: Any) -> list[Any]:
    """Down a heap of 5: to the first child, or to the second, or out."""
    second = IfThenElse(place < 4, stored(place + 1), None)
    down = SeqStmt([second, store(place), stored(place * 2 + 1)])
    step = IfThenElse(BufferLoad(PLACE, [number(0)]) < 3, down, stored(number(5)))
    return [stored(number(1)), While(place < 5, SeqStmt([store(place), step]))]


def test_a_heap_is_walked_within_its_nodes():
    found = verdict(5, heap)
    assert not found.undecided
    assert not found.outside


def test_a_heap_that_is_too_large_is_no_proof():
    assert verdict(4, heap).undecided


def test_what_a_branch_leaves_as_it_was_is_known_by_its_condition():
    def body(place: Any, store: Any) -> list[Any]:
        limited = IfThenElse(place < 7, stored(place + 1), stored(number(0)))
        return [stored(number(0)), While(place < 8, SeqStmt([store(place), limited]))]

    assert not verdict(8, body).undecided
    assert verdict(7, body).undecided


def test_what_grows_without_a_limit_is_not_known():
    """It is within the loop's turns here, but only their number says so."""

    def body(place: Any, store: Any) -> list[Any]:
        step = SeqStmt([store(place), stored(place + 1)])
        loop = For(Var("i", PrimType("int32")), number(0), number(9), ForKind.SERIAL, step)
        return [stored(number(0)), loop]

    assert "place in [-2147483648, 2147483647]" in verdict(9, body).undecided[0]


def test_the_value_after_a_loop_is_any_of_its_turns():
    def body(place: Any, store: Any) -> list[Any]:
        loop = While(place < 5, stored(place + 2))
        return [stored(number(0)), loop, store(place)]

    assert not verdict(7, body).undecided
    assert verdict(6, body).undecided


def test_memory_that_threads_share_is_not_followed():
    shared: Any = decl_buffer((1,), "int32", "place", scope="shared")

    def body(place: Any, store: Any) -> list[Any]:
        zero = BufferStore(shared, number(0), [number(0)])
        return [AllocBuffer(shared), zero, store(BufferLoad(shared, [number(0)]))]

    assert verdict(5, body).undecided


@pytest.mark.parametrize("kept", [True, False])
def test_a_store_after_the_test_of_an_index_counts(kept: bool):
    """The condition speaks of the value that was there, not of the one that is used."""

    def body(place: Any, store: Any) -> list[Any]:
        later = stored(place if kept else number(99))
        loop = While(place < 0, stored(number(1)))
        tested = IfThenElse(place < 5, SeqStmt([later, store(place)]), None)
        return [stored(number(0)), loop, stored(number(3)), tested]

    found = verdict(5, body)
    assert bool(found.outside) is not kept
