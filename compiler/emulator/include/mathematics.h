// CUDA's mathematical functions: C's, with overloads for float.
//
// C++'s <math.h> brings in twenty thousand lines, which take longer to read than most kernels.
#pragma once
#define _GLIBCXX_INCLUDE_NEXT_C_HEADERS
#include <math.h>
#include <stdlib.h>
#undef _GLIBCXX_INCLUDE_NEXT_C_HEADERS

#define EMULATOR_UNARY(name) \
  static inline float name(float x) { return name##f(x); }
#define EMULATOR_BINARY(name) \
  static inline float name(float x, float y) { return name##f(x, y); }
EMULATOR_UNARY(acos)
EMULATOR_UNARY(acosh)
EMULATOR_UNARY(asin)
EMULATOR_UNARY(asinh)
EMULATOR_UNARY(atan)
EMULATOR_UNARY(atanh)
EMULATOR_UNARY(cbrt)
EMULATOR_UNARY(ceil)
EMULATOR_UNARY(cos)
EMULATOR_UNARY(cosh)
EMULATOR_UNARY(erf)
EMULATOR_UNARY(erfc)
EMULATOR_UNARY(exp)
EMULATOR_UNARY(exp2)
EMULATOR_UNARY(expm1)
EMULATOR_UNARY(fabs)
EMULATOR_UNARY(floor)
EMULATOR_UNARY(lgamma)
EMULATOR_UNARY(log)
EMULATOR_UNARY(log10)
EMULATOR_UNARY(log1p)
EMULATOR_UNARY(log2)
EMULATOR_UNARY(nearbyint)
EMULATOR_UNARY(rint)
EMULATOR_UNARY(round)
EMULATOR_UNARY(sin)
EMULATOR_UNARY(sinh)
EMULATOR_UNARY(sqrt)
EMULATOR_UNARY(tan)
EMULATOR_UNARY(tanh)
EMULATOR_UNARY(tgamma)
EMULATOR_UNARY(trunc)
EMULATOR_BINARY(atan2)
EMULATOR_BINARY(copysign)
EMULATOR_BINARY(fmax)
EMULATOR_BINARY(fmin)
EMULATOR_BINARY(fmod)
EMULATOR_BINARY(hypot)
EMULATOR_BINARY(pow)
static inline long long abs(long long x) { return x < 0 ? -x : x; }
static inline float abs(float x) { return fabsf(x); }
static inline double abs(double x) { return fabs(x); }

// Of C these are macros, which C++'s <cmath> takes away.
#undef isnan
#undef isinf
#undef isfinite
#define isnan(x) __builtin_isnan(x)
#define isinf(x) __builtin_isinf(x)
#define isfinite(x) __builtin_isfinite(x)
