// RUN: not flowloom opt %s -p "elide-sync" | filecheck %s

// A schedule with a race is rejected, with both tasks, the bytes and the order that is missing.

taskflow.graph @main inputs ["x"] outputs ["y"] {
^bb0(%x: memref<4xf32>, %y: memref<4xf32>):
  %arena = taskflow.arena : memref<64xui8>
  %m = taskflow.view %arena[0] : memref<64xui8> -> memref<4xf32>
  %a = taskflow.launch "A" stream 0 reads %x : memref<4xf32> writes %m : memref<4xf32> nodes ["conv"]
  %b = taskflow.launch "B" stream 1 reads %m : memref<4xf32> writes %y : memref<4xf32>
}
// CHECK: race: task 1 'B' (stream 1) reads bytes [0, 16) of the arena, which task 0 'A' (nodes conv; stream 0) writes, but nothing orders them
