"""Processes that compile cases."""

import logging
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path

from tests.frozen.cases import is_network
from tests.frozen.hashes import Key
from tests.frozen.hooks import Observer
from tests.frozen.observe import Observed, observe
from tests.frozen.store import TextStore

CHUNK = 48
"""The node cases and targets that a process gets at once."""

REPORTED_SECONDS = 30
"""The seconds between two lines on the progress."""

_OBSERVERS: list[Observer] = []
"""The observer of a worker process."""


def start(folder: Path, machine_code: bool) -> None:
    """Make a process a worker."""
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    _OBSERVERS.append(Observer(TextStore(folder), machine_code))
    _OBSERVERS[0].install()


def work(keys: Sequence[Key]) -> list[tuple[Key, list[Observed]]]:
    """Compile cases in a worker."""
    return [(key, observe(*key, _OBSERVERS[0])) for key in keys]


def observed(
    keys: Sequence[Key], jobs: int, folder: Path, machine_code: bool = True
) -> Iterator[tuple[Key, list[Observed]]]:
    """The cases as `jobs` processes have compiled them, networks first; texts go to a folder."""
    nodes = [key for key in keys if not is_network(key[0])]
    chunks = [[key] for key in keys if is_network(key[0])]
    chunks += [nodes[i : i + CHUNK] for i in range(0, len(nodes), CHUNK)]
    count, began, reported = 0, time.monotonic(), time.monotonic()
    initial = folder, machine_code
    with ProcessPoolExecutor(jobs, get_context("spawn"), start, initial) as pool:
        futures = [pool.submit(work, chunk) for chunk in chunks]
        for future in as_completed(futures):
            count += len(future.result())
            yield from future.result()
            if time.monotonic() - reported > REPORTED_SECONDS:
                reported = time.monotonic()
                print(f"{count} of {len(keys)} after {reported - began:.0f} s", file=sys.stderr)
