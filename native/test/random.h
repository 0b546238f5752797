// Random numbers that are the same on every machine and in every run: SplitMix64.
#pragma once
#include <cstddef>
#include <cstdint>

namespace nbc::check {

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  // 0 … bound − 1
  uint32_t below(uint32_t bound) { return static_cast<uint32_t>((next() >> 32) * bound >> 32); }
  bool one_in(uint32_t n) { return below(n) == 0; }

 private:
  uint64_t state_;
};

// Byte number `at` of the stream `seed`: what a test sends, and what it expects, without keeping either.
inline std::byte byte_of(uint64_t seed, size_t at) {
  uint64_t z = (seed + at / 8) * 0x9e3779b97f4a7c15u;
  z ^= z >> 29;
  return static_cast<std::byte>(z >> (at % 8 * 8));
}
inline void fill(std::byte* to, size_t bytes, uint64_t seed) {
  for (size_t i = 0; i < bytes; ++i) to[i] = byte_of(seed, i);
}
// Index of the first byte that is wrong, or `bytes`.
inline size_t first_difference(const std::byte* from, size_t bytes, uint64_t seed) {
  for (size_t i = 0; i < bytes; ++i) {
    if (from[i] != byte_of(seed, i)) return i;
  }
  return bytes;
}

}  // namespace nbc::check
