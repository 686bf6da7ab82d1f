"""The events that `compile(progress=...)` is called with."""

from compiler.progress import *  # noqa: F403
