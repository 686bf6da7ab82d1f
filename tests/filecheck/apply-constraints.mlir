// RUN: flowloom opt %s -p 'apply-constraints{file="apply-constraints.json"},insert-sync' | filecheck %s
// RUN: not flowloom opt %s -p 'insert-sync,apply-constraints{file="apply-constraints.json"}' | filecheck %s --check-prefix=LATE
// RUN: not flowloom opt %s -p 'apply-constraints{file="none.json"}' | filecheck %s --check-prefix=NONE

// "second" is pinned to stream 1 and waits for "third", which it does not depend on; so "third" is
// launched first. insert-sync keeps that token and adds those of the data.

// CHECK:      [[A:%.*]] = taskflow.launch "A" stream 0 reads
// CHECK-NEXT: [[C:%.*]] = taskflow.launch "C" stream 0 after [[A]] reads
// CHECK-NEXT: taskflow.launch "B" stream 1 after [[A]], [[C]] reads
// LATE: the schedule has its tokens: run this before insert-sync
// NONE: cannot read none.json

taskflow.graph @main unsynchronized inputs ["x"] outputs ["y", "z"] {
^bb0(%x: memref<4xf32>, %y: memref<4xf32>, %z: memref<4xf32>):
  %arena = taskflow.arena : memref<64xui8>
  %m = taskflow.view %arena[0] : memref<64xui8> -> memref<4xf32>
  %a = taskflow.launch "A" stream 0 reads %x : memref<4xf32> writes %m : memref<4xf32> nodes ["first"]
  %b = taskflow.launch "B" stream 0 reads %m : memref<4xf32> writes %y : memref<4xf32> nodes ["second"]
  %c = taskflow.launch "C" stream 0 reads %m : memref<4xf32> writes %z : memref<4xf32> nodes ["third"]
}
