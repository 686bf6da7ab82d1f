"""If and Loop in numpy, on bodies as functions of arrays."""

from collections.abc import Callable, Sequence

import numpy as np

from compiler.schedule.tasks import ControlForm

Array = np.ndarray
BodyFunction = Callable[[Sequence[Array]], Sequence[Array]]


def run_control(
    form: ControlForm, reads: Sequence[Array], bodies: Sequence[BodyFunction]
) -> list[Array]:
    """The results of an If or a Loop for its operands."""
    if form.kind == "if":
        return list(bodies[0 if reads[0].all() else 1](reads[1:]))
    going = True
    length = form.length
    if length is None:
        length = int(reads[0].reshape(()))
        going = bool(reads[1].all())
        reads = reads[2:]
    carried = list(reads[: form.carried])
    rest = reads[form.carried :]
    scanned = rest[: len(form.scans)]
    captured = rest[len(form.scans) :]
    sequences = [s[::-1] if back else s for s, back in zip(scanned, form.scans, strict=True)]
    rows: list[list[Array]] = [[] for _ in form.stacks]
    step = 0
    while going and step < length:
        slices = [np.asarray(sequence[step]) for sequence in sequences]
        results = list(bodies[0]([np.asarray(step, np.int64), *carried, *slices, *captured]))
        if form.conditional:
            going = bool(results.pop(0).all())
        carried = results[: form.carried]
        for column, row in zip(rows, results[form.carried :], strict=True):
            column.append(row)
        step += 1
    backwards = zip(rows, form.stacks, strict=True)
    return [*carried, *(np.stack(column[::-1] if back else column) for column, back in backwards)]
