"""Operators of users for the command line: files and modules that register them."""

import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from runpy import run_path

from compiler.errors import ArgumentError
from compiler.net.operators import OPERATORS
from compiler.net.operators.registration import REGISTERED
from compiler.support.user_files import located


def load_operators(names: Sequence[str]) -> None:
    """Execute each `FILE.py`, or import each module, to register the operators in it.

    Raises ArgumentError for a name that is neither, for code that fails, and for code that
    registers nothing.
    """
    for name in names:
        is_file = name.endswith(".py")
        if is_file and not Path(name).is_file():
            raise ArgumentError(f"--operators {name}: there is no such file")
        # as `python FILE` and `python -m MODULE` do, but last: it may hide no installed package
        sys.path.append(str(Path(name).resolve().parent) if is_file else str(Path.cwd()))
        registered = {operator: OPERATORS[operator] for operator in REGISTERED}
        imported = name in sys.modules
        try:
            run_path(name) if is_file else import_module(name)
        except (Exception, SystemExit) as error:
            if isinstance(error, ModuleNotFoundError) and f"{name}.".startswith(f"{error.name}."):
                message = "there is no such module; the name of a file ends in .py"
            else:
                message = f"it fails: {type(error).__name__}: {located(error)}"
            raise ArgumentError(f"--operators {name}: {message}") from error
        if not imported and registered == {
            operator: OPERATORS[operator] for operator in REGISTERED
        }:
            raise ArgumentError(
                f"--operators {name}: it registers no operator: it must call"
                " compiler.net.operators.registration.register (docs/adding-an-operator.md)"
            )
