"""The rule for DynamicQuantizeLSTM: exact GEMMs of bytes of each step's range."""

from dataclasses import dataclass, replace

from compiler.frontend.rules.call import Call
from compiler.frontend.rules.contrib.quantised import biased, scaled_matmul
from compiler.frontend.rules.contrib.registry import contrib, transposed
from compiler.frontend.rules.quantised import dynamically_quantised
from compiler.frontend.rules.recurrent import (
    Activation,
    RecurrentDirection,
    direction_of,
    sliced,
    unrolled,
)
from compiler.frontend.semantics.choice import rules_of
from compiler.net.graph import Value

Quantisation = tuple[Value, Value]
"""The scale and zero point of a weight."""


@dataclass(slots=True)
class QuantisedDirection(RecurrentDirection):
    """A direction whose weights are integers, and whose operands are quantised as it runs."""

    of_input: Quantisation
    of_state: Quantisation

    def projected(self, x: Value) -> Value:
        """The inputs of all steps, quantised together, projected for every gate."""
        call = self.call
        weight = transposed(self.call, self.weight, [1, 0])
        result = _dynamic_matmul(call, x, weight, self.of_input)
        return biased(call, biased(call, result, self.input_bias), self.state_bias)

    def recurrence(self, state: Value) -> Value:
        """The state, quantised in each step, projected for every gate."""
        return _dynamic_matmul(self.call, state, self.recurrent, self.of_state)


def _dynamic_matmul(call: Call, x: Value, weight: Value, quantisation: Quantisation) -> Value:
    integers, scale, zero = dynamically_quantised(call, x)
    weight_scale, weight_zero = quantisation
    return scaled_matmul(call, (integers, weight), (scale, weight_scale), [zero, weight_zero])


@contrib("DynamicQuantizeLSTM")
def rewrite_dynamic_quantize_lstm(call: Call) -> list[Value]:
    """An LSTM whose weights are transposed integers."""
    quantisations = [(call.operand(i), call.operand(i + 1)) for i in (8, 10)]
    weights = [transposed(call, call.operand(i), [0, 2, 1]) for i in (1, 2)]
    inputs = [call.data, *weights, *call.inputs[3:8]]
    lstm = replace(call, op_type="LSTM", inputs=inputs, onnxruntime=rules_of("LSTM"))

    def make(call: Call, index: int, activations: list[Activation]) -> RecurrentDirection:
        plain = direction_of(call, index, activations)
        of_input, of_state = (
            (sliced(call, scale, index), sliced(call, zero, index)) for scale, zero in quantisations
        )
        return QuantisedDirection(
            call=call,
            weight=plain.weight,
            recurrent=plain.recurrent,
            input_bias=plain.input_bias,
            state_bias=plain.state_bias,
            peepholes=plain.peepholes,
            activations=activations,
            of_input=of_input,
            of_state=of_state,
        )

    return unrolled(lstm, make)
