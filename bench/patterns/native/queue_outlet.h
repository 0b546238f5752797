// The sending side of one connection: RDMA writes into the peer's mailbox, or SENDs.
//
// A message stands in a buffer of its own until its work request is known to be complete, since the card may read it
// again as long as it is not acknowledged. Of `signal_every` requests the last asks for a completion, which stands for
// all before it. There are twice as many buffers as that at least, so when half of them are taken a completion is on
// its way, and the queue never stays full.
#pragma once
#include <algorithm>

#include "message.h"
#include "queue_pair.h"

namespace nbc::patterns {

class QueueOutlet {
 public:
  static constexpr uint32_t kLeastDepth = 16;
  static uint32_t depth(const Case& c) { return std::max(kLeastDepth, 2 * c.signal_every); }

  // `to`: whose mailbox is written.
  QueueOutlet(const Case& c, Verb verb, size_t bytes, Device& device, QueuePair& pair, CompletionQueue& completions,
              const Card& to);
  std::byte* prepare() {
    const uint32_t taken = posted_ - completed_;
    if (taken >= depth_ / 2) {
      do complete();
      while (posted_ - completed_ >= depth_);
    }
    return memory_.base + posted_ % depth_ * stride_;
  }
  void submit();

  SendCounters counters;

 private:
  void complete();

  uint32_t depth_;
  uint32_t signal_every_;
  size_t stride_;
  ibv_qp* pair_;
  CompletionQueue& completions_;
  Registered memory_;
  ibv_send_wr request_{};
  ibv_sge part_{};
  uint32_t posted_ = 0;  // both wrap
  uint32_t completed_ = 0;
};

}  // namespace nbc::patterns
