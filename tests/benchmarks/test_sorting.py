"""The benchmarks of sorts and running sums, as far as they go without a device."""

import pytest

from benchmarks.sorting import cpu, gpu
from compiler.target.target import parse_gpu


@pytest.mark.parametrize("case", [cpu.Case((3, 50), 1, 7), cpu.Case((2, 30, 4), 1)])
def test_the_cpu_computes_what_onnxruntime_does(case: cpu.Case):
    ours, theirs = cpu.runs_of(case)
    ours()
    assert len(theirs()) == len(case.results)


def test_every_case_on_a_gpu_has_a_kernel():
    target = parse_gpu("cuda:sm_90:fp32")
    for case in gpu.CASES:
        candidate = case.candidate(target)
        assert candidate.choose()[0] in candidate.configs


def test_the_table_has_the_ratio_to_the_best_peer():
    row = {
        "case": "TopK",
        "ours": 2.0,
        "peers": {"torch.sort": 8.0, "torch.topk": 4.0},
        "ratio": 2.0,
        "estimate": 3.0,
        "configs": {"a": 2.5, "b": 1.5},
    }
    lines = [*gpu.table([row])]
    assert lines[2] == "| TopK | 2.0 | torch.sort 8.0, torch.topk 4.0 | 2.00 | 3.0 | 1.5 b |"
    assert lines[-1].endswith("2.00")
