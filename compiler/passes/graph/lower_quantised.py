"""The pass that computes quantised operators with the kernels that a target has."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr

from compiler.errors import PipelineError
from compiler.graph.network import is_unlowered
from compiler.graph.rewriting.weights import Array, weight_array
from compiler.graph.targets import set_target, target_of
from compiler.ir.dataflow import GraphOp
from compiler.ir.edit import insert_before
from compiler.ir.emit import WeightKeys, emit_graph
from compiler.ir.read import read_graph
from compiler.net.building.simplify import simplify_graph
from compiler.passes.base import GraphPass, PassContext
from compiler.rewrite.quantised.lower import lower_quantised
from compiler.tensors.contraction import Contraction

OF_TARGET = "target"
"""The way of which the target has kernels."""


@dataclass(frozen=True)
class LowerQuantised(GraphPass):
    """Contract quantised operands in one way, and write what quantises and dequantises the rest.

    Requires: no groups yet; a weight store, as the contents of weights decide. Ensures: in a graph
    that has any, no QuantizeLinear and no DequantizeLinear; contractions of bytes that kernels of
    the way take, and floats elsewhere; scales folded into contractions, as those of other graphs
    are at import. The graph's `contraction` is the way in which there was something to contract:
    one of floats where no kernel takes its bytes.

        %2 = dataflow.op "DequantizeLinear" (%0, %x_scale, %x_zero) ...
        %3 = dataflow.op "DequantizeLinear" (%1, %w_scale) ...
        %4 = dataflow.op "MatMul" (%2, %3) ...
      becomes
        %2 = dataflow.op "MatMulInteger" (%0, %1, %x_zero) ...
        %3 = dataflow.op "Cast" (%2) {to = 1} ...
        %4 = dataflow.op "Mul" (%3, %scales) ...
    """

    name = "lower-quantised"

    way: str = OF_TARGET
    """all, tiles, float8-tiles, operands, float8-operands, floats or unrounded; `target` for the
    first of the ways that are compared for the target."""

    def __post_init__(self) -> None:
        if self.way not in (OF_TARGET, *Contraction):
            raise ValueError(f"way is one of {', '.join((OF_TARGET, *Contraction))}")

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Lower every `dataflow.graph` of the module, with the bodies in it."""
        graphs = [graph for graph in op.ops if isinstance(graph, GraphOp)]
        if not any(map(is_unlowered, graphs)):
            return
        weights = ctx.weights if isinstance(ctx, PassContext) else None
        array_of = _refused if weights is None else partial(weight_array, weights)
        target = graphs[0].target
        keys = WeightKeys()
        for graph in graphs:
            self._lower(graph, array_of, keys)
        if target is not None:
            set_target(op, target.data)
        if weights is not None:
            weights.clear()
            weights.update(keys.weights)
        elif keys.weights:
            _refused(next(iter(keys.weights)))

    def _lower(self, graph: GraphOp, array_of: Callable[[str], Array], keys: WeightKeys) -> None:
        """Put another graph in place of one, with the bodies in it."""
        of_target = self.way == OF_TARGET
        compared = target_of(graph).compared_contractions
        way = compared[0] if of_target else Contraction(self.way)
        net = read_graph(graph, array_of)
        contraction = lower_quantised(net, way)
        simplify_graph(net)
        names = [name.data for name in graph.input_names]
        lowered = emit_graph(net, graph.sym_name.data, names, keys)
        if contraction is not None:
            lowered.contraction = StringAttr(contraction)
        insert_before(graph, lowered)
        graph.detach()
        graph.erase()


def _refused(key: str) -> Array:
    """Raise PipelineError where there is no weight store."""
    raise PipelineError(
        f"the content of the weight {key!r} decides how quantised operators are computed, and only"
        " a compilation has it: compile the model with --dump-ir, and go on from the dump after"
        " this pass"
    )
