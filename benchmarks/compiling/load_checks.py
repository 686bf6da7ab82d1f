"""The time of an artifact's checks when it is loaded, in pairs of loads with and without them.

`python -m benchmarks.compiling.load_checks [MODEL|DIR] [--pairs N] [--json]`: a model of the
command line (default: zoo:resnet50) is compiled first, without measuring.

Of each pair one load makes all checks and one leaves some out: the seals of kernels and the digest
of the schedule, then the proof of schedule and operands, too. Hashes of files are compared in both,
but for the weights, whose bytes take longer than all else. Prints medians of this process's time on
a core in ms, which other processes disturb least, and the median of the pairs' differences with the
middle half of them. Weights stay in the file's memory, and nothing is loaded on a device.
"""

import argparse
import json
import statistics
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from time import process_time
from unittest.mock import patch

import compiler
from compiler.artifact import artifact
from compiler.artifact.checking import checked_artifacts
from compiler.artifact.manifest import trust_all
from compiler.schedule.kernels import KernelSpec
from compiler.schedule.tasks import Schedule
from compiler.tools.models import named_model
from compiler.verify.certificate import Certificate, check_operands
from compiler.verify.happens_before import check_schedule

Certify = Callable[[Schedule, Mapping[str, KernelSpec]], Certificate]


def without_seals(digest: str) -> Certify:
    """Proves schedule and operands, and takes the digest on trust."""

    def certify(schedule: Schedule, kernels: Mapping[str, KernelSpec]) -> Certificate:
        check_schedule(schedule)
        check_operands(schedule, kernels)
        return Certificate(schedule, kernels, digest)

    return certify


def without_proof(digest: str) -> Certify:
    """Takes everything on trust."""
    return lambda schedule, kernels: Certificate(schedule, kernels, digest)


def milliseconds(directory: Path, certify: Certify | None) -> float:
    """The time of one load, by another certificate than the real one if there is one."""
    certify = certify or artifact.certified
    with (
        patch.object(artifact, "certified", certify),
        patch.object(artifact, "check_unchanged", lambda *_: None),
    ):
        start = process_time()
        for _ in checked_artifacts(directory, trust_all):
            pass
        return 1e3 * (process_time() - start)


def measured(directory: Path, other: Certify, pairs: int) -> dict[str, float]:
    """Medians with all checks and without some, and of the differences, in turns."""
    with_all, without = list[float](), list[float]()
    for pair in range(pairs + 2):
        order = (None, other) if pair % 2 else (other, None)
        times = {certify: milliseconds(directory, certify) for certify in order}
        if pair >= 2:
            with_all.append(times[None])
            without.append(times[other])
    differences = [a - b for a, b in zip(with_all, without, strict=True)]
    low, middle, high = statistics.quantiles(differences, n=4)
    return {
        "with": statistics.median(with_all),
        "without": statistics.median(without),
        "difference": middle,
        "low": low,
        "high": high,
    }


def saved(model: Path, target: str, place: Path) -> Path:
    """The directory of an artifact, of a model if it is not one already."""
    if model.is_dir():
        return model
    compiler.compile(named_model(model), target=target, budget=0).save(place)
    return place


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path, nargs="?", default=Path("zoo:resnet50"))
    parser.add_argument("--pairs", type=int, default=50)
    parser.add_argument("--target", default="cpu")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        directory = saved(options.model, options.target, Path(folder) / "saved")
        (checked,) = checked_artifacts(directory, trust_all)
        certificate = checked.artifact.certificate
        assert certificate is not None
        parts = {"seals": without_seals, "seals and proof": without_proof}
        figures = {
            name: measured(directory, left_out(certificate.digest), options.pairs)
            for name, left_out in parts.items()
        }
    if options.json:
        print(json.dumps(figures, indent=1))
        return
    for name, figure in figures.items():
        print(
            f"{name}: {figure['with']:.2f} ms with, {figure['without']:.2f} without; difference"
            f" {figure['difference']:.2f} ms ({figure['low']:.2f} to {figure['high']:.2f})"
        )


if __name__ == "__main__":
    main()
