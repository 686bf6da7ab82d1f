"""A depthwise convolution and the pointwise one that follows, in one kernel."""
