"""A stranger's model: a module or a fitted estimator, its inputs, and which of their axes vary."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

Make = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]
"""An array of a shape."""

SIZES = {"b": (2, 1), "s": (24, 17)}
"""The sizes of each symbol: the ones of the export, and others."""


@dataclass(frozen=True)
class Feed:
    """An input: its shape, in which letters are sizes that vary, and how its numbers are made."""

    shape: tuple[int | str, ...]
    make: Make

    def array(self, generator: np.random.Generator, which: int) -> np.ndarray:
        """Random contents at the sizes of the export (0) or at the others (1)."""
        return self.make(generator, tuple(_size(n, which) for n in self.shape))

    @property
    def axes(self) -> dict[int, str]:
        """The symbols of the axes that vary."""
        return {i: n for i, n in enumerate(self.shape) if isinstance(n, str)}


@dataclass(frozen=True)
class Case:
    """A PyTorch module and its inputs by name."""

    module: Any
    feeds: Mapping[str, Feed]


def _size(size: int | str, which: int) -> int:
    return size if isinstance(size, int) else SIZES[size][which]


def floats(*shape: int | str) -> Feed:
    """Standard normal numbers."""
    return Feed(shape, lambda g, s: g.standard_normal(s).astype(np.float32))


def tokens(*shape: int | str, below: int = 100) -> Feed:
    """Whole numbers from 3 up: those below are special tokens."""
    return Feed(shape, lambda g, s: g.integers(3, below, s))


def mask(*shape: int | str) -> Feed:
    """Ones, then up to three zeros in each row."""
    return Feed(shape, _mask)


def ones(*shape: int | str) -> Feed:
    """Ones, as whole numbers."""
    return Feed(shape, lambda _, s: np.ones(s, np.int64))


def _mask(generator: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    kept = shape[-1] - generator.integers(0, 4, (*shape[:-1], 1))
    return (np.arange(shape[-1]) < kept).astype(np.int64)


def text(*others: str) -> dict[str, Feed]:
    """The ids and the mask of a text, and further inputs of its shape with whole numbers."""
    feeds = {"input_ids": tokens("b", "s"), "attention_mask": mask("b", "s")}
    return feeds | {name: tokens("b", "s") for name in others}


def image(size: int = 64, channels: int = 3) -> dict[str, Feed]:
    """A batch of square images."""
    return {"pixel_values": floats("b", channels, size, size)}


def sound(samples: int = 4000) -> dict[str, Feed]:
    """A batch of samples."""
    return {"input_values": floats("b", samples)}
