from collections.abc import Mapping, Sequence
from enum import IntEnum

from tvm_ffi import Object

from ..ir import Call, Expr, ExprLike, Var
from . import IterVar

class Stmt(Object): ...

class Bind(Stmt):
    var: Var
    value: Expr
    def __init__(self, var: Var, value: Expr) -> None: ...

class ForKind(IntEnum):
    SERIAL = ...
    PARALLEL = ...
    VECTORIZED = ...
    UNROLLED = ...
    THREAD_BINDING = ...

class For(Stmt):
    loop_var: Var
    min: Expr
    extent: Expr
    kind: ForKind
    body: Stmt
    thread_binding: IterVar | None
    def __init__(
        self,
        loop_var: Var,
        min: ExprLike,
        extent: ExprLike,
        kind: ForKind,
        body: Stmt,
        thread_binding: IterVar | None = ...,
    ) -> None: ...

class BufferStore(Stmt):
    buffer: Var
    value: Expr
    indices: Sequence[Expr]
    def __init__(self, buffer: Var, value: ExprLike, indices: Sequence[ExprLike]) -> None: ...

class AllocBuffer(Stmt):
    buffer: Var
    def __init__(self, buffer: Var, annotations: Mapping[str, object] = ...) -> None: ...

class DeclBuffer(Stmt):
    buffer: Var
    data: Call
    def __init__(self, buffer: Var, *, data: Expr) -> None: ...

class AttrStmt(Stmt):
    node: Object
    attr_key: str
    value: Expr
    body: Stmt
    def __init__(self, node: Object, attr_key: str, value: Expr, body: Stmt) -> None: ...

class SeqStmt(Stmt):
    seq: Sequence[Stmt]
    def __init__(self, seq: Sequence[Stmt]) -> None: ...

class IfThenElse(Stmt):
    condition: Expr
    then_case: Stmt
    else_case: Stmt | None
    def __init__(self, condition: Expr, then_case: Stmt, else_case: Stmt | None = ...) -> None: ...

class While(Stmt):
    condition: Expr
    body: Stmt
    def __init__(self, condition: Expr, body: Stmt) -> None: ...

class Evaluate(Stmt):
    def __init__(self, value: ExprLike) -> None: ...
