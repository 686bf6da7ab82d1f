"""Bound values in buffers of one element, for LLVM: TVM's code generation simplifies what it binds.

LLVM puts such buffers into registers. Vector loops must be vectors already.
"""

from typing import Any

import tvm_ffi
from tvm import tirx
from tvm.ir import Call, Var
from tvm.tirx import AllocBuffer, BufferStore, IfThenElse, Let, PrimFunc, Stmt
from tvm.tirx.stmt import Bind

from compiler.kernels.tir.loops import sequence
from compiler.kernels.tir.once import is_once, without_literals


def in_registers(function: PrimFunc) -> PrimFunc:
    """A function that binds nothing by `once`: values are stored before what needs them."""
    values: dict[Var, Any] = {}

    def store(statement: BufferStore, mutator: Any) -> Stmt:
        return _Statement(values).store(statement)

    def bind(statement: Bind, mutator: Any) -> Stmt:
        return _Statement(values).bind(statement)

    if not _binds(function.body):
        return function
    rules = ((BufferStore, store), (Bind, bind))
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


class _Statement:
    """A statement that is split up; `before` are the statements that precede it.

    `values` are the registers of variables, to which the statement's are added.
    """

    def __init__(self, values: dict[Var, Any]) -> None:
        self.before: list[Stmt] = []
        self.values = values

    def store(self, statement: BufferStore) -> Stmt:
        """All of a store."""
        indices = [self._rewrite(index) for index in statement.indices]
        value = self._rewrite(statement.value)
        stored = BufferStore(statement.buffer, value, indices)
        return sequence([*self.before, stored])

    def bind(self, statement: Bind) -> Stmt:
        """All of a binding, which stays one unless it is by `once`."""
        if not (isinstance(statement.value, Call) and is_once(statement.value)):
            value = self._rewrite(statement.value)
            return sequence([*self.before, Bind(statement.var, value)])
        self._keep(statement.var, statement.value)
        return tirx.SeqStmt(self.before)

    def _keep(self, variable: Var, value: Any) -> None:
        """Store a variable's value."""
        register = self._register(variable)
        self.before.append(BufferStore(register, self._rewrite(value), [0]))
        self.values[variable] = tirx.BufferLoad(register, [0])

    def _rewrite(self, value: Any) -> Any:
        rules = ((Let, self._let), (Call, self._call), (Var, self._variable))
        return tvm_ffi.structural_mutate(value, rules)

    def _let(self, bound: Let, mutator: Any) -> Any:
        value: Any = bound
        while isinstance(value, Let):
            self._keep(value.var, value.value)
            value = value.body
        return self._rewrite(value)

    def _call(self, call: Call, mutator: Any) -> Any:
        if is_once(call):
            return mutator.mutate(call.args[0])
        if getattr(call.op, "name", "") == "prim.if_then_else" and _binds(call):
            return self._choice(call)
        return mutator.default_mutate(call)

    def _choice(self, call: Call) -> Any:
        """A choice between values as one between statements: only one of them may be computed."""
        condition = self._rewrite(call.args[0])
        register = self._register(call)
        branches = [self._branch(register, value) for value in call.args[1:]]
        self.before.append(IfThenElse(condition, *branches))
        return tirx.BufferLoad(register, [0])

    def _branch(self, register: Var, value: Any) -> Stmt:
        outer, self.before = self.before, []
        last = BufferStore(register, self._rewrite(value), [0])
        inner, self.before = self.before, outer
        return sequence([*inner, last])

    def _variable(self, variable: Var, mutator: Any) -> Any:
        return self.values.get(variable, variable)

    def _register(self, value: Any) -> Var:
        """A new buffer for a value, allocated before the statement."""
        register = tirx.decl_buffer((1,), str(value.ty.dtype), name="value", scope="local")
        mark = {"disable_lower_builtin": tirx.const(True, "bool")}
        self.before.append(AllocBuffer(register, mark))
        return register
