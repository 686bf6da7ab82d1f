"""The steps of `flowloom tune`: a module each, of which `measure` and `merge` need no TVM."""
