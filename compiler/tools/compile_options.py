"""The options of the compilation, which several commands take, as arguments of `compile`."""

from argparse import Namespace
from typing import Any

from compiler.errors import FlowloomError


def compile_arguments(options: Namespace) -> dict[str, Any]:
    """The arguments of `compiler.compile` for the options of a command, except the model.

    Raises FlowloomError for options that contradict each other.
    """
    if options.frozen and options.profile is None:
        raise FlowloomError("--frozen takes kernel times from a database: name it with --profile")
    return {
        "target": options.target or "cpu",
        "pipeline": options.pipeline,
        "input_shapes": dict(options.input_shape),
        "arch": options.arch,
        "precision": options.precision,
        "threads": getattr(options, "threads", None),
        "dump_ir": options.dump_ir,
        "budget": 0 if options.frozen else options.budget,
        "profile": options.profile,
        "schedule": options.schedule,
        "passes": options.own_passes,
        "overridable": options.overridable,
        "cache": not options.no_cache,
        "check_indices": options.check_indices or bool(getattr(options, "check", False)),
        "dynamic": not options.static,
        "graphs": "all" if options.graphs is None else options.graphs,
        "quantised": "auto" if options.quantised is None else options.quantised,
        "semantics": ",".join(options.semantics) or None,
        "check": getattr(options, "check_groups", False),
    }
