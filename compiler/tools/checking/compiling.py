"""Compilation of a module that checks itself."""

from collections.abc import Callable, Mapping
from typing import Any

from compiler.driver.build import Build
from compiler.passes.runner import watching
from compiler.tools.checking.groups import GroupStore
from compiler.tools.checking.module import CheckedModule


def checked_module(build: Callable[[], Build], options: Mapping[str, Any]) -> CheckedModule:
    """The module of a compilation, with the groups that its kernels are compared with."""
    store = GroupStore()
    with watching(store.watch):
        built = build()
    module = CheckedModule.of(built, options)
    module.groups = store
    return module
