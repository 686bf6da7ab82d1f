"""`flowloom bisect`: the pass, kernel or pair of tasks after which outputs are wrong."""
