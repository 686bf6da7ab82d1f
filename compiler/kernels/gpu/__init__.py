"""CUDA kernels: GPU schedules, CUDA text from TVM, cubins by NVRTC. Needs no GPU and no driver."""
