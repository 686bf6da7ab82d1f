"""Which convolutions are patch embeddings, so that a GEMM of the patches computes them."""

from dataclasses import dataclass
from math import prod

from compiler.ir.dataflow import OperatorOp, WeightOp
from compiler.ir.layouts import BLOCK_BYTES
from compiler.ir.types import dtype_of, shape_of
from compiler.tensors.dtypes import numpy_dtype
from compiler.tensors.substitution import is_symbolic

FEWEST_ELEMENTS = 256
"""Elements of a patch from which on a GEMM is faster although the image has to be transposed: on
an H200 in fp16 ViT's patches of 768 elements take 9.4 us at batch 1 and 70 us at batch 16 as a
convolution, 3.3 and 9.4 us as a GEMM."""


@dataclass(frozen=True)
class Patches:
    """A batch of images, each divided evenly into a grid of patches."""

    batch: int
    channels: int
    grid: tuple[int, ...]
    patch: tuple[int, ...]

    @property
    def split_shape(self) -> tuple[int, ...]:
        """The images' shape with each spatial axis split into grid and patch."""
        pairs = [extent for pair in zip(self.grid, self.patch, strict=True) for extent in pair]
        return (self.batch, self.channels, *pairs)

    @property
    def permutation(self) -> tuple[int, ...]:
        """The permutation from `split_shape` to the order batch, grid, channels, patch."""
        axes = range(len(self.grid))
        return (0, *(2 + 2 * axis for axis in axes), 1, *(3 + 2 * axis for axis in axes))

    @property
    def matrix(self) -> tuple[int, int]:
        """The GEMM's operand: (patches, elements of a patch)."""
        return self.batch * prod(self.grid), self.channels * prod(self.patch)


def find_patches(op: OperatorOp) -> Patches | None:
    """The patches of a convolution whose stride is its kernel size (Dosovitskiy et al. 2021,
    section 3.1); None for other convolutions, and where a convolution is as fast.

    That is where channels fill whole blocks, which are read in place, or patches are small: an
    image with patches of one pixel is a matrix already.
    """
    if op.type_name != "Conv" or op["group"] != 1:
        return None
    (batch, channels, *image), (_, _, *kernel) = (shape_of(value.type) for value in op.inputs[:2])
    dilated = any(dilation != 1 for dilation in op["dilations"])
    rests = [extent % step for extent, step in zip(image, kernel, strict=True)]
    whole = not any(is_symbolic(rest) or rest for rest in rests)
    if op["strides"] != kernel or dilated or any(op["pads"]) or not whole:
        return None
    blocked = channels * numpy_dtype(dtype_of(op.inputs[0].type)).itemsize % BLOCK_BYTES == 0
    few = channels * prod(kernel) < FEWEST_ELEMENTS or prod(kernel) == 1
    computed = not isinstance(op.inputs[1].owner, WeightOp)
    grid = tuple(extent // step for extent, step in zip(image, kernel, strict=True))
    return None if blocked or few or computed else Patches(batch, channels, grid, tuple(kernel))
