"""The first convolution of a network."""
