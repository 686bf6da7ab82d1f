"""Host operators of ai.onnx.preview.training: one step of an optimizer.

Inputs are the learning rate, the number of steps so far, then all tensors that are optimized, all
of their gradients, and all of each state. Results are the new tensors, then the new states.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from compiler.program.host.registry import HostCall, HostFunction, host_operator

Array = np.ndarray
Step = Callable[..., Sequence[Array]]

TRAINING_DOMAIN = "ai.onnx.preview.training"


_DEFAULTS = {"alpha": 0.9, "beta": 0.999, "decay_factor": 0.0, "epsilon": 1e-6}


def _optimizer(call: HostCall, states: int, step: Step) -> HostFunction:
    """The steps of a node, whose defaults are floats of 32 bits as its attributes are."""
    defaults = {name: float(np.float32(value)) for name, value in _DEFAULTS.items()}
    return partial(_stepped, defaults | dict(call.attributes), states, step)


def _stepped(
    attributes: Mapping[str, Any],
    states: int,
    step: Step,
    rate: Array,
    count: Array,
    *tensors: Array,
) -> list[Array]:
    """The results of a step for each tensor; raises ValueError for an incomplete list of them."""
    kinds = 2 + states
    number, remainder = divmod(len(tensors), kinds)
    if remainder:
        raise ValueError(f"{len(tensors)} tensors are not {kinds} for each that is optimized")
    columns = [tensors[i * number : (i + 1) * number] for i in range(kinds)]
    steps = [
        step(attributes, rate.reshape(()), int(count.reshape(())), *row)
        for row in zip(*columns, strict=True)
    ]
    return [
        np.asarray(result).astype(x.dtype)
        for results in zip(*steps, strict=True)
        for result, x in zip(results, columns[0], strict=True)
    ]


@host_operator("Adagrad", domain=TRAINING_DOMAIN)
def adagrad(call: HostCall) -> HostFunction:
    """Steps divided by the root of the sum of all squared gradients."""
    return _optimizer(call, 1, _adagrad)


def _adagrad(
    attributes: Mapping[str, Any], rate: Array, count: int, x: Array, g: Array, h: Array
) -> tuple[Array, Array]:
    rate = rate / (1 + count * attributes["decay_factor"])
    g = attributes.get("norm_coefficient", 0.0) * x + g
    h = h + g * g
    return x - rate * g / (np.sqrt(h) + attributes["epsilon"]), h


@host_operator("Adam", domain=TRAINING_DOMAIN)
def adam(call: HostCall) -> HostFunction:
    """Steps by the moving averages of gradients and of their squares."""
    return _optimizer(call, 2, _adam)


def _adam(
    attributes: Mapping[str, Any], rate: Array, count: int, x: Array, g: Array, v: Array, h: Array
) -> tuple[Array, Array, Array]:
    alpha = attributes["alpha"]
    beta = attributes["beta"]
    g = attributes.get("norm_coefficient", 0.0) * x + g
    v = alpha * v + (1 - alpha) * g
    h = beta * h + (1 - beta) * g * g
    if count > 0:
        rate = rate * np.sqrt(1 - beta**count) / (1 - alpha**count)
    x = x - rate * (v / (np.sqrt(h) + attributes["epsilon"]))
    return (1 - attributes.get("norm_coefficient_post", 0.0)) * x, v, h


@host_operator("Momentum", domain=TRAINING_DOMAIN)
def momentum(call: HostCall) -> HostFunction:
    """Steps by a moving sum of gradients; nesterov's looks one step ahead."""
    return _optimizer(call, 1, _momentum)


def _momentum(
    attributes: Mapping[str, Any], rate: Array, count: int, x: Array, g: Array, v: Array
) -> tuple[Array, Array]:
    alpha = attributes["alpha"]
    g = attributes.get("norm_coefficient", 0.0) * x + g
    v = alpha * v + (attributes["beta"] if count > 0 else 1) * g
    ahead = g + alpha * v if attributes["mode"] == "nesterov" else v
    return x - rate * ahead, v
