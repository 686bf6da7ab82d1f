"""Numbers with their units and nouns, as commands print them."""

UNITS = ("kB", "MB", "GB", "TB")
"""Each is a thousand of the one before; the first is a thousand bytes."""


def in_bytes(nbytes: float) -> str:
    """Bytes in the unit that leaves up to three digits before the point: `24.4 kB`."""
    if nbytes < 1000:
        return f"{nbytes:.0f} B"
    for unit in UNITS[:-1]:
        nbytes /= 1000
        if nbytes < 999.95:
            return f"{nbytes:.1f} {unit}"
    return f"{nbytes / 1000:.1f} {UNITS[-1]}"


def counted(number: int, noun: str) -> str:
    """A number and a noun that forms its plural with an s: `1 stream`, `2 streams`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
