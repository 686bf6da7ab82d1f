// Replaces arrivals.cuh: bytes that blocks of a cluster store in each other's shared memory.
//
// All threads of a cluster must wait for a phase, and wait for each other there, too: until then they run in any order.
#pragma once
#include "instructions.cuh"

namespace emulator {
// The bytes that are missing, whether the thread that expects them has said so, and the phase's number.
struct Arrivals { int32_t missing; uint16_t expected, phase; };
inline void count(Arrivals& arrivals) {
  if (arrivals.expected && !arrivals.missing) arrivals = {0, 0, (uint16_t)(arrivals.phase + 1)};
}
}  // namespace emulator
static inline void begin_arrivals(uint64_t* arrivals) { *(emulator::Arrivals*)arrivals = {0, 0, 0}; }
static inline void expect_arrivals(uint64_t* arrivals, uint32_t bytes) {
  emulator::Arrivals& own = *(emulator::Arrivals*)arrivals;
  if (own.expected) emulator_fail("expects bytes twice in one phase");
  own.missing += (int32_t)bytes, own.expected = 1;
  emulator::count(own);
}
static inline void await_arrivals(uint64_t* arrivals, uint32_t parity) {
  emulator_cluster_barrier();
  const emulator::Arrivals& own = *(emulator::Arrivals*)arrivals;
  if ((own.phase & 1) == parity) emulator_fail("waits for bytes that no block of the cluster has sent");
}
static inline void send_chunk(void* own, uint4 words, int rank, uint64_t* arrivals) {
  *(uint4*)emulator_peer(own, (unsigned)rank, sizeof words) = words;
  emulator::Arrivals& there = *(emulator::Arrivals*)emulator_peer(arrivals, (unsigned)rank, sizeof *arrivals);
  there.missing -= (int32_t)sizeof words;
  emulator::count(there);
}
