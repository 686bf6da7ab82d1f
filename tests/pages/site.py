"""Hooks of MkDocs: pages that are outside `docs/` belong to the site, links lead to pages of it.

Files link each other as in the repository, so that they can be read there, too. On the site the
README is the front page and `docs/` the root; other pages keep their paths.
"""

import os
import re
from importlib import import_module
from pathlib import Path
from typing import Any

# MkDocs is an extra without which types are checked, too: its objects are Any here.
FILE: Any = import_module("mkdocs.structure.files").File
PLUGIN_ERROR: type[Exception] = import_module("mkdocs.exceptions").PluginError

ROOT = Path(__file__).parents[2]

OUTSIDE = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "benchmarks/results/*.md")
"""Pages of the site that are not in `docs/`."""


def site_path(path: str) -> str:
    """The place on the site of a file of the repository, both relative."""
    return "index.md" if path == "README.md" else path.removeprefix("docs/")


def on_files(files: Any, *, config: Any) -> Any:
    """Add the pages that are outside `docs/`."""
    for pattern in OUTSIDE:
        for path in sorted(ROOT.glob(pattern)):
            name = site_path(path.relative_to(ROOT).as_posix())
            files.append(FILE.generated(config, name, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Any) -> str:
    """Links of the repository as links of the site; the front page has no pages next to it."""
    if page.is_homepage:
        page.meta["hide"] = ["navigation"]
    source = Path(page.file.abs_src_path or "").parent
    here = os.path.dirname(page.file.src_uri)

    def site_link(match: re.Match[str]) -> str:
        path, mark, anchor = match[1].partition("#")
        linked = source / path
        if not path or "://" in match[1] or not linked.exists():
            return match[0]
        name = site_path(os.path.relpath(linked, ROOT))
        return f"]({os.path.relpath(name, here or '.')}{mark}{anchor})"

    return re.sub(r"\]\(([^)\s]+)\)", site_link, markdown)


def on_page_content(html: str, *, page: Any, config: Any, files: Any) -> str:
    """Docstrings name pages as files of the repository: make these links.

    GitHub wants bars in the code of a table with backslashes, which Python-Markdown would show.
    """
    html = re.sub(r"<code>[^<]*</code>", lambda match: match[0].replace("\\|", "|"), html)
    if page.file.src_uri != "api.md":
        return html

    def page_link(match: re.Match[str]) -> str:
        linked = files.get_file_from_path(f"{match[1]}.md")
        if linked is None:
            raise PLUGIN_ERROR(f"a docstring names {match[0]}, which is not a page")
        return f'<a href="{linked.url_relative_to(page.file)}">{match[0]}</a>'

    return re.sub(r"docs/([\w-]+)\.md", page_link, html)
