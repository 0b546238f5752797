#include "fabric/verbs/available.h"

#if NBC_HAS_VERBS
#include "fabric/verbs/completion_queue.h"

#include <algorithm>
#include <utility>

#include "fabric/verbs/locked_memory.h"

namespace nbc::verbs {

CompletionQueue::CompletionQueue(std::shared_ptr<Device> device, uint32_t first, uint32_t most,
                                 ibv_comp_channel* channel, int vector)
    : device_(std::move(device)), most_(most) {
  const uint32_t entries = device_->enlarges_queues ? std::min(first, most) : most;
  queue_ = device_->lib.create_cq(device_->context, static_cast<int>(entries), nullptr, channel, vector);
  if (queue_ == nullptr) throw device_refusal("creating the completion queue");
}

CompletionQueue::~CompletionQueue() { device_->lib.destroy_cq(queue_); }

// Twice as large each time, so that n connections move what waits there log n times.
void CompletionQueue::reserve(uint32_t entries) {
  if (entries <= room()) return;
  const uint32_t larger = std::min(std::max(entries, 2 * room()), most_);
  if (const int error = device_->lib.resize_cq(queue_, static_cast<int>(larger)); error != 0)
    throw device_refusal("enlarging the completion queue to " + std::to_string(larger) + " entries", error);
}

}  // namespace nbc::verbs
#endif
