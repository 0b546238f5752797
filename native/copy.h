// Copies of data.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace nbc {

// memcpy() on processors whose string instruction has a slow case. The C library uses it (`rep movsb`) for more than
// 2 KiB. On AMD's Zen 3 (EPYC, family 25 model 1; glibc 2.36) it moves 2 to 3 GB/s in place of 40 if, modulo a page,
// the target begins 1 to 31 bytes behind the source. That is no rare case: a large ArrayBuffer begins 16 bytes behind a
// page, exposed memory begins a page. Then pieces are copied that are short enough for the library's other loops. On
// Intel's Sapphire Rapids there is no slow case, and such pieces take 1.15 to 1.3 times as long.
inline constexpr size_t kCopiedByLoops = 2048;
#if defined(__x86_64__)
inline const bool kHasSlowStrings = [] {
  __builtin_cpu_init();
  return __builtin_cpu_is("amd") != 0;
}();
#endif

inline void copy_in_pieces(std::byte* to, const std::byte* from, size_t bytes) {
  for (size_t at = 0; at < bytes; at += kCopiedByLoops)
    std::memcpy(to + at, from + at, std::min(kCopiedByLoops, bytes - at));
}

inline void copy_bytes(void* to, const void* from, size_t bytes) {
#if defined(__x86_64__)
  constexpr uintptr_t kPage = 4096;
  constexpr uintptr_t kSlowBelow = 32;
  const uintptr_t ahead = (reinterpret_cast<uintptr_t>(to) - reinterpret_cast<uintptr_t>(from)) % kPage;
  if (bytes > kCopiedByLoops && ahead - 1 < kSlowBelow - 1 && kHasSlowStrings)
    return copy_in_pieces(static_cast<std::byte*>(to), static_cast<const std::byte*>(from), bytes);
#endif
  std::memcpy(to, from, bytes);
}

// The same for ranges that may overlap.
inline void move_bytes(void* to, const void* from, size_t bytes) {
  const uintptr_t distance = reinterpret_cast<uintptr_t>(to) - reinterpret_cast<uintptr_t>(from);
  if (distance < bytes || uintptr_t{0} - distance < bytes) {
    std::memmove(to, from, bytes);
  } else {
    copy_bytes(to, from, bytes);
  }
}

}  // namespace nbc
