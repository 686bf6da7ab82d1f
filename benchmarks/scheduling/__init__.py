"""The parts of `benchmarks/schedulers.py`."""
