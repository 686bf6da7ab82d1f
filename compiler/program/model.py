"""A compiled model whose shapes or control flow only a run decides."""

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import numpy as np
import onnx

from compiler.artifact.program_options import ProgramOptions
from compiler.backends.base import MemoryReport, check_options
from compiler.backends.host_arrays import reading
from compiler.display.html import info_table, tensor_lines
from compiler.driver.settings import Settings
from compiler.errors import DeviceError
from compiler.program.body import ProgramBody, Runtime
from compiler.program.compiling import SegmentCompiler
from compiler.program.control import control
from compiler.program.host import HostValue
from compiler.program.ownership import Holders
from compiler.program.reading import GivenShapes, ReadModel, read_program
from compiler.program.resident import ResidentMemory, all_on_host, is_on_device
from compiler.program.saving import SavedProgram, save_program
from compiler.program.signature import (
    TEXT_KINDS,
    ValueType,
    check_declared_types,
    checked_inputs,
    examples_of,
    input_symbols,
)
from compiler.support.arguments import (
    LOAD,
    PREPARE,
    RUN,
    TEXT,
    check_arguments,
    inputs_by_name,
    instance,
    whole,
)
from compiler.support.words import counted

DEFAULT_SPECIALISATIONS = 64
"""The most specialisations of a segment that a program keeps."""

_PROGRAM = {
    "model": instance(ReadModel, "a model that was read"),
    "compiler": instance(SegmentCompiler, "a compiler of segments"),
    "most": whole(1),
}


class DynamicModule:
    """A program of static graphs, which are compiled for the kinds of inputs that runs have.

    It is used like `compiler.Module`, and can be pickled, copied and sent to processes. Shapes in
    `inputs` and `outputs` have symbols, or None for unknown sizes.
    """

    def __init__(
        self, model: ReadModel, compiler: SegmentCompiler, most: int = DEFAULT_SPECIALISATIONS
    ):
        check_arguments(locals(), _PROGRAM)
        self._model = model
        self.compiler = compiler
        self.target = compiler.settings.target
        self._most = most
        self._accepted: tuple[Any, ...] | None = None
        self._has_run = False
        self._body = self._new_body()

    def _new_body(self) -> ProgramBody:
        runtime = Runtime(self.compiler, self._most, self._model.context, control)
        return ProgramBody(self._model.graph, runtime, reread=frozenset())

    def __getstate__(self) -> dict[str, Any]:
        """The state for `pickle` and `copy`: the division into segments is found again.

        Raises ModelError if a file of the model's data was written to since it was read.
        """
        self._model.context.check_data()
        return {key: value for key, value in self.__dict__.items() if key != "_body"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._body = self._new_body()

    @property
    def inputs(self) -> Sequence[ValueType]:
        """Name, dtype and shape of every input, in the model's order."""
        return self._model.inputs

    @property
    def outputs(self) -> Sequence[ValueType]:
        """Name, dtype and shape of every output, in the model's order."""
        return self._model.outputs

    @property
    def body(self) -> ProgramBody:
        """The model's graph and its steps, as runs so far have refined them."""
        return self._body

    @property
    def build_seconds(self) -> dict[str, float]:
        """The seconds of each compilation so far, by segment."""
        return dict(self.compiler.seconds)

    def run(
        self, inputs: Mapping[str, Any], outputs: str = "numpy", **options: Any
    ) -> dict[str, HostValue]:
        """Run once: values by input name in, values by output name out, in the model's order.

        A value is an array, a list of arrays for a sequence, or None for an empty optional. Inputs
        may be on a GPU that segments run on; with `outputs="device"` the outputs that segments
        computed stay there, for DLPack. Kinds of inputs that no run had yet are compiled first,
        which is logged with the seconds. Any number of threads may call this at once. Raises
        ShapeError for a missing or unknown name, a wrong dtype or a wrong shape, DeviceError if
        outputs cannot stay, RunInputError for what does not fit a node, ModelError if a file of
        the model's data was written to since it was read or an output is not of its declared type,
        and ArgumentError for other `outputs`, and for `options` of a static module's run, such as
        `stream`.
        """
        if options:
            check_options(options, {"outputs": TEXT}, "a run of a dynamic module")
        inputs = inputs_by_name(inputs)
        stay = self._outputs_stay(outputs)
        names = self._model.graph.outputs
        self._model.context.check_data()
        # A size that was only prepared takes the path that checks results once.
        again = self._body.again(inputs) if self._has_run else None
        if again is None:
            inputs = self._checked(inputs)
            results = self._body.run(inputs)
            # large weights are mapped files, which show what is written to them during the run
            self._model.context.check_data()
            check_declared_types(self.outputs, dict(zip(names, results, strict=True)))
            self._has_run = True
        else:
            computed = again.run(inputs)
            results = [computed[name] for name in names]
            if again.fresh and stay is None:
                return dict(zip(names, all_on_host(results), strict=True))
        if stay is not None:
            stay.wait()
            return dict(zip(names, results, strict=True))
        holders = Holders(array for value in inputs.values() for array in _arrays(value))
        return {n: holders.own(v) for n, v in zip(names, all_on_host(results), strict=True)}

    def _checked(self, inputs: Mapping[str, Any]) -> Mapping[str, HostValue]:
        """The inputs as the body reads them; numbers of the last run's types are known to fit."""
        types = tuple([(n, v.dtype, v.shape) for n, v in inputs.items() if _is_numeric(v)])
        if types == self._accepted and len(types) == len(inputs):
            return inputs
        checked = checked_inputs(self.inputs, self._with_device_arrays(inputs))
        if len(types) == len(inputs) and all(checked[n] is v for n, v in inputs.items()):
            self._accepted = types
        return checked

    def _outputs_stay(self, outputs: object) -> ResidentMemory | None:
        """The device on which outputs stay, or None if the host gets them."""
        check_arguments({"outputs": outputs}, RUN)
        memory = self.compiler.resident if outputs == "device" else None
        if outputs == "device" and memory is None:
            raise DeviceError(
                'outputs="device" needs the target cuda or emu, and graphs="resident" or "all"'
            )
        if memory is not None:
            memory.keeps_all = True
        return memory

    def _with_device_arrays(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """The inputs, those on the device as tensors of the program where these stay there."""
        values: dict[str, Any] = {}
        for name, value in inputs.items():
            with reading(f"the input {name!r}"):
                memory = self.compiler.resident if is_on_device(value) else None
                values[name] = value if memory is None else memory.given(name, value)
        return values

    @property
    def memory(self) -> MemoryReport:
        """Bytes of what was compiled so far; what segments share counts once."""
        return self.compiler.memory

    def prepare(self, sizes: Mapping[str, int] | None = None) -> None:
        """Compile now the segments that read input tensors alone, for sizes by symbol.

        Raises ShapeError for a dimension whose size is neither fixed nor given, or a size that no
        dimension has open, and ModelError if a file of the model's data was written to since it was
        read.
        """
        check_arguments({"sizes": sizes}, PREPARE)
        self._model.context.check_data()
        self._body.prepare(examples_of(self.inputs, sizes or {}))
        self._model.context.check_data()

    def verify(self) -> None:
        """Check in full, apart from any proof for all sizes, the schedule of each size that ran.

        Raises ScheduleError or KernelError, with what is wrong.
        """
        for module in self.compiler.modules.values():
            module.verify()

    def save(self, directory: str | os.PathLike[str]) -> None:
        """Write the model and all that was compiled so far, for `compiler.load`.

        An older program there is replaced atomically. Raises ArtifactError, and changes nothing, if
        that fails, and ModelError if a file of the model's data was written to since it was read.
        """
        check_arguments({"directory": directory}, LOAD)
        settings = self.compiler.settings
        division = self._body.division
        options = ProgramOptions(
            target=settings.target,
            pipeline=settings.pipeline,
            check_indices=settings.check_indices,
            graphs=str(settings.graphs),
            semantics=dict(settings.semantics.ways),
            input_shapes={name: tuple(shape) for name, shape in self._model.shapes.items()},
            on_host={str(node): reason for node, reason in division.alone.items()},
            split_at=tuple(sorted(division.split_at)),
        )
        compiled = self.compiler
        program = SavedProgram(
            self._model, compiled.fixed_modules, compiled.symbolic_segments, options
        )
        save_program(program, directory)

    def close(self) -> None:
        """Release idle threads and arenas; the next run allocates new ones."""
        self.compiler.close()

    def summary(self) -> str:
        """One line on the segments, and each node that runs on the host with its reason.

        It describes the runs so far.
        """
        lines = [f"{self.target}, {counted(self.compiler.compilations, 'compiled segment')}"]
        lines += [f"  {label} runs on the host: {reason}" for label, reason in self.on_host.items()]
        return "\n".join(lines)

    @property
    def on_host(self) -> dict[str, str]:
        """The reason of each node that runs on the host, so far, by operator and name."""
        return dict(self._body.runtime.on_host)

    def __repr__(self) -> str:
        return f"<DynamicModule {self._model.graph.name!r}: {self.summary().splitlines()[0]}>"

    def _repr_html_(self) -> str:
        """A notebook's view: a table of what was compiled so far."""
        seconds = self.build_seconds
        return info_table(
            self._model.graph.name,
            {
                "target": self.target,
                "inputs": tensor_lines(self.inputs),
                "outputs": tensor_lines(self.outputs),
                "segments": "\n".join(
                    [
                        f"{self.compiler.compilations} compiled",
                        *(f"{name}: {time:.1f} s" for name, time in seconds.items()),
                    ]
                ),
                "on the host": "\n".join(f"{n}: {reason}" for n, reason in self.on_host.items()),
            },
        )


def _is_numeric(value: Any) -> bool:
    """Whether dtype and shape say all of a value, whose elements may be texts otherwise."""
    return type(value) is np.ndarray and value.dtype.kind not in TEXT_KINDS


def _arrays(value: HostValue) -> Iterable[HostValue]:
    """A tensor, or the items of a sequence."""
    return cast(list[HostValue], value) if isinstance(value, list) else [value]


def open_model(
    model: str | os.PathLike[str] | bytes | onnx.ModelProto,
    shapes: GivenShapes,
    settings: Settings,
    options: Mapping[str, Any],
) -> DynamicModule:
    """A module for any sizes of the dimensions that `shapes` leaves open.

    If it leaves none, what only reads inputs is compiled now. Raises ModelError, ShapeError and
    UnsupportedOperatorError.
    """
    source = read_program(model, shapes, settings.check_indices, settings.semantics)
    symbols = input_symbols(source.inputs)
    module = DynamicModule(source, SegmentCompiler(source.context, settings, options, symbols))
    tensors = all(type.kind == "tensor" and type.shape is not None for type in source.inputs)
    if tensors and not any(symbol for axes in symbols.values() for symbol in axes):
        module.prepare()
    return module
