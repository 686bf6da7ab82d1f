"""The caches of this machine, as Linux describes them, and typical ones."""

from contextlib import suppress
from functools import cache
from pathlib import Path

TYPICAL_FIRST_CACHE = 32 << 10
"""The bytes of the first-level cache of a core that is not this machine's."""

TYPICAL_CACHE = 1 << 20
"""The bytes of the second-level cache of a core that is not this machine's."""

TYPICAL_LAST_CACHE = 32 << 20
"""The bytes of the last-level cache of a machine that does not say."""

CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
"""Where Linux describes the caches of a core."""


def last_cache_bytes() -> int:
    """The bytes of this machine's last-level cache, which cores share."""
    caches = data_caches(CACHES)
    return caches[max(caches)] if caches else TYPICAL_LAST_CACHE


@cache
def data_caches(folder: Path) -> dict[int, int]:
    """The bytes of a core's caches for data, by level, as a folder of Linux describes them."""
    sizes: dict[int, int] = {}
    for cache_folder in folder.glob("index*"):
        # virtual machines and containers may hide some of these files
        with suppress(OSError, ValueError):
            level, kind, size = (
                (cache_folder / name).read_text().strip() for name in ("level", "type", "size")
            )
            if kind != "Instruction":
                sizes[int(level)] = int(size.removesuffix("K")) << 10
    return sizes
