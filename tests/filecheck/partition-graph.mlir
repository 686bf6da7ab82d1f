// RUN: flowloom opt %s -p "partition-graph{max-nodes=2}" | filecheck %s
// RUN: flowloom opt %s -p "partition-graph{policy=none},assign-streams{policy=opara streams=2}" | filecheck %s --check-prefix=STREAMS
// RUN: flowloom opt %s -p "partition-graph{max-nodes=2},assign-streams{policy=ppd streams=2}" | filecheck %s --check-prefix=CLUSTERS
// RUN: flowloom opt %s -p "order-launches{policy=critical-path}" | filecheck %s --check-prefix=ORDER

// Two chains, a (cost 10, 10) and b (cost 15, 15), written alternately.

dataflow.graph @main opset 21 inputs ["x"] outputs ["y", "z"] {
^bb0(%x: tensor<4xf32>):
  %a0 = dataflow.group "a0" cost 10 (%x) : (tensor<4xf32>) -> tensor<4xf32> {
  ^bb1(%p: tensor<4xf32>):
    %r = dataflow.op "Relu" (%p) : (tensor<4xf32>) -> tensor<4xf32>
    dataflow.yield %r : tensor<4xf32>
  }
  %b0 = dataflow.group "b0" cost 15 (%x) : (tensor<4xf32>) -> tensor<4xf32> {
  ^bb1(%p: tensor<4xf32>):
    %r = dataflow.op "Tanh" (%p) : (tensor<4xf32>) -> tensor<4xf32>
    dataflow.yield %r : tensor<4xf32>
  }
  %a1 = dataflow.group "a1" cost 10 (%a0) : (tensor<4xf32>) -> tensor<4xf32> {
  ^bb1(%p: tensor<4xf32>):
    %r = dataflow.op "Relu" (%p) : (tensor<4xf32>) -> tensor<4xf32>
    dataflow.yield %r : tensor<4xf32>
  }
  %b1 = dataflow.group "b1" cost 15 (%b0) : (tensor<4xf32>) -> tensor<4xf32> {
  ^bb1(%p: tensor<4xf32>):
    %r = dataflow.op "Tanh" (%p) : (tensor<4xf32>) -> tensor<4xf32>
    dataflow.yield %r : tensor<4xf32>
  }
  dataflow.yield %a1, %b1 : tensor<4xf32>, tensor<4xf32>
}

// T = 50 / 4 * 2 = 25: a0 takes a1, which adds no edge; 20 < 25, so b0 joins as well.
// CHECK:     %a0 = dataflow.group "a0" partition 0 cost 10
// CHECK:     %b0 = dataflow.group "b0" partition 0 cost 15
// CHECK:     %a1 = dataflow.group "a1" partition 0 cost 10
// CHECK:     %b1 = dataflow.group "b1" partition 1 cost 15

// The longer chain is placed first.
// STREAMS:   %a0 = dataflow.group "a0" partition 0 stream 1
// STREAMS:   %b0 = dataflow.group "b0" partition 1 stream 0
// STREAMS:   %a1 = dataflow.group "a1" partition 2 stream 1
// STREAMS:   %b1 = dataflow.group "b1" partition 3 stream 0

// CLUSTERS:  %a0 = dataflow.group "a0" partition 0 stream 0
// CLUSTERS:  %b0 = dataflow.group "b0" partition 0 stream 0
// CLUSTERS:  %a1 = dataflow.group "a1" partition 0 stream 0
// CLUSTERS:  %b1 = dataflow.group "b1" partition 1 stream 1

// Upward ranks are 30 (b0), 20 (a0), 15 (b1) and 10 (a1).
// ORDER:     dataflow.group "b0"
// ORDER:     dataflow.group "a0"
// ORDER:     dataflow.group "b1"
// ORDER:     dataflow.group "a1"
