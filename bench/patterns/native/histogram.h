// Latencies in little memory, to less than 1 %: 128 buckets for each power of two of nanoseconds.
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>

namespace nbc::patterns {

class Histogram {
 public:
  void add(uint64_t ns) { ++buckets_[index(ns < kMost ? ns : kMost - 1)]; }
  void add(const Histogram& other) {
    for (size_t i = 0; i < kBuckets; ++i) buckets_[i] += other.buckets_[i];
  }
  uint64_t count() const {
    uint64_t sum = 0;
    for (const uint32_t n : buckets_) sum += n;
    return sum;
  }
  // In µs: the middle of the bucket that holds this share of all samples; 0 without samples.
  double percentile(double share) const {
    const auto wanted = static_cast<uint64_t>(share * static_cast<double>(count()));
    uint64_t seen = 0;
    for (size_t i = 0; i < kBuckets; ++i) {
      seen += buckets_[i];
      if (seen > wanted) return (static_cast<double>(lowest(i)) + static_cast<double>(lowest(i + 1))) / 2e3;
    }
    return 0;
  }

 private:
  static constexpr unsigned kBits = 7;
  static constexpr uint64_t kMost = uint64_t{1} << 36;  // a minute
  static constexpr size_t kBuckets = (36 - kBits + 1) << kBits;

  // The first 128 values each have a bucket; from there on the leading bit gives the row and the 7 bits after it the
  // place in it.
  static size_t index(uint64_t ns) {
    const auto width = static_cast<unsigned>(std::bit_width(ns));
    if (width <= kBits) return ns;
    const unsigned shift = width - kBits - 1;
    return (size_t{shift + 1} << kBits) + ((ns >> shift) & ((1u << kBits) - 1));
  }
  static uint64_t lowest(size_t i) {
    if (i < size_t{1} << kBits) return i;
    const size_t shift = (i >> kBits) - 1;
    return ((uint64_t{1} << kBits) + (i & ((1u << kBits) - 1))) << shift;
  }

  uint32_t buckets_[kBuckets] = {};
};

}  // namespace nbc::patterns
