// RUN: flowloom opt %s -p "plan-memory{reuse=concurrent}" | filecheck %s
// RUN: flowloom opt %s -p "plan-memory{reuse=none}" | filecheck %s --check-prefix=NONE

// %c takes the bytes of %a, which B alone reads, before C starts. %d does not: nothing orders D,
// on another stream, after the reader of %a.

taskflow.graph @main inputs ["x"] outputs ["y"] {
^bb0(%x: memref<16xf32>, %y: memref<16xf32>):
  %arena = taskflow.arena : memref<256xui8>
  %a = taskflow.view %arena[0] : memref<256xui8> -> memref<16xf32>
  %b = taskflow.view %arena[64] : memref<256xui8> -> memref<16xf32>
  %c = taskflow.view %arena[128] : memref<256xui8> -> memref<16xf32>
  %d = taskflow.view %arena[192] : memref<256xui8> -> memref<16xf32>
  %0 = taskflow.launch "A" stream 0 reads %x : memref<16xf32> writes %a : memref<16xf32>
  %1 = taskflow.launch "B" stream 0 reads %a : memref<16xf32> writes %b : memref<16xf32>
  %2 = taskflow.launch "C" stream 0 reads %b : memref<16xf32> writes %c : memref<16xf32>
  %3 = taskflow.launch "D" stream 1 reads %x : memref<16xf32> writes %d : memref<16xf32>
  %4 = taskflow.launch "E" stream 0 after %3 reads %c, %d : memref<16xf32>, memref<16xf32> writes %y : memref<16xf32>
}
// CHECK:      %arena = taskflow.arena {bytes_without_reuse = 256 : i64} : memref<192xui8>
// CHECK-NEXT: %a = taskflow.view %arena[0] :
// CHECK-NEXT: %b = taskflow.view %arena[64] :
// CHECK-NEXT: %c = taskflow.view %arena[0] :
// CHECK-NEXT: %d = taskflow.view %arena[128] :
// NONE:       %arena = taskflow.arena : memref<256xui8>
