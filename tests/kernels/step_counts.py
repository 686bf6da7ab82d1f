"""The most steps that a group's loops take on the CPU, counted in its TIR without running it."""

import re
from typing import Any

from tvm.ir import Range
from tvm.sym import Analyzer
from tvm.tirx import For, SeqStmt
from tvm.tirx.stmt import Bind

from compiler.kernels.group import Group
from compiler.kernels.tir.function import generic_function


def steps_of(group: Group) -> int:
    """Statements that are executed at most, those of all branches counted."""
    return _steps(generic_function(group).body, Analyzer())


def _steps(statement: Any, analyzer: Analyzer) -> int:
    if isinstance(statement, SeqStmt):
        return sum(_steps(own, analyzer) for own in statement.seq)
    if isinstance(statement, Bind):
        analyzer.bind(statement.var, statement.value)
        return 1
    if isinstance(statement, For):
        most = max(0, analyzer.const_int_bound(statement.extent).max_value)
        analyzer.bind(statement.loop_var, Range(0, max(1, most)))
        return most * _steps(statement.body, analyzer)
    kind = type(statement).__name__
    if kind == "While":
        return _levels(statement, analyzer) * _steps(statement.body, analyzer)
    if kind == "IfThenElse":
        branches = (statement.then_case, statement.else_case)
        return 1 + sum(_steps(branch, analyzer) for branch in branches if branch is not None)
    inner = [getattr(statement, name, None) for name in ("block", "body")]
    return max(1, sum(_steps(body, analyzer) for body in inner if body is not None))


def _levels(loop: Any, analyzer: Analyzer) -> int:
    """Iterations of `while child < size`, where a child's place is twice its parent's at least."""
    assert re.search(r"= 2 \* \w+ \+ 1$", str(loop.body), re.M), f"no way down a heap: {loop}"
    return analyzer.const_int_bound(loop.condition.b).max_value.bit_length() + 1
