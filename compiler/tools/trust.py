"""`flowloom check` and `flowloom sign`: what a saved module or a schedule is worth."""

from argparse import Namespace
from pathlib import Path

import compiler
from compiler.display.words import counted, in_bytes
from compiler.errors import ArgumentError
from compiler.export.checking import CheckedArtifact, checked_artifacts
from compiler.export.manifest import PROGRAM_MANIFEST, format_in
from compiler.export.signing import is_signed, trusting
from compiler.schedule import Schedule


def check_command(options: Namespace) -> int:
    """`flowloom check DIR|FILE`: exit 1 and the reason if it is invalid."""
    path: Path = options.path
    if path.is_dir():
        return _check_saved(path, options.trusted)
    from compiler.tools.opt import load_schedules
    from compiler.verify.happens_before import check_schedule

    if options.trusted:
        raise ArgumentError(f"--trusted is for a saved directory, which can be signed, not {path}")
    for schedule in load_schedules(path):
        check_schedule(schedule)
        print(f"{path}: {_without_race(schedule)}")
    return 0


def _check_saved(path: Path, trusted: list[Path]) -> int:
    """Check all that loading checks, and print it."""
    for checked in checked_artifacts(path, trusting(trusted or None)):
        print(f"{checked.directory}: {_without_race(checked.artifact.schedule)}")
        print(f"{checked.directory}: {_as_built(checked)}")
    if format_in(path) is PROGRAM_MANIFEST:
        print(f"{path}: the model and the list of segments as they were saved")
    named = ", ".join(map(str, trusted))
    unsure = "signed, by whom was not checked (--trusted)" if is_signed(path) else "not signed"
    print(f"{path}: {f'signed by a key of {named}' if trusted else unsure}")
    return 0


def _without_race(schedule: Schedule) -> str:
    waits = sum(len(task.after) for task in schedule.tasks)
    return (
        f"{schedule.name}: {counted(len(schedule.tasks), 'task')} on"
        f" {counted(schedule.streams, 'stream')}, {counted(waits, 'wait')}, no race"
    )


def _as_built(checked: CheckedArtifact) -> str:
    saved = checked.artifact
    weights = sum(array.nbytes for array in saved.weights.values())
    return (
        f"{counted(len(saved.kernels), 'kernel')} as built, for the types that tasks pass;"
        f" {in_bytes(weights)} of weights, the schedule and {counted(checked.files, 'file')} as"
        " saved"
    )


def sign_command(options: Namespace) -> int:
    """`flowloom sign DIR --key KEY.pem`: sign a saved module after checking it."""
    compiler.sign(options.directory, options.key)
    print(f"{options.directory}: checked, and signed with {options.key}")
    return 0
