// RUN: flowloom opt %s -p "elide-sync" | filecheck %s

// The subflow on stream 0 follows A anyway; waiting for the subflow implies waiting for A.

taskflow.graph @main inputs ["x"] outputs ["y"] {
^bb0(%x: memref<4xf32>, %y: memref<4xf32>):
  %arena = taskflow.arena : memref<192xui8>
  %m = taskflow.view %arena[0] : memref<192xui8> -> memref<4xf32>
  %n = taskflow.view %arena[64] : memref<192xui8> -> memref<4xf32>
  %o = taskflow.view %arena[128] : memref<192xui8> -> memref<4xf32>
  %a = taskflow.launch "A" stream 0 reads %x : memref<4xf32> writes %m : memref<4xf32>
  %b = taskflow.subflow stream 0 after %a {
    %p = taskflow.launch "P" stream 0 reads %m : memref<4xf32> writes %n : memref<4xf32>
    %q = taskflow.launch "Q" stream 0 reads %n : memref<4xf32> writes %o : memref<4xf32>
  }
  %c = taskflow.launch "C" stream 1 after %a, %b reads %m, %o : memref<4xf32>, memref<4xf32> writes %y : memref<4xf32>
}
// CHECK:      taskflow.launch "A" stream 0 reads
// CHECK-NEXT: [[B:%.*]] = taskflow.subflow stream 0 {
// CHECK:      taskflow.launch "C" stream 1 after [[B]] reads
