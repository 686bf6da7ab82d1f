"""Webs of elementwise operators with several results in one loop: a thread has one place of all.

What several operators use is computed once and stays in a register, so that the text grows with
the number of operators however they are linked, and results do not become kernels of their own.
"""

from math import prod
from typing import Any

from tvm import te, tirx
from tvm.ir import PrimType, Var
from tvm.tirx import SeqStmt, Stmt
from tvm.tirx.stmt import AllocBuffer

from compiler.analysis.operators import KINDS, Kind
from compiler.kernels.cuda.generic import ELEMENT_THREADS
from compiler.kernels.cuda.scheduled import CudaKernel
from compiler.kernels.cuda.store import StoreFunction, device_function
from compiler.kernels.cuda.target import CudaTarget
from compiler.kernels.cuda.tiles import ceil_div
from compiler.kernels.group import Group
from compiler.kernels.lowering import unflatten_index
from compiler.kernels.templates.fusion import Surroundings
from compiler.kernels.templates.loops import buffer, variable
from compiler.schedule import Launch


def pointwise_kernel(group: Group, target: CudaTarget) -> CudaKernel | None:
    """The kernel of elementwise operators with several results of one shape; None for others."""
    shapes = {info.shape for info in group.writes}
    kinds = {KINDS[op.type] for op in group.operators}
    if len(group.writes) < 2 or len(shapes) != 1 or not kinds <= {Kind.ELEMENTWISE, Kind.VIEW}:
        return None
    web = _Web(group)
    place = variable("place")
    shape = group.writes[0].shape
    statement = web.statement(unflatten_index(place, shape))
    function = device_function(f"{group.name}_place", web, statement, [place], target)
    return _kernel(group, function, prod(shape))
