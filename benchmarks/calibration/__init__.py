"""What the device's model is calibrated with and judged by: kernels, schedules and their times."""
