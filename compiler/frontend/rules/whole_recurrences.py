"""Recurrences that stay one operator, for targets with a kernel for all their steps.

One GEMM projects the inputs of all steps and directions; the operator Recurrence does the rest.
"""

from collections.abc import Sequence

from compiler.frontend.rules.call import Call
from compiler.frontend.semantics.table import LSTM_CLIP_CELL
from compiler.graph.fusion.recurrences import Recurrence
from compiler.net.graph import Value
from compiler.net.operators.recurrence import STATES

DTYPES = ("float32", "float16")
"""The types of tensors that kernels for all steps read."""

LEAST_HIDDEN = 2
"""Hidden units with fewer of which a state is one number: constants of these are code."""


def whole_recurrence(
    call: Call, functions: Sequence[Sequence[tuple[str, float, float]]]
) -> list[Value] | None:
    """The results of an RNN, GRU or LSTM by one operator, time first; None to unroll it.

    `functions` are each direction's activation functions with their alpha and beta.
    """
    steps, batch, _ = _time_first(call, call.data).shape
    directions, _, hidden = call.operand(2).shape
    exchanges = 2 if _resets_first(call) else 1
    sizes = Recurrence(call.op_type, steps, batch, hidden, directions, exchanges=exchanges)
    if not steps or not _is_plain(call, functions, sizes) or not call.builder.has_kernel(sizes):
        return None
    # The projection of the inputs and the recurrence.
    x = _time_first(call, call.data)
    width = call.data.shape[2]
    rows = directions * call.operand(1).shape[1]
    bias, own_bias = _biases(call, sizes)
    weight = call.reshaped(call.operand(1), [rows, width])
    projected = call.one("Gemm", call.reshaped(x, [steps * batch, width]), weight, bias, transB=1)
    inputs = [
        call.reshaped(projected, [steps, batch, rows]),
        call.operand(2),
        own_bias,
        _lengths(call, sizes.steps),
        *(_state(call, index) for index in (5, 6)[: STATES[call.op_type]]),
    ]
    while inputs[-1] is None:
        inputs.pop()
    names, alphas, betas = zip(*functions[0], strict=True)
    attributes: dict[str, object] = {
        "cell": call.op_type,
        "direction": call["direction"],
        "activations": list(names),
        "activation_alpha": list(alphas),
        "activation_beta": list(betas),
        "clip": float(call["clip"] or 0),
        "input_forget": int(call["input_forget"] or 0),
        "linear_before_reset": int(not _resets_first(call)),
    }
    return call.builder.emit_used("Recurrence", inputs, attributes, call.used)


def _is_plain(
    call: Call, functions: Sequence[Sequence[tuple[str, float, float]]], sizes: Recurrence
) -> bool:
    """Whether the operator Recurrence computes what a node does."""
    lengths = call.input(4)
    known = lengths is not None and lengths.array is not None and sizes.batch == 1
    return (
        call.data.dtype in DTYPES
        and sizes.hidden >= LEAST_HIDDEN
        and call.operand(2).array is not None
        and call.input(7) is None
        and LSTM_CLIP_CELL not in call.onnxruntime
        and all(own == functions[0] for own in functions)
        and not (known and _lengths(call, sizes.steps))
    )


def _resets_first(call: Call) -> bool:
    """Whether a GRU resets its state before the GEMM that reads it."""
    return call.op_type == "GRU" and not call["linear_before_reset"]


def _time_first(call: Call, value: Value) -> Value:
    """A tensor with the batch first if the node has that layout, with the batch second."""
    batch_first = call["layout"]
    return call.one("Transpose", value, perm=[1, 0, 2]) if batch_first else value


def _biases(call: Call, sizes: Recurrence) -> tuple[Value | None, Value | None]:
    """The bias of the projection, and that of a GRU's candidate if the reset gate scales it."""
    both = call.input(3)
    if both is None:
        return None, None
    rows = sizes.gates * sizes.hidden
    hidden = sizes.hidden
    candidate = hidden if sizes.cell == "GRU" and not _resets_first(call) else 0
    parts = [rows, rows - candidate, candidate][: 2 + (candidate > 0)]
    bias, *others = call.parts(both, 1, parts)
    added = others[0]
    if candidate:
        zeros = call.filled(0, (sizes.directions, hidden), call.data.dtype)
        added = call.one("Concat", added, zeros, axis=1)
    total = call.reshaped(call.one("Add", bias, added), [-1])
    return total, others[1] if candidate else None


def _lengths(call: Call, steps: int) -> Value | None:
    """The length of each sequence; None if all have every step."""
    value = call.input(4)
    every = value is not None and value.array is not None and bool((value.array == steps).all())
    return None if every else value


def _state(call: Call, index: int) -> Value | None:
    """An initial state (directions, batch, hidden); None if it is zero."""
    value = call.input(index)
    if value is None or (value.array is not None and not value.array.any()):
        return None
    return _time_first(call, value)
