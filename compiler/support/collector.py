"""Python's garbage collector, which goes over a growing IR again and again."""

import gc
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def collector_paused() -> Generator[None, None, None]:
    """Disable the collector, which takes as long as importing a model or a pass on it.

    It collects their garbage afterwards.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
