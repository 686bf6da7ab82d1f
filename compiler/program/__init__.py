"""Models whose shapes or control flow only a run decides: programs of static graphs.

A program runs a model's nodes in steps. A segment is as many nodes as one static graph can hold; it
is compiled for the types of its inputs, and for the contents that shapes depend on. A node that no
graph can hold runs on the host; the bodies of If, Loop and Scan are programs too.
"""
