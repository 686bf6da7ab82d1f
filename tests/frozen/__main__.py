"""The command line: see the package's docstring."""

import argparse
import sys
import time
from fnmatch import fnmatchcase
from pathlib import Path

import tests.frozen
from tests.frozen.cases import TARGETS, case_names, is_quick, is_usual
from tests.frozen.differences import (
    Difference,
    differences,
    header_differences,
    read_exemptions,
    text_diff,
)
from tests.frozen.hashes import FOLDER, Hashes, Key, header_hashes, package_versions
from tests.frozen.store import TextStore, default_folder
from tests.frozen.workers import observed

WRITTEN_SECONDS = 60
"""The seconds between two writings of hashes, so that an interrupted run keeps most of its work."""


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(
        prog="python -m tests.frozen",
        description=tests.frozen.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("command", nargs="?", choices=("compare", "record"), default="compare")
    made.add_argument("--only", nargs="+", metavar="PATTERN", help="cases whose name matches")
    made.add_argument("--targets", nargs="+", choices=list(TARGETS), default=list(TARGETS))
    made.add_argument("--quick", action="store_true", help="five networks, every 24th node case")
    made.add_argument("--all", action="store_true", help="all networks and node cases")
    made.add_argument("--show", action="store_true", help="unified diffs of the texts that differ")
    made.add_argument("--jobs", type=int, default=2, help="processes (default: 2)")
    made.add_argument("--without-code", action="store_true", help="compile no machine code")
    made.add_argument("--folder", type=Path, default=FOLDER, help="where the hashes are")
    made.add_argument("--texts", type=Path, default=default_folder(), help="where texts are kept")
    return made


def chosen_keys(options: argparse.Namespace) -> list[Key]:
    """The cases and targets that the options name."""
    names = case_names()
    if options.only:
        names = [name for name in names if any(fnmatchcase(name, p) for p in options.only)]
    if options.quick:
        names = [name for name in names if is_quick(name)]
    keys = [(name, target) for name in names for target in options.targets]
    return keys if options.all or options.only else [key for key in keys if is_usual(*key)]


def record(options: argparse.Namespace) -> int:
    """Write the hashes of the cases as they come; those of other cases stay."""
    hashes, store = Hashes.read(options.folder), TextStore(options.texts)
    if options.all and options.targets == list(TARGETS):
        hashes = Hashes()
    hashes.headers, hashes.versions = header_hashes(), package_versions()
    keys, written = chosen_keys(options), time.monotonic()
    for key, found in observed(keys, options.jobs, options.texts, not options.without_code):
        hashes.add(key, found, store)
        if time.monotonic() - written > WRITTEN_SECONDS:
            hashes.write(options.folder)
            written = time.monotonic()
    hashes.write(options.folder)
    print(f"{len(keys)} cases and targets recorded")
    return 0


class Report:
    """Prints differences and counts those that are no exceptions."""

    def __init__(self, store: TextStore, show: bool):
        self._store, self._show = store, show
        self._exemptions = read_exemptions()
        self._used: set[int] = set()
        self.count = 0

    def add(self, difference: Difference) -> None:
        """Print a difference, with its texts if they are asked for."""
        covering = [i for i, entry in enumerate(self._exemptions) if entry.covers(difference)]
        self._used.update(covering)
        self.count += not covering
        reason = f" (allowed: {self._exemptions[covering[0]].reason})" if covering else ""
        print(f"{difference}{reason}", flush=True)
        if self._show:
            print(*text_diff(difference, self._store), sep="\n")

    def unused(self) -> list[str]:
        """The exceptions that cover none of the differences, for people."""
        return [
            f"the exception for {entry.cases} ({entry.reason}) covers nothing: remove it"
            for number, entry in enumerate(self._exemptions)
            if number not in self._used
        ]


def compare(options: argparse.Namespace) -> int:
    """Print what differs from the recorded hashes; 1 if anything does that is no exception."""
    old, new, store = Hashes.read(options.folder), Hashes(), TextStore(options.texts)
    for package, version in package_versions().items():
        if (before := old.versions.get(package)) != version:
            print(f"recorded with {package} {before}, this is {version}")
    report, wanted = Report(store, options.show), chosen_keys(options)
    for difference in header_differences(old.headers, header_hashes()):
        report.add(difference)
    keys = [key for key in wanted if key in old]
    for key, found in observed(keys, options.jobs, options.texts, not options.without_code):
        new.add(key, found, store)
        for difference in differences(old, new, key, found, store):
            report.add(difference)
    if len(keys) < len(wanted):
        print(f"{len(wanted) - len(keys)} cases and targets were not recorded")
    if not (options.only or options.quick):
        print(*report.unused(), sep="\n")
    print(f"{len(keys)} cases and targets compared: {report.count} differences")
    return 1 if report.count or not keys else 0


def main(arguments: list[str] | None = None) -> int:
    """Record or compare."""
    options = parser().parse_args(arguments)
    return record(options) if options.command == "record" else compare(options)


if __name__ == "__main__":
    sys.exit(main())
