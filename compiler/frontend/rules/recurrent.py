"""RNN, GRU and LSTM: one operator where the target has a kernel for all steps, else unrolled.

Unrolled over its static sequence, one is GEMMs and elementwise operators. One GEMM projects the
inputs of all steps; each step adds a GEMM of the state.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from compiler.frontend.rules.call import Call, rule
from compiler.frontend.rules.whole_recurrences import whole_recurrence
from compiler.frontend.semantics.activations import activation_parameters, standard_activation
from compiler.frontend.semantics.table import LSTM_CLIP_CELL, RECURRENT_ACTIVATION_DEFAULTS
from compiler.frontend.unsupported import Unsupported
from compiler.net.graph import Value
from compiler.net.operators.recurrence import DEFAULT_ACTIVATIONS, STATES

State = list[Value]
Activation = Callable[[Value], Value]


@dataclass(frozen=True)
class ActivationFunction:
    """An activation function and its parameters."""

    name: str
    values: Mapping[str, float]

    @property
    def plain(self) -> tuple[str, float, float]:
        """The name, alpha and beta; 0 where it has none."""
        numbers = dict.fromkeys(("alpha", "beta"), 0.0) | dict(self.values)
        return self.name, numbers["alpha"], numbers["beta"]

    def apply(self, call: Call, x: Value, clipped: bool = True) -> Value:
        """The function of a value, which is `clipped` if the node says so."""
        bound = call.attributes.get("clip") if clipped else None
        values = self.values
        if bound is not None:
            x = call.one("Clip", x, call.scalar(-bound), call.scalar(bound))
        if self.name == "Affine":
            scaled = call.one("Mul", x, call.scalar(values["alpha"]))
            return call.one("Add", scaled, call.scalar(values["beta"]))
        if self.name == "ScaledTanh":
            inner = call.one("Tanh", call.one("Mul", x, call.scalar(values["beta"])))
            return call.one("Mul", inner, call.scalar(values["alpha"]))
        return call.one(self.name, x, **values)


def activation_named(name: str) -> str:
    """The standard name of an activation function; raises Unsupported for others."""
    known = standard_activation(name)
    if known is None:
        raise Unsupported(f"its activation {name!r} is not known", "use a standard activation")
    return known


def functions_of(call: Call, directions: int) -> list[list[ActivationFunction]]:
    """The activation functions of each direction; raises Unsupported for unknown ones."""
    default = DEFAULT_ACTIVATIONS[call.op_type]
    names = call.attributes.get("activations") or default * directions
    names = [activation_named(name) for name in names]
    as_onnxruntime = RECURRENT_ACTIVATION_DEFAULTS in call.onnxruntime
    values = activation_parameters(names, call.attributes, as_onnxruntime=as_onnxruntime)
    functions = [ActivationFunction(*pair) for pair in zip(names, values, strict=True)]
    count = len(default)
    return [functions[i * count : (i + 1) * count] for i in range(directions)]


def _activations(call: Call, directions: int) -> list[list[Activation]]:
    """The functions of each direction as operators."""
    cell = 2 if LSTM_CLIP_CELL in call.onnxruntime else None  # the function of the cell's state
    return [
        [partial(f.apply, call, clipped=number != cell) for number, f in enumerate(own)]
        for own in functions_of(call, directions)
    ]


@dataclass(slots=True)
class RecurrentDirection:
    """The weights of one direction and the operators of its cell."""

    call: Call
    weight: Value
    recurrent: Value  # transposed: (hidden, gates * hidden)
    input_bias: Value | None
    state_bias: Value | None
    peepholes: list[Value] | None
    activations: list[Activation]

    def projected(self, x: Value) -> Value:
        """The inputs projected for every gate: (steps * batch, gates * hidden)."""
        bias = self.input_bias
        if bias is not None and not self.resets_after:
            bias = self.call.one("Add", bias, self.state_bias)
        return self.call.one("Gemm", x, self.weight, bias, transB=1)

    @property
    def resets_after(self) -> bool:
        """Whether a GRU applies its reset gate after the GEMM of the state."""
        return bool(self.call["linear_before_reset"])

    def gates(self, x: Value, count: int) -> list[Value]:
        """Equal parts of the last axis."""
        return self.call.parts(x, 1, [x.shape[1] // count] * count)

    def recurrence(self, state: Value) -> Value:
        """The state projected for every gate: (batch, gates * hidden)."""
        return self.call.one("MatMul", state, self.recurrent)


def _zero(value: Value) -> bool:
    return value.array is not None and not value.array.any()


def _add(call: Call, left: Value, right: Value) -> Value:
    """A sum of equal shapes; the first step's state is often zero."""
    if _zero(right):
        return left
    return right if _zero(left) else call.one("Add", left, right)


def _mul(call: Call, left: Value, right: Value) -> Value:
    """A Mul with a state, which is zero if the state is."""
    return right if _zero(right) else call.one("Mul", left, right)


def _rnn(cell: RecurrentDirection, x: Value, state: State) -> State:
    (activate,) = cell.activations
    return [activate(_add(cell.call, x, cell.recurrence(state[0])))]


def _gru(cell: RecurrentDirection, x: Value, state: State) -> State:
    call, (f, g), (hidden,) = cell.call, cell.activations, state
    xz, xr, xh = cell.gates(x, 3)
    if cell.resets_after:
        recurrence = cell.recurrence(hidden)
        if cell.state_bias is not None:
            recurrence = call.one("Add", recurrence, cell.state_bias)
        hz, hr, hh = cell.gates(recurrence, 3)
        reset = f(_add(call, xr, hr))
        candidate = g(_add(call, xh, _mul(call, reset, hh)))
    else:
        size = hidden.shape[1]
        both, last = call.parts(cell.recurrent, 1, [2 * size, size])
        hz, hr = cell.gates(call.one("MatMul", hidden, both), 2)
        reset = f(_add(call, xr, hr))
        candidate = g(_add(call, xh, call.one("MatMul", _mul(call, reset, hidden), last)))
    update = f(_add(call, xz, hz))
    fresh = call.one("Mul", call.one("Sub", call.scalar(1), update), candidate)
    return [_add(call, fresh, _mul(call, update, hidden))]


def _lstm(cell: RecurrentDirection, x: Value, state: State) -> State:
    call, (f, g, h), (hidden, memory) = cell.call, cell.activations, state
    i, o, forget, c = cell.gates(_add(call, x, cell.recurrence(hidden)), 4)
    if cell.peepholes:
        i = _add(call, i, _mul(call, cell.peepholes[0], memory))
        forget = _add(call, forget, _mul(call, cell.peepholes[2], memory))
    write = f(i)
    coupled = call["input_forget"]
    keep = call.one("Sub", call.scalar(1), write) if coupled else f(forget)
    memory = _add(call, call.one("Mul", write, g(c)), _mul(call, keep, memory))
    if cell.peepholes:
        o = _add(call, o, _mul(call, cell.peepholes[1], memory))
    return [call.one("Mul", f(o), h(memory)), memory]


_CELLS = {"RNN": _rnn, "GRU": _gru, "LSTM": _lstm}


def sliced(call: Call, value: Value, direction: int) -> Value:
    """The slice of one direction from a tensor whose first axis is the direction."""
    index = call.builder.constant(direction, "int64")
    return call.one("Gather", value, index, axis=0)


def _parts(call: Call, value: Value | None, direction: int, count: int) -> list[Value] | None:
    """The slice of one direction from an optional tensor, split into equal parts."""
    if value is None:
        return None
    whole = sliced(call, value, direction)
    return call.parts(whole, 0, [whole.shape[0] // count] * count)


def direction_of(call: Call, index: int, activations: list[Activation]) -> RecurrentDirection:
    """The direction of an index, its weights sliced from the node's."""
    weight, recurrent = (sliced(call, call.operand(i), index) for i in (1, 2))
    recurrent = call.one("Transpose", recurrent, perm=[1, 0])
    biases = _parts(call, call.input(3), index, 2)
    of_input, of_state = biases or (None, None)
    peepholes = _parts(call, call.input(7), index, 3)
    return RecurrentDirection(
        call=call,
        weight=weight,
        recurrent=recurrent,
        input_bias=of_input,
        state_bias=of_state,
        peepholes=peepholes,
        activations=activations,
    )


def _initial(call: Call, index: int, direction: int, batch: int) -> Value:
    """An initial state of a direction: (batch, hidden), zero if it is omitted."""
    value = call.input(index)
    if value is None:
        hidden = call.operand(2).shape[2]
        return call.filled(0, (batch, hidden), call.data.dtype)
    if call["layout"]:
        value = call.one("Transpose", value, perm=[1, 0, 2])
    return sliced(call, value, direction)


def _lengths(call: Call, steps: int) -> Value | None:
    """The length of each sequence (batch, 1), or None if all have every step."""
    value = call.input(4)
    if value is None or (value.array is not None and (value.array == steps).all()):
        return None
    return call.reshaped(value, [-1, 1])


def _run(
    call: Call, cell: RecurrentDirection, parts: Sequence[Value], state: State, backwards: bool
) -> tuple[list[Value], State]:
    """The outputs of all steps in time order, and the last state."""
    steps = len(parts)
    lengths = _lengths(call, steps)
    outputs: dict[int, Value] = {}
    for step in reversed(range(steps)) if backwards else range(steps):
        following = _CELLS[call.op_type](cell, parts[step], state)
        output = following[0]
        if lengths is not None:
            now = call.builder.constant(step, lengths.dtype)
            running = call.one("Less", now, lengths)
            pairs = zip(following, state, strict=True)
            output = call.one("Where", running, output, call.scalar(0))
            following = [call.one("Where", running, new, old) for new, old in pairs]
        outputs[step], state = output, following
    return [outputs[step] for step in range(steps)], state


def _concatenated(call: Call, values: Sequence[Value], shape: Sequence[int]) -> Value:
    """Values concatenated along the first axis and reshaped."""
    whole = call.one("Concat", *values, axis=0) if len(values) > 1 else values[0]
    return call.reshaped(whole, shape)


def _batch_first(call: Call, results: Sequence[Value]) -> list[Value]:
    """Outputs in the batch-first layout; those that are not used stay unknown."""
    perms = [[2, 0, 1, 3], [1, 0, 2], [1, 0, 2]]
    return [
        r if r.unknown else call.one("Transpose", r, perm=p)
        for r, p in zip(results, perms, strict=False)
    ]


_BACKWARDS = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}


@rule("RNN", "GRU", "LSTM")
def rewrite_recurrent(call: Call) -> list[Value]:
    """One operator for all steps where the target has a kernel for it, else all steps."""
    directions = call.operand(2).shape[0]
    functions = [[f.plain for f in own] for own in functions_of(call, directions)]
    whole = whole_recurrence(call, functions)
    if whole is None:
        return unrolled(call, direction_of)
    return _batch_first(call, whole) if call["layout"] else whole


def _without_steps(call: Call, directions: int, batch: int) -> list[Value]:
    """No outputs, and the initial states."""
    hidden = call.operand(2).shape[2]
    batch_first = call["layout"]
    shape = (batch, 0, directions, hidden) if batch_first else (0, directions, batch, hidden)
    state = (batch, directions, hidden) if batch_first else (directions, batch, hidden)
    initial = [call.input(i) for i in (5, 6)[: STATES[call.op_type]]]
    dtype = call.data.dtype
    states = [call.filled(0, state, dtype) if value is None else value for value in initial]
    return [call.filled(0, shape, dtype), *states][: len(call.used)]


def unrolled(
    call: Call, make: Callable[[Call, int, list[Activation]], RecurrentDirection]
) -> list[Value]:
    """The outputs of all steps of the directions that a function makes."""
    x = call.data
    batch_first = call["layout"]
    if batch_first:
        x = call.one("Transpose", x, perm=[1, 0, 2])
    steps, batch, width = x.shape
    backwards = _BACKWARDS[call["direction"]]
    if not steps:
        return _without_steps(call, len(backwards), batch)
    call.builder.expansion.expect(steps * len(backwards), f"{steps:,} steps of {call.op_type}")
    flat = call.reshaped(x, [steps * batch, width])
    sequences: list[list[Value]] = []
    states: list[State] = []
    for index, functions in enumerate(_activations(call, len(backwards))):
        cell = make(call, index, functions)
        parts = call.parts(cell.projected(flat), 0, [batch] * steps)
        first = [_initial(call, i, index, batch) for i in (5, 6)[: STATES[call.op_type]]]
        outputs, state = _run(call, cell, parts, first, backwards[index])
        sequences.append(outputs)
        states.append(state)
    size = [len(backwards), batch, call.operand(2).shape[2]]
    in_time = [value for row in zip(*sequences, strict=True) for value in row]
    results = [_concatenated(call, in_time, [steps, *size])]
    results += [_concatenated(call, values, size) for values in zip(*states, strict=True)]
    return (_batch_first(call, results) if batch_first else results)[: len(call.used)]
