"""Which convolutions cut a plain image into patches, so that they are matrix products of these."""

from dataclasses import dataclass
from math import prod

from compiler.graph.attributes import integer, integers
from compiler.ir.dataflow import OperatorOp, WeightOp
from compiler.ir.layouts import BLOCK_BYTES
from compiler.ir.types import dtype_of, shape_of
from compiler.ir.values import numpy_dtype

FEWEST = 256
"""Elements of a patch from which on a product is worth moving the image for: on an H200 in fp16
ViT's patches of 768 elements take 9.4 us at batch 1 and 70 at batch 16 as a convolution's windows,
3.3 and 9.4 as a product's rows."""


@dataclass(frozen=True)
class Patches:
    """Images of some channels that are cut into a grid of patches without a rest."""

    batch: int
    channels: int
    grid: tuple[int, ...]
    patch: tuple[int, ...]

    @property
    def cut(self) -> tuple[int, ...]:
        """The images with each spatial axis as grid and patch."""
        pairs = [extent for pair in zip(self.grid, self.patch, strict=True) for extent in pair]
        return (self.batch, self.channels, *pairs)

    @property
    def permutation(self) -> tuple[int, ...]:
        """What brings the cut images' axes into the order batch, grid, channels, patch."""
        axes = range(len(self.grid))
        return (0, *(2 + 2 * axis for axis in axes), 1, *(3 + 2 * axis for axis in axes))

    @property
    def matrix(self) -> tuple[int, int]:
        """Patches, and elements of each."""
        return self.batch * prod(self.grid), self.channels * prod(self.patch)


def find_patches(op: OperatorOp) -> Patches | None:
    """The patches of a convolution whose windows meet but do not overlap (Dosovitskiy et al. 2021,
    section 3.1); None where its windows are not such, or are as fast.

    That is where channels fill whole blocks, which are read as they lie, or patches are small: one
    of a single pixel is a matrix already.
    """
    if op.type_name != "Conv" or integer(op, "group", 1) != 1:
        return None
    (batch, channels, *image), (_, _, *kernel) = (shape_of(value.type) for value in op.inputs[:2])
    strides = integers(op, "strides") or [1] * len(kernel)
    dilated = any(each != 1 for each in integers(op, "dilations") or ())
    whole = all(extent % step == 0 for extent, step in zip(image, kernel, strict=True))
    if strides != kernel or dilated or any(integers(op, "pads") or ()) or not whole:
        return None
    blocked = channels * numpy_dtype(dtype_of(op.inputs[0].type)).itemsize % BLOCK_BYTES == 0
    few = channels * prod(kernel) < FEWEST or prod(kernel) == 1
    computed = not isinstance(op.inputs[1].owner, WeightOp)
    grid = tuple(extent // step for extent, step in zip(image, kernel, strict=True))
    return None if blocked or few or computed else Patches(batch, channels, grid, tuple(kernel))
