"""Where each input and output of one run lies, and how the schedule's launches get to it.

A caller's device buffer is bound in one of two ways: its bytes are copied to or from the
executor's own buffer (`copy`), or the few launches that touch it get its address (`update`).
Host arrays travel through page-locked memory. A third way, kernels that read a pointer to a
pointer, would be another `Binding`: a write of 8 bytes in place of the copy.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from compiler.backends.gpu.arrays import DeviceArray, DeviceView, check_fits, device_view
from compiler.backends.gpu.buffers import Buffers
from compiler.backends.gpu.driver import Driver, Handle
from compiler.errors import DeviceError, ShapeError
from compiler.schedule import Allocation, Schedule

Array = NDArray[Any]
Binding = Literal["copy", "update"]
Outputs = Mapping[str, Any] | Literal["numpy", "device"]

DIRECT_ALIGNMENT = 16
"""Kernels may use vector loads of 16 bytes: a caller's buffer aligned to less is copied."""


@dataclass(slots=True)
class Bound:
    """The buffers of one run: `addresses` of all inputs and outputs, and what must be copied.

    `staged` are the allocations whose bytes travel through page-locked memory; `copies_in` and
    `copies_out` are (destination, source, bytes) on the device. `keep` holds what must stay alive.
    """

    addresses: dict[int, int]
    staged: set[int] = field(default_factory=set[int])
    copies_in: list[tuple[int, int, int]] = field(default_factory=list[tuple[int, int, int]])
    copies_out: list[tuple[int, int, int]] = field(default_factory=list[tuple[int, int, int]])
    results: dict[str, Any] = field(default_factory=dict[str, Any])
    host: dict[int, Array | None] = field(default_factory=dict[int, Array | None])
    producers: set[int] = field(default_factory=set[int])
    keep: list[object] = field(default_factory=list[object])


class Binder:
    """Binds the arrays of a run to a schedule's inputs and outputs.

    `bindings` says, by name, how device buffers are bound. A buffer is copied all the same if it
    is not aligned, or if it is an output that overlaps another buffer of the run.
    """

    def __init__(
        self,
        driver: Driver,
        schedule: Schedule,
        buffers: Buffers,
        bindings: Mapping[str, Binding],
    ) -> None:
        self._driver, self._buffers = driver, buffers
        self.bindings = dict(bindings)
        self._inputs = _named(schedule, "input")
        self._outputs = _named(schedule, "output")
        self._places = (*self._inputs.values(), *self._outputs.values())
        self._own = {index: buffers.addresses[index] for index, _ in self._places}

    def bind(
        self, inputs: Mapping[str, Any], outputs: Outputs, stream: Handle, owner: object
    ) -> Bound:
        """Place every array of a run; host inputs are copied to page-locked memory at once.

        `owner` is kept alive by outputs that are views of the executor's buffers.
        """
        check_names("input", inputs, self._inputs, complete=True)
        bound = Bound(dict(self._own))
        for name, (index, allocation) in self._inputs.items():
            self._bind_input(bound, index, allocation, inputs[name], stream)
        given: Mapping[str, Any] = {} if isinstance(outputs, str) else outputs
        check_names("output", given, self._outputs, complete=False)
        for name, (index, allocation) in self._outputs.items():
            if outputs == "device":
                address = self._own[index]
                bound.results[name] = DeviceArray(self._driver, allocation, address, owner)
            else:
                self._bind_output(bound, index, allocation, given.get(name), stream)
        return bound

    def _bind_input(
        self, bound: Bound, index: int, allocation: Allocation, array: Any, stream: Handle
    ) -> None:
        view = device_view(array, self._driver, stream)
        if view is None:
            host: Array = np.asarray(array)
            check_fits(allocation, host.dtype.name, host.shape)
            np.copyto(self._buffers.staging(index), host)
            bound.staged.add(index)
            return
        self._check_view(allocation, view)
        bound.keep.append(view.owner)
        if view.stream is not None:
            bound.producers.add(view.stream)
        if self._direct(allocation, view):
            bound.addresses[index] = view.address
        elif view.nbytes:
            bound.copies_in.append((self._own[index], view.address, view.nbytes))

    def _bind_output(
        self, bound: Bound, index: int, allocation: Allocation, array: Any, stream: Handle
    ) -> None:
        view = None if array is None else device_view(array, self._driver, stream)
        if view is None:
            if array is not None:
                check_writable(allocation, array)
            bound.staged.add(index)
            bound.host[index] = array
            bound.results[allocation.name] = array
            return
        self._check_view(allocation, view)
        bound.keep.append(view.owner)
        bound.results[allocation.name] = array
        if self._direct(allocation, view) and not self._overlaps(bound, index, view):
            bound.addresses[index] = view.address
        elif view.nbytes:
            bound.copies_out.append((view.address, self._own[index], view.nbytes))

    def _check_view(self, allocation: Allocation, view: DeviceView) -> None:
        check_fits(allocation, view.dtype, view.shape)
        ordinal = self._driver.ordinal_of(view.address) if view.nbytes else self._driver.ordinal
        if ordinal != self._driver.ordinal:
            raise DeviceError(
                f"{allocation.kind} {allocation.name!r} is on device {ordinal}, the executable on "
                f"{self._driver.ordinal}: move the array, or load the module there"
            )

    def _direct(self, allocation: Allocation, view: DeviceView) -> bool:
        aligned = view.address % DIRECT_ALIGNMENT == 0
        return aligned and self.bindings[allocation.name] == "update" and view.nbytes > 0

    def _overlaps(self, bound: Bound, index: int, view: DeviceView) -> bool:
        """Whether an output's memory is also that of an input or of another output."""
        for other, allocation in self._places:
            start = bound.addresses[other]
            before = start + allocation.nbytes <= view.address
            if other != index and not before and start < view.address + view.nbytes:
                return True
        return False


def _named(schedule: Schedule, kind: str) -> dict[str, tuple[int, Allocation]]:
    """The inputs or outputs of a schedule by name, with their indices."""
    every = enumerate(schedule.allocations)
    return {a.name: (index, a) for index, a in every if a.kind == kind}


def check_names(
    kind: str, given: Mapping[str, Any], known: Mapping[str, Any], *, complete: bool
) -> None:
    """Raise ShapeError for names that the model lacks, or, if `complete`, that are missing."""
    extra = [name for name in given if name not in known]
    missing = [name for name in known if name not in given] if complete else []
    if extra or missing:
        what = f"unknown {kind}s {extra}" if extra else f"missing {kind}s {missing}"
        raise ShapeError(f"{what}; the model's {kind}s are {list(known)}")


def check_writable(allocation: Allocation, array: Any) -> None:
    """Raise ShapeError unless an array on the host can take an output."""
    if not isinstance(array, np.ndarray):
        kind = type(array).__name__
        raise ShapeError(f"output {allocation.name!r} takes a numpy or device array, not {kind}")
    host = cast(Array, array)
    if not host.flags.writeable:
        raise ShapeError(f"output {allocation.name!r} is given a read-only array: copy it first")
    check_fits(allocation, host.dtype.name, host.shape)
