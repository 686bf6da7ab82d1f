"""The kernels, schedules and times that the device model is calibrated and judged by."""
