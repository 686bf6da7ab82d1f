"""The registry of host operators: what makes the function of a node."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import onnx

from compiler.net.graph import Value

HostValue = Any
"""An array, a list of them (a sequence) or of dictionaries (maps), or None (an empty optional)."""


class HostMap(dict[Any, Any]):
    """A dictionary whose values have a dtype, also if there are none."""

    def __init__(self, items: Mapping[Any, Any], dtype: str):
        """Keep the items; `dtype` is `str_` for texts."""
        super().__init__(items)
        self.values_dtype = dtype


class HostSequence(list[Any]):
    """The items of a sequence, which have a dtype also if there are none; empty if nobody knows.

    Its `constants` are the items as nodes compute with them, once they are made.
    """

    def __init__(self, items: Iterable[Any], dtype: str, constants: list[Value] | None = None):
        """Take the items; `dtype` is `str_` for texts."""
        super().__init__(items)
        self.items_dtype = dtype
        self.constants = constants


HostFunction = Callable[..., Sequence[HostValue]]
"""The outputs of a node for its inputs by position, None for omitted ones."""


@dataclass(frozen=True, slots=True)
class HostCall:
    """A node without its inputs.

    Strings among `attributes` are `str`, tensors are arrays; `wanted` says which outputs are used,
    `opset` is the version of the node's domain that the model imports.
    """

    op_type: str
    opset: int
    attributes: Mapping[str, Any]
    wanted: Sequence[bool]
    proto: onnx.NodeProto


HostFactory = Callable[[HostCall], HostFunction | None]
"""Makes the function of a node; None where the interpreter of the frontend computes it.

Raises ValueError for attributes that are invalid, and Unsupported for a form of the operator that
has no implementation.
"""


@dataclass(frozen=True, slots=True)
class HostOperator:
    """An operator with an implementation on the host, from an opset of its domain on."""

    domain: str
    op_type: str
    first: int
    factory: HostFactory


HOST_OPERATORS: dict[tuple[str, str], HostOperator] = {}
"""Every operator that has a function on the host, by domain and name."""


def host_operator(
    *names: str, domain: str = "", first: int = 1
) -> Callable[[HostFactory], HostFactory]:
    """Register the factory of operators."""

    def register(factory: HostFactory) -> HostFactory:
        for name in names:
            HOST_OPERATORS[domain, name] = HostOperator(domain, name, first, factory)
        return factory

    return register
