"""The simulator's timelines respect every dependency and the bounds of the work they are made of."""

from compiler.analysis.simulator import Device, Latencies, Simulator, Work

FREE = Device(latencies=Latencies(0, 0, 0, 0, 0))


def test_small_kernels_overlap_and_large_ones_share_the_device():
    small, large = [Work(1000.0, 8)] * 8, [Work(1000.0, 5000)] * 8
    assert Simulator(small, FREE).makespan([0] * 8, range(8), []) == 8000
    assert Simulator(small, FREE).makespan(range(8), range(8), []) == 1000
    assert Simulator(large, FREE).makespan(range(8), range(8), []) == 8000
