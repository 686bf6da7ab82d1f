// RUN: flowloom opt %s -p "reduce-precision" | filecheck %s
// RUN: flowloom opt %s -p "reduce-precision{storage=float16}" | filecheck %s
// RUN: flowloom opt %s -p "reduce-precision{storage=bfloat16}" | filecheck %s --check-prefix=WIDE
// RUN: flowloom opt %s -p "reduce-precision{storage=float32}" | filecheck %s --check-prefix=NEVER
// RUN: not flowloom opt %s -p "reduce-precision{storage=int8}" | filecheck %s --check-prefix=UNKNOWN

// The first result and its view are narrowed; the power, and in float16 what a large constant is
// added to, are not; the input and the output never are.

dataflow.graph @main opset 21 target "cuda:sm_90:fp16" inputs ["x"] outputs ["y"] {
^bb0(%x: tensor<2x2xf32>):
  %a = dataflow.group "Relu_a" (%x) : (tensor<2x2xf32>) -> tensor<2x2xf32> {
  ^bb1(%p: tensor<2x2xf32>):
    %r = dataflow.op "Relu" (%p) : (tensor<2x2xf32>) -> tensor<2x2xf32>
    dataflow.yield %r : tensor<2x2xf32>
  }
  %b = dataflow.op "Reshape" (%a) {shape = [4 : i64]} : (tensor<2x2xf32>) -> tensor<4xf32>
  %c = dataflow.group "Add_b" (%b) : (tensor<4xf32>) -> tensor<4xf32> {
  ^bb2(%p: tensor<4xf32>):
    %k = dataflow.constant dense<-1.0e+09> : tensor<f32>
    %r = dataflow.op "Add" (%p, %k) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
    dataflow.yield %r : tensor<4xf32>
  }
  %d = dataflow.group "Exp_c" (%b) : (tensor<4xf32>) -> tensor<4xf32> {
  ^bb3(%p: tensor<4xf32>):
    %r = dataflow.op "Exp" (%p) : (tensor<4xf32>) -> tensor<4xf32>
    dataflow.yield %r : tensor<4xf32>
  }
  %y = dataflow.group "Add_d" (%c, %d) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> {
  ^bb4(%p: tensor<4xf32>, %q: tensor<4xf32>):
    %r = dataflow.op "Add" (%p, %q) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    dataflow.yield %r : tensor<4xf32>
  }
  dataflow.yield %y : tensor<4xf32>
}

// CHECK:      %a = dataflow.group "Relu_Cast_{{[0-9a-f]+}}"(%x) : (tensor<2x2xf32>) -> tensor<2x2xf16> {
// CHECK-NEXT: ^bb0(%p: tensor<2x2xf32>):
// CHECK-NEXT:   %r = dataflow.op "Relu"(%p) : (tensor<2x2xf32>) -> tensor<2x2xf32>
// CHECK-NEXT:   %0 = dataflow.op "Cast"(%r) {to = 10 : i64} : (tensor<2x2xf32>) -> tensor<2x2xf16>
// CHECK-NEXT:   dataflow.yield %0 : tensor<2x2xf16>
// CHECK:      %b = dataflow.op "Reshape"(%a) {shape = [4 : i64]} : (tensor<2x2xf16>) -> tensor<4xf16>
// CHECK:      dataflow.group "Cast_Add_{{[0-9a-f]+}}"(%b) : (tensor<4xf16>) -> tensor<4xf32> {
// CHECK-NEXT: ^bb0(%p: tensor<4xf16>):
// CHECK-NEXT:   %p_1 = dataflow.op "Cast"(%p) {to = 1 : i64} : (tensor<4xf16>) -> tensor<4xf32>
// CHECK:      dataflow.group "Cast_Exp_{{[0-9a-f]+}}"(%b) : (tensor<4xf16>) -> tensor<4xf32> {
// CHECK:      dataflow.group "Add_{{[0-9a-f]+}}"(%c, %d) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> {

// WIDE:      dataflow.group "Cast_Add_Cast_{{[0-9a-f]+}}"(%b) : (tensor<4xbf16>) -> tensor<4xbf16> {

// NEVER-NOT: f16

// UNKNOWN: unknown storage 'int8': use target or one of float32, float16, bfloat16
