"""Weights of one number, such as scales that layers do not share, loaded as a kernel begins.

They are used as results are stored, where their latency would be added to the kernel's time.
Weights never change, so that no kernel before has to end first.
"""

from dataclasses import replace

from compiler.kernels.gpu.entries.indirect import KERNEL_HEAD
from compiler.kernels.gpu.source import header
from compiler.kernels.group import Group
from compiler.kernels.template import KernelSource

TYPES = ("float32", "int32", "uint8", "int8")
"""The types of scales, limits and zero points."""


def with_early_numbers(kernel: KernelSource, group: Group) -> KernelSource:
    """A kernel that loads the weights of one number first; the same one without any."""
    numbers = {i for i, info in enumerate(group.reads) if group.weights[i] and info.shape == ()}
    numbers = {i for i in numbers if group.reads[i].dtype in TYPES}
    if numbers.isdisjoint(n for launch in kernel.launches for n in launch.args):
        return kernel
    arguments = {launch.symbol: launch.args for launch in kernel.launches}
    parts = [header("numbers"), "\n"]
    end = 0
    for head in KERNEL_HEAD.finditer(kernel.text):
        parts.append(kernel.text[end : head.end()])
        names = [one.split()[-1].lstrip("*") for one in head[3].split(",") if one.strip()]
        for name, argument in zip(names, arguments.get(head[2], ()), strict=False):
            if argument in numbers:
                parts.append(f"\n  auto own_{name} = load_number({name});\n  {name} = &own_{name};")
        end = head.end()
    return replace(kernel, text="".join([*parts, kernel.text[end:]]))
