"""SegmentSum: the sums of rows in the order that ScatterOrder gives."""
