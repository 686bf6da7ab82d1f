"""Keeps LLVM's loop vectoriser from loops with divisions that it gets wrong."""

import re
from dataclasses import dataclass, field

_HEADER = "for_begin_"
"""How TVM's blocks begin that count; phis of other blocks merge what is known of before."""

_FIRST, _NEVER = 950000, 949999
"""Numbers of metadata that nothing else has."""

_LABEL = re.compile(r"^([\w.]+):")
_PHI = re.compile(r"^  (%[\w.]+) = phi .*, %([\w.]+) \]$")
_DEFINED = re.compile(r"^  (%[\w.]+) = (.*)$")
_REMAINDER = re.compile(r"^(?:and|[su]rem) i(?:32|64) (%[\w.]+), \d+$")
_BY_A_VALUE = re.compile(r"^[su](?:div|rem) i(?:32|64) \S+, %[\w.]+$")
_ALWAYS_RUN = ("entry", "for_")
"""Beginnings of the labels of TVM's blocks that run under no condition but their loop's own."""

_STORE = re.compile(r"^  store \S+ (%[\w.]+), ptr (%[\w.]+)")
_REGISTER = re.compile(r"^alloca \S+, i64 1(?:,|$)")
_TARGET = re.compile(r"label %([\w.]+)")
_LOOP = re.compile(r"^(  br label %[\w.]+)(?:, !llvm\.loop !(\d+))?$")


def guard_loops(text: str) -> str:
    """LLVM code of functions in which no loop is vectorised whose divisions would come out wrong.

    LLVM 22's loop vectoriser takes `i & 3` for `i` in interleaved accesses: wrong results. A loop
    that may count what is divided by a power of two is marked; where values are merged, all that
    count in their function may.

    A division by a value may not run where its condition fails, as the value may be 0. One that is
    the same in all turns of a loop is computed for the first of a vector's turns alone, and the
    others read it even where the first fails the condition: all loops around it are marked.
    """
    head, *functions = re.split(r"^(?=define )", text, flags=re.M)
    marks: dict[str, str] = {}
    guarded = [_guarded(function, marks) for function in functions]
    code = "".join([head, *guarded])
    for old, new in marks.items():
        code = re.sub(
            rf"^!{old} = distinct !{{!{old}(?=[,}}])", f"!{old} = {new}", code, flags=re.M
        )
    added = [f"!{old} = {new}}}" for old, new in marks.items() if int(old) >= _FIRST]
    never = f'!{_NEVER} = !{{!"llvm.loop.vectorize.enable", i1 false}}'
    return "\n".join([code, never, *added]) if marks else code


def _guarded(text: str, marks: dict[str, str]) -> str:
    """One function; `marks` gains the beginning of the metadata of each loop that is guarded."""
    code = _read(text)
    lines = text.split("\n")
    counters = {counter for value in code.divided for counter in _counters(code, value)}
    if not counters <= code.backs.keys():
        counters = set(code.backs)
    counters |= {counter for counter in code.backs if code.conditional & _turn(code, counter)}
    for at in sorted({code.ends[code.backs[counter]] for counter in counters}):
        loop = _LOOP.match(lines[at])
        assert loop, "TVM ends a loop's last block with a jump"
        mark = loop[2] or str(_FIRST + len(marks))
        lines[at] = f"{loop[1]}, !llvm.loop !{mark}"
        marks[mark] = f"distinct !{{!{mark}, !{_NEVER}"
    return "\n".join(lines)


@dataclass
class _Function:
    """A function's values with what each comes from; what is stored in `registers`, buffers of one
    element, comes out of them.

    `phis` are those of blocks; `backs` of a counter is the block that goes back to its loop, whose
    last line `ends` has; `divided` is what remainders by powers of two are taken of, `conditional`
    the blocks that divide by a value under a condition. `headers` has the block of each counter,
    and `before` those that jump to a block.
    """

    values: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    registers: set[str] = field(default_factory=set[str])
    phis: set[str] = field(default_factory=set[str])
    backs: dict[str, str] = field(default_factory=dict[str, str])
    ends: dict[str, int] = field(default_factory=dict[str, int])
    divided: list[str] = field(default_factory=list[str])
    conditional: set[str] = field(default_factory=set[str])
    headers: dict[str, str] = field(default_factory=dict[str, str])
    before: dict[str, set[str]] = field(default_factory=dict[str, set[str]])


def _read(text: str) -> _Function:
    code = _Function()
    block = ""
    for number, line in enumerate(text.split("\n")):
        if label := _LABEL.match(line):
            block = label[1]
        elif line.startswith("  br "):
            code.ends[block] = number
            for target in _TARGET.findall(line):
                code.before.setdefault(target, set()).add(block)
        elif phi := _PHI.match(line):
            code.phis.add(phi[1])
            if block.startswith(_HEADER):
                code.backs[phi[1]] = phi[2]
                code.headers[phi[1]] = block
        elif defined := _DEFINED.match(line):
            _define(code, block, name=defined[1], made=defined[2])
        elif stored := _STORE.match(line):
            _store(code, stored[1], stored[2])
    return code


def _define(code: _Function, block: str, name: str, made: str) -> None:
    code.values[name] = re.findall(r"%[\w.]+", made)
    if _REGISTER.match(made):
        code.registers.add(name)
    if _BY_A_VALUE.match(made) and not block.startswith(_ALWAYS_RUN):
        code.conditional.add(block)
    remainder = _REMAINDER.match(made)
    if remainder and _is_power(made):
        code.divided.append(remainder[1])


def _turn(code: _Function, counter: str) -> set[str]:
    """The blocks of a loop: what leads to its last one without its header."""
    turn = {code.headers[counter]}
    pending = [code.backs[counter]]
    while pending:
        block = pending.pop()
        if block not in turn:
            turn.add(block)
            pending.extend(code.before.get(block, ()))
    return turn


def _store(code: _Function, value: str, place: str) -> None:
    for register in code.registers.intersection([place, *code.values.get(place, [])]):
        code.values[register].append(value)


def _is_power(made: str) -> bool:
    """Whether a remainder is by a power of two; a mask is one less than that."""
    divisor = int(made.rpartition(" ")[2]) + made.startswith("and")
    return divisor > 1 and divisor & (divisor - 1) == 0


def _counters(code: _Function, value: str) -> set[str]:
    """The phis that a value depends on."""
    phis = set[str]()
    seen = set[str]()
    pending = [value]
    while pending:
        one = pending.pop()
        if one in code.phis:
            phis.add(one)
        elif one not in seen:
            seen.add(one)
            pending += code.values.get(one, [])
    return phis
