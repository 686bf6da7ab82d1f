"""The most that one core of this host computes and moves, measured in some milliseconds.

Data sheets do not say it: a virtual core's clock, and what it becomes under wide vectors, are its
host's affair.
"""

import ctypes
from functools import cache
from time import perf_counter

import numpy as np

from compiler.backends.cpu.features import host_features
from compiler.support.native_code import LinkedCode, llvm, target_machine
from compiler.target.devices import CORES, DeviceModel

CHAINS = 12
"""Independent multiplications and additions in flight: two units, of up to six cycles' latency."""

STEPS = 1 << 16
TURNS = 9

MOVED_BYTES = 64 << 20
"""Copied at a time: more than a core's share of the caches."""

COPIES = 4


@cache
def measured_core() -> DeviceModel:
    """One core of this host: the FLOPs and the bytes from and to memory in a ns."""
    return DeviceModel(
        CORES.sms, _flops(), _bytes(), interference=CORES.interference, latencies=CORES.latencies
    )


def _flops() -> float:
    """The most float32 FLOPs in a ns, of vectors as wide as the host has."""
    features = host_features()
    lanes = 16 if "avx512f" in features else 8 if "avx2" in features else 4
    machine = target_machine()
    module = llvm.parse_assembly(_loop(lanes))
    module.triple = machine.triple
    linked = LinkedCode([machine.emit_object(module)], ["peak"])
    peak = ctypes.CFUNCTYPE(ctypes.c_float, ctypes.c_int64)(linked.addresses["peak"])
    times: list[float] = []
    for _ in range(TURNS):
        start = perf_counter()
        peak(STEPS)
        times.append(perf_counter() - start)
    return 2.0 * lanes * CHAINS * STEPS / (min(times) * 1e9)


def _loop(lanes: int) -> str:
    """LLVM IR of a loop that multiplies and adds in chains of vectors."""
    vector = f"<{lanes} x float>"
    chains = range(CHAINS)
    merged = [
        f"  %p{i} = phi {vector} [ zeroinitializer, %entry ], [ %n{i}, %loop ]" for i in chains
    ]
    fused = f"{vector} @llvm.fmuladd.v{lanes}f32"
    steps = [
        f"  %n{i} = call {fused}({vector} %p{i}, {vector} %p{i}, {vector} %p{i})" for i in chains
    ]
    # the result depends on every chain, else LLVM would remove some
    sums = [f"  %s{i + 1} = fadd {vector} %s{i}, %n{i}" for i in chains]
    return "\n".join(
        [
            f"declare {fused}({vector}, {vector}, {vector})",
            "define float @peak(i64 %steps) {",
            "entry:",
            "  br label %loop",
            "loop:",
            "  %i = phi i64 [ 0, %entry ], [ %next, %loop ]",
            *merged,
            *steps,
            "  %next = add i64 %i, 1",
            "  %more = icmp slt i64 %next, %steps",
            "  br i1 %more, label %loop, label %done",
            "done:",
            f"  %s0 = fadd {vector} %n0, zeroinitializer",
            *sums,
            f"  %first = extractelement {vector} %s{CHAINS}, i32 0",
            "  ret float %first",
            "}",
        ]
    )


def _bytes() -> float:
    """The bytes from and to memory in a ns, by copying what no cache holds."""
    source = np.ones(MOVED_BYTES, np.uint8)
    target = np.zeros(MOVED_BYTES, np.uint8)
    times: list[float] = []
    for _ in range(COPIES):
        start = perf_counter()
        # the first copy maps the target's pages, too: the minimum leaves it out
        np.copyto(target, source)
        times.append(perf_counter() - start)
    return 2.0 * MOVED_BYTES / (min(times) * 1e9)
