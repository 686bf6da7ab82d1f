"""The form of an If or a Loop as an attribute, and its check against types of the IR."""

from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import ArrayAttr, BoolAttr, DictionaryAttr, IntegerAttr, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.utils.exceptions import VerifyException

from compiler.ir.types import dtype_of, shape_of
from compiler.schedule.control import Signature, misfit
from compiler.schedule.kernels import Operand
from compiler.schedule.tasks import ControlForm


def form_attribute(form: ControlForm) -> DictionaryAttr:
    """The attribute of a Loop's form."""
    entries: dict[str, Attribute] = {
        "carried": IntegerAttr(form.carried, i64),
        "conditional": BoolAttr.from_bool(form.conditional),
        "scans": _flags(form.scans),
        "stacks": _flags(form.stacks),
    }
    if form.length is not None:
        entries["length"] = IntegerAttr(form.length, i64)
    return DictionaryAttr(entries)


def _flags(values: Sequence[bool]) -> Attribute:
    return ArrayAttr([BoolAttr.from_bool(value) for value in values])


def loop_form(attribute: DictionaryAttr) -> ControlForm:
    """The form that an attribute stands for; raises VerifyException for any other."""
    entries = attribute.data
    length = entries.get("length")
    return ControlForm(
        kind="loop",
        carried=_number(entries.get("carried")),
        length=None if length is None else _number(length),
        conditional=bool(_number(entries.get("conditional"))),
        scans=_read_flags(entries.get("scans")),
        stacks=_read_flags(entries.get("stacks")),
    )


def _number(attribute: Attribute | None) -> int:
    if not isinstance(attribute, IntegerAttr):
        raise VerifyException("a loop's form has numbers 'carried' and 'conditional'")
    return attribute.value.data


def _read_flags(attribute: Attribute | None) -> tuple[bool, ...]:
    if not isinstance(attribute, ArrayAttr):
        raise VerifyException("a loop's form has lists 'scans' and 'stacks'")
    return tuple(bool(_number(flag)) for flag in cast(ArrayAttr[Attribute], attribute))


def types_of(values: Sequence[SSAValue]) -> list[Operand]:
    """The dtypes and shapes of tensors or buffers."""
    return [Operand(dtype_of(value.type), shape_of(value.type)) for value in values]


def verify_control(
    name: str,
    form: ControlForm,
    reads: Sequence[SSAValue],
    results: Sequence[SSAValue],
    bodies: Sequence[tuple[Sequence[SSAValue], Sequence[SSAValue]]],
) -> None:
    """Raise VerifyException unless bodies, by their inputs and outputs, fit the form."""
    signatures: list[Signature] = [
        (types_of(inputs), types_of(outputs)) for inputs, outputs in bodies
    ]
    if fault := misfit(form, types_of(reads), types_of(results), signatures):
        raise VerifyException(f"a {name} {fault}")
