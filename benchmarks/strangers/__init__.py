"""Networks that nobody here has tuned for: exported with random weights, compiled, compared."""
