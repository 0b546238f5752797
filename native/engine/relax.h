// What a thread executes between two looks at memory that another thread writes.
#pragma once
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace nbc {

inline void relax() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace nbc
