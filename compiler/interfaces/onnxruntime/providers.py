"""onnxruntime's execution providers as targets."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast
from warnings import warn

from compiler.backends.cuda import device as cuda
from compiler.backends.hip.driver import HipRuntime
from compiler.errors import ArgumentError, DeviceError, ProviderError
from compiler.support.arguments import closest_name

LAST = "CPUExecutionProvider"
"""The provider that is always available, and the last of each session."""

TARGETS: Mapping[str, str] = {
    "CUDAExecutionProvider": "cuda",
    "ROCMExecutionProvider": "hip",
    LAST: "cpu",
    "EmulatorExecutionProvider": "emu",
}
"""The target of each provider, in the order of preference."""

_TEXTS = (
    *("precision", "arch", "pipeline", "profile", "schedule", "graphs", "quantised", "semantics"),
)
PROVIDER_OPTIONS: Mapping[str, Callable[[str], Any]] = {
    **{f"flowloom_{name}": str for name in _TEXTS},
    "flowloom_budget": float,
}
"""Options that become arguments of `compiler.compile`, with how their text is read."""

WITHOUT_EFFECT = (
    *("arena_extend_strategy", "cudnn_conv1d_pad_to_nc1d", "cudnn_conv_algo_search"),
    *("cudnn_conv_use_max_workspace", "do_copy_in_default_stream", "enable_cuda_graph"),
    *("enable_skip_layer_norm_strict_mode", "gpu_external_alloc", "gpu_external_free"),
    *("gpu_external_empty_cache", "gpu_mem_limit", "has_user_compute_stream", "prefer_nhwc"),
    *("sdpa_kernel", "tunable_op_enable", "tunable_op_max_tuning_duration_ms", "use_arena"),
    *("tunable_op_tuning_enable", "use_ep_level_unified_stream", "fuse_conv_bias"),
    *("miopen_conv_exhaustive_search", "miopen_conv_use_max_workspace"),
)
"""onnxruntime's options that cannot change a result; they are kept and not read."""


@dataclass(frozen=True)
class Provider:
    """A provider with its options as text."""

    name: str
    options: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def target(self) -> str:
        """The target that it stands for."""
        return TARGETS[self.name]

    @property
    def device_id(self) -> int:
        """The number of the device."""
        return int(self.options.get("device_id", "0"))

    @property
    def compile_options(self) -> dict[str, Any]:
        """The arguments of `compiler.compile`; raises ArgumentError for what is not one."""
        arguments: dict[str, Any] = {"target": self.target}
        for name, text in self.options.items():
            if name in PROVIDER_OPTIONS:
                try:
                    arguments[name.removeprefix("flowloom_")] = PROVIDER_OPTIONS[name](text)
                except ValueError as error:
                    raise ArgumentError(f"{self.name}: {name}={text!r}: {error}") from error
        ways = [way for way in arguments.get("semantics", "").split(",") if way]
        if not any(way.rpartition("=")[0].strip() in ("", "*") for way in ways):
            ways.insert(0, "onnxruntime")  # for the rules that are not named
        arguments["semantics"] = ",".join(ways)
        if self.options.get("use_tf32") == "0" and self.target == "cuda":
            arguments.setdefault("precision", "fp32")
        return arguments


def providers_of(
    providers: Sequence[Any] | None, options: Sequence[Mapping[str, Any]] | None
) -> list[Provider]:
    """The providers of a session: those it was given that are available here, then the CPU's.

    As in onnxruntime, any other name is passed over with a UserWarning, and its options are not
    looked at. Raises ProviderError for lists of other things than names and options, ArgumentError
    for an option that an available provider does not have, and DeviceError for the number of a
    device that is missing.
    """
    _check_list("providers", providers, "names")
    _check_list("provider_options", options, "dicts")
    named = [_named(entry) for entry in providers or ()]
    if options is not None and providers is not None:
        if len(options) != len(named):
            raise ProviderError(
                f"{len(options)} provider_options for {len(named)} providers: pass a dict for each"
            )
        if any(own_options for _, own_options in named):
            raise ProviderError(
                "providers has options, and so has provider_options: pass all in one of them"
            )
    chosen: dict[str, Provider] = {}
    for index, (name, own_options) in enumerate(named):
        reason = absence(TARGETS[name]) if name in TARGETS else "there is no such provider"
        if reason is not None:
            # the beginning is onnxruntime's own text, by which scripts filter the warning
            warn(
                f"Specified provider {name!r} is not in available provider names: {reason}."
                f" Available providers: {', '.join(_available())}",
                stacklevel=2,
            )
        elif name in chosen:
            warn(f"Duplicate provider {name!r} encountered, ignoring.", stacklevel=2)
        else:
            chosen[name] = _checked(name, {**own_options, **(options[index] if options else {})})
    return list(chosen.values()) if LAST in chosen else [*chosen.values(), Provider(LAST)]


def _check_list(name: str, value: object, items: str) -> None:
    """Raise ProviderError unless an argument is a list, or None; a text is not a list of names."""
    if value is None:
        return
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        raise ProviderError(f"{name} is {value!r}: pass a list of {items}")
    if items == "dicts" and not all(
        isinstance(item, Mapping) for item in cast(Sequence[object], value)
    ):
        raise ProviderError(f"{name} is {value!r}: pass a list of {items}, one for each provider")


def _named(entry: Any) -> tuple[str, Mapping[str, Any]]:
    """The name and the options of a provider."""
    pair = cast(tuple[Any, ...], entry if type(entry) is tuple else (entry, {}))
    if len(pair) != 2 or not isinstance(pair[0], str) or not isinstance(pair[1], Mapping):
        raise ProviderError(
            f"the provider {entry!r} is not a name, nor a pair of a name and a dict of options;"
            f" the providers are {', '.join(TARGETS)}"
        )
    return pair[0], cast(Mapping[str, Any], pair[1])


def _checked(name: str, options: Mapping[str, Any]) -> Provider:
    """A provider whose device is present, with its options as text."""
    texts = {str(key): str(value) for key, value in options.items()}
    accepted = {"device_id", "use_tf32", *PROVIDER_OPTIONS, *WITHOUT_EFFECT}
    if unknown := sorted(texts.keys() - accepted):
        raise ArgumentError(
            f"{name} has no option {unknown[0]!r} ({closest_name(unknown[0], accepted)}); it takes"
            f" device_id, use_tf32, {', '.join(PROVIDER_OPTIONS)}, and those of onnxruntime without"
            " effect on results"
        )
    if not texts.get("device_id", "0").isdecimal():
        raise ArgumentError(f"{name}: device_id={texts['device_id']!r} is not a device's number")
    provider = Provider(name, texts)
    if (reason := absence(provider.target, provider.device_id)) is not None:
        raise DeviceError(f"{name}: device {provider.device_id} cannot be used: {reason}")
    return provider


def absence(target: str, ordinal: int = 0) -> str | None:
    """Why a target has no device here; None if it has one."""
    try:
        if target == "cuda":
            cuda.device(ordinal)
        elif target == "hip":
            HipRuntime.open().device(ordinal)
    except (DeviceError, ImportError) as error:
        return str(error)
    return None


def get_all_providers() -> list[str]:
    """The names of all providers, those whose device is missing included."""
    return list(TARGETS)


def get_available_providers() -> list[str]:
    """The providers whose devices are present, the fastest first; the emulator is not offered."""
    return list(_available())


def _available() -> Iterator[str]:
    for name, target in TARGETS.items():
        if target != "emu" and absence(target) is None:
            yield name


def get_device() -> str:
    """`GPU` if a GPU is present that sessions can use, else `CPU`."""
    return "GPU" if len(get_available_providers()) > 1 else "CPU"
