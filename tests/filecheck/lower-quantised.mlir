// RUN: flowloom opt %s -p "lower-quantised{way=all}" | filecheck %s --check-prefix=BYTES
// RUN: flowloom opt %s -p "lower-quantised{way=floats}" | filecheck %s --check-prefix=FLOATS

// Two rows of bytes are multiplied as bytes, and their sums scaled; without kernels for bytes they
// are widened first. The target's way is that of a CPU where no target is recorded.

dataflow.graph @main opset 23 inputs ["x", "w"] outputs ["y"] {
^bb0(%x: tensor<2x8xui8>, %w: tensor<8x4xi8>):
  %s = dataflow.constant dense<5.000000e-01> : tensor<f32>
  %t = dataflow.constant dense<2.500000e-01> : tensor<f32>
  %z = dataflow.constant dense<3> : tensor<ui8>
  %a = dataflow.op "DequantizeLinear" named "a" (%x, %s, %z) {axis = 0 : i64} : (tensor<2x8xui8>, tensor<f32>, tensor<ui8>) -> tensor<2x8xf32>
  %b = dataflow.op "DequantizeLinear" named "b" (%w, %t) {axis = 0 : i64} : (tensor<8x4xi8>, tensor<f32>) -> tensor<8x4xf32>
  %y = dataflow.op "MatMul" named "y" (%a, %b) : (tensor<2x8xf32>, tensor<8x4xf32>) -> tensor<2x4xf32>
  dataflow.yield %y : tensor<2x4xf32>
}

// BYTES:      dataflow.graph @main opset 23 contraction "all"
// BYTES-NOT:  DequantizeLinear
// BYTES:      [[SUMS:%[0-9a-z_]+]] = dataflow.op "MatMulInteger" named "y/MatMulInteger"(%x, %w, %z)
// BYTES-NEXT: [[WIDE:%[0-9a-z_]+]] = dataflow.op "Cast" named "y/Cast"([[SUMS]])
// BYTES-NEXT: [[SCALE:%[0-9a-z_]+]] = dataflow.constant dense<1.250000e-01> : tensor<f32>
// BYTES-NEXT: dataflow.op "Mul" named "y"([[WIDE]], [[SCALE]])

// FLOATS:     dataflow.graph @main opset 23 contraction "floats"
// FLOATS-NOT: DequantizeLinear
// FLOATS-NOT: MatMulInteger
// FLOATS:     dataflow.op "MatMul" named "y"
