"""The lowering of recurrences for CPUs: all steps of a few sequences in one block.

The steps and the batch may be what a run decides. The weights are transposed at first, into tiles
of units whose sums are in registers while they run over the state.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tvm import te, tirx
from tvm.script.ir_builder import tirx as T

from compiler.kernels.arithmetic import ceil_div, round_up
from compiler.kernels.long_sums import LONG_SUM
from compiler.kernels.ops.activation import constant_like, element_function
from compiler.kernels.ops.common import Scalar, cast, maximum, minimum, wide
from compiler.kernels.ops.lowering import Context, lowering
from compiler.kernels.ops.mathematics import call
from compiler.kernels.ops.opaque import launch, loops, mutable, turns, vector, workspace
from compiler.kernels.sizes import at_hint, expression
from compiler.net.operators import RECURRENCE
from compiler.net.operators.recurrence import GATES, STATES

ROWS = 4
"""Most sequences of a block, which share each weight that it reads."""

LEAST_TILE, LARGEST_TILE = 16, 64
"""Fewest and most units whose sums are in registers, of each sequence of a block."""

X, WEIGHTS, BIAS, LENGTHS, FIRST_H, FIRST_C = range(6)
"""The operands, in the operator's order."""

ALL_H, LAST_H, LAST_C = range(3)
"""The results, in the operator's order."""

ActivationOf = Callable[[Scalar], Scalar]


@dataclass(frozen=True)
class CellSteps:
    """The sizes of a recurrence, and how a block computes it: with `rows` sequences."""

    context: Context

    @cached_property
    def steps(self) -> int:
        """The steps."""
        return self.context.shape(X)[0]

    @cached_property
    def batch(self) -> int:
        """The sequences."""
        return self.context.shape(X)[1]

    @cached_property
    def directions(self) -> int:
        """The directions."""
        return self.context.shape(WEIGHTS)[0]

    @cached_property
    def hidden(self) -> int:
        """The hidden units."""
        return self.context.shape(WEIGHTS)[2]

    @property
    def gates(self) -> int:
        """The gates of a unit."""
        return GATES[self.context["cell"]]

    @property
    def rows(self) -> int:
        """The sequences of a block."""
        return min(ROWS, at_hint(self.batch))

    @property
    def chunks(self) -> int:
        """The blocks of a direction."""
        return ceil_div(self.batch, self.rows)

    @property
    def tile(self) -> int:
        """The units of a tile."""
        return min(LARGEST_TILE, round_up(self.hidden, LEAST_TILE))

    @property
    def tiles(self) -> int:
        """The tiles of a gate."""
        return ceil_div(self.hidden, self.tile)

    @property
    def pitch(self) -> int:
        """The places of a sequence's gates."""
        return self.gates * self.tiles * self.tile

    @property
    def dtype(self) -> str:
        """The type of states and sums, which long sums have wider."""
        dtype = wide(self.context.operand(X).dtype)
        return "float64" if dtype == "float32" and self.hidden > LONG_SUM else dtype


def _function_named(name: str, alpha: float, beta: float) -> ActivationOf:
    """An activation function of a cell: that of an operator, or one of a line."""
    if name == "Affine":
        return lambda x: constant_like(x, alpha) * x + constant_like(x, beta)
    if name == "ScaledTanh":
        return lambda x: constant_like(x, alpha) * call("tanh", constant_like(x, beta) * x)
    return element_function(name, alpha=alpha, beta=beta)


@lowering(RECURRENCE)
def lower_recurrence(context: Context) -> list[te.Tensor]:
    """All steps, one after another: a launch that transposes weights, and one of all sequences."""
    own = CellSteps(context)
    given = [i for i in range(FIRST_C + 1) if context.has(i)]
    wanted = [i for i, info in enumerate(context.outputs) if info.dtype]

    def emit(*buffers: Any) -> None:
        reads = dict(zip(given, buffers, strict=False))
        writes = dict(zip(wanted, buffers[len(given) :], strict=True))
        weights = _transposed(own, reads[WEIGHTS])
        blocks = own.directions * own.chunks
        sizes = [own.hidden, own.hidden, own.hidden, own.pitch]
        memory = [workspace(blocks * own.rows * size, own.dtype) for size in sizes]
        with launch(blocks) as block:
            _Block(own, reads, writes, weights, memory, block).run()

    return loops(context, [context.tensor(i) for i in given], emit)


def _transposed(own: CellSteps, weights: Any) -> Any:
    """The weights as [direction, gate, tile, unit of the state, unit]; the last tile is filled up
    with the last unit."""
    blocks = own.directions * own.gates * own.tiles
    tile = own.tile
    packed = workspace(blocks * own.hidden * tile, own.dtype)
    with launch(blocks) as block, T.serial(0, tile) as j, T.serial(0, own.hidden) as k:
        unit = tirx.min(block % own.tiles * tile + j, own.hidden - 1)
        row = block // own.tiles * own.hidden + unit
        packed[(block * own.hidden + k) * tile + j] = cast(weights[row * own.hidden + k], own.dtype)
    return packed


class _Block:
    """The statements of one block: some sequences of one direction."""

    def __init__(
        self,
        own: CellSteps,
        reads: Mapping[int, Any],
        writes: Mapping[int, Any],
        weights: Any,
        memory: Sequence[Any],
        block: Any,
    ):
        self.own = own
        self.reads = reads
        self.writes = writes
        self.weights = weights
        self.h, self.c, self.scaled, self.sums = memory
        self.block = block
        self.direction = block // own.chunks
        self.first = block % own.chunks * own.rows
        self.functions = [self._function(i) for i in range(len(own.context["activations"]))]

    def run(self) -> None:
        """All steps."""
        own = self.own
        with T.serial(0, own.rows) as row, T.serial(0, own.hidden) as unit:
            self.h[self._kept(row, unit)] = self._initial(FIRST_H, row, unit)
            self.c[self._kept(row, unit)] = self._initial(FIRST_C, row, unit)
        with turns(own.steps) as turn:
            step = T.bind(self._step(turn))
            if not own.context["linear_before_reset"]:
                self._multiply(self.h, range(2))
                with T.serial(0, own.rows) as row, T.serial(0, own.hidden) as unit:
                    at = self._kept(row, unit)
                    reset = self.functions[0](self._total(step, row, unit, 1))
                    self.scaled[at] = reset * self.h[at]
                self._multiply(self.scaled, range(2, 3))
            else:
                self._multiply(self.h, range(own.gates))
            with T.serial(0, own.rows) as row, T.serial(0, own.hidden) as unit:
                self._update(step, row, unit)
        self._store_last()

    def _step(self, turn: Any) -> Any:
        """The step of a turn of the loop."""
        backwards = self.own.steps - 1 - turn
        match self.own.context["direction"]:
            case "forward":
                return turn
            case "reverse":
                return backwards
            case _:
                return tirx.Select(tirx.EQ(self.direction, 0), turn, backwards)

    def _function(self, number: int) -> ActivationOf:
        """An activation function, whose argument is clipped if the node says so."""
        context = self.own.context
        names, alphas, betas = (
            context[name] for name in ("activations", "activation_alpha", "activation_beta")
        )
        function = _function_named(names[number], alphas[number], betas[number])
        clip = float(context["clip"])
        if not clip:
            return function
        low, high = (tirx.const(bound, self.own.dtype) for bound in (-clip, clip))
        return lambda x: function(minimum(maximum(x, low), high))

    def _kept(self, row: Any, unit: Any) -> Any:
        """The place of a unit in the block's states."""
        return (self.block * self.own.rows + row) * self.own.hidden + unit

    def _sequence(self, row: Any) -> Any:
        """The sequence of a row; the last ones of the last block are the same."""
        return tirx.min(self.first + row, expression(self.own.batch - 1))

    def _state(self, row: Any, unit: Any) -> Any:
        """The place of a unit in the first or last states of all sequences."""
        sequences = self.direction * self.own.batch + self._sequence(row)
        return sequences * self.own.hidden + unit

    def _initial(self, operand: int, row: Any, unit: Any) -> Any:
        if operand not in self.reads:
            return tirx.const(0, self.own.dtype)
        return cast(self.reads[operand][self._state(row, unit)], self.own.dtype)

    def _multiply(self, state: Any, gates: range) -> None:
        """The sums of some gates: of a state multiplied by the weights."""
        own, tile = self.own, self.own.tile
        with T.serial(0, len(gates) * own.tiles) as number:
            at = gates.start * own.tiles + number
            start = (self.direction * (own.gates * own.tiles) + at) * own.hidden
            sums = [mutable(own.dtype, tile) for _ in range(own.rows)]
            for total in sums:
                with vector(tile) as j:
                    total[j] = tirx.const(0, own.dtype)
            with T.serial(0, own.hidden) as k:
                for row, total in enumerate(sums):
                    value = T.bind(state[self._kept(row, k)])
                    with vector(tile) as j:
                        total[j] = total[j] + value * self.weights[(start + k) * tile + j]
            for row, total in enumerate(sums):
                with vector(tile) as j:
                    to = (self.block * own.rows + row) * own.pitch + at * tile + j
                    self.sums[to] = total[j]

    def _sum_of(self, row: Any, unit: Any, gate: int) -> Any:
        """A gate's sum of the state."""
        own = self.own
        place = (self.block * own.rows + row) * own.pitch + gate * own.tiles * own.tile + unit
        return self.sums[place]

    def _input(self, step: Any, row: Any, unit: Any, gate: int) -> Any:
        """A gate's projected input."""
        own = self.own
        line = (step * own.batch + self._sequence(row)) * own.directions + self.direction
        return cast(self.reads[X][(line * own.gates + gate) * own.hidden + unit], own.dtype)

    def _total(self, step: Any, row: Any, unit: Any, gate: int) -> Any:
        return self._input(step, row, unit, gate) + self._sum_of(row, unit, gate)

    def _update(self, step: Any, row: Any, unit: Any) -> None:
        """The states of a unit after a step; those of sequences that have ended stay."""
        own = self.own
        at = self._kept(row, unit)
        old = T.bind(self.h[at])
        memory = self.c[at]
        cell = {"RNN": self._rnn, "GRU": self._gru, "LSTM": self._lstm}
        new, remembered = cell[own.context["cell"]](step, row, unit, old, memory)
        new = output = T.bind(new)
        if LENGTHS in self.reads:
            running = step < self.reads[LENGTHS][self._sequence(row)]
            output = tirx.Select(running, new, tirx.const(0, own.dtype))
            new = tirx.Select(running, new, old)
            remembered = tirx.Select(running, remembered, memory)
        self.h[at] = new
        if STATES[own.context["cell"]] > 1:
            self.c[at] = remembered
        if ALL_H in self.writes:
            line = (step * own.directions + self.direction) * own.batch + self._sequence(row)
            place = line * own.hidden + unit
            self.writes[ALL_H][place] = cast(output, own.context.outputs[ALL_H].dtype)

    def _rnn(self, step: Any, row: Any, unit: Any, old: Any, memory: Any) -> tuple[Any, Any]:
        return self.functions[0](self._total(step, row, unit, 0)), memory

    def _gru(self, step: Any, row: Any, unit: Any, old: Any, memory: Any) -> tuple[Any, Any]:
        own, (gate, candidate) = self.own, self.functions
        update = T.bind(gate(self._total(step, row, unit, 0)))
        scaled = self._sum_of(row, unit, 2)
        if own.context["linear_before_reset"]:
            if BIAS in self.reads:
                bias = self.reads[BIAS][self.direction * own.hidden + unit]
                scaled = scaled + cast(bias, own.dtype)
            scaled = gate(self._total(step, row, unit, 1)) * scaled
        fresh = candidate(self._input(step, row, unit, 2) + scaled)
        return (tirx.const(1, own.dtype) - update) * fresh + update * old, memory

    def _lstm(self, step: Any, row: Any, unit: Any, old: Any, memory: Any) -> tuple[Any, Any]:
        own, (gate, candidate, of_memory) = self.own, self.functions
        write = T.bind(gate(self._total(step, row, unit, 0)))
        if own.context["input_forget"]:
            keep = tirx.const(1, own.dtype) - write
        else:
            keep = gate(self._total(step, row, unit, 2))
        fresh = candidate(self._total(step, row, unit, 3))
        remembered = T.bind(write * fresh + keep * memory)
        return gate(self._total(step, row, unit, 1)) * of_memory(remembered), remembered

    def _store_last(self) -> None:
        """The last states."""
        states = [(i, s) for i, s in ((LAST_H, self.h), (LAST_C, self.c)) if i in self.writes]
        with T.serial(0, self.own.rows) as row, T.serial(0, self.own.hidden) as unit:
            for number, state in states:
                value = state[self._kept(row, unit)]
                dtype = self.own.context.outputs[number].dtype
                self.writes[number][self._state(row, unit)] = cast(value, dtype)
