"""`flowloom passes`: name, options and first sentence of each pass; the default pipeline."""

import re
from argparse import Namespace

from compiler.passes import PASSES
from compiler.passes.pipeline import DEFAULT_PIPELINE, option_names


def run(options: Namespace) -> int:
    """Print the list."""
    for name, kind in PASSES.items():
        settings = " ".join(option_names(kind))
        print(f"{name}{{{settings}}}" if settings else name)
        print(f"    {first_sentence(kind)}")
    print("\ndefault pipeline:\n" + DEFAULT_PIPELINE.rstrip())
    return 0


def first_sentence(kind: type) -> str:
    """The first sentence of a class's docstring, on one line."""
    text = " ".join((kind.__doc__ or "").split())
    end = re.search(r"[.!?](?= [A-Z])|$", text)
    return text[: end.end()] if end else text
