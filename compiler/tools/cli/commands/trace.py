"""`flowloom trace DIR|MODEL -o trace.json`: the predicted run, and the measured one."""

import json
from argparse import Namespace

from compiler.support.words import counted
from compiler.tools.cli.opening import check_compiled, compile_model, run_inputs, stored_inputs
from compiler.tools.inspection import open_module
from compiler.tools.outputs import check_file, write_text
from compiler.tools.progress.options import conclude
from compiler.tools.trace import trace


def run(options: Namespace) -> int:
    """Write the timeline of a module with one schedule."""
    check_file(options.output)
    stored = stored_inputs(options)
    if options.model.is_dir():
        check_compiled(options)
        module = open_module(options.model)
    else:
        module = compile_model(options, dynamic=False)
    data, note = trace(module, run_inputs(stored, options, module))
    write_text(options.output, json.dumps(data))
    tasks = len(module.schedule.tasks)
    figures = {"trace": str(options.output), "tasks": tasks, "measured": note}
    conclude(options, f"{options.output}: {counted(tasks, 'task')}, predicted; {note}", figures)
    return 0
