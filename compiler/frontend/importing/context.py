"""The context of an import: of a whole model, or of all of its parts."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import onnx

from compiler.frontend.domains import domain_of
from compiler.frontend.external import ModelFolder
from compiler.frontend.semantics import ONNX, Semantics
from compiler.graph.fusion.whole import Whole, no_kernels


@dataclass(frozen=True, slots=True)
class ModelContext:
    """The context that all parts of a model share; `folder` holds external data."""

    opsets: Mapping[str, int]
    functions: Sequence[onnx.FunctionProto] = ()
    folder: ModelFolder | None = None
    check_indices: bool = False
    regions: bool = False
    """Whether the target runs If and Loop whose bodies stay graphs."""
    has_kernel: Callable[[Whole], bool] = no_kernels
    """Whether a recurrence or a transform has one kernel for all its steps."""
    semantics: Semantics = ONNX
    measures: bool = False
    """Whether sizes that only data decide become symbols, which kernels of the run count."""

    def check_data(self) -> None:
        """Raise ModelError if a file of external data was written to since the model was read."""
        if self.folder is not None:
            self.folder.check_unwritten()

    def calls_function(self, node: onnx.NodeProto) -> bool:
        """Whether a node calls a function of the model that is not inlined."""
        key = domain_of(node), node.op_type, node.overload
        return any((f.domain, f.name, f.overload) == key for f in self.functions)
