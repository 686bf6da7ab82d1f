"""From launch functions to a relocatable object with the uniform entry points, by LLVM."""

import re
from math import inf

import llvmlite.binding as llvm
import tvm
import tvm_ffi
from tvm import IRModule, tirx

from compiler.errors import KernelError
from compiler.kernels.cpu.byte_sums import link_byte_sums
from compiler.kernels.cpu.machine import llvm_machine, llvm_options
from compiler.kernels.cpu.nibbles import link_nibbles
from compiler.kernels.cpu.remainders import guard_loops
from compiler.kernels.ops.mathematics import link_mathematics
from compiler.kernels.ops.opaque import ROLLED
from compiler.kernels.ops.tables import link_tables
from compiler.kernels.ops.vector_functions import with_calls
from compiler.kernels.ops.wrapping import plain_instructions, with_instructions
from compiler.kernels.template import KernelSource
from compiler.kernels.tir.launches import LaunchFunction, launch_module
from compiler.kernels.tir.sized_launches import SIZED_LOOP
from compiler.support.caches import compiled_once, package_version
from compiler.target.target import CpuTarget

_NOTES = re.compile(r", !(?:tbaa|dbg) !\d+| !dbg !\d+(?= \{)")
"""Marks of debug data, and of aliases: `noalias` says that buffers differ, or LLVM sees it."""

_UNUSED = ("!", "    #dbg_", "@__tvm", "@__TVM", "@llvm.global_ctors")
"""The beginnings of lines of TVM's code that are metadata, debug data or globals of a module."""

_WEIGHTS = '!"branch_weights"'
"""The only metadata that stays."""

_EXTREME = re.compile(
    r"call ((?:reassoc |contract )*(?:float|double) @llvm\.(?:maximum|minimum)\.)"
)
_SUM = re.compile(r"fadd reassoc|reassoc contract (?:float|double) @llvm\.fmuladd")

_OTHER_THAN_SUMS = re.compile(r"(= f(?:mul|div)) reassoc ")
"""Instructions that need no other order: LLVM would divide by x for a multiplication by 1 / x."""

_VECTOR_ACCESS = re.compile(r"^( +(?:%\S+ = load|store) <\d+ x (\w+)>.*, align )\d+", re.M)
_ELEMENT_BYTES = {
    "i1": 1,
    "i8": 1,
    "i16": 2,
    "half": 2,
    "bfloat": 2,
    "i32": 4,
    "float": 4,
    "i64": 8,
    "double": 8,
    "ptr": 8,
}
_LAUNCH = re.compile(r"^define dllexport (void @.*\)) ", re.M)

_OF_HALVES = re.compile(r"^define weak dso_local \w+ @__\w+hf\w+\(.*?^}\n", re.M | re.S)
"""The conversions of float16 that TVM adds to every module, for CPUs without instructions."""

_LOOP = re.compile(r"^for_begin_(\w+):.*\n.* = phi .*\n.*icmp slt i\d+ %[\w.]+, (\d+)$", re.M)

_FUNCTION = re.compile(r"^define (?:internal )?void @.*\)(?= (?:noinline )?(?:#\d+ )?\{$)", re.M)

_SIZED = re.compile(rf"^for_begin_(\w+_{SIZED_LOOP}(\d+)_\d*):", re.M)

INTERLEAVED_LOOP = 512
"""Sums of so many iterations are added up in four vectors, as one addition waits for the other;
LLVM would do so itself were loops not marked as not to be unrolled."""

UNROLLED_LOOP = 8
"""Loops of up to this many iterations may be unrolled before vectorisation."""


def llvm_text(module: IRModule, target: CpuTarget, reassociate: bool = False) -> str:
    """TVM's LLVM code for plain functions, not optimised, without its metadata and globals.

    The same functions give the same text in every process, so that its object can be kept: TVM
    names buffers by their addresses where it says what aliases what.

    Vector accesses are made to expect no more than their elements' alignment, as buffers may be
    views at any element of a tensor.
    """
    options = {**llvm_options(target), "opt-level": 0, "fast-math-contract": True}
    if reassociate:
        options["fast-math-reassoc"] = True
    tvm_target = tvm.target.Target(options)
    passes = [
        tirx.transform.BindTarget(tvm_target),
        tirx.transform.FP8StorageLegalize(),
        tirx.transform.BF16StorageLegalize(),
        tirx.transform.LowerIntrin(),
    ]
    build = tvm_ffi.get_global_func("target.build.llvm")
    module = with_calls(module)
    lowered = with_instructions(tvm.ir.transform.Sequential(passes)(module))
    text = _without_notes(str(build(lowered, tvm_target).inspect_source("ll")))
    text = plain_instructions(text)
    # LLVM would optimise a launch's function twice: by itself, and again where it has inlined it.
    text = _LAUNCH.sub(r"define internal \1 noinline ", text)
    text = _OTHER_THAN_SUMS.sub(r"\1 ", text)
    text = _EXTREME.sub(r"call nsz \1", text)
    return _VECTOR_ACCESS.sub(lambda m: m[1] + str(_ELEMENT_BYTES[m[2]]), text)


def _without_notes(text: str) -> str:
    lines = text.split("\n")
    code = [line for line in lines if not line.startswith(_UNUSED) or _WEIGHTS in line]
    return _NOTES.sub("", "\n".join(code))


def entry_text(symbol: str, body: str, arguments: int) -> str:
    """LLVM code of `void symbol(void **buffers, int64_t begin, int64_t end)` that calls a body."""
    lines = [f"define void @{symbol}(ptr noalias readonly %buffers, i64 %begin, i64 %end) {{"]
    for i in range(arguments):
        lines += [
            f"  %slot{i} = getelementptr ptr, ptr %buffers, i64 {i}",
            f"  %buffer{i} = load ptr, ptr %slot{i}",
        ]
    passed = "".join(f"ptr %buffer{i}, " for i in range(arguments))
    lines += [
        "  %first = trunc i64 %begin to i32",
        "  %last = trunc i64 %end to i32",
        f"  call void @{body}({passed}i32 %first, i32 %last)",
        "  ret void",
        "}",
    ]
    return "\n".join(lines)


def keep_loops(text: str, most: float = UNROLLED_LOOP) -> str:
    """Mark the loops of TVM's code that have more than a few iterations as not to be unrolled.

    LLVM would unroll those of up to about 30 before its vectoriser runs, for much slower code.
    Loops that are named so are marked in any case.
    """
    marks: list[str] = []
    kept = [
        _kept(function, marks, most) for function in re.split(r"^(?=define )", text, flags=re.M)
    ]
    hints = [
        '!899998 = !{!"llvm.loop.interleave.count", i32 4}',
        '!899999 = !{!"llvm.loop.unroll.disable"}',
    ]
    if any("899997" in mark for mark in marks):
        hints.append('!899997 = !{!"llvm.loop.interleave.count", i32 1}')
    return "\n".join(["".join(kept), *hints, *marks])


def _kept(function: str, marks: list[str], most: float) -> str:
    """One function, in which a loop's last jump to its beginning has the mark.

    One that sizes decide is always marked; LLVM would interleave its vectors for a long one.
    """
    loops = [(name, int(extent), "") for name, extent in _LOOP.findall(function)]
    loops += [(name, int(turns), ", !899997") for name, turns in _SIZED.findall(function)]
    for name, extent, short in loops:
        if short or extent > most or name.startswith(ROLLED):
            mark = 900000 + len(marks)
            before, _, after = function.rpartition(f"br label %for_begin_{name}\n")
            function = f"{before}br label %for_begin_{name}, !llvm.loop !{mark}\n{after}"
            sums = extent >= INTERLEAVED_LOOP and _SUM.search(_body(function, name))
            hint = ", !899998" if sums else short if extent < INTERLEAVED_LOOP else ""
            marks.append(f"!{mark} = distinct !{{!{mark}, !{899999}{hint}}}")
    return function


def _body(function: str, name: str) -> str:
    """The code of a loop from its head to its last jump there."""
    start = function.index(f"for_begin_{name}:")
    return function[start : function.rindex(f"br label %for_begin_{name}")]


def with_own_copies(text: str) -> str:
    """LLVM code whose loops that copy or clear stay loops.

    LLVM calls memcpy and memset where it does not see how short they are: for rows of an image a
    call takes longer than its bytes.
    """
    return _FUNCTION.sub(r'\g<0> "no-builtins"', text)


def compile_llvm(
    name: str, launches: list[LaunchFunction], source: KernelSource, target: CpuTarget
) -> bytes:
    """The relocatable object of some launches, whose symbols are `name_0`, `name_1`, ..."""
    text = llvm_text(launch_module(launches), target, source.reassociate)
    sized = any(launch.symbols for launch in launches)
    text = guard_loops(keep_loops(text, UNROLLED_LOOP if source.whole_loops or sized else inf))
    entries: list[str] = []
    for i, launch in enumerate(launches):
        body = f"{name}_{i}_body"
        text = re.sub(rf"@{re.escape(f'{name}_{i}')}\(", f"@{body}(", text)
        entries.append(entry_text(f"{name}_{i}", body, len(launch.args)))
    linked = link_nibbles(link_byte_sums(link_mathematics(link_tables(text))))
    code = without_conversions("\n".join([linked, *entries]))
    code = with_own_copies(code) if sized else code
    # The vectors of templates are there already: LLVM would look for others, and make none.
    return optimise(code, target, slp=source.whole_loops)


def without_conversions(text: str) -> str:
    """LLVM code without TVM's functions for float16 if it has no such numbers."""
    rest = _OF_HALVES.sub("", text)
    return text if re.search(r"\bhalf\b", rest) else rest


def optimise(text: str, target: CpuTarget, slp: bool = True) -> bytes:
    """Optimise LLVM code for a target and emit its object.

    With `slp` equal scalar operations of straight-line code become vectors.
    """
    machine = llvm_machine(target)
    described = f"llvmlite {package_version('llvmlite')} {llvm_options(target)} slp={slp}"
    make = (_object, llvm_machine)
    return compiled_once(lambda: _object(text, machine, slp), make, described, text)


def _object(text: str, machine: llvm.TargetMachine, slp: bool) -> bytes:
    try:
        module = llvm.parse_assembly(text)
    except RuntimeError as error:
        raise KernelError(f"the generated LLVM code is invalid: {error}") from error
    tuning = llvm.PipelineTuningOptions(speed_level=3)
    tuning.slp_vectorization = slp
    tuning.loop_vectorization = tuning.loop_interleaving = tuning.loop_unrolling = True
    builder = llvm.create_pass_builder(machine, tuning)
    builder.getModulePassManager().run(module, builder)
    return machine.emit_object(module)
