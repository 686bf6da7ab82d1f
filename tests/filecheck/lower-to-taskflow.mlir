// RUN: flowloom opt %s -p "lower-to-taskflow" | filecheck %s

// A partition of two groups is a subflow; the parts of a Concat lie in its place; a Reshape and
// the output that it gives are one buffer; a workspace is a view of the arena.

dataflow.graph @main opset 21 inputs ["x"] outputs ["y"] {
^bb0(%x: tensor<1x4xf32>):
  %w = dataflow.weight "w" : tensor<1x4xf32>
  %a = dataflow.group "Add_1" partition 0 stream 0 cost 5 (%x, %w) : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<1x4xf32> {
  ^bb1(%p: tensor<1x4xf32>, %q: tensor<1x4xf32>):
    %r = dataflow.op "Add" named "first" (%p, %q) : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<1x4xf32>
    dataflow.yield %r : tensor<1x4xf32>
  }
  %b = dataflow.group "Relu_2" partition 0 stream 0 workspaces [100] (%a) : (tensor<1x4xf32>) -> tensor<1x4xf32> {
  ^bb2(%p: tensor<1x4xf32>):
    %r = dataflow.op "Relu" named "second" (%p) : (tensor<1x4xf32>) -> tensor<1x4xf32>
    dataflow.yield %r : tensor<1x4xf32>
  }
  %c = dataflow.op "Concat" (%a, %b) {axis = 1 : i64} : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<1x8xf32>
  %d = dataflow.group "Relu_3" stream 1 (%c) : (tensor<1x8xf32>) -> tensor<1x8xf32> {
  ^bb3(%p: tensor<1x8xf32>):
    %r = dataflow.op "Relu" named "third" (%p) : (tensor<1x8xf32>) -> tensor<1x8xf32>
    dataflow.yield %r : tensor<1x8xf32>
  }
  %shape = dataflow.constant dense<8> : tensor<1xi64>
  %y = dataflow.op "Reshape" (%d, %shape) : (tensor<1x8xf32>, tensor<1xi64>) -> tensor<8xf32>
  dataflow.yield %y : tensor<8xf32>
}
// CHECK:      taskflow.graph @main unsynchronized inputs ["x"] outputs ["y"] {
// CHECK-NEXT: ^bb0(%x: memref<1x4xf32>, %y: memref<8xf32>):
// CHECK-NEXT: %arena = taskflow.arena : memref<192xui8>
// CHECK-NEXT: [[W:%.*]] = taskflow.weight "w" : memref<1x4xf32>
// CHECK-NEXT: %a = taskflow.view %arena[0] : memref<192xui8> -> memref<1x4xf32>
// CHECK-NEXT: %b = taskflow.view %arena[16] : memref<192xui8> -> memref<1x4xf32>
// CHECK-NEXT: [[SCRATCH:%.*]] = taskflow.view %arena[64] : memref<192xui8> -> memref<100xui8>
// CHECK-NEXT: %c = taskflow.view %arena[0] : memref<192xui8> -> memref<1x8xf32>
// CHECK-NEXT: %d = taskflow.view %y[0] : memref<8xf32> -> memref<1x8xf32>
// CHECK-NEXT: taskflow.subflow stream 0 {
// CHECK-NEXT: taskflow.launch "Add_1" stream 0 cost 5 reads %x, [[W]] : memref<1x4xf32>, memref<1x4xf32> writes %a : memref<1x4xf32> nodes ["first"]
// CHECK-NEXT: taskflow.launch "Relu_2" stream 0 reads %a : memref<1x4xf32> writes %b, [[SCRATCH]] : memref<1x4xf32>, memref<100xui8> nodes ["second"]
// CHECK-NEXT: }
// CHECK-NEXT: taskflow.launch "Relu_3" stream 1 reads %c : memref<1x8xf32> writes %d : memref<1x8xf32> nodes ["third"]
