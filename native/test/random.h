// Random numbers that are the same on every machine and in every run: SplitMix64.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>

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

// A stream of bytes that belongs to a seed, eight at a time: what a test sends, and what it expects, without keeping
// either.
inline uint64_t word_of(uint64_t seed, size_t word) {
  const uint64_t z = (seed + word) * 0x9e3779b97f4a7c15u;
  return z ^ z >> 29;
}
inline std::byte byte_of(uint64_t seed, size_t at) {
  return static_cast<std::byte>(word_of(seed, at / 8) >> (at % 8 * 8));
}
inline void fill(std::byte* to, size_t bytes, uint64_t seed) {
  size_t at = 0;
  for (; at + 8 <= bytes; at += 8) {
    const uint64_t word = word_of(seed, at / 8);
    std::memcpy(to + at, &word, 8);
  }
  for (; at < bytes; ++at) to[at] = byte_of(seed, at);
}
// Index of the first byte that is wrong, or `bytes`.
inline size_t first_difference(const std::byte* from, size_t bytes, uint64_t seed) {
  size_t at = 0;
  for (; at + 8 <= bytes; at += 8) {
    uint64_t word;
    std::memcpy(&word, from + at, 8);
    if (word != word_of(seed, at / 8)) break;
  }
  for (; at < bytes; ++at) {
    if (from[at] != byte_of(seed, at)) return at;
  }
  return bytes;
}

}  // namespace nbc::check
