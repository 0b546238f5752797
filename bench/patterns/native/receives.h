// Messages that come by SEND: receives posted in advance, completions that say which of them were taken. Their order is
// the device's, so a receive is known by its number, and its message by its stamp. Refilled in chains.
#pragma once
#include <vector>

#include "message.h"
#include "queue_pair.h"

namespace nbc::patterns {

// Where receives are posted: one of the two.
struct ReceiveQueue {
  ibv_qp* pair = nullptr;
  ibv_srq* shared = nullptr;
};

class Receives {
 public:
  static constexpr uint32_t kChain = 8;
  // Of `messages` on their way at most, one always finds a receive, although up to a chain of them waits to be posted.
  static constexpr uint32_t entries(uint32_t messages) { return messages + 2 * kChain; }

  Receives(Device& device, CompletionQueue& completions, const ReceiveQueue& queue, size_t bytes, uint32_t count);
  bool poll(Arrival& arrival) {
    if (next_ == found_) {
      ++counters.looks;
      next_ = 0;
      found_ = static_cast<size_t>(completions_.poll(batch_, kChain));
      if (found_ == 0) {
        ++counters.empty;
        return false;
      }
    }
    const auto receive = static_cast<uint32_t>(batch_[next_++].wr_id);
    const uint64_t stamp = load_stamp(end_of(buffer(receive), bytes_));
    arrival = {client_of(stamp), receive, stamp};
    return true;
  }
  // Its buffer is free again.
  void release(const Arrival& arrival) {
    used_.push_back(arrival.receive);
    if (used_.size() >= kChain) refill();
  }

  PollCounters counters;

 private:
  std::byte* buffer(uint32_t receive) const { return memory_.base + receive * stride_; }
  void refill();

  CompletionQueue& completions_;
  ReceiveQueue queue_;
  size_t bytes_;
  size_t stride_;
  Registered memory_;
  std::vector<uint32_t> used_;
  ibv_wc batch_[kChain];
  size_t next_ = 0;
  size_t found_ = 0;
};

}  // namespace nbc::patterns
