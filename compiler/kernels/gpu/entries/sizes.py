"""Kernels that read the sizes which a run decides from one more operand, as their blocks begin."""

from collections.abc import Mapping
from dataclasses import replace

from compiler.kernels.gpu.entries.indirect import KERNEL_HEAD
from compiler.kernels.gpu.source import header
from compiler.kernels.gpu.structs import DEVICE
from compiler.kernels.group import Group
from compiler.kernels.sizes import is_number
from compiler.kernels.template import KernelSource
from compiler.tensors.extents import Extent, Monomial, NotForAllSizes, terms_of
from compiler.tensors.symbols import Symbol

MOST_RUNTIME_SIZES = 16
"""The sizes that a block keeps, see sizes.cuh."""


def size_text(extent: Extent, group: Group) -> str:
    """The C expression of an extent over a group's symbols in the text of `with_runtime_sizes`."""
    if is_number(extent):
        return str(extent)
    numbers = {symbol.name: f"runtime_size({i})" for i, symbol in enumerate(group.symbols)}
    terms = [_term(monomial, factor, numbers) for monomial, factor in terms_of(extent)]
    return f"({' + '.join(sorted(terms))})"


def runtime_constant(name: str, extent: Extent, group: Group) -> list[str]:
    """The members of a C++ problem by which a constant becomes a size where it is used."""
    number, kind = size_text(extent, group), name.capitalize()
    convert = f"{DEVICE.strip()} operator int() const {{ return {number}; }}"
    return [
        f"  struct {kind} {{ {convert} }};",
        f"  static constexpr {kind} {name}{{}};",
    ]


def _term(monomial: Monomial, factor: int, numbers: Mapping[str, str]) -> str:
    if not all(isinstance(atom, Symbol) for atom in monomial):
        raise NotForAllSizes("no symbolic kernel: a template multiplies and adds sizes alone")
    return " * ".join([str(factor), *(numbers[str(atom)] for atom in monomial)])


def with_runtime_sizes(kernel: KernelSource, group: Group) -> KernelSource:
    """The kernel of a template, whose text has `runtime_size(i)` for the group's symbol `i`."""
    count, number = len(group.symbols), group.inputs
    if count > MOST_RUNTIME_SIZES:
        raise NotForAllSizes(
            f"no symbolic kernel: {count} sizes, a template has {MOST_RUNTIME_SIZES}"
        )

    text = KERNEL_HEAD.sub(
        rf'extern "C" __global__ \1\2(\3, const int64_t* __restrict__ sizes) {{'
        f"\n  read_sizes(sizes, {count});",
        kernel.text,
    )
    launches = tuple(
        replace(own, args=(*(n + (n >= number) for n in own.args), number))
        for own in kernel.launches
    )
    return replace(kernel, text=f"{header('sizes')}\n{text}", launches=launches)
