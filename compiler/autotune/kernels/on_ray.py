"""Tuning on a Ray cluster: its CPUs prepare, its GPUs measure, and this machine merges.

Results are put together by the order of models and kernels, so that neither the number of workers
nor one that dies changes a winner.
"""

import logging
import os
import re
import socket
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

from compiler.autotune.kernels.bundle import Bundle, merge_bundles, shares
from compiler.autotune.kernels.duration import device_seconds, expected_duration, within
from compiler.autotune.kernels.installation import Installation, check_installed, installed
from compiler.autotune.kernels.measure import unmeasured
from compiler.autotune.kernels.prepare import any_candidate, prepare_part, untuned_on
from compiler.autotune.kernels.remote_measure import DevicePart, MeasurePart, MeasuringTools
from compiler.autotune.kernels.results import Header, Result, ResultFile
from compiler.autotune.kernels.tune import TuneOptions
from compiler.errors import ClusterError, FlowloomError, MissingExtraError
from compiler.frontend.importing import import_model
from compiler.graph.fusion.whole import whole_kernels
from compiler.ir.context import parse_module
from compiler.kernels.database import DATABASE_VARIABLE, user_file
from compiler.progress import Announcement, PartEnded, PartsBegan, StepEnded, notify
from compiler.target.target import parse_gpu

# Ray is an extra, imported only here.
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
    try:
        yield RayCluster(ray, address)
    finally:
        ray.shutdown()


def run_part(payload: Any) -> tuple[Any, float]:
    """The task of a worker: a part's result, and its seconds."""
    start = perf_counter()
    return payload.run(), perf_counter() - start


def nothing_left(payload: Any, value: Any) -> Any:
    """The remainder of a part that is always done whole: none."""
    return None


class RayCluster:
    """The nodes of a Ray cluster, on which parts run that have a method `run`."""

    def __init__(self, ray: Any, address: str) -> None:
        self._ray = ray
        self.address = address
        self._lost = 0

    def nodes(self, gpus: bool = False) -> list[RayNode]:
        """The nodes that are alive, or those with GPUs, always in the same order.

        Raises ClusterError if `gpus` is asked for and there are none.
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

    def on_each(self, nodes: Sequence[RayNode], payload: Any) -> list[Any]:
        """The results of a part on a GPU of each of some nodes."""
        affinity = import_module("ray.util.scheduling_strategies").NodeAffinitySchedulingStrategy
        task = self.on_gpus()
        running = list[Any]()
        for node in nodes:
            pinned = task.options(scheduling_strategy=affinity(node["NodeID"], soft=False))
            running.append(pinned.remote(payload))
        return [self._value("device", reference)[0] for reference in running]

    def each(
        self,
        step: str,
        task: Any,
        payloads: Sequence[tuple[str, Any]],
        remainder: Callable[[Any, Any], Any] = nothing_left,
    ) -> Iterator[tuple[int, Any]]:
        """The result of each of a step's named parts, with its number, in the order of their ends.

        `remainder` gives the part that a part with this result leaves, if any; it is done next.
        """
        notify(PartsBegan(step, len(payloads)))
        start = perf_counter()
        running = {task.remote(payload): (n, payload) for n, (_, payload) in enumerate(payloads)}
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
                number, payload = running.pop(reference)
                value, seconds = self._value(step, reference)
                yield number, value
                if (remaining := remainder(payload, value)) is not None:
                    running[task.remote(remaining)] = number, remaining
                else:
                    notify(PartEnded(step, payloads[number][0], seconds))
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


@dataclass(frozen=True)
class PreparePart:
    """Prepares the candidates of an imported graph, which it has as text, for a target.

    `database` is the user's file on the machine that asks, None without one; what has times on a
    `device` is left out.
    """

    installation: Installation
    graph: str
    target: str
    arch: str
    count: int
    database: bytes | None
    device: str = ""

    def run(self) -> Bundle:
        """The candidates; ClusterError where this machine has other versions."""
        check_installed(self.installation)
        accepts = untuned_on(self.device) if self.device else any_candidate
        with using_database(self.arch, self.database):
            return prepare_part(parse_module(self.graph), self.target, self.count, accepts)


def database_content(arch: str) -> bytes | None:
    """The user's database of an architecture on this machine; None without one."""
    path = user_file(arch)
    return path.read_bytes() if path.is_file() else None


@contextmanager
def using_database(arch: str, content: bytes | None) -> Generator[None, None, None]:
    """Let a content be the user's database in the block, and no other."""
    previous = os.environ.get(DATABASE_VARIABLE)
    os.environ[DATABASE_VARIABLE] = _folder_with(arch, content).name
    try:
        yield
    finally:
        del os.environ[DATABASE_VARIABLE]
        if previous is not None:
            os.environ[DATABASE_VARIABLE] = previous


@cache
def _folder_with(arch: str, content: bytes | None) -> TemporaryDirectory[str]:
    """A folder with a database while the process lives, as reading one takes most of a second."""
    folder = TemporaryDirectory(prefix="flowloom-tuning-")
    if content is not None:
        Path(folder.name, f"{arch}.jsonl").write_bytes(content)
    return folder


SHARE_CANDIDATES = 240
"""Candidates of a part that measures: some ten seconds of 16 cores that compile."""


@contextmanager
def ray_machines(
    address: str, tools: MeasuringTools, jobs: int = 0
) -> Generator["RayMachines", None, None]:
    """The machines of a Ray cluster at an address, while the block lasts.

    `jobs` compile for each GPU: 0 for as many as a node has cores for it. Raises what
    `connected` does, and ClusterError without a GPU.
    """
    with connected(address) as cluster:
        counts = f"CPUs: {cluster.count('CPU')}, GPUs: {cluster.count('GPU')}"
        notify(Announcement(f"Ray cluster with {counts}, nodes: {len(cluster.nodes())}"))
        yield RayMachines(cluster, tools, jobs)


@dataclass
class RayMachines:
    """The nodes of a Ray cluster as machines that tune."""

    cluster: RayCluster
    tools: MeasuringTools
    jobs: int = 0

    @cached_property
    def header(self) -> Header:
        """The device of all nodes that measure, and the compiler; ClusterError if they differ."""
        nodes = self.cluster.nodes(gpus=True)
        headers = self.cluster.on_each(nodes, DevicePart(installed(False), self.tools))
        if len(set(headers)) > 1:
            named = (f"{n['NodeName']}: {h}" for n, h in zip(nodes, headers, strict=True))
            raise ClusterError(
                f"the GPUs of the Ray cluster differ ({'; '.join(named)}), and the times of one"
                " kind count: give Ray those alone (`ray start --num-gpus=0` on other nodes)"
            )
        return headers[0]

    def prepare(self, options: TuneOptions, untuned: bool, report: Callable[[str], None]) -> Bundle:
        """The candidates of the models, a part for each model and precision on some CPU."""
        payloads = self.prepare_parts(options, untuned)
        order = order_of(payloads)
        ordered = [payloads[number] for number in order]
        ended = self.cluster.each("prepare", self.cluster.on_cpus(), ordered)
        bundles = {order[number]: bundle for number, bundle in ended}
        merged = merge_bundles([bundles[number] for number in range(len(payloads))])
        report(f"prepared {merged.count} candidates of {len(merged.kernels)} kernels")
        return merged

    def prepare_parts(self, options: TuneOptions, untuned: bool) -> list[tuple[str, PreparePart]]:
        """The parts with their names, in the order of models and precisions."""
        arch = self.header.arch
        installation = installed(True)
        payloads = list[tuple[str, PreparePart]]()
        database = database_content(arch)
        device = self.header.device if untuned else ""
        for path in options.models:
            for precision in options.precisions:
                target = f"cuda:{arch}:{precision}"
                has_kernel = whole_kernels(parse_gpu(target))
                payload = PreparePart(
                    installation=installation,
                    graph=str(
                        import_model(path, options.input_shapes, has_kernel=has_kernel).module
                    ),
                    target=target,
                    arch=arch,
                    count=options.candidates,
                    database=database,
                    device=device,
                )
                payloads.append((f"{path.name} {precision}", payload))
        return payloads

    def measure(
        self, bundle: Bundle, results: ResultFile, budget: float, report: Callable[[str], None]
    ) -> float:
        """Measure what has no result yet, a share of the kernels on each GPU at a time.

        The budget is the seconds that one device should take, which are also what is returned, so
        that the number of GPUs does not decide what is measured.
        """
        limited = within(bundle, budget)
        jobs = self.jobs or self.cluster.jobs()
        report(
            f"{limited.count} candidates of {len(limited.kernels)} kernels:"
            f" {expected_duration(limited, jobs, self.cluster.count('GPU'))}"
        )
        payloads = list(self._measure_parts(limited, results.found, jobs))
        tasks = self.cluster.on_gpus()
        for _, measured in self.cluster.each("measure", tasks, payloads, MeasurePart.rest):
            for result in measured:
                results.add(result)
        return device_seconds(limited)

    def _measure_parts(
        self, bundle: Bundle, results: Sequence[Result], jobs: int
    ) -> Iterator[tuple[str, MeasurePart]]:
        """The shares of a bundle that are not measured yet, with their names."""
        installation = installed(False)
        for number, share in enumerate(shares(bundle, SHARE_CANDIDATES), 1):
            remaining = unmeasured(share, results)
            if remaining.kernels:
                keys = {kernel.key for kernel in remaining.kernels}
                existing = tuple(result for result in results if result.key in keys)
                payload = MeasurePart(
                    installation=installation,
                    bundle=remaining,
                    known=existing,
                    header=self.header,
                    tools=self.tools,
                    jobs=jobs,
                )
                yield f"share {number}, {len(remaining.kernels)} kernels", payload


def order_of(payloads: Sequence[tuple[str, PreparePart]]) -> list[int]:
    """The numbers of parts, the largest graph's first: no worker waits long for another's last."""
    return sorted(range(len(payloads)), key=lambda number: -len(payloads[number][1].graph))
