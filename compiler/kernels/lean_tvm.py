"""Lets a process of ours import TVM without the parts of it that no kernel here is made with.

They take half of the time. In a user's process TVM stays whole: the user may use it, too.
"""

import sys
from types import ModuleType

UNUSED = ("tvm.relax", "tvm.s_tir.meta_schedule", "tvm.s_tir.dlight")
"""Packages that TVM imports whenever it is imported, and does not use by itself."""


def leave_out_unused() -> None:
    """Put empty modules in place of what is unused, unless TVM has been imported already."""
    if "tvm" not in sys.modules:
        for name in UNUSED:
            sys.modules[name] = ModuleType(name)
