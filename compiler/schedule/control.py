"""The tensors of an If or a Loop, and which of them stand for those of its bodies.

Written once, on dtypes and shapes, for the IR, the verifier and the backend.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

from compiler.schedule.kernels import Operand
from compiler.schedule.tasks import Allocation, Control, ControlForm, Schedule, Task, View
from compiler.tensors.dtypes import ELEMENT_BYTES

MOST_NESTED = 64
"""The deepest nesting of bodies."""

ITERATION = Operand("int64", ())
CONDITION = Operand("bool", ())

Operands = Sequence[Operand]
Signature = tuple[Operands, Operands]
"""The inputs and the outputs of a body."""


def operands_of(tensors: Sequence[View | Allocation]) -> list[Operand]:
    """The types of views or of allocations."""
    return [Operand(tensor.dtype, tensor.shape) for tensor in tensors]


def head_of(form: ControlForm) -> int:
    """How many operands a control task reads itself: a trip count and a condition, if any."""
    if form.kind == "if":
        return 1
    return 2 if form.length is None else 0


def results_of(form: ControlForm, writes: int, arena: bool) -> int:
    """How many of the writes are results: the others are workspaces."""
    if form.kind == "if":
        # The only workspace of an If is its bodies' arena.
        return writes - arena
    return form.carried + len(form.stacks)


def workspaces_of(form: ControlForm, results: Operands, arena: int) -> list[int]:
    """The bytes of the workspaces, which follow the results.

    A loop has its iteration, its condition if the body computes it, and a second place for each
    carried value; the bodies' arena is last, unless it is empty.
    """
    sizes: list[int] = []
    if form.kind == "loop":
        sizes += [operand_bytes(ITERATION)] + [operand_bytes(CONDITION)] * form.conditional
        sizes += [operand_bytes(result) for result in results[: form.carried]]
    return [*sizes, arena] if arena else sizes


def operand_bytes(operand: Operand) -> int:
    """The bytes of a tensor."""
    return prod(operand.shape) * ELEMENT_BYTES[operand.dtype]


def arena_of(body: Schedule) -> int:
    """The bytes of a body's arena, 0 without one."""
    return sum(allocation.nbytes for allocation in body.of_kind("arena"))


def _row(operand: Operand) -> Operand:
    return Operand(operand.dtype, operand.shape[1:])


def body_signature(form: ControlForm, reads: Operands, results: Operands) -> Signature:
    """The types of the inputs and outputs that a body must have."""
    operands = list(reads[head_of(form) :])
    if form.kind == "if":
        return operands, list(results)
    scanned = form.carried + len(form.scans)
    inputs = [ITERATION, *operands[: form.carried], *map(_row, operands[form.carried : scanned])]
    head = [CONDITION] * form.conditional
    outputs = [*head, *results[: form.carried], *map(_row, results[form.carried :])]
    return [*inputs, *operands[scanned:]], outputs


def misfit(
    form: ControlForm, reads: Operands, results: Operands, bodies: Sequence[Signature]
) -> str:
    """Why operands, results and bodies do not fit a form; empty if they do."""
    return _bad_form(form, reads, results, len(bodies)) or _bad_body(form, reads, results, bodies)


def _bad_form(form: ControlForm, reads: Operands, results: Operands, bodies: int) -> str:
    if bodies != (expected := 2 if form.kind == "if" else 1):
        return f"has {bodies} bodies instead of {expected}"
    if len(reads) < head_of(form) + form.carried + len(form.scans):
        return f"reads {len(reads)} tensors, too few"
    if form.kind == "if":
        return _bad_number(reads[0], "condition", "bool")
    if len(results) != form.carried + len(form.stacks):
        return f"has {len(results)} results instead of {form.carried + len(form.stacks)}"
    if form.length is None:
        if form.scans or form.stacks:
            return "has rows, but no known length"
        limit, condition = reads[:2]
        return (
            _bad_number(limit, "trip count", "int64")
            or _bad_number(condition, "condition", "bool")
            or _bad_carried(form, reads, results)
        )
    if form.length < 0 or form.conditional:
        return "has a known length that is negative, or with a condition"
    return _bad_carried(form, reads, results) or _bad_rows(form, reads, results, form.length)


def _bad_number(operand: Operand, what: str, dtype: str) -> str:
    good = operand.dtype == dtype and prod(operand.shape) == 1
    return "" if good else f"has a {what} of type {operand} instead of one {dtype}"


def _bad_carried(form: ControlForm, reads: Operands, results: Operands) -> str:
    first = reads[head_of(form) :]
    for carried, result in zip(first[: form.carried], results, strict=False):
        if carried != result:
            return f"carries {carried} on as {result}"
    return ""


def _bad_rows(form: ControlForm, reads: Operands, results: Operands, length: int) -> str:
    rows = [*reads[form.carried : form.carried + len(form.scans)], *results[form.carried :]]
    for operand in rows:
        if operand.shape[:1] != (length,):
            return f"has {length} iterations, but not the rows of {operand}"
    return ""


def _bad_body(
    form: ControlForm, reads: Operands, results: Operands, bodies: Sequence[Signature]
) -> str:
    signature = body_signature(form, reads, results)
    for body in bodies:
        for what, operands, expected in zip(("inputs", "outputs"), body, signature, strict=True):
            if len(operands) != len(expected):
                return f"has a body with {len(operands)} {what} instead of {len(expected)}"
            for operand, expected_operand in zip(operands, expected, strict=True):
                if not _same(operand, expected_operand):
                    return (
                        f"has a body with {operand} among its {what} instead of {expected_operand}"
                    )
    return ""


def _same(operand: Operand, expected: Operand) -> bool:
    """Whether a body's tensor is the expected one; a number may have any shape of one element."""
    is_number = expected in (CONDITION, ITERATION) and prod(operand.shape) == 1
    return operand == expected or (is_number and operand.dtype == expected.dtype)


@dataclass(frozen=True, slots=True)
class BodyPlace:
    """Where a body's tensor is: a number among its task's reads and writes, in each iteration.

    `first` holds it in iteration 0, `odd` and `even` in later ones, at a byte offset of `offset`
    and `step` more for each iteration.
    """

    first: int
    odd: int
    even: int
    offset: int = 0
    step: int = 0

    @classmethod
    def fixed(cls, number: int) -> "BodyPlace":
        """The whole of one tensor, in every iteration."""
        return cls(number, number, number)

    @property
    def moves(self) -> bool:
        """Whether it is elsewhere in some iterations."""
        return bool(self.step) or not self.first == self.odd == self.even


def places_of(form: ControlForm, reads: Operands, results: Operands) -> Iterator[BodyPlace]:
    """The places of a body's inputs, its outputs and its arena, in this order.

    Carried values alternate between the result (even iterations write it) and its second place.
    """
    head = head_of(form)
    first_write = len(reads)
    if form.kind == "if":
        yield from map(BodyPlace.fixed, range(head, first_write + len(results) + 1))
        return
    spaces = first_write + len(results)
    spare = spaces + 1 + form.conditional
    # An iteration reads the last one's values while it writes: two buffers take turns.
    pairs = [(head + i, first_write + i, spare + i) for i in range(form.carried)]
    rows = head + form.carried
    yield BodyPlace.fixed(spaces)
    yield from (BodyPlace(first, odd=final, even=second) for first, final, second in pairs)
    yield from _rows(rows, reads[rows:], form.scans)
    yield from map(BodyPlace.fixed, range(rows + len(form.scans), first_write))
    yield from [BodyPlace.fixed(spaces + 1)] * form.conditional
    yield from (BodyPlace(final, odd=second, even=final) for _, final, second in pairs)
    yield from _rows(first_write + form.carried, results[form.carried :], form.stacks)
    yield BodyPlace.fixed(spare + form.carried)


@dataclass(frozen=True, slots=True)
class ControlBuffers:
    """The tensors of a control task by number among its reads and writes; -1 for none.

    `carries` has the first, the even and the odd buffer of each carried value, and its bytes.
    """

    iteration: int
    condition: int
    carries: tuple[tuple[int, int, int, int], ...]
    places: tuple[BodyPlace, ...]


def control_buffers(task: Task, control: Control) -> ControlBuffers:
    """The buffers of a control task, and the places of its bodies' tensors among them."""
    form = control.form
    reads = operands_of(task.reads)
    writes = operands_of(task.writes)
    count = results_of(form, len(writes), any(map(arena_of, control.bodies)))
    places = tuple(places_of(form, reads, writes[:count]))
    if form.kind == "if":
        return ControlBuffers(-1, -1, (), places)
    head = head_of(form)
    first_write = len(reads)
    iteration = first_write + count
    spare = iteration + 1 + form.conditional
    carries = (
        (head + i, first_write + i, spare + i, operand_bytes(writes[i]))
        for i in range(form.carried)
    )
    return ControlBuffers(
        iteration, iteration + 1 if form.conditional else -1, tuple(carries), places
    )


def _rows(first: int, operands: Operands, backwards: Sequence[bool]) -> Iterator[BodyPlace]:
    """The places of rows: each iteration has the next one, or the one before."""
    for number, (operand, back) in enumerate(zip(operands, backwards, strict=False), first):
        size = operand_bytes(_row(operand))
        last = (operand.shape[0] - 1) * size
        yield BodyPlace(number, number, number, last if back else 0, -size if back else size)
