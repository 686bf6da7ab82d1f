"""The integers of kernels as terms, and what is proved of them."""
