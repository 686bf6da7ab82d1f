"""Measures the rows of one model, in the process that is started for it."""

import argparse
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import onnx
import torch
import torch._inductor.config

from benchmarks import gpu_peers
from benchmarks.peers import contenders, ours, results
from benchmarks.peers.case import Case, build, relative_error
from benchmarks.peers.contenders import Contender, Tensors
from benchmarks.peers.timing import take_turns
from benchmarks.peers.together import take_turn
from compiler.artifact.module import Module

BOUNDS = {"tf32": 1e-2, "fp16": 3e-2}
"""Largest error of an output against its reference, relative in the Euclidean norm."""


@dataclass
class Row:
    """One row under measurement: contenders that are ready, and what is known of each."""

    case: Case
    precision: str
    options: argparse.Namespace
    stream: torch.cuda.Stream
    ready: dict[str, Contender] = field(default_factory=dict)
    found: dict[str, dict[str, Any]] = field(default_factory=dict)
    modules: dict[int, Module] = field(default_factory=dict)
    compiled: list[Module] = field(default_factory=list)

    def attempt(self, name: str, action: Callable[[], Any]) -> Any:
        """The action's result, or None after noting its failure as the contender's."""
        self.found.setdefault(name, {})
        start = perf_counter()
        try:
            with contenders.time_limit(self.options.contender_seconds):
                return action()
        except (Exception, contenders.OutOfTime) as error:
            self.failed(name, error)
            return None
        finally:
            seconds = self.found[name].get("seconds", 0.0) + perf_counter() - start
            self.found[name]["seconds"] = round(seconds, 1)

    def failed(self, name: str, error: BaseException) -> None:
        """Note a failure: the contender takes no further part."""
        traceback.print_exception(error)
        text = str(error).strip().splitlines() or [""]
        self.found.setdefault(name, {})["error"] = f"{type(error).__name__}: {text[0][:300]}"
        self.ready.pop(name, None)

    def close(self) -> None:
        """Release what the contenders hold."""
        for contender in self.ready.values():
            contender.close()
        for module in (*self.modules.values(), *self.compiled):
            module.close()


def compile_model(name: str, options: argparse.Namespace) -> None:
    """Let torch.compile compile a model in each precision, to fill its cache.

    What it tunes meanwhile is not kept: other processes use the device at the same time.
    """
    torch.set_num_threads(2)
    torch._inductor.config.autotune_local_cache = False
    contenders.use_tensor_cores(True)
    for _, batch, precision, _ in gpu_peers.pending(name, options):
        module, inputs = build(name, batch, "own", None).in_precision(precision)
        with torch.inference_mode():
            contenders.compile_and_run(module, inputs)


def measure_model(name: str, options: argparse.Namespace) -> None:
    """Measure a model's pending rows and write each to the file."""
    contenders.use_tensor_cores(True)
    stream = torch.cuda.Stream()
    cases: dict[int, Case] = {}
    measured: list[tuple[Row, results.Row]] = []
    for key in gpu_peers.pending(name, options):
        try:
            if key[1] not in cases:
                cases[key[1]] = build(name, key[1], options.weights, options.exported)
            row = Row(cases[key[1]], key[2], options, stream)
            prepared = row.case.in_precision(row.precision)
        except (Exception, SystemExit) as error:  # a model may refuse a batch size by SystemExit
            traceback.print_exc()
            gpu_peers.give_up(key, options, f"{type(error).__name__}: {str(error)[:300]}")
            continue
        measured.append((row, _measured(key, row, prepared)))
        results.write(options.json, measured[-1][1], gpu_peers.machine())
    # A profiler slows all that runs after it, so it comes when everything has been timed.
    for row, report in measured:
        if options.turn is None:
            _look_inside(row)
            results.write(options.json, report, {})
        row.close()
    print(results.table([report for _, report in measured], "device"), flush=True)


def _measured(key: results.Key, row: Row, prepared: tuple[torch.nn.Module, Tensors]) -> results.Row:
    start = perf_counter()
    measure(row, *prepared)
    return {
        **results.fields(key),
        "references_differ": row.case.difference,
        "floor_us": row.case.floor_us(row.precision),
        "seconds": round(perf_counter() - start, 1),
        "contenders": row.found,
    }


def measure(row: Row, module: torch.nn.Module, inputs: Tensors) -> None:
    """Prepare, time and check every contender that the row is to have, in its precision."""
    asked = [name for name in results.COLUMNS if name in row.options.contenders]
    measuring = [name for name in asked if name == "default"]
    torch.cuda.synchronize()
    with torch.inference_mode(), torch.cuda.stream(row.stream):
        for name in (name for name in asked if name not in measuring):
            if name in contenders.CONTENDERS:
                make = contenders.CONTENDERS[name]
                _add(row, name, lambda make=make: make(module, inputs))
            else:
                _add(row, name, lambda name=name: _own(row, name))
        take_turn(row.options.turn)
        for name in measuring:
            _add(row, name, lambda name=name: _own(row, name))
        clocks = {name: contenders.clocks(c.queue, row.stream) for name, c in row.ready.items()}
        for name, times in take_turns(clocks, row.options.samples, row.failed).items():
            row.found[name]["times"] = {m: spread.as_json() for m, spread in times.items()}
        for name in list(row.ready):
            row.attempt(name, lambda name=name: _check(row, name))


def _add(row: Row, name: str, make: Callable[[], Contender]) -> None:
    contender = row.attempt(name, make)
    if contender is not None:
        row.ready[name] = contender


def _own(row: Row, name: str) -> Contender:
    """Our contender of that name: as `compile` gives it by default, one stream in a graph, or the
    fastest of all that is tried."""
    case, options = row.case, row.options
    if case.model is None:
        raise FileNotFoundError(
            "no ONNX file of this batch: python -m examples.zoo.export --batch BATCH "
            f"--output FOLDER/BATCH {case.name}, then --exported FOLDER"
        )
    if name in ("default", "untuned"):
        return _by_default(row, case.model, **({"budget": 0} if name == "untuned" else {}))
    for streams in (1,) if name == "ours-1" else options.streams:
        if streams not in row.modules:
            row.modules[streams] = ours.compile_for(case.model, row.precision, streams)
    if name == "ours-1":
        return ours.contender(row.modules[1], case.named_inputs, row.stream, mode="graph")
    modules = {streams: row.modules[streams] for streams in options.streams}

    def clock_of(candidate: Contender) -> Callable[[], float]:
        return contenders.clocks(candidate.queue, row.stream)["device"]

    best, figures = ours.fastest(modules, options.modes, case.named_inputs, row.stream, clock_of)
    chosen = ours.contender(modules[best[0]], case.named_inputs, row.stream, mode=best[1])
    chosen.facts.update(streams=best[0], mode=best[1], tried_us=figures)
    return chosen


def _by_default(row: Row, model: onnx.ModelProto, **options: Any) -> Contender:
    """The module that `compile` makes with the options, with its account of the tuning."""
    module = ours.compile_by_default(model, row.precision, **options)
    row.compiled.append(module)
    made = ours.contender(module, row.case.named_inputs, row.stream)
    made.facts.update(tuning=str(module.choice.schedule.tuning) if module.choice else "")
    return made


def _check(row: Row, name: str) -> None:
    """Compare the outputs of the last run with those of the contender's reference."""
    contender, case = row.ready[name], row.case
    own = name not in contenders.CONTENDERS
    torch.cuda.synchronize()
    contender.queue()
    torch.cuda.synchronize()
    error = relative_error(
        contender.outputs(), case.expected_by_onnxruntime if own else case.expected
    )
    row.found[name].update(
        error_norm=error,
        correct=bool(error <= BOUNDS[row.precision]),
        reference="onnxruntime" if own else "PyTorch, float32",
    )


def _look_inside(row: Row) -> None:
    """Kernels and busy time by CUPTI, and of ours the critical path by timing each kernel alone.

    A failure here is noted among the facts; the times stay.
    """
    with torch.inference_mode(), torch.cuda.stream(row.stream):
        for name, contender in row.ready.items():
            try:
                contender.facts.update(contenders.kernels_of(contender.queue))
                if name not in contenders.CONTENDERS:
                    contender.facts.update(ours.structure(contender.module))
            except Exception as error:
                traceback.print_exc()
                contender.facts["not inspected"] = f"{type(error).__name__}: {str(error)[:300]}"
            row.found[name]["facts"] = contender.facts
