"""The `dataflow` dialect: an acyclic graph of ONNX operators on immutable tensors."""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from xdsl.dialects.builtin import (
    I64,
    ArrayAttr,
    DenseIntOrFPElementsAttr,
    IntegerAttr,
    NoneType,
    StringAttr,
    SymbolNameConstraint,
    i64,
)
from xdsl.dialects.utils import AbstractYieldOperation
from xdsl.ir import Attribute, Block, Operation, OpResult, Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    lazy_traits_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import (
    HasParent,
    IsolatedFromAbove,
    IsTerminator,
    NoTerminator,
    Pure,
    SymbolOpInterface,
)
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.hints import isa

from compiler.ir.accessors import direct_access
from compiler.ir.checking import verify_operator
from compiler.ir.control import verify_control
from compiler.ir.kernel_name import KernelName
from compiler.ir.layouts import Tensor, block_of, verify_layout, with_block
from compiler.ir.values import attribute_default, attribute_to_value, constant_text
from compiler.ir.verify_cache import verified_once
from compiler.schedule.tasks import ControlForm

Operand = Tensor | NoneType

_NONE = NoneType()


@lru_cache(1 << 14)
def _text(content: str) -> StringAttr:
    """The attribute of a text; cached, as operators are made again and again."""
    return StringAttr(content)


def verify_order(block: Block) -> None:
    """Reject a use before its definition, which xDSL itself accepts."""
    # xDSL's dominance check is of blocks, not of the operations in one.
    seen: set[SSAValue] = set(block.args)
    for op in block.ops:
        if any(operand not in seen for operand in op.operands):
            raise VerifyException(f"'{op.name}' uses a value before its definition")
        seen.update(op.results)


def _yielded(body: Region) -> Sequence[SSAValue]:
    terminator = body.block.last_op
    assert isinstance(terminator, YieldOp)
    return terminator.arguments


@irdl_op_definition
class GraphOp(IRDLOperation):
    """A model: block arguments are its inputs, `dataflow.yield` its outputs, block order the
    launch order.

    `target` is the target's text form, such as `cuda:sm_90:tf32`; `contraction` the way in which
    quantised operands are contracted, once they are. Inputs, outputs and weights are row-major.
    """

    name = "dataflow.graph"
    sym_name = prop_def(SymbolNameConstraint())
    opset = prop_def(IntegerAttr[I64])
    target = opt_prop_def(StringAttr)
    contraction = opt_prop_def(StringAttr)
    input_names = prop_def(ArrayAttr[StringAttr])
    output_names = prop_def(ArrayAttr[StringAttr])
    body = region_def("single_block")
    traits = traits_def(IsolatedFromAbove(), SymbolOpInterface())
    assembly_format = (
        "$sym_name `opset` $opset (`target` $target^)? (`contraction` $contraction^)?"
        " `inputs` $input_names `outputs` $output_names $body attr-dict"
    )

    def __init__(
        self,
        name: str,
        opset: int,
        input_names: Sequence[str],
        output_names: Sequence[str],
        body: Region,
    ):
        super().__init__(
            properties={
                "sym_name": StringAttr(name),
                "opset": IntegerAttr(opset, i64),
                "input_names": ArrayAttr([StringAttr(n) for n in input_names]),
                "output_names": ArrayAttr([StringAttr(n) for n in output_names]),
            },
            regions=[body],
        )

    @property
    def groups(self) -> Iterator["GroupOp"]:
        """The groups, in launch order."""
        return (op for op in self.body.block.ops if type(op) is GroupOp)

    @property
    def results_yielded(self) -> Sequence[SSAValue]:
        """The values of the model's outputs, in order."""
        return _yielded(self.body)

    def verify_(self) -> None:
        block = self.body.block
        if not isinstance(block.last_op, YieldOp):
            raise VerifyException("a dataflow.graph ends with dataflow.yield")
        if len(self.input_names) != len(block.args):
            raise VerifyException("a dataflow.graph names each of its inputs")
        if len(self.output_names) != len(self.results_yielded):
            raise VerifyException("a dataflow.graph names each of its outputs")
        verify_order(block)
        for op in self.body.block.ops:
            for result in op.results:
                verify_layout(result.type)
            if isinstance(op, WeightOp) and block_of(op.output.type):
                raise VerifyException("a dataflow.weight is row-major: a group packs it")
        if any(block_of(v.type) for v in (*self.body.block.args, *self.results_yielded)):
            raise VerifyException("the inputs and outputs of a dataflow.graph are row-major")


@verified_once
@direct_access
@irdl_op_definition
class OperatorOp(IRDLOperation):
    """An ONNX operator of the graph's opset; its attributes are ONNX's, its `node` the ONNX name.

    A tensor attribute is a dense attribute, a list an array; an omitted operand is a
    `dataflow.none`. Outside a group an operator is a view: it costs nothing and launches nothing.
    """

    name = "dataflow.op"
    op_type = prop_def(StringAttr)
    node = opt_prop_def(StringAttr)
    inputs = var_operand_def(Operand)
    outputs = var_result_def(Operand)
    traits = traits_def(Pure())
    assembly_format = (
        "$op_type (`named` $node^)? `(` $inputs `)` attr-dict"
        " `:` functional-type($inputs, $outputs)"
    )

    def __init__(
        self,
        op_type: str,
        inputs: Sequence[SSAValue | Operation],
        outputs: Sequence[Attribute],
        attributes: Mapping[str, Attribute] | None = None,
        node: str = "",
    ):
        named = {"node": _text(node)} if node else {}
        Operation.__init__(  # irdl's checks, which the verifier repeats, take most of the time
            self,
            operands=[v if type(v) is OpResult else SSAValue.get(v) for v in inputs],
            result_types=outputs,
            properties={"op_type": _text(op_type), **named},
            attributes=attributes or {},
        )

    @property
    def type_name(self) -> str:
        """The ONNX operator type, such as `Conv`."""
        op_type: Any = self.properties["op_type"]
        return op_type.data

    def __getitem__(self, name: str) -> Any:
        """The value of an attribute, or its default; KeyError for one that has neither."""
        attribute = self.attributes.get(name)
        return attribute_default(self, name) if attribute is None else attribute_to_value(attribute)

    @property
    def node_name(self) -> str:
        """The name of the operator's ONNX node, or the empty string."""
        node: Any = self.properties.get("node")
        return "" if node is None else node.data

    def facts(self) -> Iterator[DenseIntOrFPElementsAttr | None]:
        """The values of the operands that are constants, on which verification depends."""
        for value in self.inputs:
            owner = value.owner
            yield owner.value if isinstance(owner, ConstantOp) else None

    def verify_(self) -> None:
        inputs, outputs = ([v.type for v in values] for values in (self.inputs, self.outputs))
        verify_operator(self.type_name, inputs, list(self.facts()), self.attributes, outputs)


@verified_once
@irdl_op_definition
class WeightOp(IRDLOperation):
    """A tensor of the weight store, by its key, converted to the element type of the result."""

    name = "dataflow.weight"
    key = prop_def(StringAttr)
    output = result_def(Tensor)
    traits = traits_def(Pure())
    assembly_format = "$key attr-dict `:` type($output)"

    def __init__(self, key: str, type: Attribute):
        Operation.__init__(self, properties={"key": _text(key)}, result_types=[type])


@verified_once
@direct_access
@irdl_op_definition
class ConstantOp(IRDLOperation):
    """A small tensor for whose value kernels are specialised, such as a scalar."""

    name = "dataflow.constant"
    value = prop_def(DenseIntOrFPElementsAttr)
    output = result_def(Tensor)
    traits = traits_def(Pure())

    def __init__(self, value: DenseIntOrFPElementsAttr):
        Operation.__init__(self, properties={"value": value}, result_types=[value.get_type()])

    @classmethod
    def parse(cls, parser: Parser) -> "ConstantOp":
        """Parse `dense<...> : tensor<...>`."""
        attributes = parser.parse_optional_attr_dict()
        value = parser.parse_attribute()
        if not isa(value, DenseIntOrFPElementsAttr):
            parser.raise_error("dataflow.constant needs a dense attribute")
        op = cls(value)
        op.attributes = attributes
        return op

    def print(self, printer: Printer) -> None:
        """Print `dense<...> : tensor<...>`."""
        printer.print_op_attributes(self.attributes)
        printer.print_string(" ")
        printer.print_string(constant_text(self.value))

    def verify_(self) -> None:
        if self.output.type != self.value.get_type():
            raise VerifyException("a dataflow.constant has the type of its value")


@verified_once
@irdl_op_definition
class NoneOp(IRDLOperation):
    """An omitted optional operand."""

    name = "dataflow.none"
    output = result_def(NoneType)
    traits = traits_def(Pure())
    assembly_format = "attr-dict"

    def __init__(self) -> None:
        Operation.__init__(self, result_types=[_NONE])


@direct_access
@irdl_op_definition
class GroupOp(IRDLOperation):
    """Operators that become one kernel: one scheduling node.

    Values inside have no layout; the types of the group's operands and results have. `kernel` is
    its signature: groups of one signature share one kernel. Passes and the kernel builder set
    `partition`, `stream`, `stage`, `cost` (ns), `share` (thousandths of the device), `workspaces`
    (bytes) and `packings` (one for each input). The groups of a stage start when all groups of
    lower stages have ended.
    """

    name = "dataflow.group"
    kernel = opt_prop_def(StringAttr)
    partition = opt_prop_def(IntegerAttr[I64])
    stream = opt_prop_def(IntegerAttr[I64])
    stage = opt_prop_def(IntegerAttr[I64])
    cost = opt_prop_def(IntegerAttr[I64])
    share = opt_prop_def(IntegerAttr[I64])
    workspaces = opt_prop_def(ArrayAttr[IntegerAttr[I64]])
    packings = opt_prop_def(ArrayAttr[StringAttr])
    inputs = var_operand_def(Tensor)
    outputs = var_result_def(Tensor)
    body = region_def("single_block")
    traits = lazy_traits_def(lambda: (HasParent(GraphOp), IsolatedFromAbove(), Pure()))
    custom_directives = (KernelName,)
    assembly_format = (
        "custom<KernelName>($kernel) (`partition` $partition^)? (`stream` $stream^)?"
        " (`stage` $stage^)? (`cost` $cost^)? (`share` $share^)? (`workspaces` $workspaces^)?"
        " (`packings` $packings^)?"
        " `(` $inputs `)` attr-dict `:` functional-type($inputs, $outputs) $body"
    )

    def __init__(
        self,
        inputs: Sequence[SSAValue],
        outputs: Sequence[Attribute],
        body: Region,
        kernel: str | None = None,
    ):
        Operation.__init__(
            self,
            operands=inputs,
            result_types=outputs,
            regions=[body],
            properties={} if kernel is None else {"kernel": _text(kernel)},
        )

    @property
    def operators(self) -> Iterator[OperatorOp]:
        """The operators inside, in order."""
        return (op for op in self.body.block.ops if type(op) is OperatorOp)

    @property
    def control(self) -> "ControlOp | None":
        """The If or Loop that the group holds alone, if it does."""
        op = self.body.block.first_op
        return op if isinstance(op, ControlOp) else None

    @property
    def results_yielded(self) -> Sequence[SSAValue]:
        """The inner values of the group's results, in order."""
        return _yielded(self.body)

    def verify_(self) -> None:
        block = self.body.block
        if not isinstance(block.last_op, YieldOp):
            raise VerifyException("a dataflow.group ends with dataflow.yield")
        if [a.type for a in block.args] != [with_block(v.type, 0) for v in self.inputs]:
            raise VerifyException("a dataflow.group's arguments have the types of its inputs")
        if [v.type for v in self.results_yielded] != [with_block(v.type, 0) for v in self.outputs]:
            raise VerifyException("a dataflow.group yields the types of its results")
        if any(isinstance(op, GroupOp | WeightOp) for op in block.ops):
            raise VerifyException("a dataflow.group holds operators and constants only")
        if any(isinstance(op, ControlOp) for op in block.ops) and len(block.ops) != 2:
            raise VerifyException("a dataflow.group holds an If or a Loop alone")
        verify_order(block)


class ControlOp(IRDLOperation):
    """Base of an If and a Loop: alone in its group, with a graph for each body.

    Operands and bodies are those of `ControlForm`; bodies read nothing else.
    """

    node = opt_prop_def(StringAttr)
    inputs = var_operand_def(Tensor)
    outputs = var_result_def(Tensor)
    bodies = region_def("single_block")
    traits = lazy_traits_def(
        lambda: (HasParent(GroupOp), IsolatedFromAbove(), NoTerminator(), Pure())
    )

    @property
    def graphs(self) -> list[GraphOp]:
        """The bodies, in order."""
        return [op for op in self.bodies.block.ops if isinstance(op, GraphOp)]

    @property
    def form(self) -> ControlForm:
        """The roles of operands and results."""
        raise TypeError(f"'{self.name}' has no form")

    def verify_(self) -> None:
        if len(self.graphs) != len(self.bodies.block.ops):
            raise VerifyException(f"a {self.name} holds dataflow.graphs only")
        bodies = [(graph.body.block.args, graph.results_yielded) for graph in self.graphs]
        verify_control(self.name, self.form, self.inputs, self.outputs, bodies)


@verified_once
@irdl_op_definition
class YieldOp(AbstractYieldOperation[Attribute]):
    """Return the results of a graph or a group."""

    name = "dataflow.yield"
    traits = lazy_traits_def(lambda: (IsTerminator(), HasParent(GraphOp, GroupOp)))

    def __init__(self, *operands: SSAValue | Operation):
        Operation.__init__(self, operands=[SSAValue.get(value) for value in operands])
