"""The tuner that `compile` takes; it needs TVM only where kernels are to be measured."""

import hashlib
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter

from compiler.autotune.kernels.plan import TuningLimits
from compiler.backends.gpu.driver import Driver
from compiler.kernels.building import KernelCache
from compiler.kernels.group import Group
from compiler.schedule.choices import TuningRecord
from compiler.target.target import Target, parse_cpu, parse_gpu

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class KernelTuner:
    """Measures kernels within limits, and keeps what it learns in the user's database."""

    limits: TuningLimits = field(default_factory=TuningLimits)

    def tune(
        self,
        driver: Driver | None,
        groups: Iterable[tuple[Group, int]],
        target: Target,
        cache: KernelCache | None,
    ) -> TuningRecord:
        """Measure the kernels of groups that no database has, heavy ones first.

        With a cache, groups of which none is worth measuring are not looked at again.
        """
        start = perf_counter()
        counted = list(groups)
        mark = _mark(counted)
        if cache is not None and cache.load_text(mark, str(target)) is not None:
            return TuningRecord()
        record, complete = self._measured(driver, counted, target, cache)
        if cache is not None and complete:
            cache.store_text(mark, str(target), "no kernel is worth measuring")
        record = replace(record, seconds=perf_counter() - start)
        if record.kernels:
            _LOG.info("%s", record)
        return record

    def _measured(
        self,
        driver: Driver | None,
        groups: Sequence[tuple[Group, int]],
        target: Target,
        cache: KernelCache | None,
    ) -> tuple[TuningRecord, bool]:
        from compiler.autotune.kernels.while_compiling import tune_groups

        if target.is_gpu:
            from compiler.autotune.kernels.device_bench import GpuDevice

            assert driver is not None, "a GPU's kernels are measured on a device"
            device = GpuDevice(driver, parse_gpu(str(target)))
            return tune_groups(device, groups, device.target, self.limits)
        from compiler.autotune.kernels.cpu_bench import HostCpu, weight_bytes

        host = HostCpu(parse_cpu(str(target)), cache, weight_bytes(groups))
        return tune_groups(host, groups, host.target, self.limits)

    def after(self, seconds: float) -> "KernelTuner":
        return KernelTuner(self.limits.after(seconds))

    def shared_by(self, count: int) -> "KernelTuner":
        return KernelTuner(self.limits.after(0.0, count))

    def left(self, budget: float, record: TuningRecord) -> float:
        return self.limits.left(budget, record.seconds)


def _mark(groups: Sequence[tuple[Group, int]]) -> str:
    """The name under which it is kept that groups need no measuring."""
    digest = hashlib.sha256("".join(sorted(g.content_hash() for g, _ in groups)).encode())
    return f"tuned {digest.hexdigest()}"
