"""Checks of a model's nodes: by the operator table, onnx's shape inference and declared types.

A node's inputs and attributes are checked, and its result types inferred, before it is rewritten or
folded. The types of the rewritten results are compared with these, with onnx's inference, and with
the types that the model declares for its tensors.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import onnx
from onnx import TypeProto

from compiler.errors import THIS_RUN, ModelError, RunInputError, ShapeError
from compiler.frontend.evaluate import dtype_name, infer_types, input_types, onnx_type, schema_of
from compiler.frontend.node import ModelNode
from compiler.frontend.sources import check_source, check_source_attributes
from compiler.frontend.unsupported import Contradiction
from compiler.net.graph import Value
from compiler.net.operators import KnownTensor, Mismatch, ShapeMismatch, type_text
from compiler.net.operators.pooling import WINDOW_POOLS
from compiler.tensors.substitution import shape_at_hints

ONNX_DIFFERS = {
    "Resize": "sizes come from scales in float32, as in onnxruntime; onnx multiplies in float64",
    "Upsample": "as Resize",
    "Einsum": "a letter of size 1 is broadcast, as in numpy; onnx takes the first operand's size",
    **dict.fromkeys(
        WINDOW_POOLS,
        "before opset 22 onnx counts windows of ceil_mode that start after the input and its pads",
    ),
    "ConvTranspose": "auto_pad SAME_* makes input times stride elements; onnx ends with the kernel",
}
"""Operators whose shape onnx infers differently, with the reason why ours is right."""


@dataclass(frozen=True, slots=True)
class Declared:
    """The type that a model declares for a tensor; None for what it does not declare."""

    dtype: str
    shape: tuple[int | None, ...] | None

    @classmethod
    def of(cls, type: TypeProto) -> "Declared":
        """From an ONNX type; nothing is declared if it is not a tensor's."""
        tensor = type.tensor_type
        dims = [d.dim_value if d.dim_value > 0 else None for d in tensor.shape.dim]
        shape = tuple(dims) if tensor.HasField("shape") else None
        return cls(dtype_name(tensor.elem_type), shape)

    @classmethod
    def of_known(cls, type: KnownTensor) -> "Declared":
        """From a type by the table, for the example sizes."""
        return cls(type.dtype, shape_at_hints(type.shape))

    def agrees_in_shape(self, shape: Sequence[int]) -> bool:
        """Whether a shape fits the declared dimensions."""
        if self.shape is None:
            return True
        if len(self.shape) != len(shape):
            return False
        # onnx infers numbers for the example sizes; comparing extents would assume these sizes
        pairs = zip(self.shape, shape_at_hints(shape), strict=True)
        return all(wanted in (None, size) for wanted, size in pairs)

    def check(self, who: str, value: Value) -> None:
        """Raise Mismatch, or ShapeMismatch, for a value of another type; messages begin with `who`.

        A value of unknown type fits.
        """
        if not value.dtype:
            return
        text = f"{who} {self}, it is computed as {type_text(value.dtype, value.shape)}"
        if self.dtype not in ("", value.dtype):
            raise Mismatch(text)
        if not self.agrees_in_shape(value.shape):
            raise ShapeMismatch(text)

    def __str__(self) -> str:
        if self.shape is None:
            return self.dtype
        dims = ("?" if size is None else str(size) for size in self.shape)
        return f"{self.dtype}[{', '.join(dims)}]"


def check_declared(name: str, value: Value, declared: Mapping[str, Declared]) -> None:
    """Raise ModelError or ShapeError if an output of the model does not have its declared type."""
    try:
        if name in declared:
            declared[name].check("the model declares it as", value)
    except Mismatch as error:
        kind = ShapeError if isinstance(error, ShapeMismatch) else ModelError
        raise kind(f"output {name!r}: {error}; correct the model, or export it again") from error


def declared_types(graph: onnx.GraphProto, with_shapes: bool) -> dict[str, Declared]:
    """The declared types of a graph's tensors except its inputs, by name.

    Shapes are declared for the input shapes with which the model was exported, and no others.
    """
    infos = (*graph.value_info, *graph.output)
    declared = {i.name: Declared.of(i.type) for i in infos if i.type.HasField("tensor_type")}
    return declared if with_shapes else without_shapes(declared)


def without_shapes(declared: Mapping[str, Declared]) -> dict[str, Declared]:
    """The element types alone."""
    return {name: Declared(type.dtype, None) for name, type in declared.items()}


def _differ_in_shape(types: Sequence[Declared], results: Sequence[Value]) -> bool:
    pairs = zip(types, results, strict=False)
    return not all(type.agrees_in_shape(value.shape) for type, value in pairs)


def shapes_are_declared(inputs: Iterable[onnx.ValueInfoProto]) -> bool:
    """Whether the model itself fixes every dimension of its inputs."""
    tensors = [info.type.tensor_type for info in inputs if info.type.HasField("tensor_type")]
    return all(t.HasField("shape") and _is_fixed(t.shape.dim) for t in tensors)


def _is_fixed(dims: Iterable[onnx.TensorShapeProto.Dimension]) -> bool:
    return all(d.HasField("dim_value") and d.dim_value >= 0 for d in dims)


@dataclass(slots=True)
class NodeCheck:
    """One node: what its results must be by the table, declared out before it is rewritten."""

    node: ModelNode
    name: str
    opset: int
    outputs: Sequence[str]
    remedy: str | None
    is_by_text: bool = True
    """Whether its results have the shapes of the ONNX text."""
    is_valid_by_text: bool = True
    """Whether the ONNX text gives it a result at all; if not, only onnxruntime's way is known."""
    expected: list[KnownTensor] | None = field(default=None, init=False)

    @property
    def is_own(self) -> bool:
        """Whether it is an operator of an ONNX domain, on tensors."""
        return self._schema is not None

    def before_shapes(self) -> None:
        """Check the node itself, but not yet how shapes fit; raises ShapeError or ModelError."""
        schema = schema_of(self.node.op_type, self.opset)
        if schema is None:
            return
        for i, formal in enumerate(schema.inputs if self.node.op_type != "Resize" else ()):
            single = formal.option == onnx.defs.OpSchema.FormalParameterOption.Single
            if single and self.node.input(i) is None:
                raise self.error(Mismatch(f"its input {i} ({formal.name!r}) is left out"))
        for i, value in enumerate(self.node.inputs):
            if value is None or not value.dtype:
                continue
            allowed = input_types(self.node.op_type, self.opset, i)
            if onnx_type(value.dtype) not in allowed:
                known = ", ".join(sorted(allowed))
                raise self.error(Mismatch(f"its input {i} is {value.dtype}; it can be {known}"))
        try:
            check_source_attributes(self.node)
        except Mismatch as error:
            raise self.error(error) from error

    def shapes(self) -> None:
        """Check how the node's inputs fit each other, and infer what its results must be."""
        schema = schema_of(self.node.op_type, self.opset)
        if schema is None or not self.is_own or not self.is_valid_by_text:
            return
        try:
            expected = check_source(self.node)
        except Mismatch as error:
            raise self.error(error) from error
        self.expected = expected if self.is_by_text else None

    def after(
        self, results: Sequence[Value], declared: Mapping[str, Declared]
    ) -> Mapping[str, Declared]:
        """Compare results with the types by the table, by onnx and as declared.

        The results' computed types become declared: after an operator whose shape onnx gets wrong,
        the model may declare shapes by onnx's inference, which are wrong too.
        """
        if self.expected is not None:
            for value, type in zip(results, self.expected, strict=False):
                self._compare("the operator gives", value, Declared.of_known(type))
        inferred = [Declared.of(type) for type in self._by_onnx()]
        elsewise = self.node.op_type in ONNX_DIFFERS or not self.is_by_text
        if elsewise and _differ_in_shape(inferred, results):
            inferred = [Declared(type.dtype, None) for type in inferred]
            declared = without_shapes(declared)
        for value, type in zip(results, inferred, strict=False):
            self._compare("onnx's inference says", value, type)
        for name, value in zip(self.outputs, results, strict=False):
            if name in declared:
                self._compare(f"the model declares {name!r} as", value, declared[name])
        return declared

    @property
    def _schema(self) -> onnx.defs.OpSchema | None:
        """The node's schema; None outside ONNX's domains and for operators on sequences."""
        if any(value is not None and value.items is not None for value in self.node.inputs):
            return None
        return schema_of(self.node.op_type, self.opset)

    def _by_onnx(self) -> list[TypeProto]:
        """The result types by onnx's inference, which does not support deprecated operators.

        A Constant has the type of its value, though its first version allowed floats only.
        """
        schema = self._schema
        if schema is None or schema.deprecated or self.node.op_type == "Constant":
            return []
        # a newer opset's inference, where only that takes the types; its shapes may differ else
        opset = self.opset if self._has_types_of(schema) else onnx.defs.onnx_opset_version()
        try:
            return infer_types(
                self.node.op_type, self.node.inputs, self.node.attributes, self.outputs, opset
            )
        except Contradiction as error:
            if self.node.op_type in ONNX_DIFFERS or not self.is_by_text:
                return []
            raise self.error(ShapeMismatch(str(error))) from error

    def _has_types_of(self, schema: onnx.defs.OpSchema) -> bool:
        """Whether the inputs have types of a schema, not only of a later one."""
        last = len(schema.inputs) - 1
        return all(
            onnx_type(value.dtype) in schema.inputs[min(i, last)].types
            for i, value in enumerate(self.node.inputs)
            if value is not None and value.dtype
        )

    def _compare(self, who: str, value: Value, type: Declared) -> None:
        try:
            type.check(who, value)
        except Mismatch as error:
            raise self.error(error) from error

    def error(self, mismatch: Mismatch) -> ModelError | ShapeError:
        """The error that names the node, its inputs and the remedy."""
        kind = ShapeError if isinstance(mismatch, ShapeMismatch) else ModelError
        kind = RunInputError if self.remedy is None else kind
        named = (v for v in self.node.inputs if v is not None and v.dtype)
        given = ", ".join(f"{v.name or 'constant'} {type_text(v.dtype, v.shape)}" for v in named)
        what = f"does not fit its inputs ({given})" if given else "is invalid"
        return kind(
            f"{self.node.op_type} {self.name!r} {what}: {mismatch}; {self.remedy or THIS_RUN}"
        )
