"""If and Loop of the `dataflow` dialect."""

from collections.abc import Sequence

from xdsl.dialects.builtin import DictionaryAttr, StringAttr
from xdsl.ir import Attribute, Block, Dialect, Region, SSAValue
from xdsl.irdl import irdl_op_definition, prop_def

from compiler.ir.control import form_attribute, loop_form
from compiler.ir.dataflow import (
    ConstantOp,
    ControlOp,
    GraphOp,
    GroupOp,
    NoneOp,
    OperatorOp,
    WeightOp,
    YieldOp,
)
from compiler.ir.layouts import ChannelsAttr
from compiler.schedule.tasks import ControlForm


@irdl_op_definition
class IfOp(ControlOp):
    """Run the first body if the condition, operand 0, is true, else the second."""

    name = "dataflow.if"
    assembly_format = (
        "(`named` $node^)? `(` $inputs `)` attr-dict `:` functional-type($inputs, $outputs) $bodies"
    )

    def __init__(
        self,
        inputs: Sequence[SSAValue],
        outputs: Sequence[Attribute],
        bodies: Sequence[GraphOp],
        node: str = "",
    ):
        super().__init__(
            properties={"node": StringAttr(node) if node else None},
            operands=[inputs],
            result_types=[outputs],
            regions=[Region(Block(bodies))],
        )

    @property
    def form(self) -> ControlForm:
        """The roles of operands and results."""
        return ControlForm("if")


@irdl_op_definition
class LoopOp(ControlOp):
    """Run the body for each iteration, on the values that the one before carried on."""

    name = "dataflow.loop"
    shape = prop_def(DictionaryAttr, prop_name="form")
    assembly_format = (
        "$form (`named` $node^)? `(` $inputs `)` attr-dict"
        " `:` functional-type($inputs, $outputs) $bodies"
    )

    def __init__(
        self,
        form: ControlForm,
        inputs: Sequence[SSAValue],
        outputs: Sequence[Attribute],
        bodies: Sequence[GraphOp],
        node: str = "",
    ):
        super().__init__(
            properties={
                "form": form_attribute(form),
                "node": StringAttr(node) if node else None,
            },
            operands=[inputs],
            result_types=[outputs],
            regions=[Region(Block(bodies))],
        )

    @property
    def form(self) -> ControlForm:
        """The roles of operands and results."""
        return loop_form(self.shape)


Dataflow = Dialect(
    "dataflow",
    [GraphOp, OperatorOp, WeightOp, ConstantOp, NoneOp, GroupOp, IfOp, LoopOp, YieldOp],
    [ChannelsAttr],
)
