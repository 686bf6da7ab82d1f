"""The plain records that rooms hand to each other: tasks, kernels, control, choices."""
