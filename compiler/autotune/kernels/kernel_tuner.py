"""The tuner that `compile` takes; it needs TVM only where kernels are to be measured."""

import hashlib
import logging
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from time import perf_counter

from compiler.autotune.kernels.plan import TuningLimits
from compiler.backends.gpu.driver import Driver
from compiler.kernels.building import KernelCache
from compiler.kernels.group import Group
from compiler.schedule.choices import TuningRecord
from compiler.target.target import Target

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

        With a cache, a set of groups none of which is worth measuring is not examined again.
        """
        start = perf_counter()
        counted = list(groups)
        digest = hashlib.sha256("".join(sorted(g.content_hash() for g, _ in counted)).encode())
        mark = f"tuned {digest.hexdigest()}"
        if cache is not None and cache.load_text(mark, str(target)) is not None:
            return TuningRecord()
        from compiler.autotune.kernels.present_device import tune_here

        record, complete = tune_here(driver, counted, target, cache, self.limits)
        if cache is not None and complete:
            cache.store_text(mark, str(target), "no kernel is worth measuring")
        record = replace(record, seconds=perf_counter() - start)
        if record.kernels:
            _LOG.info("%s", record)
        return record

    def after(self, seconds: float) -> "KernelTuner":
        return KernelTuner(self.limits.after(seconds))

    def shared_by(self, count: int) -> "KernelTuner":
        return KernelTuner(self.limits.after(0.0, count))

    def left(self, budget: float, record: TuningRecord) -> float:
        return self.limits.left(budget, record.seconds)
