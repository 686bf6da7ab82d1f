"""GPU kernels on the CPU: the C++ sources of the emulator, and the host compiler that builds it."""
