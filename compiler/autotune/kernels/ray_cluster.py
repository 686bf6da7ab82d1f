"""A Ray cluster: connecting to it, running parts of a step on its nodes, its errors in our words.

Ray is an extra, imported only here.
"""

import logging
import re
import socket
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from time import perf_counter
from typing import Any

from compiler.errors import ClusterError, FlowloomError, MissingExtraError
from compiler.progress import Announcement, PartEnded, PartsBegan, StepEnded, notify

INSTALL = "install the same version on every node with pip install 'flowloom[cuda,ray]'"
"""The remedy for nodes where something is missing."""

RETRIES = 5
"""How often Ray starts a part again whose worker or node has died."""

POLL_S = 1.0
"""Seconds between two looks at which nodes are alive."""

REACH_S = 5.0
"""Seconds to wait for an answer from an address."""

RayNode = dict[str, Any]
"""A node as Ray describes it."""


@contextmanager
def connected(address: str) -> Generator["RayCluster", None, None]:
    """A Ray cluster at an address, as `ray.init` understands it, while the block lasts.

    Raises MissingExtraError without Ray, and ClusterError where none answers.
    """
    try:
        ray: Any = import_module("ray")
    except ImportError as error:
        raise MissingExtraError(f"Ray is missing: {INSTALL}") from error
    _connect(ray, address)
    try:
        yield RayCluster(ray, address)
    finally:
        ray.shutdown()


def _connect(ray: Any, address: str) -> None:
    """Connect to a Ray cluster, or start one on this machine for the address `local`."""
    options = {"include_dashboard": False} if address == "local" else {}
    try:
        # where nobody listens, this fails at once: Ray itself tries for a minute
        host, _, port = address.rpartition(":")
        if port.isdecimal() and "/" not in host:
            socket.create_connection((host.strip("[]"), int(port)), REACH_S).close()
        ray.init(address, log_to_driver=False, logging_level=logging.ERROR, **options)
    except (OSError, RuntimeError, ValueError, AssertionError) as error:
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise ClusterError(
            f"cannot connect to a Ray cluster at {address!r} ({reason}): start one with"
            " `ray start --head` and give the address that it prints (a machine that is not a node"
            " of it needs `ray start --address` first), or `local` for this machine alone"
        ) from error


def run_part(part: Any) -> tuple[Any, float]:
    """The task of a worker: a part's result, and its seconds."""
    start = perf_counter()
    return part.run(), perf_counter() - start


def nothing_left(part: Any, value: Any) -> Any:
    """The rest of a part that always does all: none."""
    return None


class RayCluster:
    """The nodes of a Ray cluster, on which parts run that have a method `run`."""

    def __init__(self, ray: Any, address: str) -> None:
        self._ray = ray
        self.address = address
        self._lost = 0

    def nodes(self, gpus: bool = False) -> list[RayNode]:
        """The nodes that are alive, or those with GPUs, always in the same order.

        Raises ClusterError where none has a GPU that shall.
        """
        nodes = [n for n in self._ray.nodes() if n["Alive"] and _count(n, "GPU") >= int(gpus)]
        if gpus and not nodes:
            raise ClusterError(
                f"no node of the Ray cluster at {self.address!r} has a GPU, on which candidates are"
                " measured: start Ray on a machine with one, or take `flowloom tune prepare`, which"
                " needs none"
            )
        return sorted(nodes, key=lambda node: node["NodeID"])

    def count(self, kind: str) -> int:
        """How many CPUs or GPUs the nodes have."""
        return sum(_count(node, kind) for node in self.nodes())

    def jobs(self) -> int:
        """The fewest cores that a node has for each of its GPUs, at least one."""
        nodes = self.nodes(gpus=True)
        return max(1, min(_count(node, "CPU") // _count(node, "GPU") for node in nodes))

    def on_cpus(self) -> Any:
        """The task of a part that takes a core."""
        return self._ray.remote(num_cpus=1, max_retries=RETRIES)(run_part)

    def on_gpus(self) -> Any:
        """The task of a part with a GPU, in a process that no other part has after it."""
        kind = self._ray.remote(num_gpus=1, num_cpus=0, max_calls=1, max_retries=RETRIES)
        return kind(run_part)

    def on_each(self, nodes: Sequence[RayNode], part: Any) -> list[Any]:
        """The results of a part on a GPU of each of some nodes."""
        affinity = import_module("ray.util.scheduling_strategies").NodeAffinitySchedulingStrategy
        task = self.on_gpus()
        running = list[Any]()
        for node in nodes:
            there = task.options(scheduling_strategy=affinity(node["NodeID"], soft=False))
            running.append(there.remote(part))
        return [self._value("device", reference)[0] for reference in running]

    def each(
        self,
        step: str,
        task: Any,
        parts: Sequence[tuple[str, Any]],
        rest: Callable[[Any, Any], Any] = nothing_left,
    ) -> Iterator[tuple[int, Any]]:
        """The result of each of a step's named parts, with its number, in the order of their ends.

        `rest` gives from a part and its result the part that is left, if any, which is done next.
        """
        notify(PartsBegan(step, len(parts)))
        start = perf_counter()
        running = {task.remote(part): (n, part) for n, (_, part) in enumerate(parts)}
        while running:
            ready, _ = self._ray.wait([*running], timeout=POLL_S)
            lost = sum(not node["Alive"] for node in self._ray.nodes())
            if lost > self._lost:
                nodes = "a node" if lost == self._lost + 1 else f"{lost - self._lost} nodes"
                notify(
                    Announcement(f"{nodes} of the Ray cluster died: others do those parts again")
                )
            self._lost = lost
            for reference in ready:
                number, part = running.pop(reference)
                value, seconds = self._value(step, reference)
                yield number, value
                if (left := rest(part, value)) is not None:
                    running[task.remote(left)] = number, left
                else:
                    notify(PartEnded(step, parts[number][0], seconds))
        notify(StepEnded(step, perf_counter() - start))

    def _value(self, step: str, reference: Any) -> tuple[Any, float]:
        errors = import_module("ray.exceptions")
        try:
            return self._ray.get(reference)
        except errors.RayTaskError as error:
            if isinstance(error.cause, FlowloomError):
                raise error.cause from None
            if missing := re.search(r"No module named '[^']+'", str(error)):
                raise ClusterError(f"a worker says: {missing.group()}: {INSTALL}") from error
            raise
        except errors.RayError as error:
            reason = str(error).partition(". ")[0].splitlines()[0]
            raise ClusterError(
                f"a part of `{step}` was lost {RETRIES + 1} times ({reason}): see what `ray status`"
                " and the logs of Ray say of its nodes"
            ) from error


def _count(node: RayNode, kind: str) -> int:
    return int(node["Resources"].get(kind, 0))
