"""The registry of rules for onnxruntime's operators, and the check of a use by its signature."""

from collections.abc import Sequence
from dataclasses import replace

from compiler.frontend.rules.call import RULES, Call, RewriteRule
from compiler.frontend.rules.contrib.signatures import DOMAIN, SIGNATURES
from compiler.frontend.unsupported import Unsupported
from compiler.net.graph import Attributes, Inputs, Value
from compiler.net.operators import Mismatch
from compiler.net.operators.indices import index_bounds
from compiler.net.spec import OpSpec, bind_types, check_attributes

CONTRIB: dict[tuple[str, str], RewriteRule] = {}
"""The rule of each operator, by domain and operator."""

_NEWEST = 23
"""The opset of the standard operators that rules write."""


def contrib(*names: str, domain: str = DOMAIN):
    """Register a rule for operators that have a signature."""

    def register(function: RewriteRule) -> RewriteRule:
        CONTRIB.update({(domain, name): function for name in names})
        return function

    return register


def rewrite_contrib(domain: str, call: Call) -> Sequence[Value]:
    """The outputs of an operator; raises Mismatch if it does not have its signature."""
    signature = SIGNATURES[domain, call.op_type]
    _check(signature, call)
    defaults = {n: a.default for n, a in signature.attributes.items() if a.default is not None}
    return CONTRIB[domain, call.op_type](replace(call, attributes=defaults | call.attributes))


def _check(signature: OpSpec, call: Call) -> None:
    """Raise Mismatch for inputs, outputs or attributes that the operator does not have."""
    check_attributes(signature, call.attributes)
    most = signature.most_inputs
    if most is not None and len(call.inputs) > most:
        raise Mismatch(f"it has {len(call.inputs)} inputs, the operator has {most}")
    if len(call.used) > len(signature.outputs):
        raise Mismatch(f"it has {len(call.used)} outputs, the operator {len(signature.outputs)}")
    for index, slot in enumerate(signature.inputs):
        if slot.option == "" and call.input(index) is None:
            raise Mismatch(f"its input {index} is left out")
    if most is not None:  # optional operands repeat in the others
        bind_types(signature, call.inputs)


def standard(
    call: Call, op_type: str, inputs: Inputs, attributes: Attributes | None = None
) -> Value:
    """The first output of a standard operator in any form, normalised by its rule."""
    use = replace(
        call,
        op_type=op_type,
        version=_NEWEST,
        inputs=inputs,
        attributes=dict(attributes or {}),
        used=[True],
    )
    bounds = index_bounds(op_type, use.inputs, use.__getitem__)
    if bounds is not None:
        use.check_bounds(bounds)
    rule = RULES.get(op_type)
    return (use.emit() if rule is None else rule(use))[0]


def refuse(call: Call, *attributes: str) -> None:
    """Raise Unsupported for attributes that are set, which no rule supports."""
    for name in attributes:
        if call.attributes.get(name):
            raise Unsupported(f"its attribute {name!r} is set, which is not supported")


def refuse_inputs(call: Call, **named: int) -> None:
    """Raise Unsupported for optional inputs that are given, which no rule supports."""
    for name, index in named.items():
        if call.input(index) is not None:
            raise Unsupported(f"its input {index} ({name!r}) is not supported", "leave it out")


def transposed(call: Call, value: Value, perm: Sequence[int]) -> Value:
    """A value with its axes permuted."""
    identity = list(perm) == list(range(value.rank))
    return value if identity else call.one("Transpose", value, perm=list(perm))
