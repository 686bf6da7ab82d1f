"""Measured kernel times: taken on a device without TVM, kept in a database that can be merged."""
