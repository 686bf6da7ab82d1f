"""Whether a change of what the compiler makes is found, and named."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.frozen.differences import (
    Difference,
    Exemption,
    differences,
    of_modules,
    renamings,
    text_diff,
)
from tests.frozen.hashes import Hashes
from tests.frozen.observe import Observed
from tests.frozen.store import TextStore

ROOT = Path(__file__).parent.parent
NODE, NETWORK = "test_relu", "field:espcn"
KEYS = [(NODE, "cpu"), (NODE, "tf32"), (NODE, "hip"), (NETWORK, "hip")]

PROGRAM = """
import json
import sys
from dataclasses import asdict
from pathlib import Path

from tests.frozen.hooks import Observer, fetched, replace_everywhere
from tests.frozen.observe import observe
from tests.frozen.store import TextStore

observer = Observer(TextStore(Path(sys.argv[1])))
observer.install()
keys = json.loads(sys.argv[2])
before = [[asdict(module) for module in observe(*key, observer)] for key in keys]
again = [[asdict(module) for module in observe(*key, observer)] for key in keys]
assert again == before, "a second time gives others"
for name, comment in (
    ("compiler.kernels.gpu.source:complete_text", "// changed"),
    ("compiler.kernels.cpu.codegen:llvm_text", "; changed"),
):
    def changed(*arguments, original=fetched(name), comment=comment, **options):
        return original(*arguments, **options) + comment
    replace_everywhere(name, changed)
after = [[asdict(module) for module in observe(*key, observer)] for key in keys]
print(json.dumps([before, after]))
"""
"""Compiles cases, and again after two functions that write texts were changed."""


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> TextStore:
    return TextStore(tmp_path_factory.mktemp("texts"))


@pytest.fixture(scope="module")
def found(texts: TextStore) -> tuple[list[list[Observed]], list[list[Observed]]]:
    """The modules of each key, before and after the change."""
    command = [sys.executable, "-c", PROGRAM, str(texts.folder), json.dumps(KEYS)]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert not ran.returncode, ran.stderr
    before, after = json.loads(ran.stdout.splitlines()[-1])
    return [[*map(_observed, m)] for m in before], [[*map(_observed, m)] for m in after]


def _observed(fields: dict[str, Any]) -> Observed:
    lists = {name: tuple(fields.pop(name)) for name in ("kernels", "code", "names")}
    return Observed(**lists, **fields)


def recorded(modules: list[list[Observed]], texts: TextStore, folder: Path) -> Hashes:
    """The hashes of the keys after a file was written and read."""
    hashes = Hashes(headers={"a.cuh": "1"}, versions={"onnx": "2"})
    for key, compiled in zip(KEYS, modules, strict=True):
        hashes.add(key, compiled, texts)
    hashes.write(folder)
    read = Hashes.read(folder)
    assert read == hashes
    return read


def test_a_changed_kernel_is_found(
    found: tuple[list[list[Observed]], list[list[Observed]]], texts: TextStore, tmp_path: Path
):
    before, after = found
    old, new = recorded(before, texts, tmp_path), recorded(after, texts, tmp_path)
    for key, unchanged in zip(KEYS, before, strict=True):
        assert not list(differences(old, old, key, unchanged, texts))
    (cpu,), (cuda,), (node,), network = (
        list(differences(old, new, key, modules, texts))
        for key, modules in zip(KEYS, after, strict=True)
    )
    assert str(cpu).startswith("test_relu cpu: kernel 1 of 1 (Relu_")
    assert "the machine code is the same" in str(cpu)
    assert str(cuda).startswith("test_relu tf32: kernel 1 of 1 (Relu_")
    assert str(node).startswith("test_relu hip: kernel 1 of 1 (Relu_")
    assert {difference.part for difference in network} == {"kernels"}
    assert len(network) == len(before[-1][0].kernels)
    assert "+// changed" in "\n".join(text_diff(cuda, texts))


def test_texts_of_another_machine_are_said_to_be_missing(
    found: tuple[list[list[Observed]], list[list[Observed]]], texts: TextStore, tmp_path: Path
):
    before, after = found
    old, new = recorded(before, texts, tmp_path), recorded(after, texts, tmp_path)
    elsewhere = TextStore(tmp_path / "none")
    (node,) = differences(old, new, KEYS[0], after[0], elsewhere)
    assert "recorded elsewhere" in str(node)
    kernels = [*differences(old, new, KEYS[-1], after[-1], elsewhere)]
    assert len(kernels) == len(before[-1][0].kernels)
    assert "recorded elsewhere" in "\n".join(text_diff(kernels[0], elsewhere))


def test_parts_are_compared_one_by_one(tmp_path: Path):
    texts = TextStore(tmp_path)
    kernels = tuple(texts.add(text) for text in ("a = 1", "b = 2", "b = 3"))
    old = Observed(kernels[:2], ("x", "y"), "1", "2", names=("A", "B"))
    new = Observed((kernels[0], kernels[2]), ("z", "w"), "1", "3", "program", ("A", "B"))
    found = list(of_modules(("net", "cpu"), [old], [new], texts))
    assert [(difference.part, difference.text) for difference in found] == [
        ("code", "kernel 1 of 2 (A): other machine code of the same text"),
        ("kernels", "kernel 2 of 2 (B): the text differs, so does machine code"),
        ("weights", "the weights differ"),
        ("outcome", "compiled before, program after"),
    ]
    (gone,) = of_modules(("net", "cpu"), [old], [replace(old, kernels=kernels[:1])], texts)
    assert str(gone) == "net cpu: kernel 2 of 2 before is not there after"


@pytest.mark.parametrize(
    ("before", "after", "renamed"),
    [
        ("float a = b;", "float c = b;", {"a": "c"}),
        ("a + a", "c + c", {"a": "c"}),
        ("a + a", "c + b", {}),
        ("a + b", "c + c", {}),
        ("a + 1", "a + 2", {}),
        ("a", "a b", {}),
    ],
)
def test_renamed_identifiers_are_told_from_other_changes(
    before: str, after: str, renamed: dict[str, str]
):
    assert renamings(before, after) == renamed


@pytest.mark.parametrize(
    ("entry", "covers"),
    [
        (Exemption("test_slice*", "why"), True),
        (Exemption("*", "why", targets="cpu", parts="kernels"), True),
        (Exemption("*", "why", targets="hip"), False),
        (Exemption("*", "why", parts="schedule"), False),
        (Exemption("test_pad*", "why"), False),
    ],
)
def test_exceptions_are_patterns(entry: Exemption, covers: bool):
    assert entry.covers(Difference("test_slice_neg", "cpu", "kernels", "")) == covers
