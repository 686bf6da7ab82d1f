"""The documentation's site builds strictly, needs no other host, and mistakes in it are errors."""

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

import flowloom
from tests.tools import needs

ROOT = Path(__file__).parent.parent
CONFIG = ROOT / "mkdocs.yml"
needs_mkdocs = needs("mkdocs")


class Resources(HTMLParser):
    """Collects what a browser loads of a page by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.urls: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        loaded = {"img": "src", "link": "href", "script": "src", "iframe": "src"}.get(tag)
        self.urls += [value or "" for name, value in attrs if name == loaded]


def build(config: Path, site: Path) -> subprocess.CompletedProcess[str]:
    """Build a site strictly."""
    command = (sys.executable, "-m", "mkdocs", "build", "--strict", "-f", config, "-d", site)
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT)


def test_the_reference_has_every_public_name():
    names = re.findall(r"^::: compiler\.(\w+)$", (ROOT / "docs" / "api.md").read_text(), re.M)
    assert sorted(names) == sorted([*flowloom.__all__, "progress"])


@needs_mkdocs
def test_the_site_builds_and_needs_no_other_host(tmp_path: Path):
    built = build(CONFIG, tmp_path)
    assert built.returncode == 0, built.stderr
    pages = [*tmp_path.rglob("*.html")]
    assert {"index.html", "api.html", "tour.html"} <= {page.name for page in pages}
    for page in pages:
        resources = Resources()
        resources.feed(page.read_text())
        assert resources.urls
        assert not [url for url in resources.urls if url.startswith(("http", "//"))], page.name
    reference = (tmp_path / "api.html").read_text()
    for name in flowloom.__all__:
        assert f'id="compiler.{name}"' in reference, name


@needs_mkdocs
@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[a page](b.md)", None),
        ("[no page](c.md)", "'c.md', but the target is not found"),
        ("[no heading](b.md#gone)", "does not contain an anchor '#gone'"),
        ("::: flowloom.gone", "flowloom.gone could not be found"),
    ],
)
def test_a_mistake_in_a_page_is_refused(text: str, complaint: str | None, tmp_path: Path):
    config = tmp_path / "mkdocs.yml"
    config.write_text(
        f"INHERIT: {CONFIG}\ndocs_dir: docs\nhooks: []\nnav: [{{A: a.md}}, {{B: b.md}}]\n"
    )
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "a.md").write_text(f"# A\n\n{text}\n")
    (docs / "b.md").write_text("# B\n")
    built = build(config, tmp_path / "site")
    assert (built.returncode == 0) == (complaint is None), built.stderr
    assert (complaint or "") in built.stderr
