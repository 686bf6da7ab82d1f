// RUN: flowloom opt %s -p 'insert-sync,import-schedule{file="import-schedule.json"}' | filecheck %s
// RUN: not flowloom opt %s -p 'insert-sync,import-schedule{file="import-schedule-race.json"}' | filecheck %s --check-prefix=RACE
// RUN: not flowloom opt %s -p 'insert-sync,import-schedule{file="import-schedule-other.json"}' | filecheck %s --check-prefix=OTHER
// RUN: not flowloom opt %s -p 'import-schedule{file="import-schedule.json"}' | filecheck %s --check-prefix=EARLY

// Streams 3 and 1, a token and a smaller arena come from the file; without the token it has a race.

// CHECK: taskflow.graph @main inputs ["x"] outputs ["y"]
// CHECK: [[ARENA:%.*]] = taskflow.arena : memref<16xui8>
// CHECK: [[A:%.*]] = taskflow.launch "A" stream 3 cost 7 reads
// CHECK-NEXT: taskflow.launch "B" stream 1 after [[A]] reads
// RACE: race: task 1 'B' (nodes second; stream 1) reads bytes [0, 16) of the arena
// OTHER: task 1 'B' (nodes second; stream 1) is not one of the model's
// EARLY: there is no schedule to compare with: run insert-sync first

taskflow.graph @main unsynchronized inputs ["x"] outputs ["y"] {
^bb0(%x: memref<4xf32>, %y: memref<4xf32>):
  %arena = taskflow.arena : memref<64xui8>
  %m = taskflow.view %arena[0] : memref<64xui8> -> memref<4xf32>
  %a = taskflow.launch "A" stream 0 cost 7 reads %x : memref<4xf32> writes %m : memref<4xf32> nodes ["first"]
  %b = taskflow.launch "B" stream 0 reads %m : memref<4xf32> writes %y : memref<4xf32> nodes ["second"]
}
