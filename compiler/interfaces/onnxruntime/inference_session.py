"""A session: onnxruntime's interface on a module that is compiled when the session is made."""

import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any, TypeGuard

import onnx

import compiler
from compiler.artifact.module import Module
from compiler.artifact.replaceable import check_replaceable
from compiler.errors import ArgumentError, DeviceError, InvalidArgument
from compiler.frontend.load import overridable, read_model
from compiler.frontend.tensors import initializers_of
from compiler.interfaces.onnxruntime.device_memory import driver_of, empty_on
from compiler.interfaces.onnxruntime.feeds import checked_feed
from compiler.interfaces.onnxruntime.io_binding import IOBinding
from compiler.interfaces.onnxruntime.node_arg import (
    ModelMetadata,
    NodeArg,
    metadata_of,
    node_arg,
    node_arg_of,
)
from compiler.interfaces.onnxruntime.options import (
    RunOptions,
    SessionOptions,
    check_run_options,
    set_default_logger_severity,
)
from compiler.interfaces.onnxruntime.ort_value import OrtValue, wrapped
from compiler.interfaces.onnxruntime.overrides import with_sizes
from compiler.interfaces.onnxruntime.profiling import SessionProfile
from compiler.interfaces.onnxruntime.providers import providers_of
from compiler.program.model import DynamicModule
from compiler.program.signature import ValueType
from compiler.support.arguments import (
    COMPILE,
    FUNCTION,
    MAPPING,
    NAMES,
    RUN,
    ArgumentKind,
    closest_name,
    inputs_by_name,
    instance,
    optional,
    own_errors,
)

_LOG = logging.getLogger(__name__)

ModelSource = str | os.PathLike[str] | bytes | onnx.ModelProto
"""A model to compile, or the directory of a saved module."""

Callback = Callable[[list[Any], Any, str], None]
"""A function that `run_async` calls with outputs, the caller's data and an error, or no text."""

IGNORED = frozenset({"disabled_optimizers", "enable_fallback"})
"""Further arguments of onnxruntime's sessions, which change no result."""

ARGUMENTS = ("path_or_bytes", "sess_options", "providers", "provider_options", *sorted(IGNORED))
"""The arguments of a session."""

_KINDS: Mapping[str, ArgumentKind] = {
    "path_or_bytes": COMPILE["model"],
    "sess_options": optional(instance(SessionOptions, "flowloom.SessionOptions()")),
    "output_names": optional(NAMES),
    "input_feed": RUN["inputs"],
    "input_dict_ort_values": MAPPING,
    "callback": FUNCTION,
    "iobinding": instance(IOBinding, "a binding that the session's io_binding() made"),
    "run_options": optional(instance(RunOptions, "flowloom.RunOptions()")),
}
"""The arguments of a session's methods; those of providers and of a run check themselves."""

CONCURRENT_RUNS = 4
"""The runs of `run_async` that are under way at once."""


@own_errors(_KINDS)
class InferenceSession:
    """A model compiled for the first of its providers whose device is present.

    Any number of threads may run it at once. It may also open the directory of a saved module.
    """

    def __init__(
        self,
        path_or_bytes: ModelSource,
        sess_options: SessionOptions | None = None,
        providers: Sequence[Any] | None = None,
        provider_options: Sequence[Mapping[str, Any]] | None = None,
        **others: Any,
    ) -> None:
        """Compile a model; raises a FlowloomError.

        `providers` are names or pairs of a name and options, the preferred first; a name that is
        not available is passed over with a UserWarning, and the CPU's is added. Options that begin
        with `flowloom_` are arguments of `compiler.compile`.
        """
        if unknown := sorted(others.keys() - IGNORED):
            advice = closest_name(unknown[0], ARGUMENTS)
            raise ArgumentError(f"InferenceSession has no argument {unknown[0]!r}: {advice}")
        self._model = self._sized = path_or_bytes
        self._options = sess_options or SessionOptions()
        if self._options.log_severity_level >= 0:
            set_default_logger_severity(self._options.log_severity_level)
        enabled = self._options.enable_profiling
        self._profile = SessionProfile(self._options.profile_file_prefix) if enabled else None
        self._pool: ThreadPoolExecutor | None = None
        self._overriding: dict[frozenset[str], Any] = {}
        self._lock = Lock()
        if self._options.optimized_model_filepath:
            check_replaceable(self._options.optimized_model_filepath)
        self.set_providers(providers, provider_options)
        if self._options.optimized_model_filepath:
            self.module.save(self._options.optimized_model_filepath)

    def set_providers(
        self,
        providers: Sequence[Any] | None = None,
        provider_options: Sequence[Mapping[str, Any]] | None = None,
    ) -> None:
        """Compile the model again for other providers."""
        self._providers = providers_of(providers, provider_options)
        self._provider = self._providers[0]
        with self._event("session_initialization", provider=self._provider.name):
            self._open()

    def _open(self) -> None:
        self._overriding.clear()
        if _is_directory(self._model):
            self.module = compiler.load(self._model, self._threads)
            self._meta = ModelMetadata(
                graph_name=self.module.schedule.name if isinstance(self.module, Module) else ""
            )
            self._inputs = [node_arg_of(spec) for spec in self.module.inputs]
            self._outputs = [node_arg_of(spec) for spec in self.module.outputs]
            self._overridable: list[NodeArg] = []
            return
        proto = read_model(self._model)
        self._sized, proto = with_sizes(self._model, proto, self._options)
        self._meta = metadata_of(proto)
        self._overridable = [node_arg(info) for info in overridable(proto)]
        constants = initializers_of(proto.graph)
        self.module = self._compiled()
        self._inputs = [node_arg(i) for i in proto.graph.input if i.name not in constants]
        # The outputs; those of which the model does not give the shape with the module's.
        compiled = {spec.name: node_arg_of(spec) for spec in self.module.outputs}
        declared = [node_arg(info) for info in proto.graph.output]
        static = isinstance(self.module, Module)
        self._outputs = [
            compiled[arg.name] if static and (not arg.shape or None in arg.shape) else arg
            for arg in declared
        ]

    @property
    def _threads(self) -> int | None:
        threads = self._options.intra_op_num_threads
        return threads if threads > 0 else None

    @property
    def _types(self) -> dict[str, ValueType]:
        """The types of the inputs that are not tensors of numbers, which dynamic modules have."""
        types = self.module.inputs if isinstance(self.module, DynamicModule) else ()
        return {type.name: type for type in types if type.kind != "tensor" or type.dtype == "str_"}

    def _module_for(self, feed: Iterable[str]) -> Any:
        """The module that has the initializers of a feed as inputs, compiled at their first run."""
        fed = frozenset(feed) & {arg.name for arg in self._overridable}
        if not fed:
            return self.module
        # another run with these initializers waits for the compilation
        with self._lock:
            if fed not in self._overriding:
                _LOG.warning("compiling for a run that gives the initializers %s", sorted(fed))
                self._overriding[fed] = self._compiled(sorted(fed))
            return self._overriding[fed]

    def _compiled(self, fed: Sequence[str] = ()) -> Any:
        options = self._provider.compile_options
        if self._provider.target == "cpu":
            options["threads"] = self._threads
        # onnxruntime falls back to its CPU provider; here such a node runs on the host
        strict = self._options.entries.get("session.disable_cpu_ep_fallback") == "1"
        module = compiler.compile(self._sized, **options, overridable=fed, dynamic=not strict)
        # A module that is loaded on the provider's device.
        if self._provider.device_id == 0 or self._provider.target in ("cpu", "emu"):
            return module
        if not isinstance(module, Module):
            raise DeviceError(
                f"dynamic modules run on the first device: set CUDA_VISIBLE_DEVICES or"
                f" HIP_VISIBLE_DEVICES to {self._provider.device_id} instead of device_id"
            )
        return module.with_options(ordinal=self._provider.device_id)

    def _event(self, name: str, **details: Any) -> Any:
        return nullcontext() if self._profile is None else self._profile.event(name, **details)

    def get_inputs(self) -> list[NodeArg]:
        """The inputs that a run needs, in the model's order."""
        return list(self._inputs)

    def get_outputs(self) -> list[NodeArg]:
        """The outputs, in the model's order."""
        return list(self._outputs)

    def get_overridable_initializers(self) -> list[NodeArg]:
        """The inputs that have a value in the model, which a run may replace."""
        return list(self._overridable)

    def get_modelmeta(self) -> ModelMetadata:
        """Where the model comes from."""
        return self._meta

    def get_providers(self) -> list[str]:
        """The available providers in order: the model is compiled for the first, the CPU is last.

        The CPU's stands elsewhere if it was given there.
        """
        return [provider.name for provider in self._providers]

    def get_provider_options(self) -> dict[str, dict[str, str]]:
        """The options of each provider, as text."""
        return {provider.name: dict(provider.options) for provider in self._providers}

    def get_session_options(self) -> SessionOptions:
        """The options that the session was made with."""
        return self._options

    def disable_fallback(self) -> None:
        """Nothing to do: a run never changes its provider."""

    def enable_fallback(self) -> None:
        """Nothing to do: a run never changes its provider."""

    def run(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        run_options: RunOptions | None = None,
    ) -> list[Any]:
        """Run once; the named outputs (all for None) as arrays, lists or dictionaries.

        Raises InvalidArgument for names, types and shapes that do not fit the model.
        """
        names = self._checked_names(output_names)
        results = self._run(input_feed, run_options)
        return [results[name] for name in names]

    def run_with_ort_values(
        self,
        output_names: Sequence[str] | None,
        input_dict_ort_values: Mapping[str, OrtValue],
        run_options: RunOptions | None = None,
    ) -> list[OrtValue]:
        """Run once on values; the outputs are values in host memory."""
        return [
            wrapped(value, self._device)
            for value in self.run(output_names, input_dict_ort_values, run_options)
        ]

    def run_async(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        callback: Callback,
        user_data: Any,
        run_options: RunOptions | None = None,
    ) -> None:
        """Run in another thread, which calls `callback` with outputs, `user_data` and an error."""
        names = self._checked_names(output_names)
        checked_feed(self._inputs, self._overridable, input_feed, self._types)
        if self._pool is None:
            self._pool = ThreadPoolExecutor(CONCURRENT_RUNS, "flowloom-session")
        run = partial(self.run, names, input_feed, run_options)
        self._pool.submit(_run_and_call, run, callback, user_data)

    def _checked_names(self, names: Sequence[str] | None) -> Sequence[str]:
        available = [output.name for output in self._outputs]
        if unknown := [name for name in names or () if name not in available]:
            raise InvalidArgument(
                f"the model has no output {unknown[0]!r}; its outputs are {', '.join(available)}"
            )
        return names or available

    def _run(
        self, feed: Mapping[str, Any], options: RunOptions | None, **further: Any
    ) -> dict[str, Any]:
        check_run_options(options)
        fed = inputs_by_name(feed)
        unwrapped = {n: v.value if isinstance(v, OrtValue) else v for n, v in fed.items()}
        values = checked_feed(self._inputs, self._overridable, unwrapped, self._types)
        module = self._module_for(values)
        with self._event("model_run"):
            return module.run(values, **further)

    def io_binding(self) -> IOBinding:
        """A new binding of inputs and outputs to memory."""
        return IOBinding([*self._inputs, *self._overridable], self._outputs)

    def run_with_iobinding(
        self, iobinding: IOBinding, run_options: RunOptions | None = None
    ) -> None:
        """Run once on bound memory; the outputs are in the binding.

        On a GPU outputs that are bound to a device stay there.
        """
        further = self._outputs_option(iobinding)
        iobinding.take(self._run(iobinding.inputs, run_options, **further), self._device)

    @property
    def _device(self) -> str:
        return self._provider.target

    def _outputs_option(self, binding: IOBinding) -> dict[str, Any]:
        """The option of a run for outputs on a device: a GPU writes to the bound memory itself."""
        staying = {
            name: target
            for name, target in binding.targets.items()
            if (target if isinstance(target, str) else target.device_name()) != "cpu"
        }
        if not staying:
            return {}
        if self._device not in ("cuda", "emu"):
            raise DeviceError(f"outputs cannot stay on a device with {self._provider.name}")
        module = self._module_for(binding.inputs)
        if not isinstance(module, Module):
            return {"outputs": "device"}
        driver = driver_of(self._device, self._provider.device_id)
        shapes = {output.name: output for output in module.outputs}
        return {
            "outputs": {
                name: empty_on(driver, shapes[name].dtype, shapes[name].shape)
                if isinstance(target, str)
                else target.value
                for name, target in staying.items()
            }
        }

    def get_profiling_start_time_ns(self) -> int:
        """When profiling began, in ns of `time.monotonic_ns`; 0 if it was not enabled."""
        return 0 if self._profile is None else self._profile.start_ns

    def end_profiling(self) -> str:
        """Write the profile and return the name of its file; empty if it was not enabled."""
        return "" if self._profile is None else self._profile.write()

    def __repr__(self) -> str:
        return f"<InferenceSession on {self._provider.name}: {self.module!r}>"


def _is_directory(model: ModelSource) -> TypeGuard[str | os.PathLike[str]]:
    """Whether a model is the path of a saved module; an empty path names no file."""
    if not isinstance(model, str | os.PathLike):
        return False
    return os.fspath(model) != "" and Path(model).is_dir()


def _run_and_call(run: Callable[[], list[Any]], callback: Callback, data: Any) -> None:
    try:
        results = run()
        error = ""
    except Exception as caught:  # the callback gets it: nobody waits for this thread
        results = []
        error = f"{type(caught).__name__}: {caught}"
    callback(results, data, error)
