"""Generated documentation is fresh, and what the README and the page of commands show is true."""

import re
from pathlib import Path

from compiler.passes import PASSES
from compiler.passes.pipeline import DEFAULT_PIPELINE, parse
from compiler.rewrite.rules import RULES
from compiler.tools.cli import make_parser
from tests.pages.pass_docs import pass_reference
from tests.pages.substitution_docs import substitution_reference

ROOT = Path(__file__).parent.parent


def test_passes_page_is_fresh():
    assert (ROOT / "docs" / "passes.md").read_text() == pass_reference()


def test_substitutions_page_is_fresh_and_whole():
    page = (ROOT / "docs" / "substitutions.md").read_text()
    assert page == substitution_reference()
    assert all(page.count(f"| {rule.name} ") == 1 for rule in RULES)


def test_every_pass_option_is_documented():
    for name in PASSES:
        assert f"## {name}\n" in pass_reference()


def test_the_page_of_commands_shows_the_default_pipeline():
    page = (ROOT / "docs" / "commands.md").read_text()
    shown = re.search(r"```\n(lower-quantised.*?)```", page, re.DOTALL)
    assert shown is not None
    assert parse(shown[1]) == parse(DEFAULT_PIPELINE)


def test_the_page_of_commands_lists_every_command():
    page = (ROOT / "docs" / "commands.md").read_text()
    commands = re.findall(r"^    (\w+)  ", make_parser().format_help(), re.MULTILINE)
    assert len(commands) >= 7
    for command in commands:
        assert re.search(rf"^flowloom {command}\b", page, re.MULTILINE)


def test_ci_runs_the_readme_test_command():
    command = re.search(r"python -m pytest.*", (ROOT / "README.md").read_text())
    assert command is not None
    assert command[0] in (ROOT / ".ci" / "run").read_text()


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    words = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {word.replace(" ", "-") for word in words}


def test_links_of_pages_lead_somewhere():
    broken: list[str] = []
    for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")):
        for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
            if "://" in link:
                continue
            path, _, anchor = link.partition("#")
            linked = page.parent / path if path else page
            if not linked.exists() or (anchor and anchor not in anchors(linked)):
                broken.append(f"{page.relative_to(ROOT)}: {link}")
    assert not broken
