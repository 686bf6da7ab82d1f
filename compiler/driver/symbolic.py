"""The compilation of a graph whose extents are expressions: one build for all sizes."""

from collections.abc import Mapping
from dataclasses import replace

from xdsl.dialects.builtin import ModuleOp, NoneType

from compiler.artifact.symbolic import SymbolicArtifact
from compiler.autotune.schedule import scheduled
from compiler.backends.memory import Array
from compiler.driver.build import prepared
from compiler.driver.packed_weights import WeightPacker
from compiler.driver.requirements import cpu_requirements
from compiler.driver.settings import Settings
from compiler.driver.variants import variant
from compiler.frontend.importing.model import emitted
from compiler.ir import dataflow
from compiler.ir.flatten import extents_of, schedule_of
from compiler.ir.groups import symbols_of_type
from compiler.ir.nodes import node_of
from compiler.ir.types import shape_of
from compiler.kernels.group import takes_symbols
from compiler.kernels.long_sums import INNER_SUMS, LONG_SUM
from compiler.net.graph import Graph, inner_graphs
from compiler.net.operators import OPERATORS, Kind
from compiler.passes.pipeline import without_pass
from compiler.schedule.symbolic import SymbolicSchedule
from compiler.target.target import parse_target
from compiler.tensors.arithmetic import elements
from compiler.tensors.exact import plain
from compiler.tensors.extents import Extent, NotForAllSizes
from compiler.tensors.substitution import is_symbolic
from compiler.verify.all_sizes import certified_for_all_sizes
from compiler.verify.measuring import after_measuring
from compiler.verify.slots import in_slots

PLAN_MEMORY = "plan-memory"
"""The pass in whose place the arena is planned for all sizes."""


def _check_operators(module: ModuleOp, gpu: bool) -> None:
    """Raise NotForAllSizes for an operator without such kernels, before any kernel is built."""
    for op in module.walk():
        if isinstance(op, dataflow.OperatorOp) and not takes_symbols(op.type_name, gpu):
            types = [value.type for value in (*op.operands, *op.results)]
            if any(symbols_of_type(type) for type in types):
                raise NotForAllSizes(f"{op.type_name} '{op.node_name}' needs sizes as numbers")


def _assume_short_sums(module: ModuleOp) -> None:
    """Assume that the terms of sums are few enough for the accumulators that kernels have.

    Kernels for one size divide longer sums into runs. Raises NotForAllSizes where the example
    sizes have longer ones.
    """
    for op in module.walk():
        if not isinstance(op, dataflow.OperatorOp):
            continue
        entry = OPERATORS[op.type_name]
        facts = entry.facts
        node = node_of(op)
        terms: Extent = 1
        limit = LONG_SUM
        if facts.work is not None and entry.kind is Kind.CONTRACTION:
            shapes = [() if isinstance(v.type, NoneType) else shape_of(v.type) for v in op.outputs]
            terms = facts.work(node, shapes) // (2 * sum(map(elements, shapes)))
        elif facts.reduces is not None:
            shape = node.shape()
            axes = facts.reduces(node)
            terms = elements(shape[axis] for axis in axes)
            # along memory the lanes of vectors are accumulators
            limit *= INNER_SUMS if len(shape) - 1 in axes else 1
        if is_symbolic(terms) and plain(terms) > limit:
            raise NotForAllSizes(f"{op.type_name} '{op.node_name}' adds up {terms} numbers")


def build_symbolic(graph: Graph, settings: Settings) -> SymbolicArtifact:
    """Compile a graph for all sizes; the graph is used up.

    Raises NotForAllSizes where a choice depends on sizes that nothing may be assumed of, or a
    kernel takes none but numbers. What operators were substituted by may have such kernels alone:
    then none are.
    """
    if any(map(inner_graphs, graph.operators)):
        raise NotForAllSizes("the arenas of the bodies of an If or a Loop have fixed sizes")
    unmeasured = replace(settings, tuner=None, budget=0.0)
    imported = emitted(graph)
    substitutes = settings.substitution and settings.pipeline is None
    if not (substitutes and parse_target(settings.target).gains_by_substitution):
        return _built(imported.module, imported.weights, unmeasured)
    original = imported.module.clone()
    try:
        return _built(imported.module, imported.weights, unmeasured)
    except NotForAllSizes:
        unsubstituted = replace(unmeasured, substitution=False)
        return _built(original, imported.weights, unsubstituted)


def _built(module: ModuleOp, weights: Mapping[str, Array], settings: Settings) -> SymbolicArtifact:
    """Compile a module for all sizes with settings that measure nothing; it is used up."""
    target = parse_target(settings.target)
    lowered = variant(module, dict(weights), settings, settings.compared_contractions[0])
    packer = WeightPacker(lowered.weights, settings.jobs)
    _check_operators(lowered.module, target.is_gpu)
    _assume_short_sums(lowered.module)
    ready = prepared(lowered, packer, settings)
    pipeline = without_pass(settings.passes, PLAN_MEMORY)
    taskflow = scheduled(ready.module, pipeline, ready.runner)
    schedule, slots = in_slots(schedule_of(taskflow))
    ready.clock.lap("schedule passes")
    symbolic = after_measuring(
        SymbolicSchedule(schedule, ready.kernels, extents_of(taskflow), slots)
    )
    certificate = certified_for_all_sizes(symbolic)
    ready.clock.lap("verify for all sizes")
    weights = packer.pack(taskflow)
    ready.clock.lap("pack weights")
    return SymbolicArtifact(
        target=settings.target,
        certificate=certificate,
        weights=weights,
        requirements={} if target.is_gpu else cpu_requirements(settings.target),
        semantics=settings.semantics.ways,
    )
