"""The target of a graph, as its passes ask for it."""

from compiler.ir.dataflow import GraphOp


def target_kind(graph: GraphOp) -> str:
    """The kind of the graph's target, such as `cpu` or `cuda`; empty where none is recorded.

    For the emulator it is the kind of the emulated GPU.
    """
    kind, _, rest = graph.target.data.partition(":") if graph.target is not None else ("", "", "")
    if kind != "emu":
        return kind
    return "hip" if rest.startswith("gfx") else "cuda"


def target_precision(graph: GraphOp) -> str:
    """The precision of the graph's target, such as `tf32`; `fp32` by default."""
    kind, *rest = graph.target.data.split(":") if graph.target is not None else [""]
    return rest[1] if kind not in ("", "cpu") and len(rest) > 1 else "fp32"
