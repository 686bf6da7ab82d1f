"""What the compiler makes of models and nodes, as hashes that a refactoring must not change.

    python -m tests.frozen                            # compare with the hashes of this folder
    python -m tests.frozen compare --quick --show     # a few minutes, with the texts that differ
    python -m tests.frozen compare --only resnet50 'test_slice*' --targets cpu
    python -m tests.frozen record                     # write the hashes anew

Cases are the networks of `examples.zoo` and `examples.field`, ONNX's node cases, and drawn cases of
`tests.operator_cases` and `tests.movement_cases`: a network of each kind and most node cases, all
of them with `--all`, and a few with `--quick` (`tests.frozen.cases`). Of each case and
target the hashes cover:

* `kernels`: the text of each distinct kernel (CUDA's or HIP's, or LLVM's before LLVM optimises it),
  its launches, packings, workspaces and estimates, without the kernel's name;
* `code`: the machine code of each of a CPU's kernels;
* `schedule`: `schedule.json`, in which kernels are named by their place among these;
* `weights`: the packed weights.

Nothing is measured, no cache of kernels is read, and no device is used. GPUs' texts are not
compiled: every kernel counts as one of 32 registers. LLVM's result is kept by the text that it is
made from, so a text that was compiled once costs nothing afterwards, and a new one is compiled.
The folder of these and of all texts is `FLOWLOOM_FROZEN`, by default `~/.cache/flowloom-frozen`.
Texts of the version before are shown only if they were recorded or compared on this machine.

Differences that a change intends are listed in `exceptions.toml` with the reason, until the hashes
are recorded again. Recording some cases leaves the hashes of others as they are.
"""
