"""The weights.bin of an exported project: an image of the packed weights in device memory."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

import numpy

from compiler.backends.base import Array
from compiler.backends.gpu.memory import layout
from compiler.progress import in_parts
from compiler.schedule.tasks import Schedule

WEIGHTS_HEADER = 256
"""Bytes before the weights in weights.bin."""


def device_layout(schedule: Schedule) -> tuple[dict[int, int], dict[str, int]]:
    """The offsets of weights and arenas in their blocks, and the bytes of both blocks."""
    offsets: dict[int, int] = {}
    sizes: dict[str, int] = {}
    for kind in ("weight", "arena"):
        allocations = [(i, a) for i, a in enumerate(schedule.allocations) if a.kind == kind]
        placed, sizes[kind] = layout(allocations)
        offsets |= placed
    return offsets, sizes


def weights_layout(schedule: Schedule) -> int:
    """A hash of the names, types and offsets of all weights, which a file of weights must match."""
    offsets, _ = device_layout(schedule)
    weights = [
        (a.name, a.dtype, a.shape, offsets[i])
        for i, a in enumerate(schedule.allocations)
        if a.kind == "weight"
    ]
    digest = hashlib.sha256(json.dumps(weights).encode()).digest()
    return int.from_bytes(digest[:8], "little")


def write_weights_image(path: Path, schedule: Schedule, weights: Mapping[str, Array]) -> None:
    """Write a header and the image of the weights in device memory."""
    offsets, sizes = device_layout(schedule)
    header = b"FLOWLOOM" + weights_layout(schedule).to_bytes(8, "little")
    with path.open("wb") as file:
        file.write((header + sizes["weight"].to_bytes(8, "little")).ljust(WEIGHTS_HEADER, b"\0"))
        every = [(i, a) for i, a in enumerate(schedule.allocations) if a.kind == "weight"]
        for index, allocation in in_parts(
            "write weights", every, lambda weight: weight[1].name, lambda weight: weight[1].nbytes
        ):
            file.seek(WEIGHTS_HEADER + offsets[index])
            data = numpy.ascontiguousarray(weights[allocation.name])
            file.write(data.reshape(-1).view(numpy.uint8).data)
        file.truncate(WEIGHTS_HEADER + sizes["weight"])
