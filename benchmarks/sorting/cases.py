"""TopK, sorts and running sums to be measured, as groups of one operator."""

from dataclasses import dataclass

from compiler.kernels.group import Group, Node, TensorInfo


@dataclass(frozen=True)
class Sorting:
    """An operator along an axis; without a count it is a CumSum."""

    shape: tuple[int, ...]
    axis: int
    count: int = 0
    dtype: str = "float32"

    @property
    def title(self) -> str:
        """The operator and its sizes."""
        what = f"TopK of {self.count}" if self.count else "CumSum"
        return f"{what}, {' x '.join(map(str, self.shape))}, axis {self.axis}, {self.dtype}"

    @property
    def operator(self) -> Node[int]:
        """The operator on a tensor."""
        if self.count:
            return Node("TopK", {"axis": self.axis, "k": self.count}, (0,), (1, 2), "node")
        return Node("CumSum", {"axis": self.axis}, (0,), (1,), "node")

    @property
    def results(self) -> tuple[TensorInfo, ...]:
        """The results in order."""
        shape = list(self.shape)
        if not self.count:
            return (TensorInfo(self.dtype, tuple(shape)),)
        shape[self.axis] = self.count
        return TensorInfo(self.dtype, tuple(shape)), TensorInfo("int64", tuple(shape))

    def group(self) -> Group:
        """The operator as a group."""
        values = (TensorInfo(self.dtype, self.shape), *self.results)
        return Group(
            "sort", values, 1, (False,), {}, (self.operator,), tuple(self.operator.outputs)
        )
