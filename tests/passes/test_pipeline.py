"""Pipelines are parsed, and name what is wrong in them."""

import pytest

from compiler.errors import PipelineError
from compiler.passes import PASSES
from compiler.passes.base import GraphPass, SchedulePass
from compiler.passes.pipeline import DEFAULT_PIPELINE, parse, split_phases, without_pass

OPTIONAL = {"apply-constraints", "import-placement", "import-schedule"}
DEFAULT_PASSES = [name for name in PASSES if name not in OPTIONAL]
"""Every pass but those that take a schedule from outside."""


def test_the_default_pipeline_is_every_pass_in_order():
    assert [p.name for p in parse(DEFAULT_PIPELINE)] == DEFAULT_PASSES
    graph_passes, schedule_passes = split_phases(parse(DEFAULT_PIPELINE))
    assert all(isinstance(step, GraphPass) for step in graph_passes)
    assert all(isinstance(step, SchedulePass) for step in schedule_passes)
    assert len(graph_passes) + len(schedule_passes) == len(DEFAULT_PASSES)


def test_a_spec_round_trips():
    passes = parse(DEFAULT_PIPELINE)
    text = ",".join(str(p.spec(include_default=True)) for p in passes)
    assert parse(text) == passes


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("fues", "unknown pass 'fues'; the passes are lower-quantised, conv-to-gemm"),
        ("fuse-operators{depth=3}", "the options of fuse-operators are"),
        ("partition-graph{max-nodes=x}", "max-nodes"),
        ("fuse-operators{", "cannot be parsed"),
        ("fuse;canonicalize", "cannot be parsed"),
    ],
)
def test_a_bad_spec_names_what_is_wrong(spec: str, message: str):
    with pytest.raises(PipelineError, match=message.replace("{", "\\{")):
        parse(spec)


def test_ranges_need_no_quotes():
    plain, quoted = "substitute{size=40..120 policy=taso}", 'substitute{size="40..120" policy=taso}'
    assert parse(plain) == parse(quoted)
    assert parse(str(parse(plain)[0].spec())) == parse(plain)


def test_a_range_in_a_quoted_text_stays():
    (step,) = parse('import-schedule{file="a=1..2.json"}')
    assert "a=1..2.json" in str(step.spec())


def test_a_pass_is_left_out():
    names = [step.name for step in parse(without_pass(DEFAULT_PIPELINE, "substitute"))]
    assert names == [name for name in DEFAULT_PASSES if name != "substitute"]
