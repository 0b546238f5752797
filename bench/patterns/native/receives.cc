#include "fabric/verbs/available.h"

#if NBC_HAS_VERBS
#include "receives.h"

#include <cstring>

#include "mailboxes.h"

namespace nbc::patterns {

Receives::Receives(Device& device, CompletionQueue& completions, const ReceiveQueue& queue, size_t bytes,
                   uint32_t count)
    : completions_(completions),
      queue_(queue),
      bytes_(bytes),
      stride_(mailbox_stride(bytes)),
      memory_(device, count * mailbox_stride(bytes)) {
  used_.reserve(count);
  for (uint32_t i = 0; i < count; ++i) used_.push_back(i);
  while (!used_.empty()) refill();
}

void Receives::refill() {
  ibv_recv_wr requests[kChain];
  ibv_sge parts[kChain];
  uint32_t count = 0;
  for (; count < kChain && !used_.empty(); ++count) {
    const uint32_t receive = used_.back();
    used_.pop_back();
    parts[count] = {reinterpret_cast<uintptr_t>(buffer(receive)), static_cast<uint32_t>(bytes_), memory_.mr->lkey};
    requests[count] = {receive, nullptr, &parts[count], 1};
    if (count > 0) requests[count - 1].next = &requests[count];
  }
  ibv_recv_wr* refused = nullptr;
  const int error = queue_.shared != nullptr ? ibv_post_srq_recv(queue_.shared, requests, &refused)
                                             : ibv_post_recv(queue_.pair, requests, &refused);
  if (error != 0) throw FabricError{std::string("posting receives: ") + std::strerror(error)};
}

}  // namespace nbc::patterns
#endif
