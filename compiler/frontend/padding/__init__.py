"""Padding: one graph of a large size computes the graphs of all smaller ones.

The graph of a bucket and that of a smaller size have the same operators. A tensor of the smaller
graph is the leading part of the bucket's tensor, a box; the rest is padding, whose content is
undefined. Operators that would read padding across an axis (contractions, softmax, reductions) get
a mask, which compares indices with the extent of the smaller graph, an input of each run.
"""
