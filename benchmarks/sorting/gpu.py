"""TopK, sorts and running sums on a GPU against PyTorch's, in one process and in turns.

    python benchmarks/sorting/gpu.py [--configs] [--json FILE]

Needs torch, TVM, NVRTC, cuda-bindings and a CUDA device. A kernel's launches run on PyTorch's
memory, of which results and workspaces are poisoned first, and are compared with PyTorch's stable
sort on the host, or with sums in float64. Figures are medians of replays of a CUDA graph of ten
runs, in microseconds of a run; `estimate` is the template's. With `--configs` every config of the
template is timed, to judge the choice.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.sorting.cases import Sorting
from compiler.backends.cuda.driver import CudaDriver
from compiler.kernels.building.select import Candidate, candidates_of
from compiler.kernels.gpu.compilers.nvrtc import compile_cubin
from compiler.kernels.gpu.source import complete_text
from compiler.kernels.gpu.templates.cumulative.template import ScanRows
from compiler.kernels.gpu.templates.top_k.template import SortRows
from compiler.kernels.group import TensorInfo
from compiler.kernels.template import KernelSource
from compiler.target.target import GpuTarget, parse_gpu

RUNS, REPLAYS, ROUNDS = 10, 7, 3
"""Runs in a graph, replays of each contender in its turn, and turns."""

POISON = 0xFF


class Case(Sorting):
    """An operator along an axis, with the kernels of its template and of PyTorch."""

    def candidate(self, target: GpuTarget) -> Candidate:
        """The kernels of its template."""
        template = SortRows() if self.count else ScanRows()
        (found,) = candidates_of(template, self.group(), target)
        return found

    def peers(self, torch: Any, x: Any) -> dict[str, Callable[[], Any]]:
        """PyTorch's functions for it: a sort, too, where all elements are wanted."""
        if not self.count:
            return {"torch.cumsum": lambda: torch.cumsum(x, self.axis)}
        found = {"torch.topk": lambda: torch.topk(x, self.count, self.axis)}
        if self.count == self.shape[self.axis]:
            found["torch.sort"] = lambda: torch.sort(x, self.axis, descending=True)
        return found

    def check(self, torch: Any, x: Any, results: list[Any]) -> None:
        """Compare results on the device with PyTorch on the host; raises SystemExit."""
        host = x.cpu()
        if self.count:
            values, positions = torch.sort(host, dim=self.axis, descending=True, stable=True)
            wanted = [tensor.narrow(self.axis, 0, self.count) for tensor in (values, positions)]
            pairs = zip(results, wanted, strict=True)
            right = all(torch.equal(result.cpu(), tensor) for result, tensor in pairs)
        else:
            sums = torch.cumsum(host.double(), self.axis)
            bound = 2e-6 * float(host.double().abs().sum(self.axis).max())
            narrow = 0.0 if self.dtype == "float32" else 1e-3
            difference = (results[0].cpu().double() - sums).abs() - narrow * sums.abs()
            right = bool(difference.max() <= bound)
        if not right:
            raise SystemExit(f"{self.title}: the results are wrong")


CASES = (
    Case((8, 32_000), 1, 32_000),
    Case((8, 32_000), 1, 32_000, "float16"),
    Case((8, 32_000), 1, 50),
    Case((1, 151_936), 1, 50, "float16"),
    Case((1, 1_000_000), 1, 100),
    Case((1, 1_000_000), 1, 1_000_000),
    Case((1024, 1024), 1, 20),
    Case((1, 8400), 1, 300),
    Case((10_000, 32), 1, 32),
    Case((64, 500, 64), 1, 10),
    Case((1, 1_000_000), 1),
    Case((64, 4096), 1),
    Case((1, 4096, 1024), 1),
    Case((2, 2048, 24, 64), 1),
    Case((8, 512, 1024), 1, dtype="float16"),
    Case((100_000, 64), 1),
)
"""Sorts of logits, candidates of detectors, neighbours in point clouds; scans along any axis."""


class OnDevice:
    """A kernel loaded with its buffers, launched on PyTorch's present stream."""

    def __init__(
        self, torch: Any, driver: CudaDriver, kernel: KernelSource, case: Case, x: Any, target: Any
    ) -> None:
        self._torch, self._driver = torch, driver
        module = driver.load_module(compile_cubin(complete_text(kernel.text), target))
        self.results = [self._poisoned(info.nbytes, info) for info in case.results]
        scratch = [self._poisoned(size) for size in kernel.workspaces]
        self._buffers = [x, *self.results, *scratch]
        places = [buffer.data_ptr() for buffer in self._buffers]
        self._calls = [
            driver.call(
                driver.function(module, launch.symbol),
                launch.grid,
                launch.block,
                launch.shared_bytes,
                [places[i] for i in launch.args],
            )
            for launch in kernel.launches
        ]

    def _poisoned(self, nbytes: int, info: TensorInfo | None = None) -> Any:
        memory = self._torch.full((nbytes,), POISON, dtype=self._torch.uint8, device="cuda")
        return (
            memory
            if info is None
            else memory.view(getattr(self._torch, info.dtype)).reshape(info.shape)
        )

    def __call__(self) -> None:
        """Queue all launches."""
        stream = self._driver.stream(self._torch.cuda.current_stream().cuda_stream)
        for call in self._calls:
            self._driver.launch(call, stream)


def captured(torch: Any, run: Callable[[], Any]) -> Any:
    """A CUDA graph of `RUNS` runs, after some to warm up."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(RUNS):
            run()
    return graph


def medians(torch: Any, runs: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """Microseconds of a run of each, taking turns."""
    graphs = {name: captured(torch, run) for name, run in runs.items()}
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(ROUNDS):
        for name, graph in graphs.items():
            graph.replay()
            for _ in range(REPLAYS):
                start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                start.record()
                graph.replay()
                end.record()
                end.synchronize()
                times[name].append(1e3 * start.elapsed_time(end) / RUNS)
    return {name: median(samples) for name, samples in times.items()}


def measured(
    torch: Any, driver: CudaDriver, case: Case, target: GpuTarget, every: bool
) -> dict[str, Any]:
    """A row of the table."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(case.shape, generator=generator).to(getattr(torch, case.dtype)).cuda()
    candidate = case.candidate(target)
    chosen, _ = candidate.choose()
    configs = candidate.configs if every else (chosen,)
    runs: dict[str, Callable[[], Any]] = {}
    for config in configs:
        kernel = candidate.emit(config)
        loaded = OnDevice(torch, driver, kernel, case, x, target)
        loaded()
        torch.cuda.synchronize()
        case.check(torch, x, loaded.results)
        runs[str(config)] = loaded
    ours = medians(torch, runs)
    times = medians(torch, {"ours": runs[str(chosen)], **case.peers(torch, x)})
    peers = {name: time for name, time in times.items() if name != "ours"}
    return {
        "case": case.title,
        "config": str(chosen),
        "ours": times["ours"],
        "peers": peers,
        "ratio": min(peers.values()) / times["ours"],
        "estimate": candidate.estimate_ns(chosen) / 1e3,
        "configs": ours,
    }


def table(rows: list[dict[str, Any]]) -> Iterator[str]:
    """The rows as text, then the geometric mean of how often ours is as fast as the best peer."""
    yield "| operator | ours, us | PyTorch, us | ratio | estimate, us | fastest config |"
    yield "|---|---|---|---|---|---|"
    for row in rows:
        peers = ", ".join(f"{name} {time:.1f}" for name, time in row["peers"].items())
        config, time = min(row["configs"].items(), key=lambda item: item[1])
        yield (
            f"| {row['case']} | {row['ours']:.1f} | {peers} | {row['ratio']:.2f} |"
            f" {row['estimate']:.1f} | {time:.1f} {config} |"
        )
    mean = geometric_mean([row["ratio"] for row in rows])
    yield f"\nratio of the best of PyTorch to ours, geometric mean: {mean:.2f}"


def main() -> None:
    """Measure all cases on the first device."""
    import torch

    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--configs", action="store_true", help="time every config")
    parser.add_argument("--json", type=Path, help="where the rows go, too")
    options = parser.parse_args()
    torch.cuda.init()
    driver = CudaDriver()
    driver.make_current()
    target = parse_gpu(f"cuda:{driver.device.architecture}:fp32")
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, CUDA {torch.version.cuda}")
    rows: list[dict[str, Any]] = []
    for case in CASES:
        rows.append(measured(torch, driver, case, target, options.configs))
        print(f"{rows[-1]['case']}: {rows[-1]['ours']:.1f} us", flush=True)
        if options.json:
            options.json.write_text(json.dumps(rows, indent=1))
    print("\n".join(table(rows)))


if __name__ == "__main__":
    main()
