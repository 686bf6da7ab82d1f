"""Where LLVM code takes remainders of what it counts, which LLVM's loop vectoriser gets wrong."""

import re
from collections import Counter
from dataclasses import dataclass, field

LONG = 1024
"""From this many products on, a loop is neither unrolled nor replaced by a call."""

_HEADER = "for_begin_"
"""How TVM's blocks begin that count; phis of other blocks merge what is known of before."""

_LABEL = re.compile(r"^([\w.]+):")
_PHI = re.compile(r"^  (%[\w.]+) = phi .*, %([\w.]+) \]$")
_DEFINED = re.compile(r"^  (%[\w.]+) = (.*)$")
_REMAINDER = re.compile(r"^(?:and|[su]rem) i(?:32|64) (%[\w.]+), \d+$")
_EXTENT = re.compile(r"^icmp slt i\d+ (%[\w.]+), (\d+)$")
_PRODUCT = re.compile(r"\bfmul\b|llvm\.fm(?:a|uladd)\.")


def wraps_index(text: str) -> bool:
    """Whether a loop that may be vectorised takes a remainder of its counter by a power of two.

    LLVM 22's loop vectoriser takes `i & 3` for `i` in interleaved accesses: wrong results. It
    vectorises innermost loops, so one around a long loop of products is safe.
    """
    return any(map(_wraps, re.split(r"^define ", text, flags=re.M)[1:]))


def _wraps(text: str) -> bool:
    code = _read(text)
    safe = {counter for counter in code.headers if _holds_products(code, counter)}
    return any(not _counters(code, value) <= safe for value in code.divided)


@dataclass
class _Function:
    """A function's blocks with what each branches to, and its values with what each comes from.

    `headers` are phis with their block and the block that goes back to it, none for those that do
    not count; `extents` are the counters' ends; `divided` is what remainders by powers of two are
    taken of; `products` counts the multiplications of a block.
    """

    ways: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    values: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    headers: dict[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    extents: dict[str, int] = field(default_factory=dict[str, int])
    divided: list[str] = field(default_factory=list[str])
    products: Counter[str] = field(default_factory=Counter[str])


def _read(text: str) -> _Function:
    code, block = _Function(), ""
    for line in text.splitlines():
        if label := _LABEL.match(line):
            block = label[1]
        elif line.startswith("  br "):
            code.ways.setdefault(block, []).extend(re.findall(r"label %([\w.]+)", line))
        elif phi := _PHI.match(line):
            code.headers[phi[1]] = block, phi[2] if block.startswith(_HEADER) else ""
        elif defined := _DEFINED.match(line):
            _define(code, defined[1], defined[2])
        code.products[block] += bool(_PRODUCT.search(line))
    return code


def _define(code: _Function, value: str, made: str) -> None:
    code.values[value] = re.findall(r"%[\w.]+", made)
    remainder, extent = _REMAINDER.match(made), _EXTENT.match(made)
    if extent:
        code.extents[extent[1]] = int(extent[2])
    if remainder and _is_power(made):
        code.divided.append(remainder[1])


def _is_power(made: str) -> bool:
    """Whether a remainder is by a power of two; a mask is one less than that."""
    divisor = int(made.rpartition(" ")[2]) + made.startswith("and")
    return divisor > 1 and divisor & (divisor - 1) == 0


def _counters(code: _Function, value: str) -> set[str]:
    """The phis that a value depends on."""
    found, seen, pending = set[str](), set[str](), [value]
    while pending:
        one = pending.pop()
        if one in code.headers:
            found.add(one)
        elif one not in seen:
            seen.add(one)
            pending += code.values.get(one, [])
    return found


def _holds_products(code: _Function, counter: str) -> bool:
    """Whether a phi's loop holds another that adds up many products."""
    body = _loop(code, *code.headers[counter])
    inner = [c for c, (block, _) in code.headers.items() if c != counter and block in body]
    return any(_products(code, each) >= LONG for each in inner)


def _products(code: _Function, counter: str) -> int:
    """How many multiplications a loop does at least; those of loops in it count once."""
    blocks = _loop(code, *code.headers[counter])
    return code.extents.get(counter, 0) * sum(code.products[block] for block in blocks)


def _loop(code: _Function, header: str, back: str) -> set[str]:
    """The blocks of a loop; none where the second block does not lead to the first."""
    if header not in code.ways.get(back, []):
        return set()
    found, pending = {header}, [back]
    while pending:
        block = pending.pop()
        if block not in found:
            found.add(block)
            pending += [b for b, ways in code.ways.items() if block in ways]
    return found
