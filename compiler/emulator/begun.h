// Launches that begin early. Not in the header that kernels include, which it would slow down.
#pragma once
#include <memory>

#include "engine.h"

namespace emulator {

// A launch that has begun before its predecessors have ended: the threads of one cluster ran
// until they waited (`emulator_begin`). `finish` runs the rest; a launch that is not finished is dropped.
class Begun {
 public:
  virtual ~Begun() = default;
  virtual bool finish(char* message, size_t size) = 0;
};
// Null, with what went wrong, if it failed.
std::unique_ptr<Begun> begin(const Launch& launch, char* message, size_t size);

}  // namespace emulator
