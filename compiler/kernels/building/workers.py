"""Building kernels in separate processes: TVM holds the interpreter's lock."""

from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from contextvars import copy_context
from queue import SimpleQueue

from compiler.errors import KernelError
from compiler.kernels.database.fields import Config
from compiler.kernels.group import Group
from compiler.progress import kernel_progress
from compiler.schedule.kernels import KernelSpec
from compiler.support.child_process import receive, send, start_child, stdin_and_stdout
from compiler.target.target import Target

READY = "ready"
"""The first message of a worker."""


class Worker:
    """One process that builds kernels on request."""

    def __init__(self) -> None:
        self.process = start_child("compiler.kernels.building.workers", "serve")
        self._ready = False

    def wait_until_ready(self) -> None:
        """Return when the process has imported what it needs, or has died."""
        if not self._ready:
            assert self.process.stdout is not None
            receive(self.process.stdout)
            self._ready = True

    def build(self, group: Group, target: Target, config: Config | None = None) -> KernelSpec:
        """Build one kernel there, if need be with a config of a CPU's template.

        Raises KernelError, also when the process dies.
        """
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.wait_until_ready()
        try:
            send(self.process.stdin, (group, target, config))
            answer = receive(self.process.stdout)
        except OSError:
            answer = None
        if isinstance(answer, KernelSpec):
            return answer
        if answer is None:
            answer = f"{group.describe()}: the compiler process died ({self.process.wait()})"
        raise KernelError(answer)

    def stop(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.communicate()


class WorkerPool:
    """Some workers, of which each builds one kernel at a time; stop them at the end."""

    def __init__(self, count: int) -> None:
        self._workers = [Worker() for _ in range(count)]
        self._idle: SimpleQueue[Worker] = SimpleQueue()
        for worker in self._workers:
            self._idle.put(worker)

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
    groups: Sequence[Group], target: Target, jobs: int
) -> Iterator[tuple[Group, KernelSpec]]:
    """Build groups in `jobs` processes, the largest first; yields each as it is ready."""
    count = min(jobs, len(groups))
    workers = WorkerPool(count)

    def build(group: Group) -> tuple[Group, KernelSpec]:
        with workers.one() as worker, kernel_progress(group.name):
            return group, worker.build(group, target)

    ordered = sorted(groups, key=lambda g: -len(g.operators))
    with ThreadPoolExecutor(count) as pool:
        try:
            for future in as_completed(
                [pool.submit(copy_context().run, build, group) for group in ordered]
            ):
                yield future.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            workers.stop()


def serve() -> None:
    """Answer build requests from standard input until it ends."""
    from compiler.kernels.building.kernel import build_candidate, build_kernel

    requests, answers = stdin_and_stdout()
    send(answers, READY)
    while (request := receive(requests)) is not None:
        try:
            group, target, config = request
            built = build_candidate(*request) if config is not None else build_kernel(group, target)
            send(answers, built)
        except KernelError as error:
            send(answers, str(error))
