"""`flowloom check`: all that loading a saved module checks, or a schedule alone."""

from argparse import Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path

from compiler.artifact.checking import CheckedArtifact, checked_artifacts
from compiler.artifact.manifest import PROGRAM_MANIFEST, format_in
from compiler.artifact.signing import check_unlisted, is_signed, trusting, unlisted, write_signature
from compiler.artifact.symbolic import SymbolicArtifact
from compiler.errors import ArgumentError
from compiler.schedule.kernels import LARGEST_COUNT
from compiler.schedule.tasks import Schedule
from compiler.support.words import counted, in_bytes
from compiler.tools.progress.options import conclude
from compiler.verify.footprints import containment_lines
from compiler.verify.happens_before import check_schedule
from compiler.verify.structure import LARGEST_MEMORY


def run(options: Namespace) -> int:
    """Exit 1 and the reason if it is invalid; sign it if asked to."""
    path: Path = options.path
    if path.is_dir():
        checks = list(_check_saved(path, options.trusted, options.sign))
    else:
        checks = list(_check_file(path, options))
    text = "\n".join(f"{place}: {claim}" for place, claim in checks)
    listed = [{"path": str(place), "claim": claim} for place, claim in checks]
    conclude(options, text, {"path": str(path), "checks": listed})
    return 0


def _check_file(path: Path, options: Namespace) -> Iterator[tuple[Path, str]]:
    """Check the schedules of a file; the claims that are then true of it."""
    from compiler.tools.opt import load_schedules

    if options.trusted or options.sign:
        raise ArgumentError(f"signatures are of saved directories, and {path} is not one")
    for schedule in load_schedules(path):
        check_schedule(schedule)
        yield path, _without_race(schedule)


def _check_saved(
    path: Path, trusted: Sequence[Path], key: Path | None
) -> Iterator[tuple[Path, str]]:
    """Check all that loading checks, and sign it if there is a key; the claims that are true."""
    for checked in checked_artifacts(path, trusting(trusted or None)):
        saved = checked.artifact
        symbolic = isinstance(saved, SymbolicArtifact)
        schedule = saved.schedule.schedule if symbolic else saved.schedule
        kernels = (saved.schedule if symbolic else saved).kernels
        proved = f" {_sizes_of(saved)}" if symbolic else ""
        yield checked.directory, f"{_without_race(schedule)}{proved}"
        yield checked.directory, f"{_as_built(checked, len(kernels))}"
        for line in containment_lines(kernels.values()):
            yield checked.directory, line
    if is_signed(path) or key is not None:
        check_unlisted(path)
    for name in unlisted(path):
        yield path / name, "not of what was saved, and nothing reads it"
    if format_in(path) is PROGRAM_MANIFEST:
        yield path, "the model and the list of segments as they were saved"
    if trusted:
        yield path, f"signed by a key of {', '.join(map(str, trusted))}"
    elif key is None:
        yield path, "signed, by whom was not checked" if is_signed(path) else "not signed"
    if key is not None:
        yield path, f"signed with {key} in {write_signature(path, key)}"


def _without_race(schedule: Schedule) -> str:
    waits = sum(len(task.after) for task in schedule.tasks)
    return (
        f"{schedule.name}: {counted(len(schedule.tasks), 'task')} on"
        f" {counted(schedule.streams, 'stream')}, {counted(waits, 'wait')}, no race"
    )


def _sizes_of(artifact: SymbolicArtifact) -> str:
    """For which sizes a schedule is proved."""
    ranges = [
        f"{name} from {low} to {high}" if high < LARGEST_MEMORY else f"{name} from {low} on"
        for name, (low, high) in artifact.certificate.limits.items()
    ]
    return (
        f"for all sizes ({', '.join(ranges)}) by which no buffer has more than {LARGEST_COUNT}"
        " elements"
    )


def _as_built(checked: CheckedArtifact, kernels: int) -> str:
    weights = sum(array.nbytes for array in checked.artifact.weights.values())
    return (
        f"{counted(kernels, 'kernel')} as built, for the types that tasks pass;"
        f" {in_bytes(weights)} of weights, the schedule and {counted(checked.files, 'file')} as"
        " saved"
    )
