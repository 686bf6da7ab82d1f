"""The CUDA headers of this package, and the version of each template that they make up."""

import hashlib
import re
from functools import cache
from pathlib import Path

from compiler.nvrtc import nvrtc_version

TEMPLATES = {
    "contraction": (
        "contraction",
        "instructions",
        "operands",
        "patch",
        "results",
        "warpgroups",
        "wide",
    ),
    "grouped": ("grouped",),
    "attention": ("attention", "instructions", "staged"),
    "rows": ("rows",),
    "stem": ("stem", "instructions"),
}
"""The headers that decide how fast a choice of each template is."""


@cache
def headers() -> dict[str, str]:
    """The text of every CUDA header of this package, by file name."""
    folder = Path(__file__).parent
    return {path.name: path.read_text() for path in sorted(folder.rglob("*.cuh"))}


@cache
def template_hash(template: str) -> str:
    """What identifies a template's code, whatever its comments say."""
    texts = (headers()[f"{name}.cuh"] for name in TEMPLATES[template])
    code = (re.sub(r"//.*", "", text).split() for text in texts)
    return hashlib.sha256(repr([*code]).encode()).hexdigest()[:12]


def full_version(code: str, compiler: str) -> str:
    """What measured times belong to: the hash of a template's code, and what compiled it."""
    return f"{code} {compiler}"


@cache
def current_versions() -> frozenset[str]:
    """The versions of this package's templates with the compiler at hand."""
    return frozenset(full_version(template_hash(each), nvrtc_version()) for each in TEMPLATES)
