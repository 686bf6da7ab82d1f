"""The first convolution of an image network."""
