"""The CUDA headers of this package, and hashes of their code."""

import hashlib
import re
from functools import cache
from pathlib import Path


@cache
def headers() -> dict[str, str]:
    """The text of every CUDA header of this package, by file name."""
    folder = Path(__file__).parent
    return {path.name: path.read_text() for path in sorted(folder.rglob("*.cuh"))}


@cache
def headers_hash() -> str:
    """A hash of every header, by which code that includes some of them is kept."""
    return hashlib.sha256(repr(headers()).encode()).hexdigest()


@cache
def code_hash(names: tuple[str, ...]) -> str:
    """A hash of the code of some headers, comments and white space left out."""
    texts = (headers()[f"{name}.cuh"] for name in names)
    code = (re.sub(r"//.*", "", text).split() for text in texts)
    return hashlib.sha256(repr([*code]).encode()).hexdigest()[:12]
