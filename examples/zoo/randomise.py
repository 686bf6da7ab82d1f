"""Random statistics for networks that have never been trained; imported by `export.py` only.

A new module normalises with means of zero and variances of one, and its constant parameters make
whole branches zero: both would hide errors.
"""

from typing import Any

import torch
from torch import nn

_DEVIATION = 0.15
"""Of random scales and variances, as a part of their mean."""
_LIMITS = (0.5, 1.5)


def _positive(like: torch.Tensor) -> torch.Tensor:
    """Random factors around one."""
    return (1 + _DEVIATION * torch.randn_like(like)).clamp(*_LIMITS)


def _randomise_constants(module: nn.Module) -> None:
    """Redraw constant parameters: biases around zero, scales around one."""
    for name, parameter in module.named_parameters():
        if parameter.numel() == 1 or parameter.min() != parameter.max():
            continue
        is_bias = name.endswith("bias")
        drawn = 0.1 * torch.randn_like(parameter) if is_bias else _positive(parameter)
        parameter.copy_(drawn)


def _set_statistics(module: nn.Module, inputs: tuple[torch.Tensor, ...]) -> None:
    """Give a batch normalisation random scales, and statistics around those of its input."""
    norm: Any = module
    norm.weight.copy_(_positive(norm.weight))
    variance, mean = torch.var_mean(inputs[0])
    norm.running_var.copy_(variance * _positive(norm.running_var))
    norm.running_mean.copy_(mean + 0.1 * variance.sqrt() * torch.randn_like(norm.running_mean))


def randomise(module: nn.Module, inputs: tuple[torch.Tensor, ...]) -> None:
    """Make constant parameters and all batch normalisations random, in place.

    Their statistics follow from a run on these inputs, so that values neither explode nor vanish
    in a deep network.
    """
    module.eval()
    norms = [m for m in module.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
    handles = [norm.register_forward_pre_hook(_set_statistics) for norm in norms]
    with torch.no_grad():
        _randomise_constants(module)
        module(*inputs)
    for handle in handles:
        handle.remove()
