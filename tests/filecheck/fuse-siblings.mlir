// RUN: flowloom opt %s -p "fuse-siblings{convolutions=true}" | filecheck %s

// Both convolutions of %x become one of both weights, with the Relu behind each.

dataflow.graph @main opset 21 target "cuda" inputs ["x"] outputs ["p", "q"] {
^bb0(%x: tensor<1x2x4x4xf32>):
  %a = dataflow.weight "a" : tensor<3x2x1x1xf32>
  %b = dataflow.weight "b" : tensor<5x2x1x1xf32>
  %c = dataflow.op "Conv" (%x, %a) : (tensor<1x2x4x4xf32>, tensor<3x2x1x1xf32>) -> tensor<1x3x4x4xf32>
  %d = dataflow.op "Conv" (%x, %b) : (tensor<1x2x4x4xf32>, tensor<5x2x1x1xf32>) -> tensor<1x5x4x4xf32>
  %e = dataflow.op "Relu" (%c) : (tensor<1x3x4x4xf32>) -> tensor<1x3x4x4xf32>
  %f = dataflow.op "Relu" (%d) : (tensor<1x5x4x4xf32>) -> tensor<1x5x4x4xf32>
  %p = dataflow.op "GlobalMaxPool" (%e) : (tensor<1x3x4x4xf32>) -> tensor<1x3x1x1xf32>
  %q = dataflow.op "GlobalMaxPool" (%f) : (tensor<1x5x4x4xf32>) -> tensor<1x5x1x1xf32>
  dataflow.yield %p, %q : tensor<1x3x1x1xf32>, tensor<1x5x1x1xf32>
}

// CHECK:      [[W:%[0-9a-z]+]] = dataflow.weight "{{.*}}Concat{{.*}}" : tensor<8x2x1x1xf32>
// CHECK-NEXT: [[C:%[0-9a-z]+]] = dataflow.op "Conv"(%x, [[W]]) {{.*}} -> tensor<1x8x4x4xf32>
// CHECK-NEXT: [[R:%[0-9a-z]+]] = dataflow.op "Relu"([[C]])
// CHECK:      dataflow.op "Slice"([[R]]) {start = [0 : i64, 0 : i64, 0 : i64, 0 : i64]
// CHECK:      dataflow.op "Slice"([[R]]) {start = [0 : i64, 3 : i64, 0 : i64, 0 : i64]
