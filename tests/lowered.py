"""Models whose quantised operators are lowered, without the rest of a compilation."""

from dataclasses import dataclass
from typing import Any

from compiler.frontend.importing import Imported, import_model
from compiler.ir.groups import graph_of
from compiler.passes.base import PassContext
from compiler.passes.graph.lower_quantised import LowerQuantised
from compiler.passes.runner import Runner
from compiler.tensors.contraction import Contraction


@dataclass(frozen=True)
class Lowered(Imported):
    """A module and its weights after `lower-quantised`."""

    @property
    def contraction(self) -> Contraction | None:
        """The way in which there was something to contract."""
        way = graph_of(self.module).contraction
        return None if way is None else Contraction(way.data)


def lowered(imported: Imported, way: Contraction = Contraction.BYTES) -> Lowered:
    """A model with its quantised operands contracted in a way; it stays as it is."""
    module, weights = imported.module.clone(), dict(imported.weights)
    Runner(context=PassContext(weights)).run(module, [LowerQuantised(str(way))])
    return Lowered(module, weights)


def import_lowered(
    *model: Any, contraction: Contraction = Contraction.BYTES, **options: Any
) -> Lowered:
    """A model that is imported, with its quantised operands contracted in a way."""
    return lowered(import_model(*model, **options), contraction)
