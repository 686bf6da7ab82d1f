"""The pass that replaces operators by equal ones that run faster together."""

import logging
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from compiler.choice.alternatives import Alternatives, choose
from compiler.choice.judges import PredictedJudge
from compiler.errors import PipelineError
from compiler.graph.rewriting.dataflow import module_of, read_terms, write_terms
from compiler.graph.rewriting.examples import Examples
from compiler.graph.rewriting.terms import Graph, Term, Terms
from compiler.graph.targets import target_of
from compiler.ir.dataflow import GraphOp
from compiler.ir.edit import graphs_of, replace_graph
from compiler.ir.groups import depends_on_symbols
from compiler.ir.types import known_type
from compiler.net.spec import check_size
from compiler.passes.base import CostContext, GraphPass
from compiler.rewrite.rules import SEARCHED
from compiler.rewrite.search.backtracking import Cost, Limits
from compiler.rewrite.search.blocks import operators_of
from compiler.rewrite.search.cost_model import POLICIES, CostModel, CostPolicy, roofline_cost
from compiler.rewrite.search.search import DIVISIONS, Division, GraphCandidate, PartSizes, Search
from compiler.tensors.assumptions import assuming_nothing

MOST_COMPARED = 8000
"""Operators of all whole candidates together: of a large graph fewer are compared."""

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Substitute(GraphPass):
    """Substitute operators by others that are equal over the reals, if a schedule gets faster.

    AutoGraph's search (AAAI 2023): the graph is divided into parts across which the fewest
    substitutions reach; each part is searched by backtracking, dynamic programming chooses among
    the parts, and the best candidates are scheduled and compared, on the device where there is one.

    Requires: nothing; best after `canonicalize`; groups stay as they are. Ensures: results differ
    by rounding only; on a graph for a target that gains by it, the candidate of the least time.

        %3 = dataflow.op "Conv" (%0, %a) ...
        %4 = dataflow.op "Conv" (%0, %b) ...
        %5 = dataflow.op "Add" (%3, %4) ...
      becomes
        %ab = dataflow.weight "{\\"operator\\": \\"Add\\", \\"inputs\\": [\\"a\\", \\"b\\"]}" ...
        %5 = dataflow.op "Conv" (%0, %ab) ...
    """

    name = "substitute"

    policy: str = "target"
    """taso, autograph, makespan or none; `target` for autograph where kernels' times are known."""
    alpha: int | float = 0.25
    """The weight of the critical path in AutoGraph's cost."""
    beta: int | float = 1.1
    """Graphs that cost up to this many times the best are searched from."""
    size: str = "40..120"
    """The least and the most operators of a part."""
    division: str = "dynamic"
    """How parts are chosen: `dynamic`, by dynamic programming, `greedy` or `one`, all in one."""
    candidates: int = 20
    """How many whole graphs are scheduled and compared."""
    steps: int = 200
    """How many graphs are judged in the search of a part."""
    select: str = "time"
    """`time`: the fastest candidate, if faster than the graph as it was; `cost`: the cheapest."""
    take: int | None = None
    """The number of the candidate to take without comparing, as a compilation recorded it."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Substitute in every `dataflow.graph` of the module."""
        self._check()
        model = ctx.cost_model if isinstance(ctx, CostContext) else None
        for graph in graphs_of(op):
            resolved = replace(self, policy=self._policy(graph, model))
            number = None if resolved.policy == "none" else resolved._substitute(graph, model)
            if isinstance(ctx, CostContext):
                repeated = None if number is None else str(replace(resolved, take=number).spec())
                ctx.decided[str(self.spec())] = repeated

    def _check(self) -> None:
        if self.policy not in (policies := (*POLICIES, "none", "target")):
            choices = ", ".join(policies)
            raise PipelineError(f"unknown policy {self.policy!r}: use one of {choices}")
        if self.division not in DIVISIONS:
            raise PipelineError(
                f"unknown division {self.division!r}: use one of {', '.join(DIVISIONS)}"
            )
        if self.select not in ("time", "cost"):
            raise PipelineError(f"unknown selection {self.select!r}: use time or cost")
        if self.candidates < 1 or self.steps < 1 or self.beta < 1 or self.alpha < 0:
            raise PipelineError("candidates, steps and beta must be at least 1, alpha at least 0")
        self._sizes()

    def _sizes(self) -> PartSizes:
        bounds = re.fullmatch(r"(\d+)\.\.(\d+)", self.size)
        if bounds is None or not 0 < int(bounds[1]) <= int(bounds[2]):
            raise PipelineError(f"size={self.size} is not a range of operators: write size=40..120")
        return PartSizes(int(bounds[1]), int(bounds[2]))

    def _policy(self, graph: GraphOp, model: CostModel | None) -> str:
        """The policy for a graph, `none` if nothing is substituted.

        `target` needs times of kernels: by the roofline alone, graphs would get slower.
        """
        if self.policy != "target":
            return self.policy
        gains = model is not None and target_of(graph).gains_by_substitution
        return "autograph" if gains else "none"

    def _substitute(self, graph: GraphOp, model: CostModel | None) -> int | None:
        """Decide, or recall what was decided; the number of the candidate taken."""
        if depends_on_symbols(graph):  # a text has not the bounds of symbols
            return self._decide(graph, model)
        question = f"{self.spec(include_default=True)}\n{graph!s}"
        decided = None if model is None else model.recall(question)
        if decided is not None:
            replace_graph(graph, decided)
            number = re.match(r"// take=(\d+)\n", decided)
            return None if number is None else int(number[1])
        candidate = self._decide(graph, model)
        if model is not None:
            model.remember(question, f"// take={candidate}\n{graph!s}")
        return candidate

    def _decide(self, graph: GraphOp, model: CostModel | None) -> int | None:
        """Substitute; the number of the candidate, None if the graph stays.

        Rules are applied where they hold for all sizes, and judged by the example sizes.
        """
        terms = Terms()
        read = read_terms(graph, terms)
        make = roofline_cost if model is None else model.cost
        cost = make(cast(CostPolicy, self.policy), self.alpha, graph)
        examples = Examples(terms).of if depends_on_symbols(graph) else tuple[Term, ...]
        with assuming_nothing():
            candidates = [
                candidate
                for candidate in self._search(terms, read.graph, lambda own: cost(examples(own)))
                if read.has_order(candidate.graph)
            ]
        number = self._taken([examples(own.graph) for own in candidates], graph, cost, model)
        if candidates[number].graph == read.graph:
            return None
        _LOG.info("substituted: %s", dict(Counter(candidates[number].rules)))
        write_terms(graph, read, candidates[number].graph)
        for type in (known_type(v.type) for op in graph.body.block.ops for v in op.results):
            check_size(type.dtype, type.shape)  # that of what is new, for all sizes
        return number

    def _taken(
        self, candidates: Sequence[Graph], graph: GraphOp, cost: Cost, model: CostModel | None
    ) -> int:
        """The number of the candidate to take; the baseline is the last, the graph as it was."""
        if self.take is not None:
            if 0 <= self.take < len(candidates):
                return self.take
            raise PipelineError(
                f"take={self.take} is not one of the {len(candidates)} candidates: it was recorded"
                " by another version, or for other kernels; leave it out to compare them anew"
            )
        last = len(candidates) - 1
        graphs = {str(number): candidates[number] for number in (last, *range(last))}
        if model is None or self.select == "cost":
            judge = PredictedJudge(cost, uncertainty=0.0)
            return int(choose(Alternatives("candidates", graphs), judge).chosen)
        modules = {number: module_of(terms, graph) for number, terms in graphs.items()}
        return int(choose(Alternatives("candidates", modules), model).chosen)

    def _search(self, terms: Terms, graph: Graph, cost: Cost) -> list[GraphCandidate]:
        """The candidates; the last is the graph as it is."""
        count = max(1, min(self.candidates, MOST_COMPARED // len(operators_of(graph) or graph)))
        limits = Limits(beta=self.beta, steps=self.steps, kept=count)
        search = Search(
            terms=terms,
            rules=SEARCHED,
            cost=cost,
            limits=limits,
            sizes=self._sizes(),
            division=cast(Division, self.division),
        )
        candidates = search.candidates(graph)
        refined = search.refined(graph) if self.policy == "makespan" else candidates[-1]
        is_candidate = any(candidate.graph == refined.graph for candidate in candidates)
        return candidates if is_candidate else [refined, *candidates]
