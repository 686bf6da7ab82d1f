"""The zoo's and the field's networks by name: `NAME` or `zoo:NAME`, and `field:NAME`."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import onnx

from examples import field, light, zoo

if TYPE_CHECKING:
    from examples.zoo.export import Built

TOO_LARGE = ("gpt2large",)
"""Left out unless named: its file cannot be made in memory."""

_FIELD = "field:"


def usual(with_field: bool) -> list[str]:
    """The names of the zoo's models but the largest, or those of the field."""
    if with_field:
        return [f"{_FIELD}{name}" for name in field.names()]
    return [name for name in zoo.names() if name not in TOO_LARGE]


def every() -> list[str]:
    """The names of all networks."""
    return [*zoo.names(), *zoo.others(), *usual(with_field=True)]


def bare(name: str) -> str:
    """A name without its collection's."""
    return name.rpartition(":")[2]


def path(name: str) -> Path:
    """The file of a network; raises KeyError for an unknown name."""
    return _collection(name).path(bare(name))


def load(name: str) -> onnx.ModelProto:
    """A network with its weights, its graph's name without its collection's."""
    return light.load_file(path(name))


def random_inputs(name: str, model: onnx.ModelProto, seed: int) -> dict[str, light.Array]:
    """Inputs of a loaded network of that name."""
    return _collection(name).random_inputs(model, seed)


def builder(name: str) -> "Callable[[int], Built]":
    """The function that builds a network in PyTorch with example inputs, for a batch size."""
    if name.startswith(_FIELD):
        from examples.field.export import BUILDERS
    else:
        from examples.zoo.export import BUILDERS
    return BUILDERS[bare(name)]


def _collection(name: str) -> Any:
    return field if name.startswith(_FIELD) else zoo
