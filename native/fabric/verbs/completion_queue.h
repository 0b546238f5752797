// The one queue of the completions of all connections of a rank. It has room for all that the connections that there
// are can bring, so it never overflows; and it grows with them: a rank of a job of thousands talks to few others. Where
// the device cannot enlarge a queue, all of its room is there from the start.
//
// Threads: the owner of the engine.
#pragma once
#include <memory>

#include "fabric/verbs/device.h"

namespace nbc::verbs {

class CompletionQueue {
 public:
  // `first`: entries at first; `most`: as many as may ever be reserved. Throws FabricError.
  CompletionQueue(std::shared_ptr<Device> device, uint32_t first, uint32_t most, ibv_comp_channel* channel, int vector);
  ~CompletionQueue();
  CompletionQueue(const CompletionQueue&) = delete;
  CompletionQueue& operator=(const CompletionQueue&) = delete;

  // At least that many entries, `most` at most. Throws FabricError; the queue is as it was then.
  void reserve(uint32_t entries);
  // Entries that there are.
  uint32_t room() const { return static_cast<uint32_t>(queue_->cqe); }
  ibv_cq* get() const { return queue_; }

 private:
  std::shared_ptr<Device> device_;
  uint32_t most_;
  ibv_cq* queue_;
};

}  // namespace nbc::verbs
