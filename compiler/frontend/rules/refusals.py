"""Forms that nothing computes, known by a node's attributes and outputs before its inputs are."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import onnx
from onnx import helper

from compiler.frontend.graph import Unsupported
from compiler.frontend.rules.first_opsets import FIRST_KNOWN, check_order
from compiler.frontend.rules.lower import check_statistics
from compiler.frontend.rules.recurrent import activation_named
from compiler.net.operators.recurrence import GATES


@dataclass(frozen=True, slots=True)
class _Form:
    """A node of an opset."""

    node: onnx.NodeProto
    opset: int

    def get(self, name: str, default: Any) -> Any:
        """An attribute, or a default where a function's caller decides it."""
        own = (a for a in self.node.attribute if a.name == name and not a.ref_attr_name)
        return next(map(helper.get_attribute_value, own), default)


def _batch_normalization(form: _Form) -> None:
    old = form.opset < FIRST_KNOWN
    training = not form.get("is_test", 0) if old else bool(form.get("training_mode", 0))
    used = [bool(name) for name in form.node.output]
    check_statistics(training, bool(form.get("spatial", 1)), used)


def _norm(form: _Form) -> None:
    check_order(form.get("p", 2))


def _recurrence(form: _Form) -> None:
    for name in form.get("activations", ()):
        activation_named(name.decode(errors="replace"))


_CHECKS: dict[str, Callable[[_Form], None]] = {
    "BatchNormalization": _batch_normalization,
    **dict.fromkeys(("GlobalLpPool", "LpPool"), _norm),
    **dict.fromkeys(GATES, _recurrence),
}


def form_refusal(node: onnx.NodeProto, opset: int) -> Unsupported | None:
    """Why a node of the default domain has a form that nothing computes; None if it has not."""
    if node.domain in ("", "ai.onnx") and node.op_type in _CHECKS:
        try:
            _CHECKS[node.op_type](_Form(node, opset))
        except Unsupported as error:
            return error
    return None
