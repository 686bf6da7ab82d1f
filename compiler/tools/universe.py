"""Makes dialects and passes known to `xdsl-opt` and `xdsl-gui` (entry point `xdsl.universe`)."""

from collections.abc import Callable

from xdsl.passes import ModulePass
from xdsl.universe import Universe

from compiler.ir.dataflow_control import Dataflow
from compiler.ir.taskflow_control import Taskflow
from compiler.passes import PASSES


def _constant(kind: type[ModulePass]) -> Callable[[], type[ModulePass]]:
    # a lambda within the comprehension would return the last kind for all names
    return lambda: kind


FLOWLOOM = Universe(
    all_dialects={"dataflow": lambda: Dataflow, "taskflow": lambda: Taskflow},
    all_passes={name: _constant(kind) for name, kind in PASSES.items()},
)
"""The project's dialects and passes."""
