"""Operators that users add to the table."""

from dataclasses import replace

from compiler.errors import ArgumentError
from compiler.net.operators import KINDS, OPERATORS, STRUCTURAL_INPUTS
from compiler.net.spec import OpSpec

REGISTERED: set[str] = set()
"""The names of the operators of users, such as `my.domain::Op`."""


def operator_name(domain: str, op_type: str) -> str:
    """The name in the table of an operator of a user; that of ONNX's domain is empty."""
    return f"{domain}::{op_type}" if domain else op_type


def register(name: str, entry: OpSpec) -> None:
    """Make an operator known to this process, by ONNX's name or as `my.domain::Op`.

    The frontend compiles nodes of it then, before any rule or function that the model has for it;
    a kernel needs a lowering of the same name, too. Another entry replaces one that was registered.
    Raises ArgumentError for an operator of the package, and for an entry without `evaluate`.
    """
    domain, colons, op_type = name.rpartition("::")
    if not op_type.isidentifier() or (colons and not domain):
        raise ArgumentError(f"{name!r} does not name an operator: write Op or my.domain::Op")
    if name in OPERATORS and name not in REGISTERED:
        raise ArgumentError(
            f"{name!r} is an operator of the package: give yours another name, or a domain"
        )
    if entry.evaluate is None:
        raise ArgumentError(
            f"the entry of {name!r} has no evaluate: give it a function of the operands in numpy,"
            " by which constants are folded and kernels are checked"
        )
    REGISTERED.add(name)
    OPERATORS[name] = replace(entry, domain=domain)
    KINDS[name] = entry.kind
    STRUCTURAL_INPUTS.pop(name, None)
    if entry.structural:
        STRUCTURAL_INPUTS[name] = entry.structural
