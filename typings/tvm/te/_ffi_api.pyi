from collections.abc import Mapping, Sequence
from typing import Any

from . import ComputeOp as _ComputeOp
from ..ir import Expr
from ..tirx import IterVar

def ComputeOp(
    name: str,
    tag: str,
    attrs: Mapping[str, Any],
    axis: Sequence[IterVar],
    body: Sequence[Expr],
) -> _ComputeOp: ...
