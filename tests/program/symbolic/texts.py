"""The text of a module with symbols, for sizes."""

import re
from collections.abc import Mapping

_EXTENT = re.compile(r"#dataflow\.extent<([^>]*)>")
_TYPE = re.compile(r"(?:tensor|memref)<")
_NUMBER = re.compile(r"\d+")
_HASH = re.compile(r'(dataflow\.group "\w*?)_[0-9a-f]{12}"')


def text_at(text: str, sizes: Mapping[str, int]) -> str:
    """A module's text with numbers in place of extents."""
    text = _EXTENT.sub(lambda match: f"{_number(match[1], sizes)} : i64", text)
    parts: list[str] = []
    at = 0
    while (start := _TYPE.search(text, at)) is not None:
        parts.append(text[at : start.end()])
        at = _dimensions(text, start.end(), sizes, parts)
    return "".join([*parts, text[at:]])


def without_hashes(text: str) -> str:
    """A module's text without the hashes in names of kernels, which cover symbols."""
    return _HASH.sub(r'\1"', text)


def _dimensions(text: str, at: int, sizes: Mapping[str, int], parts: list[str]) -> int:
    """Append the sizes of a type, from a position on; the position after them."""
    while True:
        if text[at] == "(":
            end = _closing(text, at)
            parts.append(str(_number(text[at:end], sizes)))
        elif (number := _NUMBER.match(text, at)) is not None:
            end = number.end()
            parts.append(number[0])
        else:
            return at
        parts.append("x")
        at = end + 1


def _closing(text: str, at: int) -> int:
    depth = 0
    for end in range(at, len(text)):
        depth += (text[end] == "(") - (text[end] == ")")
        if not depth:
            return end + 1
    raise ValueError(text[at : at + 80])


def _number(extent: str, sizes: Mapping[str, int]) -> int:
    return eval(extent, {"__builtins__": {}, "max": max}, dict(sizes))  # a text of the compiler's
