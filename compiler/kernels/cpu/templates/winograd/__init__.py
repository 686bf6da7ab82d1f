"""Convolution of 3 x 3 taps by Winograd's minimal filtering: fewer multiplications.

A tile of m x m results needs (m + 2)^2 multiplications a channel, not 9 m^2, each at one point of
the plane (see `graph/packing/winograd.py`). Those of a point are a GEMM:

    launch 0  (only where chunks are few)
      transform all chunks of the image
    launch 1
      for each block (runs of chunks; where they are few, runs of groups of filters besides):
        for each channel, where chunks are many:
          transform the rows of the chunk, then the columns
        for each group of filters:
          for each point, panel of tiles and run of filters:
            tile = 0                                              rows x vectors registers
            for channel: tile += broadcast(weights[point, rows]) x image[point, vectors]
          for each filter: transform back; store(epilogue(results + bias))

Lanes are tiles of the image in row-major order, so that rows of any length waste few of them. A
chunk is some rows of tiles or a part of one row: as many as the caches hold, transformed.
"""
