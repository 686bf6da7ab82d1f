"""Whether networks compiled for a CPU are right where they run: exported, built and executed.

    python tests/cpu_projects.py [--targets cpu:neoverse-n1 ...] [--models small:bytes zoo:googlenet
        field:levit_128s reduced:bert128 ...] [--quantised zoo:resnet50 ...] [--json FILE]

Each network becomes a C++ project, which is built with warnings as errors and compares its outputs
with onnxruntime's on one thread and on several. A target of AArch64 takes Debian's cross compiler
and runs under qemu-aarch64, on the CPU that `QEMU_CPUS` names for it. `--quantised` quantises
networks beforehand to QDQ pairs of uint8 and int8 by onnxruntime's tools. Prints a row for each.
"""

import argparse
import json
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from time import perf_counter
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

import compiler
from benchmarks.quantised.models import quantised
from compiler.artifact.generate import StoredCheck, export_project
from compiler.errors import FlowloomError
from compiler.target.cpus import host_instruction_set
from compiler.target.target import parse_cpu
from compiler.tools.reference import run_onnxruntime
from compiler.tools.tolerance import TOLERANCES
from examples import field, light, zoo
from tests.artifact.cpu_models import SMALL
from tests.artifact.projects import attempt, read_artifact, run
from tests.backends.emu import reduced

QEMU_CPUS = {
    "cpu:aarch64": "cortex-a53",
    "cpu:cortex-a53": "cortex-a53",
    "cpu:cortex-a72": "cortex-a72",
    "cpu:cortex-a76": "cortex-a76",
    "cpu:neoverse-n1": "neoverse-n1",
}
"""The CPU that qemu emulates for a target, which has no more than it; for others, all it knows."""

TARGETS = ("cpu:aarch64", "cpu:neoverse-n1", "cpu:neoverse-v1")
"""Plain NEON; with SDOT; with USDOT."""

QUANTUM = 0.03
"""The error allowed of a quantised network, in which a number rounded the other way is one off."""

Network = tuple[Any, dict[str, Any]]


def network(name: str) -> Network:
    """A model and its inputs."""
    kind, _, own = name.partition(":")
    if kind == "small":
        model = SMALL[own]()
        return model, light.random_inputs(model, 1, vocabulary=6)
    if kind == "reduced":
        model = reduced.load(own)
        return model, zoo.random_inputs(model, 1)
    collection = {"zoo": zoo, "field": field}[kind]
    model = collection.load(own)
    return model, collection.random_inputs(model, 1)


def project_of(network: Network, target: str, tolerance: float, folder: Path) -> Path:
    """The project of a network with onnxruntime's outputs."""
    model, inputs = network
    module = compiler.compile(model, target=target, budget=0)
    module.save(folder / "artifact")
    check = StoredCheck(inputs, run_onnxruntime(model, inputs), tolerance)
    found = read_artifact(folder / "artifact")
    export_project(found, folder / "project", version=compiler.__version__, check=check)
    return folder / "project"


def is_foreign(target: str) -> bool:
    """Whether code for a target needs the cross compiler and qemu here."""
    return parse_cpu(target).instruction_set != host_instruction_set()


def built(project: Path, target: str, *options: str) -> Path:
    """The self-check of a project, built with warnings as errors."""
    place = project / "build"
    chosen = ["-DFLOWLOOM_WERROR=ON", *options]
    if is_foreign(target):
        chosen.append(f"-DCMAKE_TOOLCHAIN_FILE={project / 'cmake' / 'aarch64.cmake'}")
    run("cmake", "-S", project, "-B", place, *chosen)
    run("cmake", "--build", place, "-j2")
    return place / "flowloom_check"


def execution(target: str) -> list[str]:
    """The words before a program for a target: qemu's, for its CPU."""
    if not is_foreign(target):
        return []
    return ["qemu-aarch64", "-cpu", QEMU_CPUS.get(target, "max"), "-L", "/usr/aarch64-linux-gnu"]


def measure(found: Network, target: str, tolerance: float) -> dict[str, Any]:
    """The largest error of a network's outputs, or why there is none."""
    start = perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        try:
            project = project_of(found, target, tolerance, Path(folder))
        except FlowloomError as error:
            return {"failure": str(error)}
        kernels = len([*(project / "kernels").iterdir()])
        program = built(project, target)
        compiled = perf_counter() - start
        ran = attempt(*execution(target), program, "--threads", "3", "--runs", "0")
    errors = [float(error) for error in re.findall(r"relative error (\S+),", ran.stdout)]
    return {
        "kernels": kernels,
        "error": max(errors, default=0.0),
        "compile_seconds": compiled,
        "run_seconds": perf_counter() - start - compiled,
        "failure": "" if ran.returncode == 0 and errors else ran.stdout + ran.stderr,
    }


def in_bytes(found: Network) -> Network:
    """A network whose model has QDQ pairs."""
    with tempfile.TemporaryDirectory() as folder:
        return quantised(found[0], "static", Path(folder)), found[1]


def rows(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """A row for each network and target."""
    for name in options.models:
        found = network(name)
        for target in options.targets:
            yield {"model": name, "target": target, **measure(found, target, TOLERANCES["fp32"])}
    for name in options.quantised:
        found = in_bytes(network(name))
        for target in options.targets:
            yield {"model": f"{name}, int8", "target": target, **measure(found, target, QUANTUM)}


def describe(row: Mapping[str, Any]) -> str:
    """One line of the table."""
    head = f"{'FAIL' if row['failure'] else 'PASS'}  {row['model']:26} {row['target']:18}"
    if row["failure"]:
        return f"{head} {row['failure']}"
    return (
        f"{head} {row['kernels']:4} kernels, error {row['error']:.1e}, compiled and built in"
        f" {row['compile_seconds']:.0f} s, run in {row['run_seconds']:.0f} s"
    )


def arguments() -> argparse.Namespace:
    """The options of the command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--targets", nargs="*", default=list(TARGETS))
    parser.add_argument("--models", nargs="*", default=[f"small:{name}" for name in SMALL])
    parser.add_argument("--quantised", nargs="*", default=[])
    parser.add_argument("--json", type=Path, help="write the rows to this file")
    return parser.parse_args()


def main() -> int:
    """Print the rows; exit status 1 if any network failed."""
    options, done = arguments(), list[dict[str, Any]]()
    if any(map(is_foreign, options.targets)):
        print(run("qemu-aarch64", "--version").splitlines()[0])
        print(run("aarch64-linux-gnu-g++", "--version").splitlines()[0])
    for row in rows(options):
        done.append(row)
        print(describe(row), flush=True)
        if options.json:
            options.json.write_text(json.dumps(done, indent=1))
    failed = sum(bool(row["failure"]) for row in done)
    print(f"{len(done) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
