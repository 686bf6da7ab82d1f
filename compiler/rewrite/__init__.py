"""Rules that prove graphs equal, their patterns, and the search that applies them."""
