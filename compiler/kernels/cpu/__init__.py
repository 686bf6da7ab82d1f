"""CPU kernels: schedules, templates, and code generation by LLVM."""
