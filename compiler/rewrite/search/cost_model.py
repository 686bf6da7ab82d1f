"""The questions of the search: the cost of a graph, and the time of a whole candidate."""

from collections.abc import Mapping
from typing import ClassVar, Literal, Protocol, get_args

from xdsl.dialects.builtin import ModuleOp

from compiler.graph.cost import estimate, roofline_of, work_of_operators
from compiler.graph.rewriting.dataflow import module_of
from compiler.graph.rewriting.terms import Graph, Term, Terms
from compiler.graph.targets import target_of
from compiler.ir.dataflow import GraphOp, OperatorOp
from compiler.rewrite.search.backtracking import Cost
from compiler.rewrite.search.kernels import kernels_of, mixed_cost
from compiler.schedule.choices import ChoiceSource, Timing

CostPolicy = Literal["taso", "autograph", "makespan"]
POLICIES: tuple[CostPolicy, ...] = get_args(CostPolicy)
"""The costs: the sum of all kernels' times (TASO), that and a part of the critical path's
(AutoGraph), and the simulated time of the multi-stream schedule."""


class CostModel(Protocol):
    """Times of kernels on a target; a judge of whole graphs, as in `compiler.choice`."""

    source: ClassVar[ChoiceSource]
    """Whether the times of whole graphs are measured."""

    def cost(self, policy: CostPolicy, alpha: float, like: GraphOp) -> Cost:
        """The cost of graphs by a policy, in nanoseconds, as parts of a graph like one."""
        ...

    def recall(self, question: str) -> str | None:
        """The text of the graph that a search with the same question decided on, if it is known."""
        ...

    def remember(self, question: str, text: str) -> None:
        """Keep the text of the graph that a search decided on."""
        ...

    def times(self, ways: Mapping[str, ModuleOp]) -> Mapping[str, Timing | str]:
        """The times of whole graphs, scheduled on streams, or why one has none.

        The first is the graph as it was. May change the modules.
        """
        ...


def roofline_cost(policy: CostPolicy, alpha: float, like: GraphOp) -> Cost:
    """The cost by the roofline of the graph's target, where nothing better is known.

    A policy that needs a simulator counts the critical path alone.
    """
    roofline = roofline_of(target_of(like))
    costs: dict[Term, float] = {}

    def time(term: Term) -> float:
        if term not in costs:
            (graph,) = module_of(_alone(term), like).ops
            (last,) = (op for op in graph.walk() if isinstance(op, OperatorOp))
            costs[term] = estimate(work_of_operators([last], last.outputs), roofline)
        return costs[term]

    def cost(graph: Graph) -> float:
        kernels = kernels_of(graph, roofline.few_terms)
        times = [time(kernel.term) for kernel in kernels]
        return mixed_cost(kernels, times, alpha if policy == "autograph" else 0.0)

    return cost


def _alone(term: Term) -> Graph:
    """The results of an operator on leaves."""
    terms = Terms()
    inputs = [
        operand and terms.leaf("input", operand.types[0], operand=number)
        for number, operand in enumerate(term.node.inputs)
    ]
    return terms.results(terms.opaque(term.node.type, inputs, term.node.attributes, term.types))
