"""The memory of results: it is theirs alone."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any, cast

import numpy as np

from compiler.backends.memory import Array
from compiler.program.host import HostValue


class Holders:
    """The arrays that hold memory: a run's inputs, and the results that were taken so far.

    Constants are not among them: nobody may write to those, nor to their views.
    """

    def __init__(self, arrays: Iterable[Any]) -> None:
        self._by_owner: defaultdict[int, list[Array]] = defaultdict(list)
        for array in arrays:
            if isinstance(array, np.ndarray):
                host_array = cast("Array", array)
                self._by_owner[_owner(host_array)].append(host_array)

    def own(self, value: HostValue) -> HostValue:
        """A result, copied if it shares memory with another array or with a constant."""
        if isinstance(value, list):
            return [self.own(item) for item in cast("list[HostValue]", value)]
        if not isinstance(value, np.ndarray):
            return value
        array = cast("Array", value)
        same_owner = self._by_owner.get(_owner(array), ())
        # exact sharing can take exponential time to decide; a copy too many does no harm
        if not array.flags.writeable or any(np.may_share_memory(array, x) for x in same_owner):
            array = array.copy()
        self._by_owner[_owner(array)].append(array)
        return array


def _owner(array: Array) -> int:
    """The identity of the object that has an array's memory."""
    owner: Any = array
    while (base := getattr(owner, "base", None)) is not None:
        owner = base
    return id(owner)
