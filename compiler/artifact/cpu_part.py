"""The part of an exported project that runs a model on a CPU: objects of kernels, and tables."""

from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path

from compiler.artifact.artifact import Artifact
from compiler.artifact.plan_text import cpp_record, cpp_table
from compiler.artifact.project_parts import ProjectPart
from compiler.backends.cpu.features import HWCAPS
from compiler.backends.cpu.tables import (
    CARRY_WORDS,
    CONTROL_WORDS,
    LAUNCH_WORDS,
    PLACE_WORDS,
    STREAM_WORDS,
    TASK_WORDS,
    make_plan,
)
from compiler.target.cpus import AARCH64
from compiler.target.target import parse_cpu

TABLE_WORDS: Mapping[str, int] = {
    "streams": STREAM_WORDS,
    "tasks": TASK_WORDS,
    "launches": LAUNCH_WORDS,
    "waits": 1,
    "slots": 2,
    "places": PLACE_WORDS,
    "carries": CARRY_WORDS,
    "controls": CONTROL_WORDS,
}
"""The tables of a schedule and the words of their rows, in the order of the project's `CpuPlan`."""

_BUILTIN = (
    *("popcnt", "sse3", "ssse3", "sse4.1", "sse4.2", "avx", "avx2", "fma", "bmi", "bmi2", "gfni"),
    *("vpclmulqdq", "avx512f", "avx512vl", "avx512bw", "avx512dq", "avx512cd", "avx512ifma"),
    *("avx512vbmi", "avx512vbmi2", "avx512vnni", "avx512bitalg", "avx512vpopcntdq"),
    *("avx512bf16", "avx512vp2intersect"),
)
"""The features of x86 that all compilers' `__builtin_cpu_supports` knows."""

CONDITIONS: Mapping[str, str] = {
    **{name: f'HAS("{name}")' for name in _BUILTIN},
    "avxvnni": "has_avxvnni()",
    "avx512fp16": "has_avx512fp16()",
    **{name: f"has_hwcap({entry}, {bit})" for name, (entry, bit) in HWCAPS.items()},
}
"""The C++ text of whether the CPU has a feature; x86's others come with one of these."""


def cpu_part(artifact: Artifact) -> ProjectPart:
    """The part of a project for one instruction set, which the build must be for."""
    instruction_set = parse_cpu(artifact.target).instruction_set
    names = list(artifact.kernels)
    features = [name for name in artifact.requirements["features"] if name in CONDITIONS]
    executor = Path(str(resources.files("compiler.backends"))) / "cpu" / "executor.c"
    foreign = " [-DCMAKE_TOOLCHAIN_FILE=cmake/aarch64.cmake]" if instruction_set == AARCH64 else ""
    needed = ", ".join(features) or f"no more than every {instruction_set} CPU has"
    return ProjectPart(
        name="cpu",
        foreign=("gpu*", "kernel*"),
        header="cpu/tables.h",
        plan=_plan(artifact, features),
        files={
            "src/cpu/executor.c": executor.read_bytes(),
            **{f"kernels/{name}.o": kernel.code for name, kernel in artifact.kernels.items()},
        },
        sources=[f"${{CMAKE_CURRENT_LIST_DIR}}/kernels/{name}.o" for name in names],
        variables={"INSTRUCTION_SET": instruction_set},
        readme={
            "files": f"an object of {instruction_set} code for each kernel",
            "needs": "A C++17 compiler is all it needs.",
            "configure": f"    cmake -B build{foreign}\n",
            "ways": "one thread and several",
            "runs_on": f"Its kernels need {needed}.",
        },
    )


def _plan(artifact: Artifact, features: Sequence[str]) -> str:
    """The kernels, the words of executor.c, and the check of the CPU's features."""
    kernels = artifact.kernels.values()
    functions = [launch.symbol for kernel in kernels for launch in kernel.launches]
    numbers = {name: number for number, name in enumerate(functions, 1)}
    tables = make_plan(artifact.schedule, artifact.kernels, numbers)
    rows: dict[str, list[list[int]]] = {
        name: getattr(tables, name).reshape(-1, width).tolist()
        for name, width in TABLE_WORDS.items()
    }
    words = [f"{{{n}_rows, {len(rows[n])}U, {width}U}}" for n, width in TABLE_WORDS.items()]
    return (
        '#include "cpu/features.h"\n\nextern "C" {\n'
        + "".join(f"void {name}(void**, int64_t, int64_t);\n" for name in functions)
        + "}\n\nnamespace flowloom {\nnamespace {\n\nconst char* missing() {\n"
        + "".join(f'  if (!{CONDITIONS[name]}) return "{name}";\n' for name in features)
        + "  return nullptr;\n}\n\n"
        + cpp_table("Kernel* const", "kernels", functions)
        + "".join(cpp_table("int64_t", f"{name}_rows", map(_row, rows[name])) for name in rows)
        + "}  // namespace\n\n"
        + cpp_record("CpuPlan", "cpu_plan", ["missing", "kernels", *words])
        + "}  // namespace flowloom\n"
    )


def _row(words: Sequence[int]) -> str:
    return ", ".join(map(str, words))
