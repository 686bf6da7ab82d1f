"""Which operators of well-known networks become one kernel."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.ir import SSAValue

from compiler.graph.targets import set_target
from tests.apply_passes import nodes_of, run
from tests.graphs import GraphBuilder
from tests.strategies import Model


class Writer(GraphBuilder):
    """Shortcuts for the networks below."""

    def random(self, *shape: int) -> SSAValue:
        """A random weight."""
        values = np.random.default_rng(len(self.weights)).uniform(-1, 1, shape)
        return self.weight(values.astype(np.float32))

    def matmul(self, x: SSAValue, rows: int, inner: int, columns: int) -> SSAValue:
        """A MatMul with a weight, and a bias."""
        shape = (rows, columns)
        matmul = self.op("MatMul", x, self.random(inner, columns), shape=shape)
        return self.op("Add", matmul, self.random(columns))

    def conv(self, x: SSAValue) -> SSAValue:
        """A 3 by 3 convolution of a 1x4x8x8 image that keeps its shape."""
        return self.op("Conv", x, self.random(4, 4, 3, 3), shape=(1, 4, 8, 8), pads=[1] * 4)

    def model(self, shape: tuple[int, ...], *outputs: SSAValue) -> Model:
        """The finished model with one input `x`."""
        values = np.random.default_rng(7).uniform(-1, 1, shape).astype(np.float32)
        return Model(self.finish(*outputs), self.weights, {"x": values})


IMAGE = (1, 4, 8, 8)


def test_convolution_with_residual_takes_the_later_producer():
    b = Writer()
    x = b.input("x", IMAGE)
    first = b.op("Relu", b.conv(x))
    y = b.op("Relu", b.op("Add", first, b.conv(first)))
    groups = nodes_of(run(b.model(IMAGE, y), "fuse-operators"))
    assert groups == [["Conv", "Relu"], ["Conv", "Add", "Relu"]]


def two_convolutions() -> Model:
    b = Writer()
    x = b.input("x", IMAGE)
    return b.model(IMAGE, b.op("Add", b.conv(x), b.conv(x)))


def test_a_sum_does_not_make_one_convolution_wait_for_the_other():
    groups = nodes_of(run(two_convolutions(), "fuse-operators"))
    assert sorted(groups) == [["Add"], ["Conv"], ["Conv"]]


def multiplied_projections(columns: int, target: str) -> list[list[str]]:
    """The groups of (x U) * (x V)."""
    b = Writer()
    x, shape = b.input("x", (2048, 128)), (2048, columns)
    factors = [b.op("MatMul", x, b.random(128, columns), shape=shape) for _ in range(2)]
    model = b.model((2048, 128), b.op("Mul", *factors))
    set_target(model.module, target)
    return sorted(nodes_of(run(model, "fuse-operators")))


def test_one_matmul_waits_for_the_other_where_both_fill_the_device():
    together, apart = [["MatMul"], ["MatMul", "Mul"]], [["MatMul"], ["MatMul"], ["Mul"]]
    assert multiplied_projections(1056, "cuda:sm_90") == together
    assert multiplied_projections(1048, "cuda:sm_90") == apart
    assert multiplied_projections(1056, "cpu") == apart


def test_a_longer_path_is_an_option_and_logged(caplog: pytest.LogCaptureFixture):
    groups = nodes_of(run(two_convolutions(), "fuse-operators{allow-longer-path=true}"))
    assert groups == [["Conv"], ["Conv", "Add"]]
    assert "the critical path grows from" in caplog.text


def test_decomposed_gelu():
    b = Writer()
    h = b.matmul(b.input("x", (4, 8)), 4, 8, 6)
    e = b.op("Add", b.op("Erf", b.op("Div", h, b.constant(1.4))), b.constant(1))
    y = b.matmul(b.op("Mul", b.op("Mul", h, e), b.constant(0.5)), 4, 6, 8)
    gelu = ["MatMul", "Add", "Div", "Erf", "Add", "Mul", "Mul"]
    assert nodes_of(run(b.model((4, 8), y), "fuse-operators")) == [gelu, ["MatMul", "Add"]]


def test_gelu_through_reshapes():
    b = Writer()
    h = b.matmul(b.input("x", (4, 8)), 4, 8, 6)
    h = b.op("Reshape", h, b.constant([1, 4, 6], "int64"), shape=(1, 4, 6))
    c = b.op("Mul", b.op("Pow", h, b.constant(3)), b.constant(0.04))
    t = b.op("Tanh", b.op("Add", h, c))
    y = b.op("Mul", b.op("Mul", h, b.constant(0.5)), b.op("Add", t, b.constant(1)))
    (group,) = nodes_of(run(b.model((4, 8), y), "fuse-operators"))
    assert group.count("Reshape") == 1
    assert len(group) == 10


def test_decomposed_rms_normalization_keeps_its_sum():
    b = Writer()
    x = b.input("x", (4, 8))
    s = b.op("Add", x, b.random(4, 8))
    axes = b.constant([-1], "int64")
    mean = b.op("ReduceMean", b.op("Pow", s, b.constant(2)), axes, shape=(4, 1), keepdims=1)
    root = b.op("Sqrt", b.op("Add", mean, b.constant(1e-5)))
    y = b.op("Mul", b.op("Div", s, root), b.random(8))
    groups = nodes_of(run(b.model((4, 8), y, b.matmul(s, 4, 8, 3)), "fuse-operators"))
    assert ["Add", "Pow", "ReduceMean", "Add", "Sqrt", "Div", "Mul"] in groups
    assert len(groups) == 2


def test_layer_normalization_takes_the_residual_sum_along():
    b = Writer()
    x = b.input("x", (4, 8))
    s = b.op("Add", x, b.random(4, 8))
    n = b.op("LayerNormalization", s, b.random(8), shape=(4, 8))
    groups = nodes_of(run(b.model((4, 8), b.op("Mul", n, b.random(8)), s), "fuse-operators"))
    assert groups == [["Add", "LayerNormalization", "Mul"]]


def test_a_normalisation_takes_clipped_sums_along_as_it_takes_sums():
    b = Writer()
    value = b.op("Add", b.input("x", (4, 8)), b.random(4, 8))
    for _ in range(2):
        limits = b.constant(-1), b.constant(1)
        value = b.op("Add", b.op("Clip", value, *limits), b.random(4, 8))
    y = b.op("LayerNormalization", value, b.random(8), shape=(4, 8))
    (group,) = nodes_of(run(b.model((4, 8), y), "fuse-operators"))
    assert group == ["Add", "Clip", "Add", "Clip", "Add", "LayerNormalization"]


DECOMPOSED = ["ReduceMean", "Sub", "Pow", "ReduceMean", "Add", "Sqrt", "Div", "Mul"]


def normalised(axis: int, target: str, shape: tuple[int, ...] = (1, 8, 6, 4)) -> list[list[str]]:
    """The groups of a normalisation along an axis that is written with a mean and a variance."""
    b = Writer()
    x = b.input("x", shape)
    axes, kept = (
        b.constant([axis], "int64"),
        tuple(1 if i == axis else n for i, n in enumerate(shape)),
    )

    def mean(value: SSAValue) -> SSAValue:
        return b.op("ReduceMean", value, axes, shape=kept, keepdims=1)

    centred = b.op("Sub", x, mean(x))
    variance = b.op("Add", mean(b.op("Pow", centred, b.constant(2))), b.constant(1e-5))
    y = b.op("Mul", b.op("Div", centred, b.op("Sqrt", variance)), b.random(shape[1], 1, 1))
    model = b.model(shape, y)
    set_target(model.module, target)
    return nodes_of(run(model, "fuse-operators"))


@pytest.mark.parametrize("axis", [1, 2, 3])
def test_mean_and_variance_of_short_rows_are_one_kernel_on_gpus(axis: int):
    assert normalised(axis, "cuda:sm_90") == [DECOMPOSED]


def test_a_mean_of_few_terms_is_computed_once_for_its_row():
    assert normalised(3, "cuda:sm_90", (1, 8, 150_000, 8)) == [DECOMPOSED]


def test_mean_and_variance_of_long_rows_next_to_each_other_are_kernels_for_many_threads():
    assert len(normalised(1, "cuda:sm_90", (1, 2048, 2, 4))) > 1


def test_mean_and_variance_are_kernels_of_their_own_on_cpus():
    assert len(normalised(3, "cpu")) == 2


def test_a_variance_is_apart_where_others_read_the_centred_rows():
    b = Writer()
    x = b.input("x", (4, 8))
    axes = b.constant([1], "int64")
    centred = b.op("Sub", x, b.op("ReduceMean", x, axes, shape=(4, 1), keepdims=1))
    square = b.op("Pow", centred, b.constant(2))
    variance = b.op("ReduceMean", square, axes, shape=(4, 1), keepdims=1)
    model = b.model((4, 8), variance, b.matmul(centred, 4, 8, 3))
    set_target(model.module, "cuda:sm_90")
    groups = nodes_of(run(model, "fuse-operators"))
    assert ["ReduceMean", "Sub"] in groups


def looked_up(rows: int, width: int, target: str) -> list[list[str]]:
    """The groups of a sum of rows of a table at indices that five operators compute."""
    b = Writer()
    x, index = b.input("x", (rows, 8)), b.input("index", (rows, 1), "int64")
    for number in range(5):
        index = b.op(
            "Mul" if number % 2 else "Add", index, b.constant([[3, 5]], "int64"), shape=(rows, 2)
        )
    table = b.random(64, width)
    selected = b.op("Gather", table, index, shape=(rows, 2, width), axis=0)
    kept = b.op("Mul", selected, b.random(rows, 2, 1))
    axes = b.constant([1], "int64")
    total = b.op("ReduceSum", kept, axes, shape=(rows, width), keepdims=0)
    values = np.random.default_rng(7).uniform(-1, 1, (rows, 8)).astype(np.float32)
    inputs: dict[str, NDArray[Any]] = {"x": values, "index": np.zeros((rows, 1), np.int64)}
    model = Model(b.finish(b.op("Relu", x), total), b.weights, inputs)
    set_target(model.module, target)
    return sorted(nodes_of(run(model, "fuse-operators")))


def test_gpus_compute_indices_again_where_that_takes_less_than_a_launch():
    one, apart = (looked_up(32, width, "cuda:sm_90") for width in (2, 1 << 15))
    indices = ["Add", "Mul", "Add", "Mul", "Add"]
    assert [*indices, "Gather", "Mul", "ReduceSum"] in one
    assert indices in apart
    assert indices in looked_up(32, 2, "cpu")


def argmax(elements: int, target: str) -> list[list[str]]:
    """The groups of a one-hot vector of each row, which two operators read as integers."""
    b = Writer()
    x = b.input("x", (elements, 8))
    best = b.op(
        "ArgMax", x, shape=(elements, 1), dtype="int64", axis=1, keepdims=1, select_last_index=0
    )
    one = b.op("Equal", best, b.constant(range(8), "int64"), shape=(elements, 8), dtype="bool")
    wide = b.op("Cast", one, shape=(elements, 8), dtype="int64", to=7)
    scanned = b.op(
        "CumSum", wide, shape=(elements, 8), dtype="int64", axis=0, exclusive=0, reverse=0
    )
    model = b.model((elements, 8), b.op("Mul", scanned, wide))
    set_target(model.module, target)
    return sorted(nodes_of(run(model, "fuse-operators")))


def test_few_bytes_are_widened_where_they_are_made():
    assert ["ArgMax", "Equal", "Cast"] in argmax(128, "cuda:sm_90")
    assert ["ArgMax", "Equal"] in argmax(1 << 14, "cuda:sm_90")
    assert ["ArgMax", "Equal"] in argmax(128, "cpu")


def interpolated(terms: int, target: str) -> list[list[str]]:
    """The groups of a sum of rows looked up at cells, by the weights of places inside cells."""
    b = Writer()
    x = b.input("x", (64, 1, terms))
    cell = b.op("Floor", x, shape=(64, 1, terms))
    inside = b.op("Sub", x, cell, shape=(64, 1, terms))
    corner = b.constant(np.arange(16 * terms).reshape(16, terms) % 2 == 0, "bool")
    one = b.op("Sub", b.constant([1.0], "float32"), inside, shape=(64, 1, terms))
    weights = b.op("Where", corner, inside, one, shape=(64, 16, terms), dtype="float32")
    axes = b.constant([2], "int64")
    weight = b.op("ReduceProd", weights, axes, shape=(64, 16, 1), keepdims=1)
    places = b.op("Cast", cell, shape=(64, 1, terms), dtype="int64", to=7)
    sides = [
        b.op("Slice", places, shape=(64, 1, 1), dtype="int64", start=[0, 0, i], step=[1] * 3,
             size=[64, 1, 1]) for i in range(2)
    ]  # fmt: skip
    index = b.op("Mul", *sides, shape=(64, 1, 1), dtype="int64")
    index = b.op("Add", index, b.constant(range(16), "int64"), shape=(64, 1, 16), dtype="int64")
    index = b.op("Reshape", index, shape=(64, 16), dtype="int64")
    rows = b.op("Gather", b.random(64, 2), index, shape=(64, 16, 2), axis=0)
    kept = b.op("Mul", rows, weight)
    total = b.op("ReduceSum", kept, b.constant([1], "int64"), shape=(64, 2), keepdims=0)
    model = b.model((64, 1, terms), total)
    set_target(model.module, target)
    return nodes_of(run(model, "fuse-operators"))


def test_gpus_compute_reductions_of_few_terms_where_they_are_read():
    assert len(interpolated(3, "cuda:sm_90")) == 1
    for terms, target in ((9, "cuda:sm_90"), (3, "cpu")):
        assert any(group[-1] == "ReduceProd" for group in interpolated(terms, target))


def halves(target: str, joined: bool) -> list[list[str]]:
    """The groups of a Mul of the halves of rows, both parts of one tensor."""
    b = Writer()
    x = b.input("x", (64, 32))
    other = b.op("Sigmoid", x)
    whole = b.op("Concat", x, other, shape=(64, 64), axis=1) if joined else b.op("Exp", other)
    middle = 32 if joined else 16
    parts = [
        b.op("Slice", whole, shape=(64, middle), start=[0, at], step=[1, 1], size=[64, middle])
        for at in (0, middle)
    ]
    model = b.model((64, 32), b.op("Mul", *parts))
    set_target(model.module, target)
    return nodes_of(run(model, "fuse-operators"))


def test_gpus_take_along_what_several_operators_of_a_kernel_read():
    assert halves("cuda:sm_90", False) == [["Sigmoid", "Exp", "Slice", "Slice", "Mul"]]
    assert len(halves("cuda:sm_90", True)) > 1
    assert len(halves("cpu", False)) > 1


def test_a_contraction_has_no_reduction_of_few_terms_in_its_kernel():
    b = Writer()
    x = b.input("x", (16, 64, 3))
    most = b.op("ReduceMax", x, b.constant([2], "int64"), shape=(16, 64), keepdims=0)
    y = b.op("Add", b.matmul(b.random(16, 32), 16, 32, 64), most)
    model = b.model((16, 64, 3), y)
    set_target(model.module, "cuda:sm_90")
    assert sorted(nodes_of(run(model, "fuse-operators"))) == [
        ["MatMul", "Add", "Add"],
        ["ReduceMax"],
    ]


def test_masked_softmax():
    b = Writer()
    x = b.input("x", (4, 8))
    scaled = b.op("Add", b.op("Mul", x, b.constant(0.1)), b.random(1, 8))
    y = b.op("Softmax", scaled, axis=-1)
    assert nodes_of(run(b.model((4, 8), y), "fuse-operators")) == [["Mul", "Add", "Softmax"]]


def test_a_web_of_elementwise_operators_with_two_results():
    b = Writer()
    x = b.input("x", (1, 8))
    forget, reset = b.op("Sigmoid", x), b.op("Sigmoid", b.random(1, 8))
    state = b.op("Add", b.op("Mul", forget, x), b.op("Sub", b.constant(1), forget))
    hidden = b.op("Mul", reset, b.op("Tanh", state))
    (group,) = nodes_of(run(b.model((1, 8), state, hidden), "fuse-operators"))
    assert len(group) == 7


def test_a_contraction_inside_a_web_stays_apart():
    """Relu and the last Add may not share a group: the MatMul between them reads the Relu."""
    b = Writer()
    x = b.input("x", (4, 4))
    r = b.op("Relu", x)
    y = b.op("Softmax", b.matmul(r, 4, 4, 4), axis=0)
    groups = nodes_of(run(b.model((4, 4), b.op("Add", r, y)), "fuse-operators"))
    assert groups == [["Relu"], ["MatMul", "Add"], ["Softmax", "Add"]]


def test_a_result_that_others_wait_for_is_not_held_up():
    """The sum depends on a slow MatMul; other users of the Relu must not wait for that."""
    b = Writer()
    x = b.input("x", (256, 256))
    r = b.op("Relu", b.op("Neg", x))
    slow = b.op("Transpose", b.matmul(x, 256, 256, 256), perm=[1, 0])
    outputs = b.op("Add", slow, r), b.matmul(r, 256, 256, 1)
    groups = nodes_of(run(b.model((256, 256), *outputs), "fuse-operators"))
    assert ["Neg", "Relu"] in groups
    assert ["Transpose", "Add"] in groups


def test_a_path_through_later_operators_does_not_grow():
    b = Writer()
    x = b.input("x", IMAGE)
    total = b.op("Add", b.conv(x), b.conv(x))
    groups = nodes_of(run(b.model(IMAGE, b.conv(total)), "fuse-operators"))
    assert sorted(groups) == [["Add"], ["Conv"], ["Conv"], ["Conv"]]


def test_no_group_waits_for_a_view_of_its_own_result():
    """Add uses the Relu through reshapes that stay outside."""
    b = Writer()
    r = b.op("Relu", b.input("x", (4, 4)))
    flat = b.op("Reshape", r, b.constant([2, 8], "int64"), shape=(2, 8))
    back = b.op("Reshape", flat, b.constant([4, 4], "int64"), shape=(4, 4))
    y = b.op("Add", b.op("Neg", r), back)
    assert nodes_of(run(b.model((4, 4), y), "fuse-operators")) == [["Relu", "Neg"], ["Add"]]


def test_a_result_that_is_copied_is_written_in_any_case():
    """The Relu's result is part of one Concat's and is copied into the other's."""
    b = Writer()
    x = b.input("x", (4, 4))
    m = b.op("MatMul", x, b.random(4, 4), shape=(4, 4))
    r = b.op("Relu", m)
    rows = [b.op("Concat", r, b.op(type, x), shape=(8, 4), axis=0) for type in ("Neg", "Abs")]
    outputs = [b.op("MatMul", both, b.random(4, 2), shape=(8, 2)) for both in rows]
    model = b.model((4, 4), *outputs, b.op("Transpose", m, perm=[1, 0]))
    groups = nodes_of(run(model, "fuse-operators"))
    assert ["Identity"] in groups
    assert ["MatMul", "Relu"] in groups


def test_a_mean_that_others_need_is_not_buried():
    b = Writer()
    x = b.input("x", (4, 8))
    mean = b.op("ReduceMean", x, b.constant([1], "int64"), shape=(4, 1), keepdims=1)
    model = b.model((4, 8), b.op("Sub", x, mean), mean)
    assert nodes_of(run(model, "fuse-operators")) == [["ReduceMean"], ["Sub"]]


def test_options():
    b = Writer()
    x = b.input("x", (4, 8))
    h = b.matmul(b.op("Relu", x), 4, 8, 6)
    y = b.op("Transpose", h, shape=(6, 4), perm=[1, 0])
    module, inputs = b.model((4, 8), y), ["Relu", "MatMul", "Add", "Transpose"]
    text = Model(module.module.clone(), module.weights, module.inputs)
    both = "fuse-operators{contraction-prologue=true injective-epilogue=true}"
    assert nodes_of(run(text, both)) == [inputs]
    assert nodes_of(run(module, "fuse-operators")) == [["Relu"], ["MatMul", "Add"], ["Transpose"]]


def test_a_view_is_shared_by_a_group_and_others():
    b = Writer()
    h = b.matmul(b.input("x", (4, 8)), 4, 8, 6)
    v = b.op("Unsqueeze", h, b.constant([0], "int64"), shape=(1, 4, 6))
    y = b.op("Softmax", v, axis=1)
    graph = run(b.model((4, 8), b.op("Relu", v), y), "fuse-operators")
    assert ["MatMul", "Add"] in [group[:2] for group in nodes_of(graph)]


@pytest.mark.parametrize(
    ("equation", "fused"), [("td,tkdh->tkh", True), ("td,tkdh->tdh", True), ("md,tkdh->mh", False)]
)
def test_matrices_that_an_einsum_reads_once_are_not_gathered_before(equation: str, fused: bool):
    """As the weights of a token's experts."""
    b = Writer()
    extents = {"t": 4, "d": 6, "k": 2, "h": 5, "m": 4}
    chosen = b.constant(np.arange(8).reshape(4, 2) % 3, "int64")
    gathered = b.op("Gather", b.random(3, 6, 5), chosen, shape=(4, 2, 6, 5), axis=0)
    shape = tuple(extents[x] for x in equation.partition("->")[2])
    y = b.op("Einsum", b.input("x", (4, 6)), gathered, shape=shape, equation=equation)
    groups = nodes_of(run(b.model((4, 6), y), "fuse-operators"))
    assert groups == ([["Gather", "Einsum"]] if fused else [["Gather"], ["Einsum"]])


def test_equal_groups_share_a_kernel():
    b = Writer()
    x = b.input("x", IMAGE)
    for _ in range(3):
        x = b.op("Relu", b.conv(x))
    graph = run(b.model(IMAGE, x), "fuse-operators")
    assert len({group.kernel for group in graph.groups}) == 1
