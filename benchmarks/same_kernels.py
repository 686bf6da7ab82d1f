"""Whether two versions of the compiler make the same kernels and schedules of zoo models.

    python benchmarks/same_kernels.py record old.json --tree ../old --models resnet50 unet
    python benchmarks/same_kernels.py record new.json --models resnet50 unet
    python benchmarks/same_kernels.py record new.json --models resnet50 --configs-only
    python benchmarks/same_kernels.py compare old.json new.json

`record` compiles without a GPU and writes, for each model and target, the schedule and each kernel:
a hash of its machine code (disassembled, without names), its launches, packings and scratch.
`--configs-only` records instead which template takes each group, with which config, and where that
comes from; it compiles no kernel. `--tree` is the checkout whose compiler is recorded, this file's
own by default; `--shim` names a file that defines `selected` for a checkout that has no
`kernels/building/select.py`. A further `record` adds models to a file. `compare` lists what
differs and fails if anything does.
"""

import argparse
import hashlib
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, fields, is_dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

TARGETS = ("cuda:sm_90:tf32", "cuda:sm_90:fp16")

CODE = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(.*?)\s*;")
"""An instruction in the listing of nvdisasm."""

LABEL = re.compile(r"[.`(\w$]*\.L_x?_?\d+\)?")
ELF = b"\x7fELF"
AMD_MACHINE = (224).to_bytes(2, "little")


def mark(content: object) -> str:
    """A short hash of plain data."""
    text = content if isinstance(content, str) else json.dumps(content, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def nvdisasm() -> str:
    """The path of nvdisasm, of the package nvidia-cuda-nvdisasm."""
    spec = find_spec("nvidia")
    for place in (spec.submodule_search_locations or ()) if spec else ():
        for path in Path(place).glob("*/bin/nvdisasm"):
            return str(path)
    raise SystemExit("needs nvdisasm: pip install nvidia-cuda-nvdisasm")


def listing(command: Iterable[str], code: bytes) -> str:
    """The output of a disassembler for some code."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(code)
        file.flush()
        ran = subprocess.run([*command, file.name], capture_output=True, text=True, check=True)
    return ran.stdout


def nvidia_code(cubin: bytes) -> list[str]:
    """The instructions of a cubin, function after function; labels by their order."""
    lines: list[str] = []
    labels: dict[str, str] = {}
    for line in listing([nvdisasm(), "-c"], cubin).splitlines():
        if code := CODE.search(line):
            lines.append(LABEL.sub(lambda m: labels.setdefault(m[0], f"L{len(labels)}"), code[1]))
        elif line.strip().startswith(".text."):
            lines.append("function")
    return [re.sub(r"\([\w.]*\)|`\([^)]*\)", "", line) for line in lines]


def amd_code(built: bytes) -> list[str]:
    """The instructions of all code objects for AMD GPUs within an object file."""
    lines: list[str] = []
    starts = [m.start() for m in re.finditer(ELF, built)]
    for start in starts:
        if built[start + 18 : start + 20] == AMD_MACHINE:
            text = listing(["llvm-objdump-15", "-d", "--no-show-raw-insn"], built[start:])
            found = (re.match(r"\s+(\S.*?)\s*//", line) for line in text.splitlines())
            lines += [re.sub(r"<[^>]*>", "", match[1]) for match in found if match]
    return lines


def kernel_line(spec: Any) -> dict[str, Any]:
    """All that decides the results and the speed of a kernel: hashes, and its launches."""
    code = amd_code(spec.code) if spec.language == "hip" else nvidia_code(spec.code)
    launches = [
        {k: v for k, v in asdict(launch).items() if k not in ("symbol", "indirect")}
        | {"indirect": bool(launch.indirect)}
        for launch in spec.launches
    ]
    return {
        "instructions": len(code),
        "code": mark(code),
        "launches": launches,
        "packings": mark(spec.packings),
        "scratch": list(spec.workspaces),
        "counted": [spec.flops, spec.traffic_bytes],
    }


def schedule_lines(module: Any, numbers: Mapping[str, int]) -> dict[str, Any]:
    """The schedule of a module, its kernels by their number; and in which mode it runs."""
    schedule = module.schedule
    tasks = [
        asdict(task)
        | {
            "kernel": numbers[task.kernel],
            "nodes": list(task.nodes),
            "subflow": -1 if task.subflow is None else task.subflow,  # older versions write -1
        }
        for task in schedule.tasks
    ]
    return {
        "tasks": len(tasks),
        "streams": schedule.streams,
        "schedule": mark(tasks),
        "allocations": mark([asdict(allocation) for allocation in schedule.allocations]),
        "mode": str(module.choice.schedule.mode) if module.choice else None,
    }


def record_module(model: str, target: str) -> dict[str, Any]:
    """Everything that is compared of a model for a target."""
    import compiler
    from examples import zoo

    budget = None if "hip" in target else 0.0
    module = compiler.compile(zoo.load(model), target=target, budget=budget)
    order = dict.fromkeys(task.kernel for task in module.schedule.tasks)
    numbers = {name: number for number, name in enumerate(order)}
    kernels = [kernel_line(module.kernels[name]) for name in order]
    return {"kernels": kernels, "schedule": schedule_lines(module, numbers)}


def record_configs(model: str, target: str) -> dict[str, Any]:
    """The template, config and database entry of each group of a model, in launch order."""
    from examples import zoo

    return {"configs": [*selected(zoo.load(model), target)]}


def selected(model: Any, target: str) -> Iterator[list[Any]]:
    """Template, config (values in order) and provenance of each group of a model."""
    from compiler.autotune.kernels.prepare import fused_groups
    from compiler.frontend.importing import import_model
    from compiler.kernels.building.select import best
    from compiler.target.target import parse_gpu

    machine = parse_gpu(target)
    for group in fused_groups(import_model(model).module, machine).values():
        found = best(group, machine)
        values = None if found.config is None else plain(found.config)
        yield [found.template.name, values, found.provenance.value]


def plain(config: Any) -> list[Any]:
    """The values of a config in order."""
    values = (getattr(config, field.name) for field in fields(config))
    return [plain(value) if is_dataclass(value) else value for value in values]


def record(options: argparse.Namespace) -> None:
    """Record each model and target that the file does not have yet."""
    sys.path.insert(0, str(options.tree.resolve()))
    found = json.loads(options.file.read_text()) if options.file.exists() else {}
    step = record_configs if options.configs_only else record_module
    if options.shim is not None:
        exec(compile(options.shim.read_text(), str(options.shim), "exec"), globals())
    for model in options.models:
        for target in options.targets:
            own = found.setdefault(f"{model} {target}", {})
            if not ({"configs"} if options.configs_only else {"kernels"}) <= own.keys():
                own |= step(model, target)
                options.file.write_text(json.dumps(found, separators=(",", ":")) + "\n")
                print(f"{model} {target}", flush=True)


def differences(old: Any, new: Any, place: str = "") -> Iterator[str]:
    """Where two recorded values differ."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in [*old, *(key for key in new if key not in old)]:
            yield from differences(old.get(key), new.get(key), f"{place} {key}")
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for number, pair in enumerate(zip(old, new, strict=True)):
            yield from differences(*pair, f"{place} {number}")
    elif old != new:
        yield f"{place.strip()}: {old} before, {new} after"


def compare(options: argparse.Namespace) -> None:
    """List what differs between two files, of the models that both have."""
    old, new = (json.loads(path.read_text()) for path in (options.old, options.new))
    both = [key for key in old if key in new]
    lines = [line for key in both for part in old[key].keys() & new[key].keys()
             for line in differences(old[key][part], new[key][part], f"{key} {part}")]  # fmt: skip
    kernels = sum(len(old[key].get("kernels", ())) for key in both)
    configs = sum(len(old[key].get("configs", ())) for key in both)
    print(*lines, sep="\n")
    print(f"{len(both)} models and targets, {kernels} kernels, {configs} configs compared:"
          f" {len(lines)} differences")  # fmt: skip
    if lines or not both:
        raise SystemExit(1)


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(required=True)
    recording = commands.add_parser("record")
    recording.add_argument("file", type=Path)
    recording.add_argument("--tree", type=Path, default=Path(__file__).parent.parent)
    recording.add_argument("--models", nargs="+", required=True)
    recording.add_argument("--targets", nargs="+", default=TARGETS)
    recording.add_argument("--configs-only", action="store_true")
    recording.add_argument("--shim", type=Path, help="a file that defines `selected` of that tree")
    recording.set_defaults(run=record)
    comparing = commands.add_parser("compare")
    comparing.add_argument("old", type=Path)
    comparing.add_argument("new", type=Path)
    comparing.set_defaults(run=compare)
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
