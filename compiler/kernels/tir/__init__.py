"""TIR that CPU and GPU kernels share: loops, launches, inlining, and the code around an anchor."""
