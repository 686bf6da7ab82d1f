"""Docstrings, comments, texts and names use the field's words (docs/glossary.md), in CUDA too."""

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent

ROOMS = (
    "benchmarks",
    "examples",
    "compiler/*.py",
    *(
        f"compiler/{room}"
        for room in (
            "artifact/*.py",
            "autotune",
            "backends/*.py",
            "backends/cuda",
            "backends/emu",
            "backends/gpu",
            "backends/hip",
            "choice",
            "display",
            "driver",
            "frontend",
            "graph",
            "interfaces",
            "ir",
            "kernels",
            "passes",
            "program",
            "rewrite",
            "schedule",
            "scheduling",
            "support",
            "target",
            "tensors",
            "tools",
            "verify",
        )
    ),
    *(
        f"tests/{room}"
        for room in (
            "autotune",
            "benchmarks",
            "driver",
            "frontend",
            "graph",
            "ir",
            "kernels",
            "passes",
            "rewrite",
            "scheduling",
            "support",
            "target",
            "tensors",
            "verify",
        )
    ),
    *(f"tests/{path.name}" for path in (ROOT / "tests").glob("*.py") if path != Path(__file__)),
)
"""Files, patterns of files and folders whose words are checked."""

WORDS = {
    r"^What": "a noun: the value, the keys, the reason",
    r"lacks?": "is missing, does not have",
    r"beside": "next to, besides, with",
    r"behind": "after",
    r"(?<!\bthere )(is|are|was|were) no(?! (longer|more|less|larger|smaller))": "is not a",
    r"lies?|lay": "is, is stored, has the layout",
    r"at hand": "available, known",
    r"told|tells?": "says, is given, knows",
    r"of (its|their|one's|his|a user's) own": "separate, unique, its, or nothing",
    r"in a circle": "cyclic",
    r"(?<!dot )products?": "GEMM, MatMul, multiplication",
    r"join(s|ed|ing)?": "concatenate, stack, merge, fuse",
    r"(?<!minimum )cuts?|cutting": "split, slice, divide, truncate",
    r"processors?": "SM",
    r"shares of k": "split-K",
    r"wish(es)?": "ask for, set",
    r"(?<!block )(?<!Ray )clusters?": "fused set, partition, subflow",
    r"what (lacks|follows|lays|is none)": "a noun",
    r"one an? (read|pass|row|column|channel|group|input|block|file)": "one for each",
    r"none after all": "not a",
}
"""Patterns of whole words that no text has, with what to write instead."""

ANY_WORD = re.compile(rf"\b(?:{'|'.join(WORDS)})\b")

NAMES = {
    r"\bfor (\w+, )?each in\b": "name the element",
    r"\b(def|class) \w*(product|join|behind|beside|(?<!has_)cluster)(s|ed)?(_\w+|\b)": "as in text",
}
"""Patterns that no code has, with what to write instead."""

COMMENT = re.compile(r"(?:^|\s)# ?(.*)$")
CUDA_COMMENT = re.compile(r"// ?(.*)$")

THREAD_BLOCK_CLUSTERS = (
    "kernels/gpu",
    "backends/cuda",
    "target/target.py",
    "fusion/recurrences.py",
)
"""In these rooms a cluster is CUDA's."""


def texts(source: str, cuda: bool = False) -> Iterator[tuple[int, str]]:
    """The string literals and comments of a file, with their first line, white space collapsed.

    Of CUDA text only the comments.
    """
    pattern = CUDA_COMMENT if cuda else COMMENT
    for number, line in enumerate(source.splitlines(), 1):
        if comment := pattern.search(line):
            yield number, comment.group(1)
    for node in ast.walk(ast.parse("" if cuda else source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, " ".join(node.value.split())


def wordings(source: str, cuda: bool = False) -> Iterator[str]:
    """The banned wordings of a file, with their line and what to write instead."""
    for number, text in texts(source, cuda):
        for match in ANY_WORD.finditer(text):
            word = match.group()
            better = next(WORDS[pattern] for pattern in WORDS if re.fullmatch(pattern, word))
            yield f"{number}: {word!r} in {text[:80]!r}: write {better}"
    for number, line in enumerate(source.splitlines(), 1):
        for pattern, better in NAMES.items():
            if match := re.search(pattern, line):
                yield f"{number}: {match.group()!r}: {better}"


def checked_files() -> Iterator[Path]:
    """The files of the rooms; each room has some."""
    for room in ROOMS:
        path = ROOT / room
        paths = sorted(path.rglob("*") if path.is_dir() else ROOT.glob(room))
        files = [file for file in paths if file.suffix in (".py", ".cuh")]
        assert files, f"{room} has no files"
        yield from files


def test_rooms_use_the_fields_words():
    found = [
        f"{file.relative_to(ROOT)}:{wording}"
        for file in dict.fromkeys(checked_files())
        for wording in wordings(file.read_text(), file.suffix == ".cuh")
        if "cluster" not in wording or not any(room in str(file) for room in THREAD_BLOCK_CLUSTERS)
    ]
    assert not found, "\n".join(found)


def test_wordings_are_found_in_text_and_not_in_code():
    source = """
        def find_products(join):
            'What lies beside it.'
            for each in itertools.product(join):  # behind the product
                yield f"{', '.join(each)} is no match" + "there is no match at hand"
        """
    found = [wording.split("'")[1] for wording in wordings(inspect.cleandoc(source))]
    text = ["What", "lies", "beside", "is no", "at hand", "behind", "product"]
    assert sorted(found) == sorted([*text, "for each in", "def find_products"])


def test_comments_of_cuda_text_are_read():
    source = "int behind = 1;  // lies beside it\n// a GEMM\n"
    assert [wording.split("'")[1] for wording in wordings(source, cuda=True)] == ["lies", "beside"]
