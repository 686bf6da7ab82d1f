"""A model, kernels and a device with known times, so that choices can be foretold."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import numpy as np
import onnx
from onnx import TensorProto, helper
from xdsl.dialects.builtin import ModuleOp

from compiler.backends.gpu.executor import GpuExecutor
from compiler.ir.dataflow import GroupOp
from compiler.kernels.building.module import with_operands
from compiler.kernels.group import extract_group
from compiler.schedule.kernels import KernelSpec, Launch
from compiler.verify.seals import sealed_kernel
from tests.backends.gpu.recording import RecordingDriver

CHAINS, LENGTH = 4, 3


def model() -> onnx.ModelProto:
    """Four independent chains of three GEMMs each, then one sum of all."""
    generator, nodes, weights = np.random.default_rng(0), list[Any](), list[Any]()
    for chain in range(CHAINS):
        last = "x"
        for step in range(LENGTH):
            name = f"{chain}_{step}"
            values = generator.standard_normal((8, 8)).astype(np.float32)
            weights.append(onnx.numpy_helper.from_array(values, f"w{name}"))
            nodes.append(helper.make_node("MatMul", [last, f"w{name}"], [f"t{name}"], name=name))
            last = f"t{name}"
    ends = [f"t{chain}_{LENGTH - 1}" for chain in range(CHAINS)]
    nodes.append(helper.make_node("Sum", ends, ["y"], name="sum"))
    infos = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [8, 8]) for n in "xy"]
    graph = helper.make_graph(nodes, "chains", infos[:1], infos[1:], weights)
    opset = helper.make_opsetid("", 18)
    return helper.make_model(graph, opset_imports=[opset], ir_version=10)


def kernels(module: ModuleOp, *_: Any) -> dict[str, KernelSpec]:
    """In place of `build_kernels`: every group's kernel as an image that the recorder takes."""
    found: dict[str, KernelSpec] = {}
    for op in module.walk():
        if isinstance(op, GroupOp) and op.kernel is not None:
            name, reads = op.kernel.data, len(op.inputs)
            launch = Launch(name, tuple(range(reads + len(op.outputs))), (8, 1, 1), (64, 1, 1))
            image = b"\x7fELF" + name.encode()
            spec = KernelSpec(
                name, "cuda", image, (launch,), ("",) * reads, flops=1000, traffic_bytes=1000
            )
            found[name] = sealed_kernel(with_operands(spec, extract_group(op)))
    return found


class Anything(dict[str, Callable[..., None]]):
    """Every symbol is a function that does nothing."""

    def __contains__(self, key: object) -> bool:
        return True

    def __missing__(self, key: str) -> Callable[..., None]:
        return lambda *_: None


def recorder() -> RecordingDriver:
    """A device on which every kernel runs."""
    return RecordingDriver(Anything())


def programmatic_kernels(module: ModuleOp, *_: Any) -> dict[str, KernelSpec]:
    """The same kernels, which wait themselves."""
    return {
        name: sealed_kernel(
            replace(k, launches=tuple(replace(x, programmatic=True) for x in k.launches))
        )
        for name, k in kernels(module).items()
    }


def timed(nanoseconds: Callable[[str, int], float]) -> Callable[[GpuExecutor], Callable[[], float]]:
    """In place of `timed_run`: runs for real, then returns the time of a mode on some streams."""

    def timed_run(executor: GpuExecutor) -> Callable[[], float]:
        def once() -> float:
            executor.run(executor.in_place("input"), outputs="device")
            settings = executor.settings
            mode = settings.mode + ("+pdl" if settings.pdl and settings.mode == "graph" else "")
            return nanoseconds(mode, executor.schedule.streams)

        return once

    return cast(Any, timed_run)
