// When a peer that sends beats and falls silent is given up, and how often ranks beat and look: option peerTimeout.
#pragma once
#include <algorithm>
#include <cstdint>

namespace nbc::job {

// How long a peer may be silent that is known to beat, and what follows from it.
class Patience {
 public:
  explicit Patience(int64_t milliseconds) : milliseconds_(milliseconds) {}
  // Between two beats, and between two looks: an eighth, and no more than a second. A beat is a wake-up.
  int64_t interval() const { return std::clamp<int64_t>(milliseconds_ / 8, 1, 1000); }
  // Looks in a row without a beat after which the peer is given up: the last of them is within the time. `beat`: the
  // peer's own interval, of which it may miss some.
  uint32_t looks(int64_t beat) const {
    return static_cast<uint32_t>(std::max(milliseconds_, 4 * beat) / interval() - 1);
  }

 private:
  int64_t milliseconds_;
};

}  // namespace nbc::job
