// Whether this CPU has a feature that kernels may use.
#pragma once

#if defined(__x86_64__)
#include <cpuid.h>

#define HAS(feature) (__builtin_cpu_supports(feature) != 0)

namespace flowloom {

// Older compilers' builtin does not know these two, which need the vectors of features that it knows.
inline bool has_avxvnni() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && (a >> 4 & 1) != 0 && HAS("avx2");
}

inline bool has_avx512fp16() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d >> 23 & 1) != 0 && HAS("avx512f");
}

}  // namespace flowloom
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>

namespace flowloom {

// A bit of an entry of Linux's auxiliary vector: AT_HWCAP (16) or AT_HWCAP2 (26).
inline bool has_hwcap(unsigned long entry, unsigned bit) { return (getauxval(entry) >> bit & 1) != 0; }

}  // namespace flowloom
#endif
