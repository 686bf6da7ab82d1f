"""Compilers of CUDA text: NVRTC, hipcc, and the host's for the emulator."""
