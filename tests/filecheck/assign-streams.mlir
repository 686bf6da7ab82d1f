// RUN: flowloom opt %s -p "assign-streams{policy=opara streams=2}" | filecheck %s --check-prefix=OPARA
// RUN: flowloom opt %s -p "assign-streams{policy=wavefront streams=2}" | filecheck %s --check-prefix=WAVE
// RUN: flowloom opt %s -p "assign-streams{policy=wavefront streams=2},lower-to-taskflow" | filecheck %s --check-prefix=TOKENS
// RUN: flowloom opt %s -p "assign-streams{policy=wavefront streams=2},order-launches{policy=critical-path}" | filecheck %s --check-prefix=WAVE
// RUN: not flowloom opt %s -p "assign-streams{policy=best}" | filecheck %s --check-prefix=REJECT

// A chain of two beside a chain of one. Waves are stages: "C" is in the first one, and the second
// waits for it although "B" does not need it.

// OPARA: dataflow.group "A" stream 0 cost
// OPARA: dataflow.group "B" stream 0 cost
// OPARA: dataflow.group "C" stream 1 cost
// WAVE: dataflow.group "A" stream 0 stage 0 cost
// WAVE: dataflow.group "C" stream 1 stage 0 cost
// WAVE: dataflow.group "B" stream 0 stage 1 cost
// TOKENS: [[A:%.*]] = taskflow.launch "A" stream 0 cost
// TOKENS: [[C:%.*]] = taskflow.launch "C" stream 1 cost
// TOKENS: taskflow.launch "B" stream 0 cost 3 after [[A]], [[C]] reads
// REJECT: unknown stream policy 'best'

dataflow.graph @main opset 21 inputs ["x"] outputs ["y", "z"] {
^bb0(%x: tensor<4xf32>):
  %a = dataflow.group "A" cost 9 (%x) : (tensor<4xf32>) -> tensor<4xf32> {
  ^bb1(%p: tensor<4xf32>):
    %r = dataflow.op "Relu" named "first" (%p) : (tensor<4xf32>) -> tensor<4xf32>
    dataflow.yield %r : tensor<4xf32>
  }
  %b = dataflow.group "B" cost 3 (%a) : (tensor<4xf32>) -> tensor<4xf32> {
  ^bb2(%p: tensor<4xf32>):
    %r = dataflow.op "Relu" named "second" (%p) : (tensor<4xf32>) -> tensor<4xf32>
    dataflow.yield %r : tensor<4xf32>
  }
  %c = dataflow.group "C" cost 2 (%x) : (tensor<4xf32>) -> tensor<4xf32> {
  ^bb3(%p: tensor<4xf32>):
    %r = dataflow.op "Relu" named "third" (%p) : (tensor<4xf32>) -> tensor<4xf32>
    dataflow.yield %r : tensor<4xf32>
  }
  dataflow.yield %b, %c : tensor<4xf32>, tensor<4xf32>
}
