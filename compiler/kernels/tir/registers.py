"""Bound values in buffers of one element, for LLVM: TVM's code generation simplifies what it binds.

LLVM puts such buffers into registers. Vector loops must be vectors already.
"""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import tvm_ffi
from tvm import tirx
from tvm.ir import Call, Var
from tvm.tirx import AllocBuffer, BufferStore, IfThenElse, Let, PrimFunc, Stmt
from tvm.tirx.stmt import Bind

from compiler.kernels.tir.loops import sequence
from compiler.kernels.tir.once import is_once, is_reinterpret, without_literals


def in_registers(function: PrimFunc) -> PrimFunc:
    """A function that binds nothing by `once`: values are stored before what needs them."""
    if not _binds(function.body):
        return function
    code = _Code()
    # One mutation for all: TVM reads the signature of each function that it is given.
    rules = (
        (BufferStore, code.store),
        (Bind, code.bind),
        (Let, code.let),
        (Call, code.call),
        (Var, code.variable),
    )
    body = without_literals(function.body)
    return function.with_body(tvm_ffi.structural_mutate(body, rules))


def _binds(node: Any) -> bool:
    """Whether a statement or an expression binds values by `once`."""
    binds: list[Call] = []

    def visit(call: Call) -> None:
        if is_once(call):
            binds.append(call)

    tvm_ffi.structural_walk(node, (Call, visit), order="pre")
    return len(binds) > 0


class _Code:
    """The rules by which statements are split up.

    `values` are the registers of variables, `before` the statements that precede the present
    one: None outside of those that store or bind.
    """

    def __init__(self) -> None:
        self.values: dict[Var, Any] = {}
        self.before: list[Stmt] | None = None

    def store(self, statement: BufferStore, mutator: Any) -> Stmt:
        """All of a store."""
        with self._statements() as before:
            indices = [mutator.mutate(index) for index in statement.indices]
            value = mutator.mutate(statement.value)
        return sequence([*before, BufferStore(statement.buffer, value, indices)])

    def bind(self, statement: Bind, mutator: Any) -> Stmt:
        """All of a binding, which stays one unless it is by `once`."""
        with self._statements() as before:
            if isinstance(statement.value, Call) and is_once(statement.value):
                self._keep(statement.var, statement.value, mutator)
                return tirx.SeqStmt(before)
            value = mutator.mutate(statement.value)
        return sequence([*before, Bind(statement.var, value)])

    def let(self, bound: Let, mutator: Any) -> Any:
        """The value of a binding within a statement, whose variable is a register."""
        if self.before is None:
            return mutator.default_mutate(bound)
        value: Any = bound
        while isinstance(value, Let):
            self._keep(value.var, value.value, mutator)
            value = value.body
        return mutator.mutate(value)

    def call(self, call: Call, mutator: Any) -> Any:
        """A call within a statement: a choice that binds values becomes statements before it."""
        if self.before is None:
            return mutator.default_mutate(call)
        if is_once(call):
            return mutator.mutate(call.args[0])
        if is_reinterpret(call) and "float" in str(call.ty.dtype):
            # code generation folds a sum of zeros to 0, whose bits it takes for a pointer's only
            return tirx.reinterpret(str(call.ty.dtype), self._loaded(call.args[0], mutator))
        if getattr(call.op, "name", "") == "prim.if_then_else" and _binds(call):
            return self._choice(call, mutator)
        return mutator.default_mutate(call)

    def variable(self, variable: Var, mutator: Any) -> Any:
        """The register of a variable, if it has one."""
        return self.values.get(variable, variable)

    @contextmanager
    def _statements(self) -> Generator[list[Stmt]]:
        """A list that gains the statements which precede those of the block."""
        outer = self.before
        self.before = []
        try:
            yield self.before
        finally:
            self.before = outer

    def _keep(self, variable: Var, value: Any, mutator: Any) -> None:
        """Store a variable's value."""
        self.values[variable] = self._loaded(value, mutator)

    def _loaded(self, value: Any, mutator: Any) -> Any:
        """A value read from a new register, in which it is stored before."""
        register = self._register(value)
        self._precede(BufferStore(register, mutator.mutate(value), [0]))
        return tirx.BufferLoad(register, [0])

    def _choice(self, call: Call, mutator: Any) -> Any:
        """A choice between values as one between statements: only one of them may be computed."""
        condition = mutator.mutate(call.args[0])
        register = self._register(call)
        branches = [self._branch(register, value, mutator) for value in call.args[1:]]
        self._precede(IfThenElse(condition, *branches))
        return tirx.BufferLoad(register, [0])

    def _branch(self, register: Var, value: Any, mutator: Any) -> Stmt:
        with self._statements() as inner:
            last = BufferStore(register, mutator.mutate(value), [0])
        return sequence([*inner, last])

    def _register(self, value: Any) -> Var:
        """A new buffer for a value, allocated before the statement."""
        register = tirx.decl_buffer((1,), str(value.ty.dtype), name="value", scope="local")
        mark = {"disable_lower_builtin": tirx.const(True, "bool")}
        self._precede(AllocBuffer(register, mark))
        return register

    def _precede(self, statement: Stmt) -> None:
        assert self.before is not None, "only what stores or binds has values to keep"
        self.before.append(statement)
