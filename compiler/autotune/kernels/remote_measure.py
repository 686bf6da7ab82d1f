"""`measure` for another machine: a bundle in, results out; needs no TVM."""

import socket
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from compiler.autotune.kernels.bundle import Bundle
from compiler.autotune.kernels.installation import Installation, check_installed
from compiler.autotune.kernels.measure import (
    CompiledTexts,
    header_here,
    header_of,
    measure,
    unmeasured,
)
from compiler.autotune.kernels.results import Header, Result, ResultList
from compiler.backends.gpu.driver import Driver
from compiler.errors import ClusterError, DeviceError


@dataclass(frozen=True)
class MeasuringTools:
    """The function that opens a machine's device, and the one that compiles texts for it."""

    device: Callable[[], Driver]
    compile_texts: Callable[..., CompiledTexts]


@dataclass(frozen=True)
class DevicePart:
    """Asks a machine for its device."""

    installation: Installation
    tools: MeasuringTools

    def run(self) -> Header:
        """The device and the compiler of its code; ClusterError for other versions."""
        check_installed(self.installation)
        return header_here(self.tools.device())


@dataclass(frozen=True)
class MeasurePart:
    """Measures those of a bundle's candidates that have no result, on a device as the header says.

    `jobs` compile at a time.
    """

    installation: Installation
    bundle: Bundle
    known: tuple[Result, ...]
    header: Header
    tools: MeasuringTools
    jobs: int

    def run(self) -> tuple[Result, ...]:
        """The new results: all, or some if a candidate has made the device unusable."""
        check_installed(self.installation)
        driver = self.tools.device()
        bundle = self.bundle
        results = ResultList(self.known)
        if (header := header_of(driver, bundle)) != self.header:
            raise ClusterError(
                f"{socket.gethostname()} has {header}, not {self.header} as others: give Ray GPUs"
                " of one kind"
            )
        arch = bundle.compiler_arch
        headers = bundle.headers
        compiler = partial(self.tools.compile_texts, arch=arch, headers=headers, jobs=self.jobs)
        try:
            measure(driver, bundle, results, compiler)
        except DeviceError:
            # a result says which candidate it was; another process goes on after it
            if len(results.found) == len(self.known):
                raise
        return tuple(results.found[len(self.known) :])

    def rest(self, results: tuple[Result, ...]) -> "MeasurePart | None":
        """The part that measures what is left after some results; None where nothing is."""
        measured = (*self.known, *results)
        return replace(self, known=measured) if unmeasured(self.bundle, measured).kernels else None
