from collections.abc import Callable, Mapping, Sequence
from typing import Any, overload

from tvm_ffi import Object

from ..ir import Expr, ExprLike, Var
from ..tirx import IntImm, IterVar, PrimFunc

class ComputeOp(Object):
    name: str
    tag: str
    attrs: Mapping[str, Any]
    num_outputs: int
    input_tensors: Sequence[Tensor]
    axis: Sequence[IterVar]
    reduce_axis: Sequence[IterVar]
    body: Sequence[Expr]
    def output(self, index: int) -> Tensor: ...

class Tensor(Expr):
    op: Any
    value_index: int
    shape: Sequence[IntImm]
    dtype: str
    def __call__(self, *indices: ExprLike) -> Expr: ...

@overload
def compute(
    shape: Sequence[ExprLike],
    fcompute: Callable[..., ExprLike],
    name: str = ...,
    tag: str = ...,
    attrs: Mapping[str, object] | None = ...,
) -> Tensor: ...
@overload
def compute(
    shape: Sequence[ExprLike],
    fcompute: Callable[..., Sequence[Expr]],
    name: str = ...,
    tag: str = ...,
    attrs: Mapping[str, object] | None = ...,
) -> Sequence[Tensor]: ...
def comm_reducer(
    fcombine: Callable[..., object], fidentity: Callable[..., object], name: str = ...
) -> Callable[..., Any]: ...
def create_prim_func(ops: Sequence[Tensor | Var]) -> PrimFunc: ...
def extern(
    shape: Sequence[Sequence[int]],
    inputs: Sequence[Tensor],
    fcompute: Callable[..., object],
    name: str = ...,
    dtype: Sequence[str] | None = ...,
    in_buffers: Sequence[Var] | None = ...,
    out_buffers: Sequence[Var] | None = ...,
) -> Tensor | Sequence[Tensor]: ...
def placeholder(shape: Sequence[ExprLike], dtype: str, name: str = ...) -> Tensor: ...
def reduce_axis(dom: tuple[ExprLike, ExprLike], name: str = ...) -> IterVar: ...
def sum(expr: Expr, axis: IterVar | Sequence[IterVar]) -> Expr: ...
def var(name: str = ..., dtype: str = ...) -> Var: ...
