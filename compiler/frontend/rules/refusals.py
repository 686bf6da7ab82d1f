"""Forms that nothing computes, known by a node's attributes and outputs before its inputs are."""

import onnx
from onnx import helper

from compiler.frontend.node import Check, ModelNode
from compiler.frontend.rules.first_opsets import FIRST_KNOWN, check_order
from compiler.frontend.rules.lower import check_statistics
from compiler.frontend.rules.recurrent import activation_named
from compiler.frontend.unsupported import Unsupported
from compiler.net.operators.recurrence import GATES


def _batch_normalization(node: ModelNode) -> None:
    old = node.version < FIRST_KNOWN
    training = not node["is_test"] if old else bool(node["training_mode"])
    check_statistics(training, bool(node["spatial"]), node.used)


def _norm(node: ModelNode) -> None:
    check_order(node["p"])


def _recurrence(node: ModelNode) -> None:
    for name in node["activations"] or ():
        activation_named(name.decode(errors="replace"))


_CHECKS: dict[str, Check] = {
    "BatchNormalization": _batch_normalization,
    **dict.fromkeys(("GlobalLpPool", "LpPool"), _norm),
    **dict.fromkeys(GATES, _recurrence),
}


def form_refusal(node: onnx.NodeProto, opset: int) -> Unsupported | None:
    """Why a node of the default domain has a form that nothing computes; None if it has not."""
    if node.domain in ("", "ai.onnx") and node.op_type in _CHECKS:
        own = (a for a in node.attribute if not a.ref_attr_name)  # a function's caller has others
        attributes = {a.name: helper.get_attribute_value(a) for a in own}
        used = [bool(name) for name in node.output]
        try:
            _CHECKS[node.op_type](ModelNode(node.op_type, opset, [], attributes, used))
        except Unsupported as error:
            return error
    return None
