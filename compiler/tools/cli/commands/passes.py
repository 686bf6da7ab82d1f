"""`flowloom passes`: name, options and first sentence of each pass; the default pipeline."""

import re
from argparse import Namespace
from typing import Any

from compiler.passes import PASSES
from compiler.passes.pipeline import DEFAULT_PIPELINE, option_names, parse
from compiler.tools.progress.options import conclude


def run(options: Namespace) -> int:
    """Print the list."""
    lines: list[str] = []
    listed: list[dict[str, Any]] = []
    for name, kind in PASSES.items():
        settings = option_names(kind)
        summary = first_sentence(kind)
        lines += [f"{name}{{{' '.join(settings)}}}" if settings else name, f"    {summary}"]
        listed.append({"name": name, "options": settings, "summary": summary})
    lines.append("\ndefault pipeline:\n" + DEFAULT_PIPELINE.rstrip())
    default = [str(step.spec()) for step in parse(DEFAULT_PIPELINE)]
    conclude(options, "\n".join(lines), {"passes": listed, "default": default})
    return 0


def first_sentence(kind: type) -> str:
    """The first sentence of a class's docstring, on one line."""
    text = " ".join((kind.__doc__ or "").split())
    end = re.search(r"[.!?](?= [A-Z])|$", text)
    return text[: end.end()] if end else text
