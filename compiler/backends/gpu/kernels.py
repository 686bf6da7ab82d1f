"""The launches of one executor's schedule with its addresses."""

from collections.abc import Sequence, Set
from dataclasses import dataclass

from compiler.backends.gpu.control import ControlCalls, ControlTables
from compiler.backends.gpu.driver import Driver, Handle, PreparedLaunch
from compiler.backends.gpu.functions import Functions, arguments_of
from compiler.backends.gpu.pointers import BufferOffset, Pointers
from compiler.schedule.kernels import Launch
from compiler.schedule.tasks import Schedule, Task, View


@dataclass(frozen=True, slots=True)
class Site:
    """A place where an allocation's address, plus an offset, is an argument of a call."""

    call: int
    argument: int
    offset: int


class Calls:
    """The launches of a schedule with the addresses of one executor, in schedule order.

    `of_task` holds the indices of each task's calls; `programmatic` says of each call whether its
    kernel waits for its predecessors itself; `sites` has the arguments that each input and output
    appears in. Launches that touch an `indirect` allocation get pointers to pointers instead, so
    they have no sites. Control tasks have no calls here, and pointers to all that they touch.
    """

    def __init__(
        self,
        driver: Driver,
        schedule: Schedule,
        functions: Functions,
        addresses: Sequence[int],
        indirect: Set[int] = frozenset(),
    ) -> None:
        self._driver = driver
        self._addresses = addresses
        self._indirect = indirect
        self.calls: list[PreparedLaunch] = []
        self.programmatic: list[bool] = []
        self.of_task: list[tuple[int, ...]] = []
        self.sites: dict[int, list[Site]] = {
            index: []
            for index, allocation in enumerate(schedule.allocations)
            if allocation.kind in ("input", "output")
        }
        self._pointers = Pointers(driver, addresses, self._places(schedule, functions))
        self._tables = ControlTables(driver, schedule, functions, addresses)
        for task in schedule.tasks:
            entries = zip(functions.of[task.kernel], functions.indirect[task.kernel], strict=True)
            launches = () if task.control is not None else entries
            added = [self._add(task, launch, f, second) for (f, launch), second in launches]
            self.of_task.append(tuple(added))

    def _places(self, schedule: Schedule, functions: Functions) -> list[BufferOffset]:
        """The places whose pointers indirect launches read."""
        return [
            (view.allocation, view.offset)
            for task in schedule.tasks
            for second, (_, launch) in zip(
                functions.indirect[task.kernel], functions.of[task.kernel], strict=True
            )
            if self._is_indirect(second, arguments_of(task, launch))
            for view in arguments_of(task, launch)
        ]

    def _is_indirect(self, second: Handle | None, views: Sequence[View]) -> bool:
        return second is not None and any(view.allocation in self._indirect for view in views)

    def _add(self, task: Task, launch: Launch, function: Handle, second: Handle | None) -> int:
        views = arguments_of(task, launch)
        index = len(self.calls)
        extents = [view.nbytes for view in views]
        indirect = self._is_indirect(second, views)
        if indirect:
            function = second
            arguments = [self._pointers.of[view.allocation, view.offset] for view in views]
        else:
            arguments = [self._addresses[view.allocation] + view.offset for view in views]
            for argument, view in enumerate(views):
                if view.allocation in self.sites:
                    self.sites[view.allocation].append(Site(index, argument, view.offset))
        shape = launch.grid, launch.block, launch.shared_bytes
        self.calls.append(self._driver.call(function, *shape, arguments, extents, indirect))
        self.programmatic.append(launch.programmatic)
        return index

    def touching(self, allocation: int) -> tuple[int, ...]:
        """The calls that take an input or output as an argument."""
        return tuple(dict.fromkeys(site.call for site in self.sites[allocation]))

    def move(self, allocation: int, address: int) -> list[tuple[int, int]]:
        """Give every call that touches an input or output its new address.

        Returns the pointers to write before the next run: the address and value of each.
        """
        for site in self.sites[allocation]:
            self.calls[site.call].set_argument(site.argument, address + site.offset)
        tables = self._tables.of_buffer(allocation, address)
        return self._pointers.of_buffer(allocation, address) + tables

    def control(self, task: int) -> ControlCalls | None:
        """The launches of a control task."""
        return self._tables.of_task.get(task)

    def close(self) -> None:
        """Give the memory of pointers and tables back."""
        self._pointers.close()
        self._tables.close()


def has_indirect_entries(schedule: Schedule, functions: Functions, allocation: int) -> bool:
    """Whether every launch that touches an allocation has a second entry point."""
    return all(
        second is not None
        for task in schedule.tasks
        for second, (_, launch) in zip(
            functions.indirect[task.kernel], functions.of[task.kernel], strict=True
        )
        if any(view.allocation == allocation for view in arguments_of(task, launch))
    )
