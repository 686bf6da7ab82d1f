"""Kernels that read the sizes which a run decides from one more operand, as their blocks begin."""

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import reduce

from compiler.kernels.gpu.entries.indirect import KERNEL_HEAD
from compiler.kernels.gpu.source import header
from compiler.kernels.gpu.structs import DEVICE
from compiler.kernels.group import Group
from compiler.kernels.sizes import is_number
from compiler.kernels.template import KernelSource
from compiler.tensors.extents import (
    Atom,
    Expression,
    Extent,
    Maximum,
    Monomial,
    NotForAllSizes,
    Quotient,
    terms_of,
)
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
    number = size_text(extent, group)
    kind = name.capitalize()
    convert = f"{DEVICE.strip()} operator int() const {{ return {number}; }}"
    return [
        f"  struct {kind} {{ {convert} }};",
        f"  static constexpr {kind} {name}{{}};",
    ]


def _term(monomial: Monomial, factor: int, numbers: Mapping[str, str]) -> str:
    if not all(isinstance(atom, Symbol) for atom in monomial):
        raise NotForAllSizes("no symbolic kernel: a template multiplies and adds sizes alone")
    return " * ".join([str(factor), *(numbers[str(atom)] for atom in monomial)])


def with_grid_guards(kernel: KernelSource, group: Group) -> KernelSource:
    """The kernel of a group with symbols whose blocks beyond the grid for its sizes leave at once.

    So it may be launched in a larger grid, as that of a graph for several sizes. They wait for the
    launches before, which whatever follows this one takes to have ended.
    """
    guards = {
        launch.symbol: launch
        for launch in kernel.launches
        if any(isinstance(size, Expression) for size in launch.grid)
    }

    def guarded(head: re.Match[str]) -> str:
        launch = guards.get(head[2])
        if launch is None:
            return head[0]
        pointer = head[3].split(",")[launch.args.index(group.inputs)].split()[-1].lstrip("*")
        values = {symbol.name: f"{pointer}[{i}]" for i, symbol in enumerate(group.symbols)}
        beyond = [
            f"blockIdx.{axis} >= {_c_text(size, values)}"
            for axis, size in zip("xyz", launch.grid, strict=True)
            if isinstance(size, Expression)
        ]
        return f"{head[0]}\n  if ({' || '.join(beyond)}) return grid_dependency_wait();"

    return replace(kernel, text=KERNEL_HEAD.sub(guarded, kernel.text))


def _c_text(extent: Extent, values: Mapping[str, str]) -> str:
    """The C expression of an extent that is not negative, of 64 bits."""
    terms = (
        " * ".join([f"{factor}ll", *(_c_atom(atom, values) for atom in monomial)])
        for monomial, factor in terms_of(extent)
    )
    return f"({' + '.join(sorted(terms))})"


def _c_atom(atom: Atom, values: Mapping[str, str]) -> str:
    match atom:
        case Symbol():
            return values[atom.name]
        case Quotient():  # of numbers that are not negative: rounded to zero is rounded down
            return f"({_c_text(atom.numerator, values)} / {_c_text(atom.denominator, values)})"
        case Maximum():
            first, *others = (_c_text(other, values) for other in atom.extents)
            return reduce(lambda a, b: f"({a} > {b} ? {a} : {b})", others, first)


def with_runtime_sizes(kernel: KernelSource, group: Group) -> KernelSource:
    """The kernel of a template, whose text has `runtime_size(i)` for the group's symbol `i`.

    It reads the sizes, which are written before a run, while the kernels before it end.
    """
    count = len(group.symbols)
    number = group.inputs
    if count > MOST_RUNTIME_SIZES:
        raise NotForAllSizes(
            f"no symbolic kernel: {count} sizes, a template has {MOST_RUNTIME_SIZES}"
        )

    wait = "" if "grid_dependency_wait(" in kernel.text else "\n  grid_dependency_wait();"
    text = KERNEL_HEAD.sub(
        rf'extern "C" __global__ \1\2(\3, const int64_t* __restrict__ sizes) {{'
        f"\n  read_sizes(sizes, {count});{wait}",
        kernel.text,
    )
    launches = tuple(
        replace(own, args=(*(n + (n >= number) for n in own.args), number))
        for own in kernel.launches
    )
    return replace(kernel, text=f"{header('sizes')}\n{text}", launches=launches)
