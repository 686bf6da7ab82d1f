"""The `taskflow` dialect: kernel launches on streams, ordered by tokens, over views of memory."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from struct import unpack

from xdsl.dialects.builtin import (
    I64,
    ArrayAttr,
    DenseArrayBase,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    SymbolNameConstraint,
    UnitAttr,
    i32,
)
from xdsl.ir import (
    Attribute,
    Operation,
    ParametrizedAttribute,
    Region,
    SSAValue,
    TypeAttribute,
)
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_attr_definition,
    irdl_op_definition,
    lazy_traits_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import HasParent, IsolatedFromAbove, NoTerminator, SymbolOpInterface
from xdsl.utils.exceptions import VerifyException

from compiler.ir.control import verify_control
from compiler.ir.dataflow import verify_order
from compiler.ir.taskflow_memory import ArenaOp, Buffer
from compiler.ir.types import int64, nbytes_of
from compiler.ir.verify_cache import verified_once
from compiler.schedule.control import results_of
from compiler.schedule.tasks import ControlForm


@irdl_attr_definition
class TokenType(ParametrizedAttribute, TypeAttribute):
    """The completion of one task; tasks that have it in `after` wait for it."""

    name = "taskflow.token"


TOKEN = TokenType()

Values = tuple[SSAValue, ...]


@cache
def _segments(tokens: int, reads: int, writes: int) -> DenseArrayBase:
    return DenseArrayBase.from_list(i32, [tokens, reads, writes])


@irdl_op_definition
class GraphOp(IRDLOperation):
    """A schedule: block arguments are the model's input buffers, then its output buffers.

    Block order is launch order. While `unsynchronized`, tokens say only which order was asked for
    beyond that of the data, and nothing may run it; `insert-sync` takes the mark off.
    """

    name = "taskflow.graph"
    sym_name = prop_def(SymbolNameConstraint())
    unsynchronized = opt_prop_def(UnitAttr)
    input_names = prop_def(ArrayAttr[StringAttr])
    output_names = prop_def(ArrayAttr[StringAttr])
    body = region_def("single_block")
    traits = traits_def(IsolatedFromAbove(), NoTerminator(), SymbolOpInterface())
    assembly_format = (
        "$sym_name (`unsynchronized` $unsynchronized^)? `inputs` $input_names"
        " `outputs` $output_names $body attr-dict"
    )

    def __init__(
        self, name: str, input_names: Sequence[str], output_names: Sequence[str], body: Region
    ):
        super().__init__(
            properties={
                "sym_name": StringAttr(name),
                "unsynchronized": UnitAttr(),
                "input_names": ArrayAttr([StringAttr(n) for n in input_names]),
                "output_names": ArrayAttr([StringAttr(n) for n in output_names]),
            },
            regions=[body],
        )

    @property
    def tasks(self) -> Iterator["TaskOp"]:
        """The launches and subflows of the top level, in launch order."""
        return (op for op in self.body.block.ops if isinstance(op, TaskOp))

    @property
    def launches(self) -> Iterator["AccessOp"]:
        """Every launch of the graph itself, those inside subflows included, in launch order."""
        for task in self.tasks:
            yield from task.launches

    @property
    def inputs(self) -> Sequence[SSAValue]:
        """The buffers of the inputs."""
        return self.body.block.args[: len(self.input_names)]

    @property
    def outputs(self) -> Sequence[SSAValue]:
        """The buffers of the outputs."""
        return self.body.block.args[len(self.input_names) :]

    @property
    def arena_bytes(self) -> int:
        """The size of its arena, 0 without one."""
        return sum(
            nbytes_of(op.result.type) for op in self.body.block.ops if isinstance(op, ArenaOp)
        )

    def verify_(self) -> None:
        if len(self.body.block.args) != len(self.input_names) + len(self.output_names):
            raise VerifyException("a taskflow.graph names each of its inputs and outputs")
        verify_order(self.body.block)


class TaskOp(IRDLOperation):
    """Base of what a stream executes: ordered by its stream and by the tokens it waits for."""

    stream = prop_def(IntegerAttr[I64])
    token = result_def(TokenType)

    @property
    def after(self) -> Sequence[SSAValue]:
        """The tokens that the task waits for."""
        return self.operands[: len(self.operands)]

    @property
    def launches(self) -> Iterator["AccessOp"]:
        """The launches of the task, in order."""
        raise TypeError(f"'{self.name}' has no launches")


class AccessOp(TaskOp):
    """Base of tasks that touch memory; `writes` are the results, then the workspaces."""

    nodes = opt_prop_def(ArrayAttr[StringAttr])
    cost = opt_prop_def(IntegerAttr[I64])
    after_tokens = var_operand_def(TokenType)
    reads = var_operand_def(Buffer)
    writes = var_operand_def(Buffer)
    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    def initialise(
        self,
        stream: int,
        reads: Sequence[SSAValue],
        writes: Sequence[SSAValue],
        nodes: Sequence[str],
        cost: int | None,
        specific: Mapping[str, Attribute],
        regions: Sequence[Region] = (),
    ) -> None:
        """Set up the operation; `specific` are the properties that not all such tasks have."""
        properties: dict[str, Attribute] = {
            **specific,
            "stream": int64(stream),
            "operandSegmentSizes": _segments(0, len(reads), len(writes)),
        }
        if nodes:
            properties["nodes"] = ArrayAttr([StringAttr(n) for n in nodes])
        if cost is not None:
            properties["cost"] = int64(cost)
        # Straight to the base: matching arguments with the definition takes most of the time.
        Operation.__init__(
            self,
            operands=[*reads, *writes],
            properties=properties,
            result_types=[TOKEN],
            regions=regions,
        )

    @property
    def parts(self) -> tuple[Values, Values, Values]:
        """The tokens that the task waits for, its reads and its writes: faster than each alone."""
        sizes = self.properties["operandSegmentSizes"]
        assert isinstance(sizes, DenseArrayBase)
        tokens, reads, _ = unpack("<3i", sizes.data.data)
        values = tuple(self.operands)
        return values[:tokens], values[tokens : tokens + reads], values[tokens + reads :]

    @property
    def after(self) -> Sequence[SSAValue]:
        """The tokens that the task waits for."""
        return self.parts[0]

    @property
    def launches(self) -> Iterator["AccessOp"]:
        """The task itself."""
        yield self


ACCESSES = (
    " `stream` $stream (`cost` $cost^)? (`after` $after_tokens^)?"
    " (`reads` $reads^ `:` type($reads))? (`writes` $writes^ `:` type($writes))?"
    " (`nodes` $nodes^)?"
)
"""How the tasks that touch memory print."""


@verified_once
@irdl_op_definition
class LaunchOp(AccessOp):
    """Launch one kernel; `writes` are its results, then its workspaces."""

    name = "taskflow.launch"
    kernel = prop_def(StringAttr)
    assembly_format = "$kernel" + ACCESSES + " attr-dict"

    def __init__(
        self,
        kernel: str,
        stream: int,
        reads: Sequence[SSAValue],
        writes: Sequence[SSAValue],
        nodes: Sequence[str] = (),
        cost: int | None = None,
    ):
        self.initialise(stream, reads, writes, nodes, cost, specific={"kernel": StringAttr(kernel)})


class ControlTaskOp(AccessOp):
    """Base of an If and a Loop: bodies are graphs over the buffers that it reads and writes.

    `ControlForm` says which these are; the workspaces end with the arena of the bodies.
    """

    bodies = region_def("single_block")
    traits = lazy_traits_def(lambda: (IsolatedFromAbove(), NoTerminator()))

    @property
    def graphs(self) -> list[GraphOp]:
        """The bodies, in order."""
        return [op for op in self.bodies.block.ops if isinstance(op, GraphOp)]

    @property
    def form(self) -> ControlForm:
        """The roles of buffers."""
        raise TypeError(f"'{self.name}' has no form")

    @property
    def arena_bytes(self) -> int:
        """The size of the largest body's arena."""
        return max((graph.arena_bytes for graph in self.graphs), default=0)

    def verify_(self) -> None:
        if len(self.graphs) != len(self.bodies.block.ops):
            raise VerifyException(f"a {self.name} holds taskflow.graphs only")
        _, reads, writes = self.parts
        results = writes[: results_of(self.form, len(writes), bool(self.arena_bytes))]
        bodies = [(graph.inputs, graph.outputs) for graph in self.graphs]
        verify_control(self.name, self.form, reads, results, bodies)


@irdl_op_definition
class SubflowOp(TaskOp):
    """A partition: launches that follow each other on one stream, launched and awaited as one."""

    name = "taskflow.subflow"
    after_tokens = var_operand_def(TokenType)
    body = region_def("single_block")
    traits = lazy_traits_def(lambda: (NoTerminator(), HasParent(GraphOp)))
    assembly_format = "`stream` $stream (`after` $after_tokens^)? $body attr-dict"

    def __init__(self, stream: int, body: Region):
        super().__init__(
            operands=[[]],
            properties={"stream": int64(stream)},
            result_types=[TOKEN],
            regions=[body],
        )

    @property
    def after(self) -> Sequence[SSAValue]:
        """The tokens that the task waits for."""
        return self.after_tokens

    @property
    def launches(self) -> Iterator[AccessOp]:
        """The launches inside, in order."""
        return (op for op in self.body.block.ops if isinstance(op, AccessOp))

    def verify_(self) -> None:
        for op in self.body.block.ops:
            if not isinstance(op, AccessOp) or op.after or op.stream != self.stream:
                raise VerifyException("a subflow holds launches on its stream, without tokens")


def set_after(task: TaskOp, tokens: Sequence[SSAValue]) -> None:
    """Replace the tokens that a task waits for."""
    if isinstance(task, AccessOp):
        _, reads, writes = task.parts
        task.operands = (*tokens, *reads, *writes)
        sizes = _segments(len(tokens), len(reads), len(writes))
        task.properties["operandSegmentSizes"] = sizes
    else:
        task.operands = list(tokens)


def graphs_inside_out(module: ModuleOp) -> list[GraphOp]:
    """Every graph of a module: those of bodies before the one around them."""
    # In reverse, the operations of a region come before the one that holds it.
    return [op for op in module.walk(reverse=True) if isinstance(op, GraphOp)]
