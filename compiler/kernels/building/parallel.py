"""Building kernels in this process, those of CUDA in parallel.

TVM holds the interpreter's lock while it writes a text; the compiler, which takes ten times as
long, does not.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextvars import copy_context

from compiler.kernels.building.cuda_kernel import compile_kernel, generate_entries
from compiler.kernels.building.kernel import build_kernel, naming
from compiler.kernels.group import Group
from compiler.kernels.template import KernelSource
from compiler.progress import kernel_progress
from compiler.schedule.kernels import KernelSpec
from compiler.target.target import GpuTarget, Target, parse_gpu


def build_here(
    groups: Sequence[Group], target: Target, jobs: int
) -> Iterator[tuple[Group, KernelSpec]]:
    """Build groups one by one, or those of CUDA in `jobs` threads; raises KernelError."""
    if jobs > 1:
        yield from build_in_threads(groups, parse_gpu(str(target)), jobs)
        return
    for group in groups:
        with kernel_progress(group.name):
            spec = build_kernel(group, target)
        yield group, spec


def build_in_threads(
    groups: Sequence[Group], target: GpuTarget, jobs: int
) -> Iterator[tuple[Group, KernelSpec]]:
    """Build groups, compiling in `jobs` threads; yields each kernel as it is ready.

    Raises KernelError that names the group, its operators and nodes.
    """

    def compiled(group: Group, kernel: KernelSource) -> KernelSpec:
        with naming(group), kernel_progress(group.name):
            return compile_kernel(group, kernel, target)

    running: dict[Future[KernelSpec], Group] = {}
    pool = ThreadPoolExecutor(jobs)
    try:
        for group in groups:
            with naming(group):
                kernel = generate_entries(group, target)
            running[pool.submit(copy_context().run, compiled, group, kernel)] = group
            for done in [future for future in running if future.done()]:
                yield running.pop(done), done.result()
        for done in as_completed(running):
            yield running[done], done.result()
    finally:
        pool.shutdown(cancel_futures=True)
