"""If and Loop of the `taskflow` dialect."""

from collections.abc import Sequence

from xdsl.dialects.builtin import DictionaryAttr
from xdsl.ir import Block, Dialect, Region, SSAValue
from xdsl.irdl import irdl_op_definition, prop_def

from compiler.ir.control import form_attribute, loop_form
from compiler.ir.taskflow import ACCESSES, ControlTaskOp, GraphOp, LaunchOp, SubflowOp, TokenType
from compiler.ir.taskflow_memory import ArenaOp, ExtentsOp, ViewOp, WeightOp
from compiler.schedule.tasks import ControlForm


@irdl_op_definition
class IfTaskOp(ControlTaskOp):
    """Run the first body if the condition, the first read, is true, else the second."""

    name = "taskflow.if"
    assembly_format = ACCESSES.strip() + " $bodies attr-dict"

    @property
    def form(self) -> ControlForm:
        """The roles of buffers."""
        return ControlForm("if")


@irdl_op_definition
class LoopTaskOp(ControlTaskOp):
    """Run the body for each iteration, on the values that the one before carried on."""

    name = "taskflow.loop"
    shape = prop_def(DictionaryAttr, prop_name="form")
    assembly_format = "$form" + ACCESSES + " $bodies attr-dict"

    @property
    def form(self) -> ControlForm:
        """The roles of buffers."""
        return loop_form(self.shape)


def make_control(
    form: ControlForm,
    stream: int,
    accesses: tuple[Sequence[SSAValue], Sequence[SSAValue]],
    bodies: Sequence[GraphOp],
    nodes: Sequence[str] = (),
    cost: int | None = None,
) -> ControlTaskOp:
    """The If or Loop of a form, over the buffers that it reads and writes."""
    loops = form.kind == "loop"
    # `initialise` sets up all of an operation: irdl's constructor would do it again.
    op = (LoopTaskOp if loops else IfTaskOp).__new__(LoopTaskOp if loops else IfTaskOp)
    specific = {"form": form_attribute(form)} if loops else {}
    op.initialise(stream, *accesses, nodes, cost, specific, regions=[Region(Block(bodies))])
    return op


Taskflow = Dialect(
    "taskflow",
    [GraphOp, ArenaOp, WeightOp, ExtentsOp, ViewOp, LaunchOp, IfTaskOp, LoopTaskOp, SubflowOp],
    [TokenType],
)
