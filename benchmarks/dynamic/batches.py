"""Which networks run in a bucket of their batch: by comparison of graphs, without kernels.

    python benchmarks/dynamic/batches.py [--bucket 4] [--batches 1 2 4] [NAME...]

The networks of `examples/zoo` and `examples/field` were exported for one batch. Their batch is made
open: the first size in the shape of each Reshape becomes -1, or 0 where another is. What does not
fit another batch after that is counted apart, as it says nothing of buckets.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

import onnx
from onnx import numpy_helper

from compiler.errors import FlowloomError
from compiler.frontend.graph import Graph, Value
from compiler.frontend.importing.part import ModelPart, specialise_part
from compiler.frontend.padding.graphs import padding_of
from compiler.frontend.padding.pairs import CannotPad
from compiler.program.reading import read_program
from examples.zoo import load_file

EXAMPLES = Path(__file__).parents[2] / "examples"
BATCH = "batch"


def networks(names: Sequence[str]) -> Iterator[tuple[str, onnx.ModelProto]]:
    """The networks by name, with their weights; all if none is named."""
    folders = ("field/models", "zoo/models", "zoo/others")
    for path in sorted(path for folder in folders for path in (EXAMPLES / folder).iterdir()):
        name = path.name.partition(".")[0]
        if name in names or not names:
            yield name, load_file(path)


def open_batch(model: onnx.ModelProto) -> bool:
    """Let the first dimension of inputs be any batch; whether some input has one of 1."""
    shapes = {node.input[1] for node in model.graph.node if node.op_type == "Reshape"}
    tensors = [tensor for tensor in model.graph.initializer if tensor.name in shapes]
    for node in model.graph.node:
        if node.op_type == "Reshape":
            del node.attribute[:]
        if node.op_type == "Constant" and node.output[0] in shapes:
            tensors += [attribute.t for attribute in node.attribute if attribute.HasField("t")]
    for tensor in tensors:
        sizes = numpy_helper.to_array(tensor).copy()
        if sizes.size:
            sizes[0] = 0 if (sizes[1:] == -1).any() else -1
            tensor.CopyFrom(numpy_helper.from_array(sizes, tensor.name))
    del model.graph.value_info[:]
    for output in model.graph.output:
        output.type.tensor_type.ClearField("shape")
    return any([_open(info) for info in model.graph.input])


def _open(info: onnx.ValueInfoProto) -> bool:
    dims = info.type.tensor_type.shape.dim
    if not len(dims) or dims[0].dim_value != 1:
        return False
    dims[0].Clear()
    dims[0].dim_param = BATCH
    return True


def graphs(model: onnx.ModelProto, batches: Sequence[int]) -> list[Graph]:
    """The graphs of a model for some batches; raises a FlowloomError if one does not fit it."""
    found = read_program(model, {}, check_indices=False)
    made: list[Graph] = []
    for batch in batches:
        inputs = {
            type.name: Value(
                type.name,
                type.dtype,
                tuple(size if isinstance(size, int) else batch for size in type.shape or ()),
            )
            for type in found.inputs
        }
        nodes = [*found.graph.nodes]
        part = ModelPart(nodes, found.graph.outputs, found.graph.constants)
        made.append(specialise_part(part, inputs, found.context).graph)
    return made


def verdict(model: onnx.ModelProto, bucket: int, batches: Sequence[int]) -> str:
    """Whether a bucket computes some batches, or why not."""
    if not open_batch(model):
        return "no input has a batch of 1"
    try:
        large, half, *smaller = graphs(model, [bucket, (bucket + 1) // 2, *batches])
    except FlowloomError as error:
        return f"has its batch elsewhere: {error}"
    try:
        whole = padding_of(large, half, half)
        for graph in smaller:
            whole.extents_of(padding_of(large, half, graph))
    except CannotPad as reason:
        return f"refused: {reason}"
    return "in a bucket"


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--bucket", type=int, default=4)
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 2, 4])
    options = parser.parse_args()
    counts: dict[str, int] = {}
    for name, model in networks(options.names):
        found = verdict(model, options.bucket, options.batches)
        kind = found.partition(":")[0]
        counts[kind] = counts.get(kind, 0) + 1
        print(f"{name:20} {found[:150]}", flush=True)
    print(", ".join(f"{kind}: {count}" for kind, count in counts.items()))


if __name__ == "__main__":
    main()
