"""Facts that are kept on attributes."""

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Attribute

from compiler.ir.kept import kept


def test_a_fact_is_computed_once_for_each_attribute():
    asked: list[str] = []

    @kept
    def length(attribute: Attribute) -> int:
        asked.append(str(attribute))
        return len(str(attribute))

    @kept
    def text(attribute: Attribute) -> str:
        return str(attribute)

    first, same, other = StringAttr("ab"), StringAttr("ab"), StringAttr("abc")
    assert [length(first), length(other), length(first), length(same)] == [4, 5, 4, 4]
    assert asked == ['"ab"', '"abc"', '"ab"']
    assert (text(first), length(first)) == ('"ab"', 4)


def test_attributes_are_equal_whatever_is_kept_on_one():
    @kept
    def number(_: Attribute) -> int:
        return 1

    known, new = StringAttr("ab"), StringAttr("ab")
    number(known)
    assert known == new
    assert hash(known) == hash(new)
    assert str(known) == str(new)
