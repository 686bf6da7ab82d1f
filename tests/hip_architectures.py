"""Whether whole models compile for AMD architectures, and what their code takes.

    python tests/hip_architectures.py [--models resnet50 ...] [--architectures gfx90a gfx1030]
                                      [--precisions fp32 ...] [--json FILE]

Needs no GPU. Compiles each model (reduced, as the emulator's tests take it) with `target="hip"` to
its shared library and reads the code objects in it. A kernel fails if it spills registers or keeps
anything on its stack. For gfx942 and gfx1100 name a compiler that knows them in FLOWLOOM_HIPCC:
that of ROCm 6, or what `tests/hip_overlay.sh` makes. Prints a row for each model, architecture and
precision.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from compiler.driver.build import build
from compiler.driver.settings import Settings
from compiler.errors import FlowloomError
from compiler.kernels.building import KernelCache
from compiler.kernels.gpu.compilers.hip_toolchain import hip_version
from examples import zoo
from tests.artifact.code_objects import code_objects, readelf
from tests.backends.emu import reduced

MODELS = ("resnet50", "inception_v3", "bert128", "unet")
FIELDS = {
    "vgprs": "vgpr_count",
    "vector_spills": "vgpr_spill_count",
    "scalar_spills": "sgpr_spill_count",
    "stack_bytes": "private_segment_fixed_size",
    "shared_bytes": "group_segment_fixed_size",
}
"""The figures of each kernel, with their names in the notes of a code object."""


def kernels_of(library: bytes) -> dict[str, dict[str, int]]:
    """The figures of each kernel of each code object, by `architecture name`."""
    found: dict[str, dict[str, int]] = {}
    with tempfile.NamedTemporaryFile() as file:
        for architecture, code in code_objects(library):
            Path(file.name).write_bytes(code)
            command = [readelf(), "--notes", file.name]
            notes = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            for kernel in re.split(r"\n  - (?=\.)", notes)[1:]:
                name = re.search(r"\.symbol: +(\S+)\.kd", kernel)
                assert name is not None
                found[f"{architecture} {name[1]}"] = figures(kernel)
    return found


def figures(kernel: str) -> dict[str, int]:
    """The figures in the notes of one kernel."""
    read = {key: re.search(rf"\.{name}: +(\d+)", kernel) for key, name in FIELDS.items()}
    return {key: int(match[1]) for key, match in read.items() if match is not None}


def measure(name: str, target: str) -> dict[str, Any]:
    """The registers that the kernels of a model take, or why they do not compile."""
    try:
        built = build(reduced.load(name), None, Settings(target, cache=KernelCache()))
    except FlowloomError as error:
        return {"failure": str(error)}
    kernels = kernels_of(built.library)
    wrong = [
        k for k, f in kernels.items() if f["vector_spills"] + f["scalar_spills"] + f["stack_bytes"]
    ]
    return {
        "tasks": len(built.schedule.tasks),
        "kernels": len(kernels),
        "vgprs": max(kernel["vgprs"] for kernel in kernels.values()),
        "mfma": sum("mfma_gemm<" in kernel.source for kernel in built.kernels.values()),
        "library_bytes": len(built.library),
        "failure": f"spills or a stack: {', '.join(wrong)}" if wrong else "",
    }


def rows(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """A row for each model, architecture and precision; `failure` says what is wrong."""
    for name in options.models:
        for architecture in options.architectures:
            for precision in options.precisions:
                target = f"hip:{architecture}:{precision}"
                yield {"model": name, "target": target, **measure(name, target)}


def describe(row: Mapping[str, Any]) -> str:
    """One line of the table."""
    head = f"{'FAIL' if row['failure'] else 'PASS'}  {row['model']:14} {row['target']:17}"
    if "kernels" not in row:
        return f"{head} {row['failure']}"
    return (
        f"{head} {row['tasks']:4} tasks, {row['kernels']:4} functions, {row['mfma']:3} kernels on"
        f" matrix cores, at most {row['vgprs']:3} registers, library"
        f" {row['library_bytes'] / 1e6:.1f} MB  {row['failure']}"
    )


def main() -> int:
    """Print the rows; exit status 1 if any kernel failed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", nargs="*", default=list(MODELS), choices=zoo.names())
    parser.add_argument("--architectures", nargs="*", default=["gfx90a", "gfx1030"])
    parser.add_argument("--precisions", nargs="*", default=["fp32"])
    parser.add_argument("--json", type=Path, help="write the rows to this file")
    options = parser.parse_args()
    print(hip_version())
    done: list[dict[str, Any]] = []
    for row in rows(options):
        done.append(row)
        print(describe(row), flush=True)
    failed = sum(bool(row["failure"]) for row in done)
    print(f"{len(done) - failed} passed, {failed} failed")
    if options.json:
        options.json.write_text(json.dumps(done, indent=1))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
