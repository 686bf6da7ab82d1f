"""Random sequences of substitutions."""

from itertools import islice
from random import Random

from compiler.graph.rewriting.terms import Graph, Terms
from compiler.rewrite.matches import Matches
from compiler.rewrite.matching import Matcher
from compiler.rewrite.rules import RULES


def rewritten(terms: Terms, graph: Graph, random: Random, steps: int) -> Graph:
    """A graph after some applications of random rules, or fewer if none applies any more."""
    for _ in range(steps):
        graph = _once(terms, graph, random)
    return graph


def _once(terms: Terms, graph: Graph, random: Random) -> Graph:
    matcher = Matcher(Matches(terms), graph)
    for rule in random.sample(RULES, len(RULES)):
        sites = list(islice(matcher.sites(rule), 8))
        result = matcher.apply(random.choice(sites)) if sites else None
        if result is not None:
            return result
    return graph
