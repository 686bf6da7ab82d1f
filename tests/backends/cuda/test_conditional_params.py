"""The structure that a conditional node is described by lies in memory as cuda.h says."""

import ctypes
import subprocess
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from compiler.backends.cuda.driver import conditional_params
from compiler.schedule.tasks import ControlKind
from tests.tools import needs

pytestmark = pytest.mark.skipif(find_spec("cuda") is None, reason="needs cuda-bindings")

FIELDS = ("type", *(f"conditional.{f}" for f in ("handle", "type", "size", "phGraph_out", "ctx")))
PROGRAM = """
#include <cstddef>
#include <cstdio>
#include <cuda.h>
#define SHOW(f) std::printf("%zu %zu\\n", offsetof(CUgraphNodeParams, f), sizeof(((CUgraphNodeParams*)0)->f));
int main() {{ {} std::printf("%d %d %d\\n", CU_GRAPH_NODE_TYPE_CONDITIONAL, CU_GRAPH_COND_TYPE_IF, CU_GRAPH_COND_TYPE_WHILE); }}
"""  # noqa: E501
HANDLE, CONTEXT = 0x1122334455667788, 0x99AABBCCDDEEFF


def described(folder: Path) -> list[list[int]]:
    """The offset and size of each field, then three constants, by NVIDIA's header."""
    source, program = folder / "layout.cu", folder / "layout"
    source.write_text(PROGRAM.format("".join(f"SHOW({field})" for field in FIELDS)))
    subprocess.run(["nvcc", "-o", program, source], check=True, capture_output=True)
    shown = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    return [[int(word) for word in line.split()] for line in shown.splitlines()]


@needs("nvcc")
def test_fields_are_where_the_header_has_them(tmp_path: Path):
    cu: Any = import_module("cuda.bindings.driver")
    *places, (conditional, chooses, repeats) = described(tmp_path)
    where = dict(zip(FIELDS, places, strict=True))
    bodies = (ctypes.c_uint64 * 2)(0x1111, 0x2222)
    kinds: list[tuple[ControlKind, int, int]] = [("if", chooses, 2), ("loop", repeats, 1)]
    for kind, number, count in kinds:
        params = conditional_params(cu, HANDLE, kind, cu.CUcontext(CONTEXT))
        start = params.getPtr()
        read = {
            field: int.from_bytes(ctypes.string_at(start + offset, size), "little")
            for field, (offset, size) in where.items()
        }
        wanted = (conditional, HANDLE, number, count, 0, CONTEXT)
        assert read == dict(zip(FIELDS, wanted, strict=True))
        out = start + where["conditional.phGraph_out"][0]
        ctypes.c_uint64.from_address(out).value = ctypes.addressof(bodies)
        found = [int(graph) for graph in params.conditional.phGraph_out]
        assert found == list(bodies)[:count]
