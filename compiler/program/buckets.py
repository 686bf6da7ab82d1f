"""Buckets: sizes of symbolic dimensions to which the inputs of runs are padded."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from operator import index
from typing import SupportsIndex

from compiler.errors import ShapeError
from compiler.program.signature import ValueType
from compiler.support.arguments import LARGEST_SIZE

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Buckets:
    """Sizes by symbol in ascending order, and the symbol of each axis of the inputs, or None."""

    sizes: Mapping[str, Sequence[int]]
    axes: Mapping[str, tuple[str | None, ...]]

    @classmethod
    def of(cls, buckets: Mapping[str, Sequence[int]], inputs: Sequence[ValueType]) -> "Buckets":
        """The buckets of a model's inputs; an unnamed dimension is written `input.axis`.

        Raises ShapeError for a symbol that no input has, and for sizes below 1 or above 2**31 - 1.
        """
        axes = {type.name: open_dimensions(type) for type in inputs if type.shape is not None}
        open_symbols = {symbol for symbols in axes.values() for symbol in symbols if symbol}
        for symbol in buckets:
            if symbol not in open_symbols:
                raise ShapeError(
                    f"buckets are given for the dimension {symbol!r}; the model's open dimensions"
                    f" are {', '.join(sorted(open_symbols)) or 'none'}"
                )
        return cls({symbol: _checked(symbol, sizes) for symbol, sizes in buckets.items()}, axes)

    def shapes_of(self, shapes: Mapping[str, Shape]) -> dict[str, Shape] | None:
        """The shapes of the bucket for inputs, or None if there is none.

        Segments that read other tensors than the model's inputs have none.
        """
        if not self.sizes or not shapes.keys() <= self.axes.keys():
            return None
        padded_shapes: dict[str, Shape] = {}
        for name, shape in shapes.items():
            pairs = zip(self.axes[name], shape, strict=True)
            padded = [self._size(symbol, size) for symbol, size in pairs]
            if None in padded:
                return None
            padded_shapes[name] = tuple(size for size in padded if size is not None)
        return padded_shapes

    def _size(self, symbol: str | None, size: int) -> int | None:
        if symbol is None or symbol not in self.sizes:
            return size
        return next((bucket for bucket in self.sizes[symbol] if bucket >= size), None)

    def examples(self, shapes: Mapping[str, Shape]) -> list[dict[str, Shape]]:
        """The shapes of a bucket with smaller dimensions: half, of the next bucket, or one less.

        By half, sizes computed from a dimension differ also where strides round one away. A model
        may take multiples of a number only, which other buckets are.
        """
        ways: list[Callable[[str, int], int]] = [
            lambda symbol, size: (size + 1) // 2,
            lambda symbol, size: max((n for n in self.sizes[symbol] if n < size), default=1),
            lambda symbol, size: size - 1,
        ]
        return [self._with(shapes, smaller) for smaller in ways]

    def _with(
        self, shapes: Mapping[str, Shape], smaller: Callable[[str, int], int]
    ) -> dict[str, Shape]:
        return {
            name: tuple(
                max(1, smaller(symbol, size)) if symbol and symbol in self.sizes else size
                for symbol, size in zip(self.axes[name], shape, strict=True)
            )
            for name, shape in shapes.items()
        }

    @property
    def names(self) -> dict[str, list[str]]:
        """The name of each dimension of the inputs, empty for sizes."""
        return {name: [symbol or "" for symbol in axes] for name, axes in self.axes.items()}

    def all_sizes(self) -> list[dict[str, int]]:
        """The size of each symbol in every combination of buckets."""
        combinations = product(*self.sizes.values())
        return [dict(zip(self.sizes, sizes, strict=True)) for sizes in combinations]


def _checked(symbol: str, sizes: Iterable[object]) -> list[int]:
    """The sizes of a symbol in ascending order, each once."""
    values = [*sizes]
    exact = [index(n) for n in values if isinstance(n, SupportsIndex) and not isinstance(n, bool)]
    if not values or len(exact) < len(values) or min(exact) < 1 or max(exact) > LARGEST_SIZE:
        raise ShapeError(
            f"the buckets {values} of {symbol!r} need whole sizes above 0, at most {LARGEST_SIZE}"
        )
    return sorted({*exact})


def open_dimensions(type: ValueType) -> tuple[str | None, ...]:
    """The symbol of each axis: None for a size, `input.axis` for an unnamed dimension."""
    return tuple(
        None if isinstance(size, int) else size or f"{type.name}.{axis}"
        for axis, size in enumerate(type.shape or ())
    )
