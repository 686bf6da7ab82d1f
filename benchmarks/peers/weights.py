"""Gives a PyTorch module the weights of its ONNX file, so that both sides run the same model."""

import numpy as np
import onnx
import torch
from onnx import numpy_helper
from torch.nn.modules.batchnorm import _BatchNorm

Initializers = dict[str, np.ndarray]


def adopt(module: torch.nn.Module, inputs: tuple[torch.Tensor, ...], model: onnx.ModelProto) -> int:
    """Copy what can be matched into the module and return how many tensors that were.

    Parameters are matched by name; the GEMMs whose weights the exporter transposed and renamed,
    by their order; a batch normalisation that it folded away becomes the identity. Compare outputs
    to learn whether the models are the same: other rewritings of the exporter are not undone.
    """
    found = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    with torch.no_grad():
        named = _adopt_named(module, found)
        products = _adopt_gemms(module, inputs, model, found)
        _neutralize(module, found)
    return named + products


def _adopt_named(module: torch.nn.Module, found: Initializers) -> int:
    count = 0
    for name, tensor in module.state_dict().items():
        if name in found and found[name].shape == tuple(tensor.shape):
            tensor.copy_(torch.from_numpy(found[name].copy()))
            count += 1
    return count


def _adopt_gemms(
    module: torch.nn.Module,
    inputs: tuple[torch.Tensor, ...],
    model: onnx.ModelProto,
    found: Initializers,
) -> int:
    """Pair the layers that ran with the renamed matrices, if their shapes agree in order.

    Layers beyond the last matrix have results that the model does not give.
    """
    layers = [
        layer.weight for name, layer in _executed(module, inputs) if f"{name}.weight" not in found
    ]
    known = module.state_dict().keys()
    matrices = [
        found[node.input[1]].T
        for node in model.graph.node
        if node.op_type == "MatMul" and node.input[1] in found and node.input[1] not in known
    ]
    del layers[len(matrices) :]
    if [tuple(weight.shape) for weight in layers] != [matrix.shape for matrix in matrices]:
        return 0
    for weight, matrix in zip(layers, matrices, strict=True):
        weight.copy_(torch.from_numpy(np.ascontiguousarray(matrix)))
    return len(layers)


def _executed(
    module: torch.nn.Module, inputs: tuple[torch.Tensor, ...]
) -> list[tuple[str, torch.nn.Linear]]:
    """The linear layers in the order in which they run, by name."""
    order: list[tuple[str, torch.nn.Linear]] = []
    hooks = [
        layer.register_forward_pre_hook(lambda own, _, name=name: order.append((name, own)))
        for name, layer in module.named_modules()
        if isinstance(layer, torch.nn.Linear)
    ]
    module(*inputs)
    for hook in hooks:
        hook.remove()
    return order


def _neutralize(module: torch.nn.Module, found: Initializers) -> None:
    """Turn every batch normalisation that has no weights in the file into the identity."""
    for name, layer in module.named_modules():
        if isinstance(layer, _BatchNorm) and not any(key.startswith(f"{name}.") for key in found):
            layer.reset_parameters()
            layer.running_var.fill_(1.0 - layer.eps)
