"""The part of an exported project that runs a model on a CPU: objects of kernels, and tables."""

from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path

from compiler.backends.cpu.features import HWCAPS
from compiler.backends.cpu.tables import (
    CARRY_WORDS,
    CONTROL_WORDS,
    LAUNCH_WORDS,
    PLACE_WORDS,
    STREAM_WORDS,
    TASK_WORDS,
    ScheduleTables,
    make_plan,
)
from compiler.export.artifact import Artifact
from compiler.export.plan_text import cpp_record, cpp_table
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


class CpuPart:
    """See `project_parts.DevicePart`."""

    name = "cpu"
    header = "cpu/tables.h"
    foreign = ("gpu*", "kernel*")

    def __init__(self, artifact: Artifact) -> None:
        """An artifact whose kernels are a CPU's."""
        self._artifact = artifact
        self._instruction_set = parse_cpu(artifact.target).instruction_set

    def plan(self) -> str:
        """The kernels, the words of executor.c, and the check of the CPU's features."""
        kernels = self._artifact.kernels.values()
        functions = [launch.symbol for kernel in kernels for launch in kernel.launches]
        numbers = {name: number for number, name in enumerate(functions, 1)}
        tables = make_plan(self._artifact.schedule, self._artifact.kernels, numbers)
        rows = {name: _rows(tables, name) for name in TABLE_WORDS}
        words = (f"{{{n}_rows, {len(rows[n])}U, {width}U}}" for n, width in TABLE_WORDS.items())
        checks = (f'  if (!{CONDITIONS[n]}) return "{n}";\n' for n in self._features())
        return (
            '#include "cpu/features.h"\n\nextern "C" {\n'
            + "".join(f"void {name}(void**, int64_t, int64_t);\n" for name in functions)
            + "}\n\nnamespace flowloom {\nnamespace {\n\nconst char* missing() {\n"
            + "".join(checks)
            + "  return nullptr;\n}\n\n"
            + cpp_table("Kernel* const", "kernels", functions)
            + "".join(cpp_table("int64_t", f"{name}_rows", map(_row, rows[name])) for name in rows)
            + "}  // namespace\n\n"
            + cpp_record("CpuPlan", "cpu_plan", "missing", "kernels", *words)
            + "}  // namespace flowloom\n"
        )

    def files(self) -> Mapping[str, bytes]:
        """An object of each kernel, and the executor of the CPU backend."""
        executor = Path(str(resources.files("compiler.backends"))) / "cpu" / "executor.c"
        objects = {f"kernels/{n}.o": kernel.code for n, kernel in self._artifact.kernels.items()}
        return {"src/cpu/executor.c": executor.read_bytes(), **objects}

    def cmake(self) -> Mapping[str, str]:
        """The instruction set that a build must be for."""
        return {"INSTRUCTION_SET": self._instruction_set}

    def sources(self) -> Sequence[str]:
        """The objects by their absolute paths, as CMake takes them."""
        return [f"${{CMAKE_CURRENT_LIST_DIR}}/kernels/{name}.o" for name in self._artifact.kernels]

    def readme(self) -> Mapping[str, str]:
        """How to build it, and the features that it needs."""
        own = self._instruction_set
        foreign = " [-DCMAKE_TOOLCHAIN_FILE=cmake/aarch64.cmake]" if own == AARCH64 else ""
        features = ", ".join(self._features()) or f"no more than every {own} CPU has"
        return {
            "files": f"an object of {own} code for each kernel",
            "needs": "A C++17 compiler is all it needs.",
            "configure": f"    cmake -B build{foreign}\n",
            "ways": "one thread and several",
            "runs_on": f"Its kernels need {features}.",
        }

    def _features(self) -> list[str]:
        """The features that the project asks the CPU for."""
        return [name for name in self._artifact.requirements["features"] if name in CONDITIONS]


def _rows(tables: ScheduleTables, name: str) -> Sequence[Sequence[int]]:
    return getattr(tables, name).reshape(-1, TABLE_WORDS[name]).tolist()


def _row(words: Sequence[int]) -> str:
    return ", ".join(map(str, words))
