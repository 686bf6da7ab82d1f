"""The form of a rule: where the ONNX text and onnxruntime differ by more than rounding."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import onnx

from compiler.frontend.evaluate import default_of
from compiler.frontend.graph import Attributes, Inputs


@dataclass(frozen=True, slots=True)
class NodeForm:
    """A node of the default domain as rules see it: checked attributes, and inputs with shapes."""

    op_type: str
    inputs: Inputs
    attributes: Attributes
    outputs: int = 1
    """The outputs that it names."""

    @classmethod
    def decoded(
        cls, op_type: str, inputs: Inputs, attributes: Mapping[str, Any], outputs: int = 1
    ) -> "NodeForm":
        """From attributes as onnx's helper returns them, whose texts are bytes."""
        texts = {name: _text_of(value) for name, value in attributes.items()}
        return cls(op_type, inputs, texts, outputs)

    def __getitem__(self, name: str) -> Any:
        """An attribute's value, or its default by the newest schema; None without one."""
        value = self.attributes.get(name)
        newest = onnx.defs.onnx_opset_version()
        return default_of(self.op_type, newest, name) if value is None else value

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the first input."""
        value = self.inputs[0]
        return () if value is None else value.shape

    @property
    def dtype(self) -> str:
        """The element type of the first input."""
        value = self.inputs[0]
        return "" if value is None else value.dtype

    def known(self, index: int) -> np.ndarray | None:
        """The elements of a constant input, in order; None for others and where there are none.

        Rules are asked before shapes are checked: what should be a vector may have any rank.
        """
        value = self.inputs[index] if index < len(self.inputs) else None
        array = None if value is None else value.array
        return array.reshape(-1) if array is not None and array.size else None

    @property
    def keeps_size(self) -> bool:
        """Whether its windows are padded automatically, so that strides alone decide the size."""
        return str(self["auto_pad"]).startswith("SAME")


def _text_of(value: object) -> object:
    """The text or texts of an attribute; anything else as it is."""
    if isinstance(value, list):
        return [_text_of(item) for item in cast(list[object], value)]
    return value.decode(errors="replace") if isinstance(value, bytes) else value


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
    meets: Callable[[NodeForm], bool]
    """Whether the results of a node differ; nodes that onnxruntime refuses meet no rule."""
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
