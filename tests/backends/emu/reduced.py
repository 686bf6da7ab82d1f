"""The zoo's models as the emulator runs them in seconds: small images, or the first layers."""

import onnx

from examples import zoo

IMAGE = {
    "googlenet": (64, 64),
    "hrnet_w18": (32, 64),
    "inception_v3": (96, 96),
    "nasnetalarge": (64, 64),
    "nasnetmobile": (64, 64),
    "pnasnet5large": (64, 64),
    "resnet50": (64, 64),
    "resnext50": (64, 64),
    "unet": (32, 32),
}
"""Height and width of the image, where the model takes another."""

NODES = {"bert128": 52, "bert512": 40, "gpt2large": 60, "rnntc_sru": 140, "vit_base": 50}
"""How many nodes are kept, where the model is too deep."""


def load(name: str, nodes: int | None = None) -> onnx.ModelProto:
    """A model of the zoo, reduced, to `nodes` if given; what is kept last is an output too."""
    model = onnx.load_model_from_string(zoo.path(name).read_bytes())
    model.graph.name = name
    del model.graph.value_info[:]
    kept = nodes or NODES.get(name)
    if kept:
        cut(model, kept)
    if name in IMAGE:
        resize(model, IMAGE[name])
    zoo.refill(model)
    return model


def resize(model: onnx.ModelProto, size: tuple[int, int]) -> None:
    """Give the image another height and width."""
    shape = model.graph.input[0].type.tensor_type.shape
    for dimension, extent in zip(shape.dim[2:], size, strict=True):
        dimension.dim_value = extent
    for output in model.graph.output:
        output.type.tensor_type.ClearField("shape")
    inferred = onnx.shape_inference.infer_shapes(model)
    model.graph.output[0].CopyFrom(inferred.graph.output[0])


def cut(model: onnx.ModelProto, count: int) -> None:
    """Keep the first nodes; what later ones read of them, or nobody reads, are the outputs."""
    graph = model.graph
    inferred = onnx.shape_inference.infer_shapes(model)
    values = (*inferred.graph.value_info, *inferred.graph.output)
    types = {value.name: value for value in values}
    kept = list(graph.node[:count])
    later = {name for node in graph.node[count:] for name in node.input}
    inside = {name for node in kept for name in node.input}
    ends = [n for node in kept for n in node.output if n in later or n not in inside]
    del graph.node[count:], graph.output[:]
    graph.output.extend(types[name] for name in ends)
    used = {name for node in kept for name in node.input}
    weights = [tensor for tensor in graph.initializer if tensor.name in used]
    del graph.initializer[:]
    graph.initializer.extend(weights)
