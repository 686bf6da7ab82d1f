"""Padding: one graph of a large size computes the graphs of all smaller ones.

The graph of a bucket and that of a smaller size have the same operators. A tensor of the bucket has
the elements of the smaller graph's, and padding, whose content is undefined. An axis that reshapes
merged is divided into its dimensions, each with padding at its end (`axes`); a rule for each
operator has the axes of its results. Operators that would read padding across an axis
(contractions, softmax, reductions) get a mask, which compares indices with the extent of the
smaller graph, an input of each run; indices that count from the end of an axis get the extent.
"""
