"""Host operators of classical models (ai.onnx.ml)."""

from compiler.frontend.rules.classical import ML_DOMAIN
from compiler.program.classical import CLASSICAL_FACTORIES, CLASSICAL_FUNCTIONS, classical
from compiler.program.host.registry import HostCall, HostFunction, host_operator


@host_operator(*sorted({*CLASSICAL_FUNCTIONS, *CLASSICAL_FACTORIES}), domain=ML_DOMAIN)
def classical_operator(call: HostCall) -> HostFunction:
    """The function of an operator."""
    return classical(call.op_type, call.attributes)
