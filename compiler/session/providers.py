"""onnxruntime's execution providers as targets."""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from compiler.backends.cuda import device as cuda
from compiler.backends.hip.driver import HipRuntime
from compiler.errors import ArgumentError, DeviceError

_LOG = logging.getLogger(__name__)

TARGETS: Mapping[str, str] = {
    "CUDAExecutionProvider": "cuda",
    "ROCMExecutionProvider": "hip",
    "CPUExecutionProvider": "cpu",
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
        found: dict[str, Any] = {"target": self.target}
        for name, text in self.options.items():
            if name in PROVIDER_OPTIONS:
                try:
                    found[name.removeprefix("flowloom_")] = PROVIDER_OPTIONS[name](text)
                except ValueError as error:
                    raise ArgumentError(f"{self.name}: {name}={text!r}: {error}") from error
        found["semantics"] = ",".join(filter(None, ("onnxruntime", found.get("semantics"))))
        if self.options.get("use_tf32") == "0" and self.target == "cuda":
            found.setdefault("precision", "fp32")
        return found


def providers_of(
    providers: Sequence[Any] | None, options: Sequence[Mapping[str, Any]] | None
) -> list[Provider]:
    """The providers that a session was given, checked; the CPU's if it was given none.

    Raises ArgumentError, which lists the known names, for an unknown provider or option.
    """
    if not providers:
        return [Provider("CPUExecutionProvider")]
    if isinstance(providers, str):
        raise ArgumentError(f"providers is the text {providers!r}: pass a list of names")
    if options is not None and len(options) != len(providers):
        raise ArgumentError(f"{len(options)} provider_options for {len(providers)} providers")
    none: Mapping[str, Any] = {}
    given = options or [none] * len(providers)
    found = [_provider(entry, extra) for entry, extra in zip(providers, given, strict=True)]
    return list({provider.name: provider for provider in reversed(found)}.values())[::-1]


def _provider(entry: Any, extra: Mapping[str, Any]) -> Provider:
    pair = cast(tuple[Any, Mapping[str, Any]], entry if type(entry) is tuple else (entry, {}))
    name, own = pair
    if name not in TARGETS:
        raise ArgumentError(f"unknown provider {name!r}; the providers are {', '.join(TARGETS)}")
    texts = {str(key): str(value) for key, value in {**own, **extra}.items()}
    known = {"device_id", "use_tf32", *PROVIDER_OPTIONS, *WITHOUT_EFFECT}
    if unknown := sorted(texts.keys() - known):
        raise ArgumentError(
            f"{name} has no option {unknown[0]!r}; it takes device_id, use_tf32,"
            f" {', '.join(PROVIDER_OPTIONS)}, and those of onnxruntime without effect on results"
        )
    if not texts.get("device_id", "0").isdecimal():
        raise ArgumentError(f"{name}: device_id={texts['device_id']!r} is not a device's number")
    return Provider(name, texts)


def usable(providers: Sequence[Provider]) -> Provider:
    """The first provider whose device is present; those that are passed over are logged.

    Raises DeviceError if none is.
    """
    missing: list[str] = []
    for provider in providers:
        reason = absence(provider.target, provider.device_id)
        if reason is None:
            for line in missing:
                _LOG.warning("%s; %s is used instead", line, provider.name)
            return provider
        missing.append(f"{provider.name} cannot be used here: {reason}")
    raise DeviceError("; ".join(missing) + "; add CPUExecutionProvider to the providers")


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
