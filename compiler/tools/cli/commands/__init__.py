"""The commands of `flowloom`: a module each, imported when chosen, with its function `run`."""
