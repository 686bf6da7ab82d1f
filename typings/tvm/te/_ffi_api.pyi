from collections.abc import Mapping, Sequence
from typing import Any

from ..ir import Expr
from ..tirx import IterVar
from . import ComputeOp as _ComputeOp

def ComputeOp(
    name: str,
    tag: str,
    attrs: Mapping[str, Any],
    axis: Sequence[IterVar],
    body: Sequence[Expr],
) -> _ComputeOp: ...
