"""Generated documentation is fresh, and what the README and the page of commands show is true."""

import ast
import re
from argparse import ArgumentParser
from pathlib import Path
from typing import Any, cast

from compiler.passes import PASSES
from compiler.rewrite.rules import RULES
from compiler.tools.cli import make_parser
from tests.pages.command_docs import command_reference
from tests.pages.pass_docs import pass_reference
from tests.pages.substitution_docs import substitution_reference

ROOT = Path(__file__).parent.parent
PAGES = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md")))


def test_passes_page_is_fresh():
    assert (ROOT / "docs" / "passes.md").read_text() == pass_reference()


def test_substitutions_page_is_fresh_and_whole():
    page = (ROOT / "docs" / "substitutions.md").read_text()
    assert page == substitution_reference()
    assert all(page.count(f"| {rule.name} ") == 1 for rule in RULES)


def test_every_pass_option_is_documented():
    for name in PASSES:
        assert f"## {name}\n" in pass_reference()


def test_the_page_of_commands_is_fresh():
    page = (ROOT / "docs" / "commands.md").read_text()
    assert page == command_reference()
    assert all(f"\n## {name}" in page for name in commands_of(make_parser()))
    assert "`--concurrency N`" in page


def test_ci_runs_the_readme_test_command():
    command = re.search(r"python -m pytest.*", (ROOT / "README.md").read_text())
    assert command is not None
    assert command[0] in (ROOT / ".ci" / "run").read_text()


def commands_of(parser: ArgumentParser) -> dict[str, ArgumentParser]:
    """The commands of a parser by name."""
    choices: list[Any] = [action.choices for action in parser._actions]  # pyright: ignore
    commands: dict[str, ArgumentParser] = {}
    for choice in choices:
        if isinstance(choice, dict):
            commands |= cast(dict[str, ArgumentParser], choice)
    return commands


def unknown_options(parser: ArgumentParser, line: str) -> list[str]:
    """The options of a line after `flowloom` that its command does not have.

    Of a command whose step is left out, those that none of its steps has.
    """
    commands = commands_of(parser)
    word = next((word for word in line.split() if word[0] != "-"), "")
    if word in commands:
        before, _, after = line.partition(word)
        return [*_unknown(parser, before), *unknown_options(commands[word], after)]
    parsers = [*commands.values()] or [parser]
    return min((_unknown(step, line) for step in parsers), key=len)


def _unknown(parser: ArgumentParser, line: str) -> list[str]:
    options = {option for action in parser._actions for option in action.option_strings}  # pyright: ignore
    return [word for word in re.findall(r"(?<![\w-])--[a-z][\w-]*", line) if word not in options]


def test_commands_in_pages_have_the_options_that_they_are_shown_with():
    parser = make_parser()
    shown = 0
    wrong: list[str] = []
    for page in PAGES:
        text = re.sub(r"\n {8,}(?=\[)", " ", page.read_text())
        for line in re.findall(r"(?:^ *|`)flowloom ([^`\n#]*)", text, re.MULTILINE):
            shown += 1
            command = re.sub(r"'[^']*'", "", line)
            wrong += [f"{page.name}: {line}: {o}" for o in unknown_options(parser, command)]
    assert shown > 100
    assert not wrong


def test_modules_and_scripts_in_pages_exist():
    missing: list[str] = []
    for page in PAGES:
        text = page.read_text()
        files = re.findall(r"\b(?:benchmarks|examples|compiler|tests)/[\w/]+\.\w+", text)
        modules = re.findall(r"python -m ((?:tests|examples)[\w.]*)", text)
        paths = {*files, *(name.replace(".", "/") for name in modules)}
        made = set(re.findall(r"^(?:#|//) (.*)$", text, re.MULTILINE))
        for path in sorted(paths - made):
            exists = any((ROOT / f"{path}{suffix}").exists() for suffix in ("", ".py"))
            missing += [] if exists else [f"{page.name}: {path}"]
    assert not missing


def script_source(program: str) -> str:
    """The text of a script or of a module, with what it imports of the same folders."""
    path = ROOT / (program if program.endswith(".py") else f"{program.replace('.', '/')}.py")
    paths = [path] if path.exists() else [*path.with_suffix("").glob("*.py")]
    text = "".join(file.read_text() for file in paths)
    imported = re.findall(r"from ((?:benchmarks|tests)[\w.]*) import", text)
    files = (ROOT / f"{name.replace('.', '/')}.py" for name in imported)
    return text + "".join(file.read_text() for file in files if file.exists())


def test_scripts_have_the_options_of_their_usage():
    """Docstrings of benchmarks, tests and examples show how to call these."""
    call = r"(?m)^ *python (?:-m )?((?:tests|examples|benchmarks)[\w./]*)(.*\n?(?:\s{8,}.*\n?)*)"
    shown = 0
    wrong: list[str] = []
    for folder in ("benchmarks", "tests", "examples"):
        for path in (ROOT / folder).rglob("*.py"):
            usage = ast.get_docstring(ast.parse(path.read_text())) or ""
            for program, arguments in re.findall(call, usage):
                source = script_source(program)
                assert source, f"{path.name}: {program}"
                options = set(re.findall(r"(?<![\w-])--[a-z][\w-]*", arguments))
                shown += len(options)
                wrong += [f"{path.name}: {o}" for o in sorted(options) if f'"{o}"' not in source]
    assert shown > 100
    assert not wrong


def test_unknown_options_are_seen():
    parser = make_parser()
    assert unknown_options(parser, "compile m -o x --target cuda --nope 1") == ["--nope"]
    assert unknown_options(parser, "tune status --nope") == ["--nope"]


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    words = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {word.replace(" ", "-") for word in words}


def test_links_of_pages_lead_somewhere():
    broken: list[str] = []
    for page in PAGES:
        for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
            if "://" in link:
                continue
            path, _, anchor = link.partition("#")
            linked = page.parent / path if path else page
            if not linked.exists() or (anchor and anchor not in anchors(linked)):
                broken.append(f"{page.relative_to(ROOT)}: {link}")
    assert not broken
