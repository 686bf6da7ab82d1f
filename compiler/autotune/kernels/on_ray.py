"""Tuning on a Ray cluster: its CPUs prepare, its GPUs measure, and this machine merges.

Results are put together by the order of models and kernels, so that neither the number of workers
nor one that dies changes a winner.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

from compiler.autotune.kernels.bundle import Bundle, merge_bundles, shares
from compiler.autotune.kernels.duration import device_seconds, expected_duration, within
from compiler.autotune.kernels.installation import installed
from compiler.autotune.kernels.measure import unmeasured
from compiler.autotune.kernels.ray_cluster import RayCluster, connected
from compiler.autotune.kernels.remote_measure import DevicePart, MeasurePart, MeasuringTools
from compiler.autotune.kernels.remote_prepare import PreparePart, database_content
from compiler.autotune.kernels.results import Header, Result, ResultFile
from compiler.autotune.kernels.tune import TuneOptions
from compiler.errors import ClusterError
from compiler.frontend.importing import import_model
from compiler.graph.fusion.recurrences import recurrence_kernels
from compiler.progress import Announcement, notify
from compiler.target.target import parse_gpu

SHARE_CANDIDATES = 240
"""Candidates of a part that measures: some ten seconds of 16 cores that compile."""


@contextmanager
def ray_machines(
    address: str, tools: MeasuringTools, jobs: int = 0
) -> Generator["RayMachines", None, None]:
    """The machines of a Ray cluster at an address, while the block lasts.

    `jobs` compile for each GPU: 0 for as many as a node has cores for it. Raises what
    `ray_cluster.connected` does, and ClusterError without a GPU.
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
        parts = self.prepare_parts(options, untuned)
        order = order_of(parts)
        ordered = [parts[number] for number in order]
        ended = self.cluster.each("prepare", self.cluster.on_cpus(), ordered)
        bundles = {order[number]: bundle for number, bundle in ended}
        merged = merge_bundles([bundles[number] for number in range(len(parts))])
        report(f"prepared {merged.count} candidates of {len(merged.kernels)} kernels")
        return merged

    def prepare_parts(self, options: TuneOptions, untuned: bool) -> list[tuple[str, PreparePart]]:
        """The parts with their names, in the order of models and precisions."""
        arch = self.header.arch
        here = installed(True)
        parts = list[tuple[str, PreparePart]]()
        database = database_content(arch)
        device = self.header.device if untuned else ""
        for path in options.models:
            for precision in options.precisions:
                target = f"cuda:{arch}:{precision}"
                has_kernel = recurrence_kernels(parse_gpu(target))
                part = PreparePart(
                    installation=here,
                    graph=str(
                        import_model(path, options.input_shapes, has_kernel=has_kernel).module
                    ),
                    target=target,
                    arch=arch,
                    count=options.candidates,
                    database=database,
                    device=device,
                )
                parts.append((f"{path.name} {precision}", part))
        return parts

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
        parts = list(self._measure_parts(limited, results.found, jobs))
        tasks = self.cluster.on_gpus()
        for _, measured in self.cluster.each("measure", tasks, parts, MeasurePart.rest):
            for result in measured:
                results.add(result)
        return device_seconds(limited)

    def _measure_parts(
        self, bundle: Bundle, results: Sequence[Result], jobs: int
    ) -> Iterator[tuple[str, MeasurePart]]:
        """The shares of a bundle that are not measured yet, with their names."""
        here = installed(False)
        for number, share in enumerate(shares(bundle, SHARE_CANDIDATES), 1):
            remaining = unmeasured(share, results)
            if remaining.kernels:
                keys = {kernel.key for kernel in remaining.kernels}
                existing = tuple(result for result in results if result.key in keys)
                part = MeasurePart(
                    installation=here,
                    bundle=remaining,
                    known=existing,
                    header=self.header,
                    tools=self.tools,
                    jobs=jobs,
                )
                yield f"share {number}, {len(remaining.kernels)} kernels", part


def order_of(parts: Sequence[tuple[str, PreparePart]]) -> list[int]:
    """The numbers of parts, the largest graph's first: no worker waits long for another's last."""
    return sorted(range(len(parts)), key=lambda number: -len(parts[number][1].graph))
