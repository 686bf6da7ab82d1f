"""The parts of `benchmarks/gpu_peers.py`: contenders, timing, bounds and results."""
