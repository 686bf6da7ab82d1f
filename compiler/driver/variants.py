"""The variants of a model: one for each way to contract quantised operands that is compared."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from compiler.backends.memory import Array
from compiler.driver.settings import Settings
from compiler.errors import PipelineError
from compiler.frontend.importing.model import Imported
from compiler.graph.network import is_unlowered
from compiler.graph.targets import set_target
from compiler.ir.dataflow import ConstantOp, GraphOp, WeightOp
from compiler.ir.types import dtype_of
from compiler.passes.base import PassContext
from compiler.passes.pipeline import LOWER_QUANTISED, parse, with_decisions
from compiler.passes.runner import Runner
from compiler.tensors.contraction import Contraction
from compiler.tensors.dtypes import HALF_BYTES


@dataclass(frozen=True)
class Variant:
    """A module after the passes up to `lower-quantised`, its weights, and what runs the others.

    `contraction` is the way in which there was something to contract; None where nothing is
    quantised.
    """

    module: ModuleOp
    weights: dict[str, Array]
    runner: Runner
    contraction: Contraction | None = None


def variants(imported: Imported, settings: Settings) -> list[Variant]:
    """A module with its quantised operands contracted in each of the ways to compare.

    Where it has no contractions of bytes with kernels on the target, there is one, of floats if it
    has any. A pipeline that names a way has that one alone.
    """
    way, *others = settings.compared_contractions
    quantised = any(is_unlowered(op) for op in imported.module.ops if isinstance(op, GraphOp))
    open_steps = [step for step in parse(settings.passes) if str(step.spec()) == LOWER_QUANTISED]
    if not quantised or not open_steps:
        return [variant(imported.module, imported.weights, settings, way)]

    def lowered(way: Contraction, dump: str | os.PathLike[str] | None) -> Variant:
        own = replace(settings, dump_ir=dump)
        return variant(imported.module.clone(), dict(imported.weights), own, way)

    first = lowered(way, settings.dump_ir)
    if first.contraction is way:
        return [first, *(lowered(w, other_dump(settings.dump_ir, str(w))) for w in others)]
    if first.contraction is Contraction.FLOATS and Contraction.UNROUNDED in others:
        return [lowered(Contraction.UNROUNDED, settings.dump_ir)]
    return [first]


def variant(
    module: ModuleOp, weights: dict[str, Array], settings: Settings, way: Contraction
) -> Variant:
    """A module with its quantised operands contracted in a way, unless the pipeline names another.

    The module and its weights are changed in place. Raises PipelineError for constants of four bits
    where nothing lowers them.
    """
    named = with_decisions(settings.passes, {LOWER_QUANTISED: f"{LOWER_QUANTISED}{{way={way}}}"})
    steps = until_lowered(parse(named))
    if not steps:
        _check_no_half_bytes(module)
    set_target(module, settings.target)
    dump = None if settings.dump_ir is None else Path(settings.dump_ir)
    runner = Runner(dump, context=PassContext(weights), weights=weights)
    runner.write(module, "import", f"imported, for target {settings.target}")
    runner.run(module, steps, more=True)
    ways = [graph.contraction for graph in module.ops if isinstance(graph, GraphOp)]
    contraction = next((Contraction(way.data) for way in ways if way is not None), None)
    return Variant(module, weights, runner, contraction)


def until_lowered(steps: Sequence[ModulePass]) -> Sequence[ModulePass]:
    """The passes of a pipeline up to the lowering of quantised operators; none without it."""
    numbers = [number for number, step in enumerate(steps) if step.name == LOWER_QUANTISED]
    return steps[: max(numbers) + 1] if numbers else []


def _check_no_half_bytes(module: ModuleOp) -> None:
    """Raise PipelineError for a constant of four bits."""
    for op in module.walk():
        if isinstance(op, ConstantOp | WeightOp) and dtype_of(op.output.type) in HALF_BYTES:
            raise PipelineError(
                "the model has constants of four bits, which kernels read packed: begin the"
                f" pipeline with {LOWER_QUANTISED}"
            )


def other_dump(dump: str | os.PathLike[str] | None, name: str) -> Path | None:
    """The folder for the IR of another module than the one that is asked for."""
    return None if dump is None else Path(dump) / name
