// The kernels of reductions for processors with AVX2. Without FMA, so that all processors compute the same bits.
#include "engine/reduce.h"

#if defined(__x86_64__)
// To the end of the file, because that is where the compiler instantiates templates.
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2"))), apply_to = function)
#else
#pragma GCC target("avx2")
#endif
#define NBC_KERNELS avx2
#include "engine/reduce_kernels.h"
#if defined(__clang__)
#pragma clang attribute pop
#endif
#endif
