"""The symbols of a relocatable object file (ELF, 64 bits, little-endian)."""

from dataclasses import dataclass
from struct import Struct, error

_HEADER = Struct("<16s2HI3QI6H")
_SECTION = Struct("<2I4Q2I2Q")
_SYMBOL = Struct("<I2BH2Q")
_SYMBOL_TABLE = 2
_GLOBAL = 1
_MAGIC = b"\x7fELF\x02\x01"
_MACHINES = {62: "x86_64", 183: "aarch64"}


@dataclass(frozen=True, slots=True)
class Symbols:
    """The names that an object offers to others, and those that it needs; weak ones left out."""

    defined: frozenset[str]
    undefined: frozenset[str]
    instruction_set: str = ""
    """By Linux's name; empty for one that is not known here."""


def read_symbols(code: bytes) -> Symbols:
    """Read an object's symbol table; raises ValueError if the bytes are not one."""
    if not code.startswith(_MAGIC):
        raise ValueError("not a 64-bit little-endian ELF object")
    try:
        return _symbols(code)
    except (error, IndexError) as cause:
        raise ValueError("a damaged ELF object") from cause


def _symbols(code: bytes) -> Symbols:
    header = _HEADER.unpack_from(code)
    start = header[6]
    count = header[12]
    sections: list[tuple[int, ...]] = [
        _SECTION.unpack_from(code, start + i * _SECTION.size) for i in range(count)
    ]
    defined: set[str] = set()
    undefined: set[str] = set()
    for _, kind, _, _, offset, size, link, *_ in sections:
        if kind != _SYMBOL_TABLE:
            continue
        for at in range(offset, offset + size, _SYMBOL.size):
            name, information, _, section, _, _ = _SYMBOL.unpack_from(code, at)
            if name and information >> 4 == _GLOBAL:
                text = _text(code, sections[link][4] + name)
                (defined if section else undefined).add(text)
    machine = _MACHINES.get(header[2], "")
    return Symbols(frozenset(defined), frozenset(undefined), machine)


def _text(code: bytes, start: int) -> str:
    return code[start : code.index(b"\0", start)].decode()
