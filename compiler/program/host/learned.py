"""Host operators of classical models (ai.onnx.ml)."""

import onnx
from onnx import helper

from compiler.frontend.rules.classical import ML_DOMAIN
from compiler.program.classical import classical
from compiler.program.host.registry import HostCall, HostFunction, host_operator

_OPERATORS = {s.name for s in onnx.defs.get_all_schemas_with_history() if s.domain == ML_DOMAIN}


@host_operator(*sorted(_OPERATORS), domain=ML_DOMAIN)
def classical_operator(call: HostCall) -> HostFunction | None:
    """The function of an operator, of its attributes as onnx reads them."""
    attributes = {a.name: helper.get_attribute_value(a) for a in call.proto.attribute}
    return classical(call.op_type, attributes)
