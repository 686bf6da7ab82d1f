"""`flowloom inspect MODEL`: its interface and operators, and what would run where."""

import json
from argparse import Namespace

from compiler.errors import ArgumentError
from compiler.tools.model_report import inspect_model
from compiler.tools.models import named_model


def run(options: Namespace) -> int:
    """Print the report; exit status 1 for a model that compiling would refuse."""
    if options.model.is_dir():
        raise ArgumentError(
            f"{options.model} is an artifact: `flowloom report {options.model}` describes it"
        )
    report = inspect_model(
        named_model(options.model),
        target=options.target or "cpu",
        input_shapes=dict(options.input_shape),
        arch=options.arch,
        precision=options.precision,
        semantics=",".join(options.semantics) or None,
    )
    print(json.dumps(report.as_json()) if options.json else report.text())
    return int(report.outcome == "refused")
