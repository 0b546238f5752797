#include "fabric/verbs/available.h"

#if NBC_HAS_VERBS
#include "queue_outlet.h"

#include <cstring>

#include "mailboxes.h"

namespace nbc::patterns {

QueueOutlet::QueueOutlet(const Case& c, Verb verb, size_t bytes, Device& device, QueuePair& pair,
                         CompletionQueue& completions, const Card& to)
    : depth_(depth(c)),
      signal_every_(c.signal_every),
      stride_(mailbox_stride(bytes)),
      pair_(pair.get()),
      completions_(completions),
      memory_(device, depth_ * stride_) {
  part_.length = static_cast<uint32_t>(bytes);
  part_.lkey = memory_.mr->lkey;
  request_.sg_list = &part_;
  request_.num_sge = 1;
  request_.opcode = verb == Verb::write ? IBV_WR_RDMA_WRITE : IBV_WR_SEND;
  request_.wr.rdma.remote_addr = to.mailbox;
  request_.wr.rdma.rkey = to.mailbox_key;
  if (bytes <= c.inline_bytes) request_.send_flags = IBV_SEND_INLINE;
}

void QueueOutlet::submit() {
  part_.addr = reinterpret_cast<uintptr_t>(memory_.base + posted_ % depth_ * stride_);
  ibv_send_wr request = request_;
  request.wr_id = posted_;
  if (posted_ % signal_every_ == signal_every_ - 1) {
    request.send_flags |= IBV_SEND_SIGNALED;
    ++counters.signalled;
  }
  ++counters.work_requests;
  if ((request.send_flags & IBV_SEND_INLINE) != 0) ++counters.inlined;
  ibv_send_wr* refused = nullptr;
  if (const int error = ibv_post_send(pair_, &request, &refused); error != 0)
    throw FabricError{std::string("posting a work request: ") + std::strerror(error)};
  ++posted_;
}

void QueueOutlet::complete() {
  ibv_wc found[16];
  const int count = completions_.poll(found, 16);
  if (count > 0) completed_ = static_cast<uint32_t>(found[count - 1].wr_id) + 1;
}

}  // namespace nbc::patterns
#endif
