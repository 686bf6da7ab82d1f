"""Certificates of proofs: what was proved, by a hash of everything that decides it.

A certificate is kept as compiled code is, in the folder that FLOWLOOM_COMPILED names; without one
every rule is proved.
"""

import ast
import hashlib
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

from compiler.rewrite.rule import Rule
from compiler.support.caches import compiled_once, package_version
from tests.rewrite.rules import prover
from tests.rewrite.rules.reasoning import Unknown

ROOT = Path(__file__).parents[3]


def prove_once(rule: Rule, number: int) -> None:
    """Raise Unproved unless a rule is proved, or was, in one of its cases."""

    def certificate() -> bytes:
        # z3's effort depends on the terms that the process made before, of other rules' proofs:
        # where it gives up, a second attempt begins with others
        try:
            prover.prove(rule, rule.cases[number])
        except Unknown:
            prover.prove(rule, rule.cases[number])
        return b"proved"

    concluded_once(certificate, Path(prover.__file__), "proof", rule.name, str(number))


def concluded_once(conclude: Callable[[], bytes], asker: Path, *inputs: str) -> bytes:
    """The solver's conclusion on rules, by the code of a file and of all that it imports."""
    solver = f"z3-solver {package_version('z3-solver')}"
    return compiled_once(conclude, (), solver, sources_hash(asker), *inputs)


@cache
def sources_hash(asker: Path) -> str:
    """A hash of the rules, of a file, and of all that they import of this repository."""
    digest = hashlib.sha256()
    for path in sorted(imported(asker, ROOT / "compiler/rewrite/rules/__init__.py")):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(ROOT)} {len(content)}\n".encode() + content)
    return digest.hexdigest()


def imported(*files: Path) -> set[Path]:
    """Some files of this repository and all others that they import, on any way."""
    reached, pending = set[Path](), list(files)
    while pending:
        path = pending.pop()
        if path not in reached:
            reached.add(path)
            pending += imports(path)
    return reached


def imports(path: Path) -> Iterator[Path]:
    """The files of this repository that a file imports anywhere in its text."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = list[str]()
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        for name in names:
            place = ROOT.joinpath(*name.split("."))
            yield from (p for p in (place.with_suffix(".py"), place / "__init__.py") if p.exists())
