// Mailboxes in memory of ours that others write, one message each, scanned in turn. Whose they are is known; some are
// nobody's, and always empty.
#pragma once
#include <vector>

#include "control.h"
#include "message.h"

namespace nbc::patterns {

// Each mailbox begins a cache line of its own, so that writing one does not disturb another.
constexpr size_t mailbox_stride(size_t bytes) { return (bytes + 63) / 64 * 64; }

class Mailboxes {
 public:
  Mailboxes(std::byte* base, size_t bytes, uint32_t count) : bytes_(bytes), boxes_(count) {
    for (uint32_t i = 0; i < count; ++i) boxes_[i].message = base + i * mailbox_stride(bytes);
  }
  void give(uint32_t box, uint32_t client) {
    boxes_[box].client = client;
    boxes_[box].expected = make_stamp(1, client);
  }
  // Looks into each at most once, and stops at the first message.
  bool poll(Arrival& arrival) {
    for (size_t i = 0; i < boxes_.size(); ++i) {
      Box& box = boxes_[next_];
      next_ = next_ + 1 == boxes_.size() ? 0 : next_ + 1;
      ++counters.looks;
      const uint64_t stamp = load_stamp(end_of(box.message, bytes_));
      if (stamp != box.expected) {
        ++counters.empty;
        continue;
      }
      if (load_stamp(box.message) != stamp) {
        ++counters.torn;
        while (load_stamp(box.message) != stamp) {
        }
      }
      box.expected = make_stamp((stamp >> 8) + 1, box.client);
      arrival = {box.client, 0, stamp};
      return true;
    }
    return false;
  }
  void release(const Arrival&) {}

  PollCounters counters;

 private:
  struct Box {
    std::byte* message = nullptr;
    uint64_t expected = UINT64_MAX;  // never comes
    uint32_t client = 0;
  };
  size_t bytes_;
  size_t next_ = 0;
  std::vector<Box> boxes_;
};

}  // namespace nbc::patterns
