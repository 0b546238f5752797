#include "engine/box.h"

#include <algorithm>

namespace nbc {

bool Box::repeat(uint64_t count, uint64_t stride) {
  const unsigned __int128 end = end_ + static_cast<unsigned __int128>(count - 1) * stride;
  if (end > uint64_t{1} << 53) return false;
  end_ = static_cast<uint64_t>(end);
  if (count > 1) steps_.push_back({count, stride});
  return true;
}

void Box::finish() {
  std::sort(steps_.begin(), steps_.end(), [](const Step& a, const Step& b) { return a.stride > b.stride; });
  uint64_t extent = block_;
  for (auto step = steps_.rbegin(); step != steps_.rend(); ++step) {
    if (step->stride < extent) distinct_ = false;
    extent += (step->count - 1) * step->stride;
  }
}

uint64_t Box::start_from(uint64_t least) const {
  uint64_t inner = 0;  // the largest start within the dimensions that follow
  for (const Step& step : steps_) inner += (step.count - 1) * step.stride;
  uint64_t start = 0;
  for (const Step& step : steps_) {
    if (least == 0) break;
    inner -= (step.count - 1) * step.stride;
    uint64_t index = least / step.stride;
    uint64_t rest = least % step.stride;
    if (rest > inner) {
      ++index;
      rest = 0;
    }
    if (index >= step.count) return UINT64_MAX;
    start += index * step.stride;
    least = rest;
  }
  return least == 0 ? start : UINT64_MAX;
}

bool Box::touches(uint64_t first, uint64_t last) const {
  if (first >= end_ || last <= offset_ || first >= last) return false;
  if (!distinct_) return true;
  // A block that begins at or before `first` has a byte of the range if it begins after first - block_.
  const uint64_t before = offset_ + block_ - 1;
  const uint64_t start = start_from(first > before ? first - before : 0);
  return start != UINT64_MAX && offset_ + start < last;
}

}  // namespace nbc
