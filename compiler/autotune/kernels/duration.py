"""The expected time to measure a bundle, before a device is available."""

from dataclasses import replace

from compiler.autotune.kernels.bundle import FEWEST, Bundle, KernelCandidate
from compiler.autotune.kernels.measure import COLD_SAMPLES, PROBES, WARM_SAMPLES, chain_lengths
from compiler.autotune.profile import COLD_LENGTHS
from compiler.choice.timing import WARM_UP

CANDIDATE_S = 0.008
"""Seconds to load a candidate, run it once, compare its results and make its graphs."""

FLUSH_US = 60.0
"""Microseconds to write twice the size of the cache."""

COLD_PART = 0.5
"""The part of candidates that are near enough to the best to be timed with cold caches."""

COMPILE_S = 0.7
"""Seconds of one core to compile a candidate, with all that is not counted above: with 16 cores of
an H200's host, 22 were done in a second."""


def device_seconds(bundle: Bundle) -> float:
    """Seconds in which the device measures every candidate."""
    return sum(_seconds(candidate) for kernel in bundle.kernels for candidate in kernel.candidates)


def _seconds(candidate: KernelCandidate) -> float:
    time = candidate.estimate
    warm = sum(chain_lengths(1e3 * time)) * (WARM_SAMPLES + WARM_UP) + PROBES + 1
    cold = COLD_PART * sum(COLD_LENGTHS) * (COLD_SAMPLES + WARM_UP)
    return CANDIDATE_S + 1e-6 * (warm * time + cold * (time + FLUSH_US))


def compile_seconds(bundle: Bundle, cores: int) -> float:
    """Seconds in which some cores compile every candidate, while the device measures."""
    return COMPILE_S * bundle.count / cores


def within(bundle: Bundle, seconds: float) -> Bundle:
    """The candidates that a device should measure in some seconds, of heavy kernels first.

    Unlike those that it does measure, they are the same each time.
    """
    counts = dict[str, int]()
    remaining = seconds
    for kernel, candidate in bundle.in_turns():
        remaining -= _seconds(candidate)
        if remaining < 0:
            break
        counts[kernel.key] = counts.get(kernel.key, 0) + 1
    kernels = (
        replace(kernel, candidates=kernel.candidates[: counts[kernel.key]])
        for kernel in bundle.kernels
        if counts.get(kernel.key, 0) >= FEWEST
    )
    return replace(bundle, kernels=tuple(kernels))


def expected_duration(bundle: Bundle, cores: int = 16, devices: int = 1) -> str:
    """Both times in words; measuring takes the longer one.

    `cores` compile for each of some `devices`.
    """
    device = device_seconds(bundle) / devices
    compiling = compile_seconds(bundle, cores) / devices
    devices_in_words = "the device" if devices == 1 else f"each of {devices} devices"
    return (
        f"measuring should take {max(device, compiling):.0f} s:"
        f" {device:.0f} s of {devices_in_words}, while {cores} cores compile for {compiling:.0f} s"
    )
