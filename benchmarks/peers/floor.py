"""The least time that a model can take: arithmetic, weights, and GEMMs one after another."""

from dataclasses import dataclass

from xdsl.ir import SSAValue

from compiler.frontend.importing.model import Imported
from compiler.graph.cost import flops_of
from compiler.ir.dataflow import OperatorOp
from compiler.net.operators import KINDS, Kind

FLOPS_A_MICROSECOND = 400e6
BYTES_A_MICROSECOND = 4.3e6
PRODUCT_US = 2.0
"""Rates of an H200, as measured: dense GEMMs in half precision at about half the best rate,
copies, and a small convolution or GEMM that waits for another."""


@dataclass(frozen=True, slots=True)
class Demand:
    """The least work of a model; `depth` counts the GEMMs on the longest path."""

    flops: int
    weights: int
    depth: int

    def floor_us(self, weight_bytes: int) -> float:
        """Microseconds, with weights of that many bytes each."""
        return max(
            self.flops / FLOPS_A_MICROSECOND,
            self.weights * weight_bytes / BYTES_A_MICROSECOND,
            self.depth * PRODUCT_US,
        )


def demand_of(imported: Imported) -> Demand:
    """The demand of an imported model."""
    depth: dict[SSAValue, int] = {}
    flops = 0
    for op in imported.module.walk():
        if isinstance(op, OperatorOp):
            product = KINDS.get(op.type_name) is Kind.CONTRACTION
            flops += flops_of(op) if product else 0
            reached = max((depth.get(value, 0) for value in op.operands), default=0) + product
            depth.update(dict.fromkeys(op.results, reached))
    weights = sum(array.size for array in imported.weights.values())
    return Demand(flops, weights, max(depth.values(), default=0))
