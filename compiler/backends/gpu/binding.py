"""Where the inputs and outputs of a run are, and how the schedule's launches get their addresses.

A caller's device buffer is bound in one of three ways (PyGraph, 2025): its bytes are copied to or
from the executor's own buffer (`copy`), the few launches that touch it get its address (`update`),
or they read it from a pointer on the device, which is written before the run (`indirection`).
Host arrays travel through page-locked memory.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, pairwise
from typing import Any, Literal, cast

import numpy as np

from compiler.backends.cpu.inputs import checked_mapping
from compiler.backends.gpu.arrays import (
    DeviceArray,
    DeviceView,
    check_fits,
    device_view,
    fingerprint,
)
from compiler.backends.gpu.buffers import Buffers
from compiler.backends.gpu.driver import Driver, Handle
from compiler.backends.host_arrays import read_input, reading
from compiler.backends.memory import Array
from compiler.errors import COMPILED_IN, DeviceError, ShapeError
from compiler.schedule.tasks import Allocation, Schedule
from compiler.support.arguments import RUN, check_arguments
from compiler.tensors.dtypes import numpy_name

Binding = Literal["copy", "update", "indirection"]
OutputsOption = Mapping[str, Any] | Literal["numpy", "device"]

DIRECT_ALIGNMENT = 16
"""Kernels may use vector loads of 16 bytes: a caller's buffer aligned to less is copied."""

STAYING = 64
"""After this many runs on the same device buffers none of them is copied any more."""

ON_HOST = "host"
"""The key of an input in host memory, which is copied before each run wherever it is."""

CopyRange = tuple[int, int, int]
"""Destination, source and bytes, on the device."""


@dataclass(slots=True)
class RunBuffers:
    """Where the buffers of a run are: `addresses` of all inputs and outputs, and copies to make.

    `staged` are the allocations whose bytes travel through page-locked memory; `producers` are
    streams to wait for; `capsules` keep memory alive that came by DLPack.
    """

    addresses: dict[int, int]
    staged: set[int] = field(default_factory=set[int])
    copies_in: list[CopyRange] = field(default_factory=list[CopyRange])
    copies_out: list[CopyRange] = field(default_factory=list[CopyRange])
    producers: set[int] = field(default_factory=set[int])
    capsules: list[object] = field(default_factory=list[object])


class Binder:
    """Binds the arrays of a run to a schedule's inputs and outputs.

    `bindings` says, by name, how device buffers are bound. A buffer is copied all the same if it
    is not aligned, if it is an input in another of the executor's own buffers, or an output that
    overlaps another buffer of the run. Where launches are `movable`, buffers that stay are not
    copied for long: the launches get their addresses.
    """

    def __init__(
        self,
        driver: Driver,
        schedule: Schedule,
        buffers: Buffers,
        bindings: Mapping[str, Binding],
        *,
        movable: bool,
    ) -> None:
        self._driver = driver
        self._buffers = buffers
        self._movable = movable
        self.bindings = dict(bindings)
        self._inputs = _named(schedule, "input")
        self._outputs = _named(schedule, "output")
        self._places = (*self._inputs.values(), *self._outputs.values())
        self._own = {index: buffers.addresses[index] for index, _ in self._places}
        spans = [(self._own[i], self._own[i] + allocation.nbytes) for i, allocation in self._places]
        self._start = min((start for start, _ in spans), default=0)
        self._end = max((end for _, end in spans), default=0)
        self._memo: tuple[list[object], RunBuffers, list[object]] | None = None
        self._repeats = 0
        self._staged: dict[int, Array] = {}

    def set_binding(self, name: str, binding: Binding) -> None:
        """Bind device buffers of one input or output in another way from now on."""
        self.bindings[name] = binding
        self._memo = None

    def bind(self, inputs: Mapping[str, Any], outputs: OutputsOption, stream: Handle) -> RunBuffers:
        """Place every array of a run; host inputs are copied to page-locked memory at once.

        The placement of the run before is returned again if all device buffers are the same, and
        the same inputs are on the host.
        """
        targets: Mapping[str, Any] = {} if isinstance(outputs, str) else outputs
        if {type(inputs), type(targets)} != {dict}:
            inputs = checked_mapping(inputs, [a for _, a in self._inputs.values()])
            check_outputs(outputs)
            with reading("the mapping of outputs"):
                targets = dict(targets)
        key: list[object] = [outputs if isinstance(outputs, str) else None, *inputs, None, *targets]
        key += _fingerprints("input", inputs)
        key += _fingerprints("output", targets)
        if self._memo is not None and self._memo[0] == key:
            self._repeats += 1
            # in this run the launches get the addresses themselves: the placement changes once more
            if self._repeats != STAYING:
                return self._again(self._memo[1], inputs)
        else:
            self._repeats = 0
        check_outputs(outputs)
        placement = self._place(inputs, targets, outputs == "device", stream)
        # The memo holds the targets, so that no other array can get the id of one of them.
        self._memo = None if placement.capsules else (key, placement, [*targets.values()])
        return placement

    def _again(self, placement: RunBuffers, inputs: Mapping[str, Any]) -> RunBuffers:
        """A placement of an earlier run, with the inputs on the host copied anew."""
        if placement.staged:
            for name, (index, allocation) in self._inputs.items():
                if index in placement.staged:
                    self._stage(index, allocation, inputs[name])
        return placement

    def _place(
        self, inputs: Mapping[str, Any], targets: Mapping[str, Any], on_device: bool, stream: Handle
    ) -> RunBuffers:
        check_names("input", inputs, self._inputs, complete=True)
        check_names("output", targets, self._outputs, complete=False)
        placement = RunBuffers(dict(self._own))
        copies: dict[int, CopyRange] = {}
        for name, (index, allocation) in self._inputs.items():
            view = self._view(placement, allocation, inputs[name], stream)
            if view is None:
                self._stage(index, allocation, read_input(name, inputs[name], listed=True))
                placement.staged.add(index)
            elif self._direct(allocation, view) and not self._is_another(index, view):
                placement.addresses[index] = view.address
            elif view.nbytes and view.address != self._own[index]:
                copies[index] = self._own[index], view.address, view.nbytes
        placement.copies_in = self._in_turn(copies)
        if not on_device:
            self._place_outputs(placement, targets, stream)
        return placement

    def _place_outputs(
        self, placement: RunBuffers, targets: Mapping[str, Any], stream: Handle
    ) -> None:
        copies: dict[int, CopyRange] = {}
        views: dict[str, DeviceView] = {}
        for name, (index, allocation) in self._outputs.items():
            view = self._view(placement, allocation, targets.get(name), stream)
            if view is None:
                check_writable(allocation, targets.get(name))
                placement.staged.add(index)
                continue
            views[name] = view
            if self._direct(allocation, view) and not self._overlaps(placement, index, view):
                placement.addresses[index] = view.address
            elif view.nbytes and view.address != self._own[index]:
                copies[index] = view.address, self._own[index], view.nbytes
        spans = sorted((view.address, view.nbytes, name) for name, view in views.items())
        for (start, nbytes, first), (begin, _, second) in pairwise(
            span for span in spans if span[1]
        ):
            if begin < start + nbytes:
                raise _shared(first, second)
        on_host = [
            (name, array)
            for name, array in targets.items()
            if name not in views and array is not None
        ]
        for (first, first_array), (second, second_array) in combinations(on_host, 2):
            if np.shares_memory(first_array, second_array):
                raise _shared(first, second)
        placement.copies_out = self._in_turn(copies)

    def _in_turn(self, copies: Mapping[int, CopyRange]) -> list[CopyRange]:
        """Copies to make in order: a source that another copy overwrites is saved first."""
        aside = {
            index: self._buffers.aside(index)
            for index, (_, source, nbytes) in copies.items()
            if any(_meet(source, nbytes, to, size) for to, _, size in copies.values())
        }
        saved = [(saved_at, *copies[index][1:]) for index, saved_at in aside.items()]
        moved = [
            (to, aside.get(index, source), nbytes) for index, (to, source, nbytes) in copies.items()
        ]
        return saved + moved

    def results(self, outputs: OutputsOption, owner: object) -> dict[str, Any]:
        """The outputs of a run in the model's order; None for arrays to be made at its end.

        `owner` is kept alive by outputs that are views of the executor's buffers.
        """
        if outputs == "device":
            return {
                name: DeviceArray(self._driver, allocation, self._own[index], owner)
                for name, (index, allocation) in self._outputs.items()
            }
        targets: Mapping[str, Any] = {} if isinstance(outputs, str) else outputs
        return {name: targets.get(name) for name in self._outputs}

    def _stage(self, index: int, allocation: Allocation, array: Array) -> None:
        check_fits(allocation, numpy_name(array.dtype), array.shape)
        self._staging(index, allocation)[...] = array

    def _staging(self, index: int, allocation: Allocation) -> Array:
        """The page-locked copy of an input or output, as an array."""
        if index not in self._staged:
            self._staged[index] = self._buffers.staging(index, allocation)
        return self._staged[index]

    def collect(self, placement: RunBuffers, results: dict[str, Any]) -> None:
        """Copy results from page-locked memory to the caller's arrays, or to new ones."""
        for name, (index, allocation) in self._outputs.items():
            if index in placement.staged and results[name] is None:
                results[name] = self._staging(index, allocation).copy()
            elif index in placement.staged:
                results[name][...] = self._staging(index, allocation)

    def _view(
        self, placement: RunBuffers, allocation: Allocation, array: Any, stream: Handle
    ) -> DeviceView | None:
        """The device memory of an array, checked; None for an array on the host."""
        if array is None:
            return None
        with reading(f"the {allocation.kind} {allocation.name!r}"):
            view = device_view(array, self._driver, stream)
        if view is not None:
            check_fits(allocation, view.dtype, view.shape)
            ordinal = self._driver.ordinal_of(view.address) if view.nbytes else self._driver.ordinal
            if ordinal != self._driver.ordinal:
                raise DeviceError(
                    f"{allocation.kind} {allocation.name!r} is on device {ordinal}, the executable"
                    f" on {self._driver.ordinal}: move the array, or load the module there"
                )
            if view.stream is not None:
                placement.producers.add(view.stream)
            if view.owner is not array:
                placement.capsules.append(view.owner)
        return view

    def _direct(self, allocation: Allocation, view: DeviceView) -> bool:
        aligned = view.address % DIRECT_ALIGNMENT == 0
        settled = self._movable and self._repeats >= STAYING
        return aligned and view.nbytes > 0 and (settled or self.bindings[allocation.name] != "copy")

    def _is_another(self, index: int, view: DeviceView) -> bool:
        """Whether an input's memory is also that of another of the executor's own buffers."""
        if view.address >= self._end or view.address + view.nbytes <= self._start:
            return False
        return any(
            i != index and _meet(view.address, view.nbytes, self._own[i], allocation.nbytes)
            for i, allocation in self._places
        )

    def _overlaps(self, placement: RunBuffers, index: int, view: DeviceView) -> bool:
        """Whether an output's memory is also that of an input or of another output."""
        addresses = placement.addresses
        return any(
            i != index and _meet(view.address, view.nbytes, addresses[i], allocation.nbytes)
            for i, allocation in self._places
        )


@dataclass(frozen=True, slots=True, eq=False)
class RunSizes:
    """The sizes of a run on a graph for larger ones: its tensors, and what kernels read of them.

    `writes` are addresses on the device, each with the number of 64 bits that is written there.
    """

    binder: Binder
    allocations: Sequence[Allocation]
    writes: Sequence[tuple[int, int]]


def _fingerprints(kind: str, arrays: Mapping[str, Any]) -> list[object]:
    """Keys that are equal for the same device memory; all inputs of numpy have the same one."""
    try:
        if kind == "input":
            return [ON_HOST if type(a) is np.ndarray else fingerprint(a) for a in arrays.values()]
        return [id(a) if type(a) is np.ndarray else fingerprint(a) for a in arrays.values()]
    except Exception:
        # Which array failed is asked for only now: a context around each of the 60 arrays of a
        # decoder's step made a run take 150 us longer.
        for name, array in arrays.items():
            with reading(f"the {kind} {name!r}"):
                fingerprint(array)
        with reading(f"the {kind}s"):
            raise


def _meet(first: int, first_bytes: int, second: int, second_bytes: int) -> bool:
    """Whether two pieces of memory, by address and size, share bytes."""
    return max(first, second) < min(first + first_bytes, second + second_bytes)


def _named(schedule: Schedule, kind: str) -> dict[str, tuple[int, Allocation]]:
    """The inputs or outputs of a schedule by name, with their indices."""
    every = enumerate(schedule.allocations)
    return {a.name: (index, a) for index, a in every if a.kind == kind}


def check_outputs(outputs: Any) -> None:
    """Raise ArgumentError for outputs of no kind that a run knows."""
    if not isinstance(outputs, Mapping):
        words = RUN["outputs"]
        kind = words._replace(text=f"{words.text}, or arrays by name")
        check_arguments({"outputs": outputs}, {"outputs": kind})


def check_names(
    kind: str, passed: Mapping[str, Any], expected: Mapping[str, Any], *, complete: bool
) -> None:
    """Raise ShapeError for unknown names or, if `complete`, for missing ones."""
    extra = [name for name in passed if name not in expected]
    missing = [name for name in expected if name not in passed] if complete else []
    if extra or missing:
        fault = f"unknown {kind}s {extra}" if extra else f"missing {kind}s {missing}"
        remedy = f"; {COMPILED_IN}" if extra and kind == "input" else ""
        raise ShapeError(f"{fault}; the model's {kind}s are {list(expected)}{remedy}")


def _shared(first: str, second: str) -> ShapeError:
    return ShapeError(f"outputs {first!r} and {second!r} share memory: give each its own")


def check_writable(allocation: Allocation, array: Any) -> None:
    """Raise ShapeError unless an array on the host can take an output (None: one is made)."""
    if array is None:
        return
    if not isinstance(array, np.ndarray):
        kind = type(array).__name__
        raise ShapeError(f"output {allocation.name!r} takes a numpy or device array, not {kind}")
    host = cast(Array, array)
    if not host.flags.writeable:
        raise ShapeError(f"output {allocation.name!r} is given a read-only array: copy it first")
    check_fits(allocation, host.dtype.name, host.shape)
