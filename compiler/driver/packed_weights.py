"""The weights of a schedule as its kernels read them."""

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from compiler.backends.memory import aligned_copy, is_usable
from compiler.frontend.external import is_mapped
from compiler.graph.packing import packed_view
from compiler.graph.rewriting.weights import Array, weight_array
from compiler.ir import taskflow, taskflow_memory
from compiler.ir.values import stored_as


@dataclass(frozen=True)
class WeightPacker:
    """Packs the weights of a model; what several of its graphs read alike is packed once.

    Weights are packed by so many `jobs` at once.
    """

    weights: Mapping[str, Array]
    jobs: int = 1
    _packed: dict[tuple[str, str, str], Array] = field(
        default_factory=dict[tuple[str, str, str], Array], init=False, repr=False
    )

    def pack(self, graph: taskflow.GraphOp) -> dict[str, Array]:
        """The packed weights that a schedule reads, by allocation name.

        Raises ModelError for a weight that is missing, or has numbers beyond its type's range.
        """
        weights = [op for op in graph.walk() if isinstance(op, taskflow_memory.WeightOp)]
        self._add(weights)
        return {op.allocation_name: self._packed[_identity(op)] for op in weights}

    def _add(self, weights: Iterable[taskflow_memory.WeightOp]) -> None:
        """Pack weights that were not packed before; numpy releases the lock while it copies."""
        new = {key: op for op in weights if (key := _identity(op)) not in self._packed}
        with ThreadPoolExecutor(self.jobs) as pool:
            self._packed.update(zip(new, pool.map(self._array, new.values()), strict=True))

    def _array(self, weight: taskflow_memory.WeightOp) -> Array:
        """The packed array, in memory that is the module's, where kernels can read it."""
        key = weight.key.data
        stored = stored_as(weight_array(self.weights, key), weight.result.type, key)
        packed = packed_view(stored, weight.packing.data) if weight.packing else stored
        # a mapped file can change after the compilation
        shareable = is_usable(packed) and not is_mapped(packed)
        return packed if shareable else aligned_copy(packed)


def _identity(weight: taskflow_memory.WeightOp) -> tuple[str, str, str]:
    """The key, type and packing, by which a weight's array becomes the packed one."""
    packing = weight.packing.data if weight.packing else ""
    return weight.key.data, str(weight.result.type), packing
