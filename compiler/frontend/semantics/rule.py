"""The form of a rule: where the ONNX text and onnxruntime differ by more than rounding."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from compiler.frontend.node import ModelNode


@dataclass(frozen=True, kw_only=True, slots=True)
class SemanticsRule:
    """One difference that attributes, types and shapes show when a model is compiled.

    The texts are parts of a sentence: `where` WHEN, onnxruntime `onnxruntime`, Flowloom `onnx`.
    """

    name: str
    operators: tuple[str, ...]
    """The operators whose nodes may meet it; empty if what else is in the model decides."""
    when: str
    onnxruntime: str
    onnx: str
    reason: str
    """The clause of the ONNX text, or what else decides."""
    attribute: str
    """An attribute without which no node meets it; empty if there is none."""
    meets: Callable[[ModelNode], bool]
    """Whether the results of a node differ; nodes that onnxruntime refuses meet no rule."""
    attributes: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The attributes with which the ONNX text has onnxruntime's results, if it is that simple."""
    pytorch: str = ""
    """The way of PyTorch, "onnx" or "onnxruntime", of operators that it exports."""
    refuses: bool = False
    """Whether the ONNX text has no result, so that such a node is an error."""
    changes_shape: bool = False
    """Whether onnxruntime's result may have another shape."""

    @property
    def difference(self) -> str:
        """The difference in one sentence, without its full stop."""
        return f"where {self.when}, onnxruntime {self.onnxruntime}, and Flowloom {self.onnx}"

    @property
    def remedy(self) -> str:
        """How to choose."""
        ways = "'onnxruntime'" if self.refuses else "'onnxruntime' or 'onnx'"
        return (
            f"to choose, compile with semantics={{{self.name!r}: {ways}}}"
            f" (--semantics {self.name}=onnxruntime on the command line)"
        )
