"""Quantised operators of the frontend's graph in the way in which their operands are contracted."""

from compiler.frontend.graph import Graph
from compiler.frontend.liveness import drop_dead
from compiler.frontend.quantised.contract import Contracting, contracts_floats
from compiler.frontend.quantised.drop_rounding import Unrounding
from compiler.frontend.quantised.four_bits import MOST_PACKED_ROWS, Packing
from compiler.frontend.quantised.keep_floats import contracted_integers, keep_floats
from compiler.frontend.quantised.tensor_cores import (
    has_integers,
    suits_integer_tensor_cores,
    suits_tensor_cores,
)
from compiler.frontend.quantised.widen import fit_kernels
from compiler.net.operators import BYTE_CONTRACTIONS
from compiler.tensors.contraction import Contraction

_ON_CODES = (*BYTE_CONTRACTIONS, "MatMulNBits")
"""The contractions of bytes, and of weights of four bits."""


def lower_quantised(graph: Graph, way: Contraction) -> Contraction | None:
    """Contract quantised operands in a way, in place, and compute all else with what that leaves.

    Returns the way in which there was something to contract, which is one of floats where bytes are
    asked for and no kernel takes those of the graph; None if nothing is quantised.
    """
    if not _is_quantised(graph):
        return None
    # before integers are moved, among which a Relu would be a Max that keeps numbers rounded
    unrounded = way is Contraction.UNROUNDED and Unrounding().rewrite(graph)
    Packing(MOST_PACKED_ROWS if way.in_bytes else 0).rewrite(graph)
    if way.on_tensor_cores:
        suits = suits_tensor_cores if way.takes_float8 else suits_integer_tensor_cores
    else:
        suits = has_integers if way.in_bytes else None
    Contracting(suits).rewrite(graph)
    widened = contracts_floats(graph)
    if way is not Contraction.BYTES:  # CPUs have kernels for all contractions of integers
        if way.in_bytes and not way.rounds:
            unrounded = Unrounding(contracted_integers(graph)).rewrite(graph)
        drop_dead(graph)
        widened |= fit_kernels(graph, way.on_tensor_cores)
        keep_floats(graph)
    drop_dead(graph)
    if _contracts_bytes(graph):
        return way
    if unrounded:
        return Contraction.UNROUNDED
    return Contraction.FLOATS if widened else None


def _is_quantised(graph: Graph) -> bool:
    """Whether it has contractions of codes, or values that stand for others."""
    return any(
        operator.op_type in _ON_CODES
        or any(value is not None and value.code for value in (*operator.inputs, *operator.outputs))
        or any(_is_quantised(body) for body in operator.bodies)
        for operator in graph.operators
    )


def _contracts_bytes(graph: Graph) -> bool:
    return any(
        operator.op_type in _ON_CODES or any(_contracts_bytes(body) for body in operator.bodies)
        for operator in graph.operators
    )
