"""The page of `flowloom explore`: the built page of `web/` with a document in it."""

import base64
import gzip
import json
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from typing import Any

from compiler.errors import FlowloomError
from compiler.tools.explore.document import ExploreDocument, SideFact

BUNDLE = "page.html"
"""The page without a document, which `npm run build` in `web/` writes."""

PLACE, TITLE = "<!--flowloom-document-->", "<!--flowloom-title-->"
"""Where the document and the title go in the bundle."""


def explore_page(sides: Sequence[SideFact]) -> str:
    """One self-contained page of one side, or of two to compare."""
    bundle = files("compiler.tools.explore").joinpath(BUNDLE).read_text(encoding="utf-8")
    if PLACE not in bundle:
        raise FlowloomError(f"{BUNDLE} has no place for a document: run `npm run build` in web/")
    title = escape(" and ".join(side.title for side in sides))
    # in base64 no text of a model can end the script element
    packed = base64.b64encode(document_bytes(sides)).decode()
    element = f'<script type="application/octet-stream" id="document">{packed}</script>'
    return bundle.replace(TITLE, title, 1).replace(PLACE, element, 1)


def document_bytes(sides: Sequence[SideFact]) -> bytes:
    """The document as JSON in UTF-8, compressed with gzip, the same bytes for the same facts."""
    text = json.dumps(ExploreDocument(list(sides)), default=_fields, separators=(",", ":"))
    return gzip.compress(text.encode(), mtime=0)


def _fields(record: Any) -> dict[str, Any]:
    """The fields of a record; unlike `asdict` it copies none of them."""
    return record.__dict__
