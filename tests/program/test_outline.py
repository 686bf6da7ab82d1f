"""The division of nodes into steps."""

from hypothesis import given
from hypothesis import strategies as st

from compiler.program.outline import NodeUse, ProgramStep, outline_steps


def use(reads: str, writes: str, alone: bool = False) -> NodeUse:
    return NodeUse(frozenset(reads.split()), tuple(writes.split()), alone)


def test_nodes_without_hosts_are_one_segment():
    steps = outline_steps([use("x", "a"), use("a", "b"), use("x b", "y")], set(), ["y"])
    assert steps == [ProgramStep((0, 1, 2), False, ("x",), ("y",), ("x",))]


def test_a_host_node_splits_what_depends_on_it_from_the_rest():
    nodes = [use("x", "a"), use("a", "n", alone=True), use("n a", "y"), use("x", "z")]
    steps = outline_steps(nodes, set(), ["y", "z"])
    assert [(step.nodes, step.alone) for step in steps] == [
        ((0, 3), False),
        ((1,), True),
        ((2,), False),
    ]
    assert steps[0].writes == ("a", "z")
    assert {*steps[2].frees} == {"n", "a"}


def test_a_tensor_to_split_at_leaves_its_segment():
    nodes = [use("x", "k"), use("x k", "y")]
    assert len(outline_steps(nodes, set(), ["y"])) == 1
    steps = outline_steps(nodes, {"k"}, ["y"])
    assert [step.nodes for step in steps] == [(0,), (1,)]
    assert steps[1].reads == ("k", "x")


@st.composite
def bodies(draw: st.DrawFn) -> tuple[list[NodeUse], set[str], list[str]]:
    """Nodes in order, tensors to split at, and outputs."""
    made = ["x0", "x1"]
    nodes: list[NodeUse] = []
    for index in range(draw(st.integers(1, 12))):
        reads = draw(st.sets(st.sampled_from(made), min_size=1, max_size=3))
        writes = [f"t{index}.{i}" for i in range(draw(st.integers(1, 2)))]
        nodes.append(NodeUse(frozenset(reads), tuple(writes), draw(st.booleans())))
        made += writes
    names = made[2:]
    split_at = draw(st.sets(st.sampled_from(names)))
    return nodes, split_at, draw(st.lists(st.sampled_from(names), min_size=1, unique=True))


@given(bodies())
def test_steps_run_every_node_once_after_what_it_reads(
    body: tuple[list[NodeUse], set[str], list[str]],
):
    nodes, split_at, outputs = body
    steps = outline_steps(nodes, split_at, outputs)
    assert sorted(i for step in steps for i in step.nodes) == [*range(len(nodes))]
    present = {"x0", "x1"}
    for step in steps:
        assert present.issuperset(step.reads)
        assert {nodes[index].alone for index in step.nodes} == {step.alone}
        inside = set[str]()
        for index in step.nodes:
            assert nodes[index].reads <= {*step.reads} | inside
            inside |= {*nodes[index].writes} - split_at
        present |= {*step.writes}
        present -= {*step.frees}
    assert present.issuperset(outputs)
