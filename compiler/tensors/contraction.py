"""The ways to compute contractions whose operands are quantised."""

from enum import StrEnum
from typing import Self

_TILES = "bytes on tensor cores"


class Contraction(StrEnum):
    """The operands that contractions of quantised tensors multiply; members are words of records.

    `asked` is the word of `quantised=` that asks for a way, `text` what reports say of it.
    """

    asked: str
    text: str

    def __new__(cls, word: str, asked: str, text: str) -> Self:
        """The word, with what a user asks for and reads."""
        way = str.__new__(cls, word)
        way._value_ = word
        way.asked = asked
        way.text = text
        return way

    BYTES = "all", "bytes", "bytes"
    TILES = "tiles", "bytes", _TILES
    FLOAT8_TILES = "float8-tiles", "bytes", _TILES
    OPERANDS = "operands", "operands", f"{_TILES}, rounding only their operands"
    FLOAT8_OPERANDS = "float8-operands", "operands", f"{_TILES}, rounding only their operands"
    FLOATS = "floats", "floats", "floats"
    UNROUNDED = "unrounded", "unrounded", "floats without rounding to integers"

    @property
    def in_bytes(self) -> bool:
        """Whether bytes are multiplied where there are kernels for them, elsewhere floats."""
        return self.asked in ("bytes", "operands")

    @property
    def on_tensor_cores(self) -> bool:
        """Whether those kernels are tiles of tensor cores, which take some contractions only."""
        return self.in_bytes and self is not Contraction.BYTES

    @property
    def rounds(self) -> bool:
        """Whether all that is quantised is rounded, not only what is multiplied as bytes."""
        return self.asked in ("bytes", "floats")


CONTRACTION_WORDS = ("auto", *dict.fromkeys(way.asked for way in Contraction))
"""The words of `quantised=`: `auto` leaves the ways that are compared to the target."""


def contraction_text(word: str) -> str:
    """The words of reports for a recorded way; the word itself if a record has another."""
    return next((way.text for way in Contraction if str(way) == word), word)
