// The bytes of one side of a strided copy: blocks of equal length, at regular distances in several dimensions.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace nbc {

class Box {
 public:
  // `block`: bytes, at least 1.
  Box(uint64_t offset, uint64_t block) : offset_(offset), block_(block), end_(offset + block) {}
  // Repeats all that is there `count` times, `stride` bytes apart. `count`: at least 1. False: the end is above 2^53.
  bool repeat(uint64_t count, uint64_t stride);
  // To be called once, after the last repeat().
  void finish();

  uint64_t offset() const { return offset_; }
  uint64_t end() const { return end_; }
  // No byte belongs to two blocks: each dimension steps over all of the dimensions with shorter strides.
  bool distinct() const { return distinct_; }
  // Whether a block has a byte in [first, last). Exact where the blocks are distinct, otherwise true if the range
  // touches anything from offset() to end().
  bool touches(uint64_t first, uint64_t last) const;

 private:
  struct Step {
    uint64_t count;
    uint64_t stride;
  };
  // The smallest start of a block, relative to offset_, that is at least `least`; UINT64_MAX: there is none.
  uint64_t start_from(uint64_t least) const;

  uint64_t offset_;
  uint64_t block_;
  uint64_t end_;
  bool distinct_ = true;
  std::vector<Step> steps_;  // with counts above 1; after finish() the longest stride first
};

}  // namespace nbc
