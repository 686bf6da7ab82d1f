# Kernels are objects of one instruction set; threads run them by src/cpu/executor.c.
enable_language(C)
set(CMAKE_C_STANDARD 11)
string(TOLOWER "${CMAKE_SYSTEM_PROCESSOR}" processor)
string(REGEX REPLACE "^arm64$" "aarch64" processor "${processor}")
string(REGEX REPLACE "^amd64$" "x86_64" processor "${processor}")
if(NOT processor STREQUAL FLOWLOOM_INSTRUCTION_SET)
  message(FATAL_ERROR "the kernels are ${FLOWLOOM_INSTRUCTION_SET} code and this build is for ${processor}: build with "
    "-DCMAKE_TOOLCHAIN_FILE of a compiler for ${FLOWLOOM_INSTRUCTION_SET} (cmake/aarch64.cmake is one), or compile the "
    "model for a processor of this kind")
endif()

find_package(Threads REQUIRED)
add_library(flowloom_executor OBJECT src/cpu/executor.c)
target_compile_options(flowloom_executor PRIVATE -Wall -Wextra $<$<BOOL:${FLOWLOOM_WERROR}>:-Werror>)
set_source_files_properties(${FLOWLOOM_KERNELS} PROPERTIES EXTERNAL_OBJECT ON)
foreach(target IN LISTS programs)
  target_sources(${target} PRIVATE $<TARGET_OBJECTS:flowloom_executor> ${FLOWLOOM_KERNELS})
  target_link_libraries(${target} PRIVATE Threads::Threads m)
endforeach()
