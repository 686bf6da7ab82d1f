"""Building kernels in separate processes: TVM holds the interpreter's lock."""

import sys
from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from contextvars import copy_context
from queue import SimpleQueue
from types import ModuleType
from typing import TYPE_CHECKING
from warnings import simplefilter

from compiler.errors import KernelError
from compiler.kernels.database.fields import Config
from compiler.kernels.group import Group
from compiler.progress import kernel_progress
from compiler.schedule.kernels import KernelSpec
from compiler.support.child_process import receive, send
from compiler.support.family import Child, early_family, fork_family, start_family
from compiler.target.target import Target
from compiler.tensors.extents import NotForAllSizes

if TYPE_CHECKING:
    from compiler.kernels.building.module import KeptKernels

# Lets a process of ours import TVM without the parts of it that no kernel here is made with.
#
# They take half of the time. In a user's process TVM stays whole: the user may use it, too.
UNUSED = ("tvm.relax", "tvm.s_tir.meta_schedule", "tvm.s_tir.dlight")
"""Packages that TVM imports whenever it is imported, and does not use by itself."""


class Worker:
    """One process that builds kernels on request."""

    def __init__(self, child: Child) -> None:
        self._child = child

    def wait_until_ready(self) -> None:
        """Return when the process has imported what it needs, or has died."""
        self._child.wait_until_ready()

    def build(
        self,
        group: Group,
        target: Target,
        config: Config | None = None,
        kept: "KeptKernels | None" = None,
    ) -> KernelSpec:
        """Build one kernel there, if need be with a config of a CPU's template.

        Without one, the process first looks whether it is `kept` by the config that it chooses.
        Raises KernelError, also when the process dies, and NotForAllSizes.
        """
        self.wait_until_ready()
        try:
            send(self._child.requests, (group, target, config, kept))
            answer = receive(self._child.answers)
        except OSError:
            answer = None
        if isinstance(answer, KernelSpec):
            return answer
        raise answer or KernelError(f"{group.describe()}: the compiler process died")

    def stop(self) -> None:
        """End the process."""
        self._child.stop()


MODULE, SERVE = "compiler.kernels.building.workers", "serve"
"""The function by which a worker answers."""


class WorkerPool:
    """Some workers, of which each builds one kernel at a time; stop them at the end."""

    def __init__(self, workers: Iterable[Worker]) -> None:
        self._workers = [*workers]
        self._idle: SimpleQueue[Worker] = SimpleQueue()
        for worker in self._workers:
            self._idle.put(worker)

    @classmethod
    def of(cls, count: int) -> "WorkerPool":
        """A pool of so many new processes."""
        return cls(map(Worker, start_family(MODULE, SERVE, count)))

    @contextmanager
    def one(self) -> Generator[Worker]:
        """A worker that is ready and idle, once there is one."""
        worker = self._idle.get()
        try:
            worker.wait_until_ready()  # a kernel's time is not that of starting Python
            yield worker
        finally:
            self._idle.put(worker)

    def stop(self) -> None:
        """End the processes."""
        for worker in self._workers:
            worker.stop()


def build_in_workers(
    groups: Sequence[Group], target: Target, jobs: int, kept: "KeptKernels | None" = None
) -> Iterator[tuple[Group, KernelSpec]]:
    """Build groups in `jobs` processes, the largest first; yields each as it is ready."""
    early = early_family()
    count = min(jobs, len(groups)) if early is None else len(early)
    workers = WorkerPool.of(count) if early is None else WorkerPool(map(Worker, early))

    def build(group: Group) -> tuple[Group, KernelSpec]:
        with workers.one() as worker, kernel_progress(group.name):
            return group, worker.build(group, target, kept=kept)

    ordered = sorted(groups, key=lambda g: -len(g.operators))
    with ThreadPoolExecutor(count) as pool:
        try:
            for future in as_completed(
                [pool.submit(copy_context().run, build, group) for group in ordered]
            ):
                yield future.result()
        finally:
            pool.shutdown(wait=early is not None, cancel_futures=True)
            if early is None:
                workers.stop()


def serve() -> None:
    """Answer build requests from standard input until it ends."""
    if "tvm" not in sys.modules:
        for name in UNUSED:
            sys.modules[name] = ModuleType(name)
    simplefilter("ignore")  # the process that asks warns of the cache
    from compiler.kernels.building.kernel import build_candidate, build_kernel, chosen_configs

    requests, answers = fork_family()
    while (request := receive(requests)) is not None:
        try:
            group, target, config, kept = request
            if config is not None:
                built = build_candidate(group, target, config)
            elif kept is not None:
                (chosen,) = chosen_configs([group], target).values()
                built = kept.built(group, chosen, build_kernel)
            else:
                built = build_kernel(group, target)
            send(answers, built)
        except (KernelError, NotForAllSizes) as error:
            send(answers, error)
