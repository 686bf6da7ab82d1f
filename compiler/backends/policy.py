"""How a model uses GPU graphs: PyGraph's (2025) three parts, each of which is optional."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Self

from compiler.errors import ArgumentError


@dataclass(frozen=True, slots=True)
class GraphPolicy:
    """Which parts are used; a name in its text form is a part that is.

    `resident`: tensors between the segments of a dynamic module stay on the device, else the host
    copies them out and in. `indirection`: kernels may read the addresses of buffers that move from
    the device, else graphs are updated or buffers copied. `selective`: what is not faster as one
    graph is launched otherwise, else all schedules are whole graphs.
    """

    resident: bool = True
    indirection: bool = True
    selective: bool = True

    @classmethod
    def parse(cls, text: str) -> Self:
        """The policy of `all`, `none`, or parts with commas; ArgumentError for an unknown one."""
        names = [field.name for field in fields(cls)]
        if text in ("all", "none"):
            return cls(**dict.fromkeys(names, text == "all"))
        requested = [name.strip() for name in text.split(",")]
        if unknown := [name for name in requested if name not in names]:
            raise ArgumentError(
                f"graphs={text!r} names {unknown[0]!r}: it must be all, none, or some of"
                f" {','.join(names)}"
            )
        return cls(**{name: name in requested for name in names})

    def __str__(self) -> str:
        used = [name for name, on in asdict(self).items() if on]
        return ",".join(used) or "none"

    @property
    def executor_options(self) -> Mapping[str, Any]:
        """The options of GPU executors that it stands for."""
        return {} if self.indirection else {"indirection": False}
