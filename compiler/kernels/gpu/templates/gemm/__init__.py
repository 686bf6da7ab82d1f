"""GEMM, and convolution as implicit GEMM."""
