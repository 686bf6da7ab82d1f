// RUN: flowloom opt %s -p "conv-to-gemm" | filecheck %s

// The windows of the first convolution are patches of the image. Those of the second overlap, and
// the third's image lies in whole blocks of channels.

dataflow.graph @main opset 21 inputs ["x", "z"] outputs ["a", "b", "c"] {
^bb0(%x: tensor<2x3x32x48xf32>, %z: tensor<1x8x32x16xf32>):
  %w = dataflow.weight "w" : tensor<8x3x16x16xf32>
  %v = dataflow.weight "v" : tensor<8x8x16x16xf32>
  %bias = dataflow.weight "bias" : tensor<8xf32>
  %a = dataflow.op "Conv" named "patches" (%x, %w, %bias) {strides = [16 : i64, 16 : i64]} : (tensor<2x3x32x48xf32>, tensor<8x3x16x16xf32>, tensor<8xf32>) -> tensor<2x8x2x3xf32>
  %b = dataflow.op "Conv" (%x, %w) {strides = [8 : i64, 16 : i64]} : (tensor<2x3x32x48xf32>, tensor<8x3x16x16xf32>) -> tensor<2x8x3x3xf32>
  %c = dataflow.op "Conv" (%z, %v) {strides = [16 : i64, 16 : i64]} : (tensor<1x8x32x16xf32>, tensor<8x8x16x16xf32>) -> tensor<1x8x2x1xf32>
  dataflow.yield %a, %b, %c : tensor<2x8x2x3xf32>, tensor<2x8x3x3xf32>, tensor<1x8x2x1xf32>
}

// CHECK:      [[W:%[0-9a-z]+]] = dataflow.weight {{.*}}Reshape{{.*}} : tensor<8x768xf32>
// CHECK:      [[CUT:%[0-9a-z]+]] = dataflow.op "Reshape" named "patches"(%x) {{.*}} -> tensor<2x3x2x16x3x16xf32>
// CHECK-NEXT: [[MOVED:%[0-9a-z]+]] = dataflow.op "Transpose" named "patches"([[CUT]]) {perm = [0 : i64, 2 : i64, 4 : i64, 1 : i64, 3 : i64, 5 : i64]}
// CHECK:      [[ROWS:%[0-9a-z]+]] = dataflow.op "Reshape" named "patches"([[MOVED]]) {{.*}} -> tensor<12x768xf32>
// CHECK-NEXT: [[SUMS:%[0-9a-z]+]] = dataflow.op "Gemm" named "patches"([[ROWS]], [[W]], %bias) {transB = 1 : i64}
// CHECK:      [[IMAGES:%[0-9a-z]+]] = dataflow.op "Reshape" named "patches"([[SUMS]]) {{.*}} -> tensor<2x6x8xf32>
// CHECK-NEXT: [[PLANES:%[0-9a-z]+]] = dataflow.op "Transpose" named "patches"([[IMAGES]]) {perm = [0 : i64, 2 : i64, 1 : i64]}
// CHECK:      dataflow.op "Reshape" named "patches"([[PLANES]]) {{.*}} -> tensor<2x8x2x3xf32>
// CHECK-NEXT: dataflow.op "Conv"(%x, %w)
// CHECK-NEXT: dataflow.op "Conv"(%z, %v)
