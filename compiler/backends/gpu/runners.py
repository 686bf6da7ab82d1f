"""The three ways to queue a run: one graph, a graph for each subflow, or plain launches.

Outside a graph, events derived from tokens order the units. The schedule's stream 0 is the caller's
stream; every other stream is forked from it by an event and awaited by it at the end, so that the
caller sees a run as one operation.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from compiler.backends.gpu.driver import Handle, PreparedLaunch
from compiler.backends.gpu.graph import (
    ExecutableGraph,
    GraphSpec,
    unit_graph,
    whole_graph,
)
from compiler.scheduling.subflows import Subflow, single_tasks, subflows

Command = tuple[Callable[..., object], tuple[Any, ...]]


class GraphRunner:
    """Mode `graph`: one graph for the whole schedule and its copies from and to the host."""

    def __init__(self, spec: GraphSpec, stream: Handle, *, children: bool = False) -> None:
        self._calls = spec.calls
        build = partial(whole_graph, spec, children=children)
        self._graph = ExecutableGraph(spec.driver, build, stream)

    def update(self, changed: Iterable[int]) -> None:
        """Give these calls' nodes their present addresses."""
        self._graph.update(self._calls, changed)

    def run(self, stream: Handle) -> None:
        """Queue one run."""
        self._graph.launch(stream)

    def close(self) -> None:
        """Destroy the graph."""
        self._graph.close()


class StreamRunner:
    """Modes `streams` and `subgraphs`: units on the schedule's streams, events between them.

    With `graphs`, each unit of several launches is a graph; a unit of one launch is launched
    directly, which is cheaper.
    """

    def __init__(self, spec: GraphSpec, stream: Handle, *, graphs: bool = False) -> None:
        driver = self._driver = spec.driver
        self._spec = spec
        self._calls = spec.calls
        schedule = spec.plan.schedule
        self._units = subflows(schedule) if graphs else single_tasks(schedule)
        self._streams = {
            unit.stream: None if unit.stream == 0 else driver.create_stream()
            for unit in self._units
        }
        self._graphs = {
            index: ExecutableGraph(driver, partial(unit_graph, spec, unit), stream)
            for index, unit in enumerate(self._units)
            if graphs and sum(len(self._calls.of_task[task]) for task in unit.tasks) > 1
        }
        self._fork = driver.create_event()
        self._events = {index: driver.create_event() for index in self._awaited()}
        self._commands: tuple[Handle, list[Command]] | None = None

    def _awaited(self) -> set[int]:
        """The units that a unit on another stream, or the caller, waits for."""
        units = self._units
        foreign = {o for u in units for o in u.after if units[o].stream != u.stream}
        return foreign | set(self._sinks())

    def _sinks(self) -> list[int]:
        """The units on other streams than the caller's that no unit waits for."""
        followed = {o for unit in self._units for o in unit.after}
        return [i for i, u in enumerate(self._units) if u.stream != 0 and i not in followed]

    def update(self, changed: Iterable[int]) -> None:
        """Give these calls' nodes their present addresses; plain launches need nothing."""
        calls = list(changed)
        for graph in self._graphs.values():
            graph.update(self._calls, calls)

    def run(self, stream: Handle) -> None:
        """Queue one run; the stream waits for its end."""
        if self._commands is None or self._commands[0] is not stream:
            self._commands = stream, self._compile(stream)
        for function, arguments in self._commands[1]:
            function(*arguments)

    def _compile(self, caller: Handle) -> list[Command]:
        """The driver calls of a run, in order, for one caller's stream."""
        driver = self._driver
        copy = [(driver.copy, (c.device, c.host, c.nbytes, caller)) for c in self._spec.copies_in]
        commands: list[Command] = [*copy]
        if len(self._streams) > 1 or 0 not in self._streams:
            commands.append((driver.record, (self._fork, caller)))
        for index, unit in enumerate(self._units):
            commands += self._of_unit(index, unit, caller)
        commands += [(driver.wait, (caller, self._events[sink])) for sink in self._sinks()]
        return commands + [
            (driver.copy, (c.host, c.device, c.nbytes, caller)) for c in self._spec.copies_out
        ]

    def _of_unit(self, index: int, unit: Subflow, caller: Handle) -> list[Command]:
        driver = self._driver
        stream = caller if unit.stream == 0 else self._streams[unit.stream]
        waits = [self._events[o] for o in unit.after if self._units[o].stream != unit.stream]
        if not unit.after and unit.stream != 0:
            waits = [self._fork]
        commands: list[Command] = [(driver.wait, (stream, event)) for event in waits]
        commands += self._launches(index, unit, stream)
        if index in self._events:
            commands.append((driver.record, (self._events[index], stream)))
        return commands

    def _launches(self, index: int, unit: Subflow, stream: Handle) -> list[Command]:
        if index in self._graphs:
            return [(self._graphs[index].launch, (stream,))]
        calls: list[PreparedLaunch] = []
        for task in unit.tasks:
            delay = self._spec.delays.before(task)
            calls += [] if delay is None else [delay]
            calls += [self._calls.calls[index] for index in self._calls.of_task[task]]
        return [(self._driver.launch, (call, stream)) for call in calls]

    def close(self) -> None:
        """Destroy graphs, events and streams."""
        for graph in self._graphs.values():
            graph.close()
        for event in (self._fork, *self._events.values()):
            self._driver.destroy_event(event)
        for stream in self._streams.values():
            if stream is not None:
                self._driver.destroy_stream(stream)
