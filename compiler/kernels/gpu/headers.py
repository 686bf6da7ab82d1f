"""The CUDA headers of this package."""

from functools import cache
from pathlib import Path


@cache
def headers() -> dict[str, str]:
    """The text of every CUDA header of this package, by file name."""
    folder = Path(__file__).parent
    return {path.name: path.read_text() for path in sorted(folder.rglob("*.cuh"))}
