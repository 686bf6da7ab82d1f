"""Checking and timing CUDA kernels on a GPU's machine, which needs numpy and cuda-bindings only.

    python tests/kernels/gpu_kernels_check.py build/gpu_check

The folder comes from `gpu_kernels_prepare`. Every kernel runs on poisoned results, twice: with
aligned buffers, and with buffers that are aligned to their elements only, as far as the runtime
does not promise more (weights, and tensors in channel blocks). A failure, even one that
breaks the device's context, does not stop the others; the exit status is 1 when there was one.
"""

import argparse
import importlib.util
import json
import math
import os
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy

ROOT = Path(__file__).resolve().parents[2]

LAUNCHES, REPLAYS = 20, 15
"""Runs of a kernel in the graph that is timed, and replays of that graph."""

NO_DEVICE = 4
"""The exit status when there is no device."""

BYTES = {"bfloat16": 2, "bool": 1}


def element_bytes(dtype: str) -> int:
    """Bytes of one element."""
    return BYTES.get(dtype) or numpy.dtype(dtype).itemsize


def random_read(read: dict[str, Any]) -> numpy.ndarray:
    """The array of a read that is drawn from a seed, the same on every machine."""
    generator = numpy.random.default_rng(read["seed"])
    shape: list[int] = read["shape"]
    if read["dtype"] == "float32":
        array = generator.standard_normal(shape, numpy.float32)
    elif read["dtype"] == "bool":
        array = generator.integers(0, 2, shape).astype(bool)
    else:
        array = generator.integers(0, 100, shape).astype(read["dtype"])
    return numpy.ascontiguousarray(array)


def piece(data: bytes, place: list[int]) -> bytes:
    """The bytes that were put at a place of the data file."""
    return zlib.decompress(data[place[0] : place[0] + place[1]])


def load_packing() -> Any:
    """The packing module alone, without its package's other requirements."""
    path = ROOT / "compiler" / "graph" / "packing" / "__init__.py"
    spec = importlib.util.spec_from_file_location("packing", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def called(answer: tuple[Any, ...]) -> Any:
    """The value of a driver call; raises RuntimeError for an error."""
    status, *values = answer
    if int(status) != 0:
        raise RuntimeError(status.name)
    return values[0] if values else None


class Device:
    """The first device, its context, and one piece of memory that cases share."""

    def __init__(self) -> None:
        here = Path(__file__).resolve().parent  # its folder `cuda` would hide the package
        sys.path[:] = [entry for entry in sys.path if Path(entry).resolve() != here]
        driver: Any = importlib.import_module("cuda.bindings.driver")
        self.driver = driver
        called(driver.cuInit(0))
        device = called(driver.cuDeviceGet(0))
        called(driver.cuCtxSetCurrent(called(driver.cuDevicePrimaryCtxRetain(device))))
        self.name = called(driver.cuDeviceGetName(80, device)).split(b"\0")[0].decode()
        self.stream = called(driver.cuStreamCreate(1))
        self.size, self.memory = 0, 0

    def room(self, size: int) -> int:
        """The address of at least `size` bytes."""
        if size > self.size:
            if self.size:
                called(self.driver.cuMemFree(self.memory))
            self.size = max(size, 64 << 20)
            self.memory = int(called(self.driver.cuMemAlloc(self.size)))
        return self.memory

    def synchronise(self) -> None:
        """Wait for the stream."""
        called(self.driver.cuStreamSynchronize(self.stream))


class Case:
    """One kernel with its buffers laid out in the device's memory."""

    def __init__(self, device: Device, case: dict[str, Any], data: bytes, offset: int):
        self.device, self.case, self.data = device, case, data
        sizes = [self.read_array(read) for read in case["reads"]]
        self.inputs = sizes
        writes = [math.prod(w["shape"]) * element_bytes(w["dtype"]) for w in case["writes"]]
        nbytes = [a.nbytes for a in sizes] + writes + case["scratch"]
        tensors = [*case["reads"], *case["writes"]]
        offsets: list[int] = []
        end = 0
        for i, size in enumerate(nbytes):
            free = offset and i < len(tensors) and not tensors[i].get("aligned")
            shift = element_bytes(tensors[i]["dtype"]) if free else 0
            offsets.append(end + shift)
            end += (size + shift + 255) // 256 * 256
        self.end = max(end, 256)
        base = device.room(self.end)
        self.addresses = [base + o for o in offsets]
        self.nbytes = nbytes

    def read_array(self, read: dict[str, Any]) -> numpy.ndarray:
        """The packed array of a read, as bytes where numpy does not have its dtype."""
        if "data" not in read:
            array = random_read(read)
            if zlib.crc32(array.tobytes()) != read["check"]:
                raise RuntimeError("numpy draws other numbers here")
        else:
            kind = "uint16" if read["dtype"] == "bfloat16" else read["dtype"]
            array = numpy.frombuffer(piece(self.data, read["data"]), kind).reshape(read["shape"])
        return numpy.ascontiguousarray(PACKING.apply_packing(array, read["packing"]))

    def upload(self) -> None:
        """Poison everything, then write the inputs."""
        driver = self.device.driver
        called(driver.cuMemsetD8(self.device.memory, 0xFF, self.end))
        for address, array in zip(self.addresses, self.inputs, strict=False):
            if array.nbytes:
                called(driver.cuMemcpyHtoD(address, array.ctypes.data, array.nbytes))
        called(driver.cuCtxSynchronize())

    def load(self) -> None:
        """Load the cubin and bind the launches."""
        driver = self.device.driver
        self.module = called(driver.cuModuleLoadData(piece(self.data, self.case["cubin"])))
        self.calls: list[tuple[Any, ...]] = []
        for symbol, args, grid, block, shared in self.case["launches"]:
            function = called(driver.cuModuleGetFunction(self.module, symbol.encode()))
            if shared > 48 << 10:
                attribute = driver.CUfunction_attribute
                limit = attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
                called(driver.cuFuncSetAttribute(function, limit, shared))
            values = numpy.array([self.addresses[i] for i in args], numpy.uint64)
            pointers = values.ctypes.data + 8 * numpy.arange(len(args), dtype=numpy.uint64)
            self.calls.append((function, grid, block, shared, values, pointers.astype("uint64")))

    def launch(self) -> None:
        """Launch every function once, in order."""
        for function, grid, block, shared, _, pointers in self.calls:
            arguments = pointers.ctypes.data if len(pointers) else 0
            called(
                self.device.driver.cuLaunchKernel(
                    function, *grid, *block, shared, self.device.stream, arguments, 0
                )
            )

    def results(self) -> list[numpy.ndarray]:
        """The results' bytes."""
        outputs: list[numpy.ndarray] = []
        first = len(self.case["reads"])
        for i in range(len(self.case["writes"])):
            content = numpy.empty(self.nbytes[first + i], numpy.uint8)
            if content.size:
                address = self.addresses[first + i]
                called(self.device.driver.cuMemcpyDtoH(content.ctypes.data, address, content.size))
            outputs.append(content)
        return outputs

    def microseconds(self) -> float:
        """The median time of one run within a graph of many."""
        driver, stream = self.device.driver, self.device.stream
        called(driver.cuStreamBeginCapture(stream, driver.CUstreamCaptureMode(0)))
        for _ in range(LAUNCHES):
            self.launch()
        graph = called(driver.cuStreamEndCapture(stream))
        runnable = called(driver.cuGraphInstantiate(graph, 0))
        begin, end = (called(driver.cuEventCreate(0)) for _ in range(2))
        times: list[float] = []
        for _ in range(REPLAYS):
            called(driver.cuEventRecord(begin, stream))
            called(driver.cuGraphLaunch(runnable, stream))
            called(driver.cuEventRecord(end, stream))
            self.device.synchronise()
            times.append(called(driver.cuEventElapsedTime(begin, end)) * 1e3 / LAUNCHES)
        called(driver.cuGraphExecDestroy(runnable))
        called(driver.cuGraphDestroy(graph))
        return sorted(times)[len(times) // 2]


PACKING = load_packing()


def values_of(content: numpy.ndarray | bytes, dtype: str) -> numpy.ndarray:
    """Bytes as values that numpy can compare."""
    if dtype == "bfloat16":
        wide = numpy.frombuffer(content, "uint16").astype("uint32") << 16
        return wide.view("float32")
    return numpy.frombuffer(content, dtype)


def compare(case: dict[str, Any], results: list[numpy.ndarray], data: bytes) -> float:
    """The largest relative error; raises AssertionError when it is out of bounds."""
    worst = 0.0
    for content, write, want in zip(results, case["writes"], case["expected"], strict=True):
        got = values_of(content.tobytes(), write["dtype"])
        expected = values_of(piece(data, want["values"]), write["dtype"])
        if "tolerance" in case:
            rtol, atol = case["tolerance"]
            numpy.testing.assert_allclose(got, expected, rtol=rtol, atol=atol)
            continue
        assert got.dtype.kind != "f" or numpy.isfinite(got).all(), "a result is not finite"
        got = got[numpy.frombuffer(piece(data, want["places"]), "int64")]
        error = numpy.abs(got.astype("float64") - expected.astype("float64"))
        scale = max(float(numpy.linalg.norm(expected.astype("float64"))), 1e-30)
        relative = float(numpy.linalg.norm(error)) / scale
        worst = max(worst, relative)
        assert relative <= case["bound"], f"relative error {relative:.2e}"
        single = float(error.max()) * math.sqrt(error.size) / scale
        assert single <= 10 * case["bound"], f"relative error of one element {single:.2e}"
    return worst


def check_one(device: Device, case: dict[str, Any], data: bytes) -> dict[str, Any]:
    """Run one case with both alignments, then time it."""
    row: dict[str, Any] = {"name": case["name"], "label": case["label"]}
    try:
        for offset in (1, 0):
            own = Case(device, case, data, offset)
            own.load()
            own.upload()
            own.launch()
            device.synchronise()
            row["error"] = compare(case, own.results(), data)
            if offset:
                called(device.driver.cuModuleUnload(own.module))
        row["us"] = own.microseconds() if own.calls else 0.0
        called(device.driver.cuModuleUnload(own.module))
        row["status"] = "PASS"
    except (AssertionError, RuntimeError) as error:
        row["status"] = "FAIL"
        row["reason"] = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
    return row


def check_from(folder: Path, first: int, out: Path) -> int:
    """Check the cases from one on in this process; 3 when the context broke."""
    cases = json.loads((folder / "cases.json").read_text())
    data = (folder / "data.bin").read_bytes()
    try:
        device = Device()
    except (ImportError, RuntimeError) as error:
        print(f"there is no device to check on: {error}")
        return NO_DEVICE
    with out.open("a") as file:
        for case in cases[first:]:
            row = check_one(device, case, data)
            row |= {"flops": case["flops"], "traffic": case["traffic"], "device": device.name}
            file.write(json.dumps(row) + "\n")
            file.flush()
            if row["status"] == "FAIL" and "RuntimeError" in row["reason"]:
                return 3
    return 0


def check(folder: Path, out: Path) -> int:
    """Check all cases, each broken context in a new process; print the table."""
    total = len(json.loads((folder / "cases.json").read_text()))
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text("")
    while (done := len(out.read_text().splitlines())) < total:
        command = [sys.executable, __file__, str(folder), "--out", str(out)]
        ran = subprocess.run([*command, "--first", str(done)])
        if ran.returncode == NO_DEVICE:
            return NO_DEVICE
        if len(out.read_text().splitlines()) == done:
            row = {
                "name": str(done),
                "label": "",
                "status": "FAIL",
                "reason": f"exit {ran.returncode}",
            }
            with out.open("a") as file:
                file.write(json.dumps(row) + "\n")
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    report(rows)
    return int(any(row["status"] == "FAIL" for row in rows))


def report(rows: list[dict[str, Any]]) -> None:
    """Print a line for each model's kernel and each failure, then the counts."""
    for row in rows:
        if row["status"] == "PASS" and row["label"].split(" ")[0] != row["label"]:
            time_us = max(row["us"], 1e-3)
            print(
                f"PASS {row['us']:8.2f} us {row['traffic'] / time_us / 1e3:7.0f} GB/s"
                f" {row['flops'] / time_us / 1e6:7.1f} TFLOP/s  error {row['error']:.1e}"
                f"  {row['label']}"
            )
    for row in rows:
        if row["status"] == "FAIL":
            print(f"FAIL {row['name']} {row['label']}: {row['reason']}")
    failed = sum(row["status"] == "FAIL" for row in rows)
    print(f"{len(rows) - failed} passed, {failed} failed")


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--first", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, help="where rows go; $OUT/gpu_check.jsonl")
    given = parser.parse_args()
    out = given.out or Path(os.environ.get("OUT", str(given.folder))) / "gpu_check.jsonl"
    if given.first is not None:
        return check_from(given.folder, given.first, out)
    return check(given.folder, out)


if __name__ == "__main__":
    sys.exit(main())
