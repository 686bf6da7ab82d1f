"""SegmentReduce: rows combined in the order that ScatterOrder gives."""
