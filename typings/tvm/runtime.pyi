from tvm_ffi import Object as Object
