"""The steps of `flowloom tune`: a module each; `measure` and `merge` need no TVM."""
