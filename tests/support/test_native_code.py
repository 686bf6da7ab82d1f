"""Checked-in IR belongs to its source, names no host, and does what the source says."""

import ctypes
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest.mock import Mock

import pytest

from compiler.support import native_code
from compiler.support.native_code import native_function, portable, source_digest

ROOT = Path(__file__).parents[2] / "compiler"
NAMES = (
    "backends/cpu/executor",
    "frontend/interpreter/suppression",
    "program/classical/pairs",
    "program/classical/trees",
    "scheduling/inner_loops",
)
SOURCES = [ROOT / f"{name}.c" for name in NAMES]


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.stem)
def test_the_checked_in_code_is_that_of_the_source(source: Path):
    code = source.with_suffix(".ll").read_text(encoding="utf-8")
    remedy = f"run python -m compiler.support.native_code {source.relative_to(ROOT.parent)}"
    assert code.startswith(source_digest(source) + "\n"), remedy
    for word in ("target triple", "target datalayout", "attributes #", "x86"):
        assert word not in code


def test_every_source_is_checked():
    assert sorted(path.with_suffix(".c") for path in ROOT.rglob("*.ll")) == sorted(SOURCES)


def test_a_digest_covers_the_headers_next_to_a_source(tmp_path: Path):
    source, header = tmp_path / "sum.c", tmp_path / "sum.h"
    source.write_text('#include <stdint.h>\n#include "sum.h"\n')
    header.write_text("int sum(int, int);\n")
    before = source_digest(source)
    header.write_text("long sum(long, long);\n")
    assert source_digest(source) != before


def test_functions_of_ir_are_called_in_the_process(tmp_path: Path):
    code = tmp_path / "sum.ll"
    text = "source_filename = 'x'\ndefine dso_local i64 @sum(i64 %0, i64 %1) #0 {\n"
    code.write_text(portable(text + "  %3 = add i64 %0, %1\n  ret i64 %3\n}\nattributes #0 = {}\n"))
    total = native_function(code, "sum", *[ctypes.c_int64] * 3)
    assert total(40, 2) == 42
    assert native_function(code, "sum", *[ctypes.c_int64] * 3) is total


def test_threads_that_ask_at_once_compile_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    code = tmp_path / "one.ll"
    code.write_text("define i64 @one() {\n  ret i64 1\n}\ndefine i64 @two() {\n  ret i64 2\n}\n")
    compiled = Mock(wraps=native_code.object_code)
    monkeypatch.setattr(native_code, "object_code", compiled)

    def answer(name: str) -> int:
        return native_function(code, name, ctypes.c_int64)()

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(answer, ["one", "two"])) == [1, 2]
    assert compiled.call_count == 1
