"""A segment of a program: nodes that are one static graph for each kind of inputs."""

import hashlib
from collections import Counter, OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from threading import RLock
from typing import Any, Protocol, cast

import numpy as np
import onnx

from compiler.frontend.node_order import names_read
from compiler.program.host import HostValue
from compiler.program.resident import ResidentTensor, on_host
from compiler.tensors.dtypes import ELEMENT_BYTES, numpy_name

MOST_CONTENTS = 8
"""The most specialisations of a segment that differ only in the contents of inputs."""

SpecialisationKey = tuple[tuple[np.dtype, tuple[int, ...], bytes | None], ...]
"""Of each input the dtype, the shape, and the content if the segment depends on it."""


class Specialised(Protocol):
    """A segment for one kind of inputs."""

    @property
    def fresh(self) -> bool:
        """Whether outputs are in memory that nobody else has."""
        ...

    def run(self, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        """The outputs by name."""
        ...


@dataclass(frozen=True, slots=True)
class SegmentSplit:
    """How a segment must be split: nodes that run on the host with the reasons, and tensors.

    Nodes are given by index in the body. `split_at` are tensors that one segment computes and on
    whose contents another depends.
    """

    alone: Mapping[int, str]
    split_at: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Needs:
    """Inputs on whose contents a segment depends, and the nodes that need them."""

    known: frozenset[str]
    askers: frozenset[int]


def hashed_piece(content: bytes) -> bytes:
    """Bytes to be hashed so that no others, one after the other, give the same."""
    return len(content).to_bytes(8, "little") + content


@dataclass(frozen=True)
class SegmentSource:
    """The nodes of a segment, by index in the body, its tensors by name, and its constants.

    `body` is the path of the body, which identifies it; `name` is for messages. `reread` are the
    tensors that it writes for other segments, perhaps among others.
    """

    name: str
    body: str
    nodes: Mapping[int, onnx.NodeProto]
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    reread: frozenset[str]
    constants: Mapping[str, np.ndarray]

    @cached_property
    def hasher(self):
        """A hash of the body's path and the nodes, to be copied."""
        hasher = hashlib.sha256(hashed_piece(self.body.encode()))
        for index, node in self.nodes.items():
            content = node.SerializeToString(deterministic=True)
            hasher.update(hashed_piece(f"{index} ".encode() + content))
        return hasher


class CompilesSegments(Protocol):
    """Specialises segments."""

    def specialise(
        self,
        source: SegmentSource,
        inputs: Mapping[str, np.ndarray],
        constant_inputs: frozenset[str],
        interpreted: bool = False,
    ) -> Specialised | SegmentSplit | Needs:
        """The segment for inputs, some of which are constants; or why there is none.

        If it is `interpreted`, nothing is compiled.
        """
        ...

    def drop(self, specialised: Specialised) -> None:
        """Release what only this specialisation needs."""


class ProgramSegment:
    """A bounded cache of a segment's specialisations, which drops the least recently used one.

    A specialisation is interpreted until it was needed `patience` times, then compiled.
    """

    def __init__(self, source: SegmentSource, limit: int, patience: int = 1):
        self.source = source
        self._reads = dict.fromkeys(source.reads).keys()
        self.limit = limit
        self.patience = patience
        self.needed = Counter[SpecialisationKey]()
        self.known = frozenset[str]()
        self.askers = frozenset[int]()
        self.cache: OrderedDict[SpecialisationKey, Specialised] = OrderedDict()
        self._lock = RLock()

    def run(
        self, values: Mapping[str, HostValue], compiler: CompilesSegments
    ) -> Mapping[str, HostValue] | SegmentSplit:
        """The outputs by name, or how the segment must be split to have some."""
        inputs = {name: values[name] for name in self.source.reads}
        specialised = self.find(inputs, compiler)
        return specialised if isinstance(specialised, SegmentSplit) else specialised.run(inputs)

    def find(
        self, inputs: Mapping[str, HostValue], compiler: CompilesSegments
    ) -> Specialised | SegmentSplit:
        """The specialisation for inputs, from the cache or a new one."""
        if odd := {name for name, value in inputs.items() if not is_tensor(value)}:
            return self._without(odd)
        with self._lock:
            return self._cached(inputs) or self._specialised(inputs, compiler)

    def again(self, inputs: Mapping[str, Any]) -> Specialised | None:
        """The specialisation for values by name, if all are the host's arrays and it is cached."""
        if inputs.keys() != self._reads or not {*map(type, inputs.values())} <= {np.ndarray}:
            return None
        with self._lock:
            return self._cached(inputs)

    def _cached(self, inputs: Mapping[str, np.ndarray]) -> Specialised | None:
        """The specialisation for inputs that needs no further compilation, if there is one."""
        key = self.key(inputs)
        specialised = self.cache.get(key)
        if specialised is None or (self.patience > 1 and self.needed[key] < self.patience):
            return None
        self.cache.move_to_end(key)
        return specialised

    def prepare(
        self, inputs: Mapping[str, np.ndarray], compiler: CompilesSegments
    ) -> SegmentSplit | None:
        """Specialise for types of inputs, or say how the segment must be split.

        A segment that depends on contents waits for a run that has them.
        """
        if odd := {name for name, value in inputs.items() if not is_tensor(value)}:
            return self._without(odd)
        with self._lock:
            if self.known or self.key(inputs) in self.cache:
                return None
            outcome = compiler.specialise(self.source, inputs, self.known)
            if isinstance(outcome, Needs):
                self.known = outcome.known
                self.askers = outcome.askers
                return None
            if isinstance(outcome, SegmentSplit):
                return outcome
            self._keep(self.key(inputs), outcome, compiler)
            return None

    def _specialised(
        self, inputs: Mapping[str, np.ndarray], compiler: CompilesSegments
    ) -> Specialised | SegmentSplit:
        """A new specialisation, in the cache."""
        if self.known:
            by_types = Counter(tuple(entry[:2] for entry in key) for key in self.cache)
            if max(by_types.values(), default=0) >= MOST_CONTENTS:
                reason = "the contents on which shapes depend change from run to run"
                return SegmentSplit(dict.fromkeys(self.askers, reason))
        key = self.key(inputs)
        quick = self.needed[key] + 1 < self.patience
        if quick and key in self.cache:
            self.needed[key] += 1
            return self.cache[key]
        outcome = compiler.specialise(self.source, inputs, self.known, quick)
        while isinstance(outcome, Needs):
            assert not outcome.known <= self.known, (
                "it would be asked for the same contents for ever"
            )
            self.known = self.known | outcome.known
            self.askers = self.askers | outcome.askers
            # keys have the contents of these inputs from now on: the old ones fit no longer
            self.cache.clear()
            outcome = compiler.specialise(self.source, inputs, self.known, quick)
        if not isinstance(outcome, SegmentSplit):
            self._keep(self.key(inputs), outcome, compiler)
        return outcome

    def _keep(self, key: SpecialisationKey, added: Specialised, compiler: CompilesSegments) -> None:
        """Put a specialisation into the cache, and drop the one that was used the longest ago."""
        self.needed[key] += 1
        self.cache[key] = added
        if len(self.cache) > self.limit:
            dropped, specialised = self.cache.popitem(last=False)
            del self.needed[dropped]
            compiler.drop(specialised)

    def key(self, inputs: Mapping[str, np.ndarray]) -> SpecialisationKey:
        """The key of the specialisation for inputs."""
        constant_inputs = self.known
        arrays = [inputs[name] for name in self.source.reads]
        if not constant_inputs:
            return tuple([(array.dtype, array.shape, None) for array in arrays])
        return tuple(
            (
                array.dtype,
                array.shape,
                on_host(array).tobytes() if name in constant_inputs else None,
            )
            for name, array in zip(self.source.reads, arrays, strict=True)
        )

    def _without(self, odd: set[str]) -> SegmentSplit:
        """The split that runs the readers of some inputs on the host."""
        reason = "it reads a value of a type without kernels"
        nodes = self.source.nodes.items()
        return SegmentSplit({i: reason for i, node in nodes if odd & names_read(node)})


def is_tensor(value: HostValue) -> bool:
    """Whether a value is an array of a type that kernels have."""
    array = isinstance(value, np.ndarray | ResidentTensor)
    return array and numpy_name(cast(np.ndarray, value).dtype) in ELEMENT_BYTES
