"""Reshapes of padded tensors: those whose result has the padding along an axis again."""

from collections.abc import Sequence

Shape = Sequence[int]


def keeps_box(large: tuple[Shape, Shape], small: tuple[Shape, Shape]) -> bool:
    """Whether a reshape takes the leading box of its operand to that of its result.

    `large` and `small` are the shapes of operand and result in the bucket and the smaller graph.
    """
    before, after = _columns(large[0], small[0]), _columns(large[1], small[1])
    while before and after:
        left, right = [before.pop(0)], [after.pop(0)]
        while _extents(left) != _extents(right):
            shorter, rest = (left, before) if _is_less(left, right) else (right, after)
            if not rest:
                return False
            shorter.append(rest.pop(0))
        padded = any(a != b for a, b in (*left, *right))
        if padded and (len(left) > 1 or len(right) > 1):
            return False
    return not before and not after


def _columns(large: Shape, small: Shape) -> list[tuple[int, int]]:
    """The sizes of each axis in both graphs, without axes of one element."""
    return [pair for pair in zip(large, small, strict=True) if pair != (1, 1)]


def _extents(columns: Sequence[tuple[int, int]]) -> tuple[int, int]:
    large = small = 1
    for a, b in columns:
        large, small = large * a, small * b
    return large, small


def _is_less(left: Sequence[tuple[int, int]], right: Sequence[tuple[int, int]]) -> bool:
    return _extents(left)[0] <= _extents(right)[0]
