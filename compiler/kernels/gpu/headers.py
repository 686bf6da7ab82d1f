"""The CUDA headers of this package, and what identifies their code."""

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
def code_hash(names: tuple[str, ...]) -> str:
    """What identifies the code of some headers, whatever their comments say."""
    texts = (headers()[f"{name}.cuh"] for name in names)
    code = (re.sub(r"//.*", "", text).split() for text in texts)
    return hashlib.sha256(repr([*code]).encode()).hexdigest()[:12]


def full_version(code: str, compiler: str) -> str:
    """What measured times belong to: the hash of a template's code, and what compiled it."""
    return f"{code} {compiler}"
