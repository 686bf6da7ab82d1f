"""GEMM, GEMV and convolution as implicit GEMM."""
