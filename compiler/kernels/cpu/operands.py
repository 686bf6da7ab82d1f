"""The elements that the loop nests of a convolution multiply, and what they are summed in."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from tvm import tirx
from tvm.ir import Var

from compiler.kernels.cpu.planes import PlaneSource
from compiler.kernels.cpu.tiling import FLOAT_STORES, Stores
from compiler.kernels.tir.fusion import FusionContext
from compiler.kernels.tir.loops import FLOAT32, Arithmetic, vector_at


class ConvOperands(PlaneSource, Protocol):
    """The image, as elements of planes of `dtype`, and the packed weights.

    The weights of each tile of output channels begin with `head_rows` rows that `bias` reads.
    Positions in the weights count elements.
    """

    @property
    def dtype(self) -> str:
        """The type of the elements of planes, and of the sums."""
        ...

    @property
    def arithmetic(self) -> Arithmetic:
        """The multiplication and addition of elements."""
        ...

    @property
    def head_rows(self) -> int:
        """Rows in front of a tile's weights."""
        ...

    @property
    def reads_image(self) -> bool:
        """Whether the image is in memory as planes are: no launch need fill them."""
        ...

    @property
    def image_number(self) -> int | None:
        """Which of the group's reads the image is, perhaps in 16 bits; None if it is computed."""
        ...

    @property
    def panels(self) -> bool:
        """Whether a convolution of one tap reads its image as panels."""
        ...

    @property
    def stores(self) -> Stores:
        """The slots that results cost after they are summed."""
        ...

    def weight(self, weights: Var, position: Any) -> Any:
        """One weight."""
        ...

    def weights(self, weights: Var, position: Any, lanes: int) -> Any:
        """A vector of weights."""
        ...

    def bias(self, number: Any, weights: Var, head: Any) -> Any:
        """The summand of an output channel, whose column of the head begins at a position."""
        ...


@dataclass(frozen=True)
class FloatOperands:
    """Float32 weights and images, padded with zeros."""

    around: FusionContext

    dtype = "float32"
    arithmetic = FLOAT32
    head_rows = 0
    stores = FLOAT_STORES

    @property
    def panels(self) -> bool:
        """Whether the image is converted, which copying it into panels does by the way."""
        return self.around.is_converted(0)

    @property
    def image_number(self) -> int | None:
        """The read that the image is, as float32 or to be converted."""
        return self.around.stored_number(0)

    @property
    def reads_image(self) -> bool:
        """Whether no operator comes before the convolution."""
        return self.around.read_number(0) is not None

    @property
    def padding(self) -> Any:
        """Zero."""
        return tirx.const(0.0, "float32")

    def element(self, lead: Sequence[Any], row: Any, column: Any) -> Any:
        """An element of the image."""
        missing = self.around.rank - len(lead)
        return self.around.operand(0, [*lead, *[row, column][-missing:]])

    def weight(self, weights: Var, position: Any) -> Any:
        """One weight."""
        return tirx.BufferLoad(weights, [position])

    def weights(self, weights: Var, position: Any, lanes: int) -> Any:
        """A vector of weights."""
        return vector_at(weights, position, lanes)

    def bias(self, number: Any, weights: Var, head: Any) -> Any:
        """The bias of an output channel."""
        return self.around.bias([number])
