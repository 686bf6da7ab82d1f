"""A user's scheduling policy, as short as it can be.

    flowloom compile model.onnx -o built --pipeline 'canonicalize, fuse-operators,
    partition-graph{policy=none}, assign-streams{policy="examples/custom_policy.py:longest_first"
    streams=4}, order-launches{policy=source}, lower-to-taskflow, insert-sync, elide-sync,
    plan-memory'

The same string is `flowloom.compile`'s `pipeline`. In Python a policy can have a short name, too:
`STREAM_ASSIGNMENTS.register("longest-first")(longest_first)` before `compile`.
"""

from compiler.scheduling.policies.assignment import Assignment
from compiler.support.dag import DAG


def longest_first(dag: DAG, streams: int) -> Assignment:
    """The most expensive nodes each on the stream that has the least work by then."""
    work, stream_of = [0] * streams, [0] * len(dag)
    for node in sorted(range(len(dag)), key=lambda v: -dag.costs[v]):
        stream_of[node] = work.index(min(work))
        work[stream_of[node]] += dag.costs[node]
    return Assignment(stream_of)
