// RUN: flowloom opt %s -p "insert-sync" | filecheck %s

// A data edge (A to B), an anti-dependency (B to C, which overwrites what B reads), an output
// dependency (A to C) and, along one stream, another data edge (C to D). Reads alone need no order.

taskflow.graph @main unsynchronized inputs ["x"] outputs ["y", "z"] {
^bb0(%x: memref<4xf32>, %y: memref<4xf32>, %z: memref<2xf32>):
  %arena = taskflow.arena : memref<64xui8>
  %m = taskflow.view %arena[0] : memref<64xui8> -> memref<4xf32>
  %n = taskflow.view %arena[8] : memref<64xui8> -> memref<2xf32>
  %a = taskflow.launch "A" stream 0 reads %x : memref<4xf32> writes %m : memref<4xf32>
  %b = taskflow.launch "B" stream 1 reads %m, %x : memref<4xf32>, memref<4xf32> writes %y : memref<4xf32>
  %c = taskflow.launch "C" stream 2 reads %x : memref<4xf32> writes %n : memref<2xf32>
  %d = taskflow.launch "D" stream 2 reads %n : memref<2xf32> writes %z : memref<2xf32>
}
// CHECK:      taskflow.graph @main inputs
// CHECK:      [[A:%.*]] = taskflow.launch "A" stream 0 reads
// CHECK-NEXT: [[B:%.*]] = taskflow.launch "B" stream 1 after [[A]] reads
// CHECK-NEXT: [[C:%.*]] = taskflow.launch "C" stream 2 after [[A]], [[B]] reads
// CHECK-NEXT: taskflow.launch "D" stream 2 after [[C]] reads
