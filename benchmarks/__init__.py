"""Scripts that measure the project; each is run by itself."""
