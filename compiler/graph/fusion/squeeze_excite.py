"""Matching squeeze-and-excitation (Hu et al. 2018): channels scaled by a function of means."""

from dataclasses import dataclass
from math import prod

from compiler.graph.network import Network, Node, producers_of, users_of
from compiler.ir.nodes import GROUP
from compiler.net.operators import KINDS, Kind

CLUSTER_ELEMENTS, CLUSTER_WEIGHTS = 1 << 18, 1 << 16
"""Elements of an image, and weights of a convolution, up to which few blocks take less time than
four launches: on an H100 MobileNetV3 took 167 us with all of its eight in one kernel, 160 with
none."""

MEANS = ("GlobalAveragePool", "ReduceMean")
"""The operators that compute the means of an image's channels."""


@dataclass(frozen=True)
class SqueezeExcite:
    """x * gate of an image x; values and operators are the network's numbers.

    `first` and `second` are the pointwise convolutions of the means, `hidden` the value that the
    second one reads; `operators` are all of them, in order.
    """

    image: int
    first: int
    hidden: int
    second: int
    gate: int
    operators: tuple[int, ...]


def find_squeeze_excites(network: Network) -> list[SqueezeExcite]:
    """Those of a network whose intermediate values no other operator reads."""
    finder = _Finder(network)
    matches = (finder.at(i) for i, node in enumerate(network.operators) if node.type == "Mul")
    return [match for match in matches if match is not None]


def fits_one_kernel(network: Network, match: SqueezeExcite) -> bool:
    """Whether one kernel of few blocks is faster than one for each step."""
    shape = network.values[match.image].shape
    few = prod(shape[1:]) <= CLUSTER_ELEMENTS
    return few and shape[1] * network.values[match.hidden].shape[1] <= CLUSTER_WEIGHTS


@dataclass(frozen=True)
class _Chain:
    """A convolution on one pixel an image, and the elementwise operators that follow."""

    convolution: int
    operators: frozenset[int]


class _Finder:
    def __init__(self, network: Network):
        self.network = network
        self.users, self.producers = users_of(network), producers_of(network)
        self.outputs = frozenset(network.outputs)

    def at(self, scaled: int) -> SqueezeExcite | None:
        """The squeeze-and-excitation that ends with a Mul, if there is one."""
        node = self.network.operators[scaled]
        for image, gate in (node.inputs, node.inputs[::-1]):
            if image is not None and gate is not None and self.is_gate(gate, image):
                match = self.assemble(scaled, image, gate)
                if match is not None:
                    return match
        return None

    def is_gate(self, gate: int, image: int) -> bool:
        """Whether a value has one element for each channel of an image."""
        shape, wide = self.network.values[gate].shape, self.network.values[image].shape
        return len(wide) > 2 and prod(wide[2:]) > 1 and shape == (*wide[:2], *_ones(wide))

    def assemble(self, scaled: int, image: int, gate: int) -> SqueezeExcite | None:
        """The match of a Mul, or None if other operators compute its gate."""
        second = self.chain(gate)
        hidden = self.network.operators[second.convolution].inputs[0] if second else None
        first = self.chain(hidden) if hidden is not None else None
        if second is None or first is None or hidden is None:
            return None
        mean = self.producers.get(self.network.operators[first.convolution].inputs[0] or 0)
        if mean is None or not self.is_mean(self.network.operators[mean], image):
            return None
        operators = {mean, scaled} | first.operators | second.operators
        if not self.are_alone(operators, scaled):
            return None
        return SqueezeExcite(
            image=image,
            first=first.convolution,
            hidden=hidden,
            second=second.convolution,
            gate=gate,
            operators=tuple(sorted(operators)),
        )

    def chain(self, value: int) -> _Chain | None:
        """The pointwise convolution from which a value is computed element by element."""
        pending = [value]
        members = set[int]()
        convolutions = set[int]()
        shape = self.network.values[value].shape
        while pending:
            producer = self.producers.get(pending.pop())
            if producer is None or producer in members:
                continue
            node = self.network.operators[producer]
            if node.type == GROUP:
                continue
            members.add(producer)
            if node.type == "Conv":
                convolutions.add(producer)
            elif KINDS.get(node.type) is Kind.ELEMENTWISE and self.shape(node) == shape:
                pending += [v for v in node.inputs if v is not None]
            else:
                return None
        (convolution, *others) = convolutions or (None,)
        if convolution is None or others or not self.is_pointwise(convolution):
            return None
        return _Chain(convolution, frozenset(members))

    def is_pointwise(self, convolution: int) -> bool:
        """Whether a convolution of one group and tap has one pixel an image, in float32."""
        node = self.network.operators[convolution]
        weight = self.network.values[node.inputs[1] or 0].shape
        single = prod(weight[2:]) == 1 and node.attributes["group"] == 1
        image = self.network.values[node.inputs[0] or 0]
        wide = image.dtype == "float32"
        return wide and single and prod(image.shape[2:]) == prod(self.shape(node)[2:]) == 1

    def is_mean(self, node: Node[int], image: int) -> bool:
        """Whether an operator computes the means of the channels of an image."""
        shape = self.network.values[image].shape
        if node.type not in MEANS or node.inputs[0] != image:
            return False
        return self.shape(node) == (*shape[:2], *_ones(shape))

    def are_alone(self, operators: set[int], last: int) -> bool:
        """Whether no other operator reads what these compute, the last one's result aside."""
        values = [v for i in operators - {last} for v in self.network.operators[i].outputs]
        outside = any(v in self.outputs or not operators.issuperset(self.users[v]) for v in values)
        return not outside

    def shape(self, node: Node[int]) -> tuple[int, ...]:
        """The shape of an operator's first result."""
        return self.network.values[node.outputs[0]].shape


def _ones(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(1 for _ in shape[2:])
