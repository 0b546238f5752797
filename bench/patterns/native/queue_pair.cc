#include "fabric/verbs/available.h"

#if NBC_HAS_VERBS
#include "queue_pair.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sys/mman.h>

namespace nbc::patterns {
namespace {

[[noreturn]] void fail(const std::string& what, int error) { throw FabricError{what + ": " + std::strerror(error)}; }

// 4.096 µs << 14 is 67 ms, tried seven times: an emulated processor may be away for that long.
constexpr uint8_t kTimeout = 14;
constexpr uint8_t kRetries = 7;
constexpr uint8_t kReceiverNotReadyTimer = 1;  // 10 µs; it should never be needed
// Packets are numbered from here; that only matters to connections that reuse a queue pair's number at once.
constexpr uint32_t kFirstPacket = 1;

}  // namespace

Registered::Registered(Device& device, size_t bytes) : device_(device), bytes_(bytes) {
  void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) fail("mapping " + std::to_string(bytes) + " bytes", errno);
  base = static_cast<std::byte*>(at);
  mr = device.lib.reg_mr(device.pd, at, bytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  if (mr == nullptr) {
    const int error = errno;
    munmap(at, bytes);
    fail("registering " + std::to_string(bytes) + " bytes (is the limit of locked memory, ulimit -l, too low?)", error);
  }
}

Registered::~Registered() {
  device_.lib.dereg_mr(mr);
  munmap(base, bytes_);
}

CompletionQueue::CompletionQueue(Device& device, uint32_t entries)
    : device_(device), queue_(device.lib.create_cq(device.context, static_cast<int>(entries), nullptr, nullptr, 0)) {
  if (queue_ == nullptr) fail("creating a completion queue", errno);
}

CompletionQueue::~CompletionQueue() { device_.lib.destroy_cq(queue_); }

int CompletionQueue::poll(ibv_wc* found, int most) {
  const int count = ibv_poll_cq(queue_, most, found);
  if (count < 0) throw FabricError{"the completion queue cannot be polled"};
  for (int i = 0; i < count; ++i) {
    if (found[i].status != IBV_WC_SUCCESS)
      throw FabricError{std::string("a work request failed: ") + device_.lib.wc_status_str(found[i].status)};
  }
  return count;
}

SharedReceiveQueue::SharedReceiveQueue(Device& device, uint32_t entries) : device_(device) {
  ibv_srq_init_attr init{};
  init.attr.max_wr = entries;
  init.attr.max_sge = 1;
  queue_ = device.lib.create_srq(device.pd, &init);
  if (queue_ == nullptr) fail("creating a shared receive queue", errno);
}

SharedReceiveQueue::~SharedReceiveQueue() { device_.lib.destroy_srq(queue_); }

QueuePair::QueuePair(Device& device, CompletionQueue& sends, CompletionQueue& receives, ibv_srq* shared,
                     const Depths& depths)
    : device_(device) {
  ibv_qp_init_attr init{};
  init.send_cq = sends.get();
  init.recv_cq = receives.get();
  init.srq = shared;
  init.cap.max_send_wr = depths.sends;
  init.cap.max_recv_wr = depths.receives;
  init.cap.max_send_sge = 1;
  init.cap.max_recv_sge = 1;
  init.cap.max_inline_data = depths.inline_bytes;
  init.qp_type = IBV_QPT_RC;
  pair_ = device.lib.create_qp(device.pd, &init);
  if (pair_ == nullptr)
    fail("creating a queue pair that takes " + std::to_string(depths.inline_bytes) + " bytes inline", errno);
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.port_num = device.port;
  attributes.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
  const int error =
      device.lib.modify_qp(pair_, &attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
  if (error != 0) {
    device.lib.destroy_qp(pair_);
    fail("preparing a queue pair", error);
  }
}

QueuePair::~QueuePair() { device_.lib.destroy_qp(pair_); }

Card QueuePair::card() const {
  Card card{};
  card.queue_pair = pair_->qp_num;
  card.first_packet = kFirstPacket;
  card.port = attachment_.port;
  return card;
}

void QueuePair::connect(const Card& theirs) {
  const verbs::Port& mine = attachment_.port;
  const std::optional<verbs::Way> way = verbs::choose_way(mine, theirs.port);
  if (!way) throw FabricError{verbs::why_no_way(mine, theirs.port, "the other process", device_.name)};
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTR;
  attributes.path_mtu = static_cast<ibv_mtu>(std::min(theirs.port.mtu, mine.mtu));
  attributes.dest_qp_num = theirs.queue_pair;
  attributes.rq_psn = theirs.first_packet;
  attributes.max_dest_rd_atomic = 1;
  attributes.min_rnr_timer = kReceiverNotReadyTimer;
  attributes.ah_attr.port_num = device_.port;
  attributes.ah_attr.dlid = theirs.port.lid;
  if (verbs::needs_global_header(mine, theirs.port, *way)) {
    attributes.ah_attr.is_global = 1;
    const uint8_t(&to)[16] = theirs.port.gids[way->theirs].raw;
    std::memcpy(attributes.ah_attr.grh.dgid.raw, to, sizeof to);
    attributes.ah_attr.grh.sgid_index = static_cast<uint8_t>(attachment_.indexes[way->mine]);
    attributes.ah_attr.grh.hop_limit = 64;
  }
  int error = device_.lib.modify_qp(pair_, &attributes,
                                    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                        IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
  if (error != 0) fail("connecting a queue pair", error);
  attributes = {};
  attributes.qp_state = IBV_QPS_RTS;
  attributes.timeout = kTimeout;
  attributes.retry_cnt = kRetries;
  attributes.rnr_retry = 7;  // without limit
  attributes.sq_psn = kFirstPacket;
  attributes.max_rd_atomic = 1;
  error = device_.lib.modify_qp(
      pair_, &attributes,
      IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
  if (error != 0) fail("starting a queue pair", error);
}

}  // namespace nbc::patterns
#endif
