# Refuses architectures that the kernels cannot run on; `architectures` are those to build for.
if(FLOWLOOM_GPU STREQUAL "CUDA")
  foreach(architecture IN LISTS architectures)
    string(REGEX MATCH "^[0-9]+[af]?" code "${architecture}")
    if(FLOWLOOM_CUDA_ONLY AND NOT code STREQUAL FLOWLOOM_CUDA_ONLY)
      message(FATAL_ERROR "the kernels use instructions that only sm_${FLOWLOOM_CUDA_ONLY} has, not ${architecture} "
        "(the first is ${FLOWLOOM_CUDA_ONLY_KERNEL}): build with -DFLOWLOOM_ARCHITECTURES=${FLOWLOOM_CUDA_ONLY}, "
        "or compile the model with --arch of the oldest architecture that is to run it")
    endif()
    string(REGEX MATCH "^[0-9]+" number "${code}")
    if(number AND number LESS FLOWLOOM_CUDA_OLDEST)
      message(FATAL_ERROR "the kernels were generated for sm_${FLOWLOOM_CUDA_OLDEST}, and sm_${number} is older: "
        "compile the model with --arch sm_${number}")
    endif()
  endforeach()
endif()
