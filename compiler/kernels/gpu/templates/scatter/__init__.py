"""ScatterND and ScatterElements."""
