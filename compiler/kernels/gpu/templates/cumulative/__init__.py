"""CumSum: running sums of chunks of rows."""
