// RUN: flowloom opt %s -p "canonicalize,fuse-gathers" | filecheck %s

// The rows of two tables are one kernel, which takes the indices itself; the stack of the same rows
// is its result in another shape. A row that something else needs stays outside.

dataflow.graph @main opset 21 inputs ["x"] outputs ["a", "b", "c"] {
^bb0(%x: tensor<2x3xi64>):
  %s = dataflow.weight "s" : tensor<9x4xf32>
  %t = dataflow.weight "t" : tensor<9x4xf32>
  %zero = dataflow.constant dense<0> : tensor<i64>
  %one = dataflow.constant dense<1> : tensor<i64>
  %axis = dataflow.constant dense<1> : tensor<1xi64>
  %i = dataflow.op "Gather" named "i" (%x, %zero) {axis = 1 : i64} : (tensor<2x3xi64>, tensor<i64>) -> tensor<2xi64>
  %j = dataflow.op "Gather" named "j" (%x, %one) {axis = 1 : i64} : (tensor<2x3xi64>, tensor<i64>) -> tensor<2xi64>
  %p = dataflow.op "Gather" named "p" (%s, %i) {axis = 0 : i64} : (tensor<9x4xf32>, tensor<2xi64>) -> tensor<2x4xf32>
  %q = dataflow.op "Gather" named "q" (%t, %j) {axis = 0 : i64} : (tensor<9x4xf32>, tensor<2xi64>) -> tensor<2x4xf32>
  %r = dataflow.op "Gather" named "r" (%t, %i) {axis = 0 : i64} : (tensor<9x4xf32>, tensor<2xi64>) -> tensor<2x4xf32>
  %u = dataflow.op "Unsqueeze" named "u" (%p, %axis) : (tensor<2x4xf32>, tensor<1xi64>) -> tensor<2x1x4xf32>
  %v = dataflow.op "Unsqueeze" named "v" (%q, %axis) : (tensor<2x4xf32>, tensor<1xi64>) -> tensor<2x1x4xf32>
  %stack = dataflow.op "Concat" named "stack" (%u, %v) {axis = 1 : i64} : (tensor<2x1x4xf32>, tensor<2x1x4xf32>) -> tensor<2x2x4xf32>
  %a = dataflow.op "Relu" named "a" (%stack) : (tensor<2x2x4xf32>) -> tensor<2x2x4xf32>
  %join = dataflow.op "Concat" named "join" (%p, %q) {axis = 1 : i64} : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x8xf32>
  %b = dataflow.op "Relu" named "b" (%join) : (tensor<2x8xf32>) -> tensor<2x8xf32>
  %c = dataflow.op "Relu" named "c" (%r) : (tensor<2x4xf32>) -> tensor<2x4xf32>
  dataflow.yield %a, %b, %c : tensor<2x2x4xf32>, tensor<2x8xf32>, tensor<2x4xf32>
}

// CHECK:      [[OWN:%[0-9a-z_]+]] = dataflow.op "Gather" named "i"(%x, %zero)
// CHECK-NEXT: [[ROW:%[0-9a-z_]+]] = dataflow.op "Gather" named "r"(%t, [[OWN]])
// CHECK-NEXT: [[BOTH:%[0-9a-z_]+]] = dataflow.group "Gather_Gather_Gather_{{[0-9a-f]+}}"({{.*}} -> tensor<2x2x4xf32> {
// CHECK:        dataflow.op "Gather" named "i"
// CHECK-NEXT:   dataflow.op "Gather" named "p"
// CHECK:        dataflow.op "Gather" named "j"
// CHECK-NEXT:   dataflow.op "Gather" named "q"
// CHECK:        dataflow.op "Concat" named "stack"
// CHECK:      dataflow.op "Relu" named "a"([[BOTH]])
// CHECK:      [[JOIN:%[0-9a-z_]+]] = dataflow.op "Reshape" named "join"([[BOTH]]
// CHECK-NEXT: dataflow.op "Relu" named "b"([[JOIN]])
// CHECK-NEXT: dataflow.op "Relu" named "c"([[ROW]])
