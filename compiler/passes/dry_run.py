"""A pipeline is tried on the smallest model before anything slow."""

from compiler.graph.targets import set_target
from compiler.ir.context import parse_module
from compiler.passes.pipeline import parse, split_phases
from compiler.passes.runner import Runner, taskflow_graph
from compiler.passes.user import is_own

TRIAL = """
dataflow.graph @trial opset 23 inputs ["x"] outputs ["y"] {
^bb0(%x: tensor<1xf32>):
  %y = dataflow.op "Relu" named "Relu_y"(%x) : (tensor<1xf32>) -> tensor<1xf32>
  dataflow.yield %y : tensor<1xf32>
}
"""
"""The smallest model, on which a pipeline is tried."""

OF_ONE_MODEL = ("file", "placement", "take")
"""The options of passes that record what was decided about one model."""


def check_pipeline(spec: str, target: str) -> None:
    """Raise PipelineError for a pipeline that no model can be compiled with.

    It runs on the smallest model, as passes check their options and what ran before them. The trial
    ends before a pass or a policy of the user's, and before one with a decision about some model.
    """
    steps = parse(spec)
    split_phases(steps)
    module = parse_module(TRIAL)
    set_target(module, target)
    for step in steps:
        of_one_model = any(getattr(step, option, None) is not None for option in OF_ONE_MODEL)
        if is_own(step) or of_one_model or ".py:" in str(step.spec()):
            return
        Runner().run(module, [step])
    taskflow_graph(module, spec)
