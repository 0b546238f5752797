#include "fabric/verbs/available.h"

#if NBC_HAS_VERBS
#include "fabric/verbs/connection.h"

#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <cstring>
#include <random>

namespace nbc::verbs {
namespace {

constexpr uint32_t kChain = 32;  // work requests built at a time, on the stack

[[noreturn]] void fail(const char* what, int error) {
  throw FabricError{std::string("transport 'verbs': ") + what + ": " + std::strerror(error)};
}

}  // namespace

Connection::Connection(Rank peer, const std::shared_ptr<Device>& device, Mailboxes& mailboxes, ibv_cq* completions,
                       uint32_t send_depth, uint32_t receive_depth, uint32_t most_inline, VerbsCounters& counters)
    : peer(peer), device_(device), send_depth_(send_depth), receive_depth_(receive_depth), counters_(counters) {
  place = mailboxes.take();
  first_packet_ = std::random_device{}() & 0xffffff;
  // Devices say how much they take inline only by refusing more.
  for (uint32_t wanted = most_inline;; wanted /= 2) {
    ibv_qp_init_attr init{};
    init.send_cq = completions;
    init.recv_cq = completions;
    init.cap.max_send_wr = send_depth_;
    init.cap.max_recv_wr = receive_depth_;
    init.cap.max_send_sge = 1;
    init.cap.max_recv_sge = 1;
    init.cap.max_inline_data = wanted;
    init.qp_type = IBV_QPT_RC;
    qp_ = device_->lib.create_qp(device_->pd, &init);
    if (qp_ != nullptr) {
      most_inline_ = std::min(init.cap.max_inline_data, most_inline);
      break;
    }
    if (wanted == 0) fail("creating a queue pair", errno);
  }
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.port_num = device_->port;
  attributes.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
  const int error =
      device_->lib.modify_qp(qp_, &attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
  missing = receive_depth_;
  if (error != 0 || !refill(true)) {
    device_->lib.destroy_qp(qp_);
    fail("preparing a queue pair", error);
  }
}

Connection::~Connection() { device_->lib.destroy_qp(qp_); }

Card Connection::card(uint32_t eager_limit) const {
  Card card{};
  std::memcpy(card.gid, device_->gid.raw, sizeof card.gid);
  card.inbox = reinterpret_cast<uintptr_t>(place.inbox);
  card.inbox_key = place.mr->rkey;
  card.queue_pair = qp_->qp_num;
  card.first_packet = first_packet_;
  card.eager_limit = eager_limit;
  card.lid = device_->port_attributes.lid;
  card.mtu = static_cast<uint8_t>(device_->port_attributes.active_mtu);
  card.routed = device_->routed ? 1 : 0;
  return card;
}

void Connection::connect(const Card& card, uint8_t timeout, uint8_t retries) {
  theirs = card;
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTR;
  attributes.path_mtu =
      static_cast<ibv_mtu>(std::min(card.mtu, static_cast<uint8_t>(device_->port_attributes.active_mtu)));
  attributes.dest_qp_num = card.queue_pair;
  attributes.rq_psn = card.first_packet;
  attributes.max_dest_rd_atomic = 1;
  attributes.min_rnr_timer = 12;  // 0.64 ms until a peer without a receive is tried again
  attributes.ah_attr.port_num = device_->port;
  attributes.ah_attr.dlid = card.lid;
  if (device_->routed) {
    attributes.ah_attr.is_global = 1;
    std::memcpy(attributes.ah_attr.grh.dgid.raw, card.gid, sizeof card.gid);
    attributes.ah_attr.grh.sgid_index = static_cast<uint8_t>(device_->gid_index);
    attributes.ah_attr.grh.hop_limit = 64;
  }
  int error = device_->lib.modify_qp(qp_, &attributes,
                                     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                         IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
  if (error != 0) fail("connecting a queue pair (is there a route to the peer?)", error);
  attributes = {};
  attributes.qp_state = IBV_QPS_RTS;
  attributes.timeout = timeout;
  attributes.retry_cnt = retries;
  // Without limit: a peer that computes and does not look is slow, not dead. A dead one does not even say that it has no receive.
  attributes.rnr_retry = 7;
  attributes.sq_psn = first_packet_;
  attributes.max_rd_atomic = 1;
  error = device_->lib.modify_qp(
      qp_, &attributes,
      IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
  if (error != 0) fail("starting a queue pair", error);
  state = State::connected;
}

bool Connection::post() {
  while (!queue.empty()) {
    const uint32_t room = send_depth_ - (posted - completed);
    const auto count = static_cast<uint32_t>(std::min<size_t>({room, queue.size(), kChain}));
    if (count == 0) return true;
    ibv_send_wr requests[kChain];
    ibv_sge parts[kChain];
    for (uint32_t i = 0; i < count; ++i) {
      const Work& work = queue[i];
      ibv_send_wr& request = requests[i];
      std::memset(&request, 0, sizeof request);
      request.wr_id = write_id(peer, posted + i);
      request.next = i + 1 < count ? &requests[i + 1] : nullptr;
      if (work.bytes > 0) {
        parts[i] = {reinterpret_cast<uintptr_t>(work.from), work.bytes, work.local_key};
        request.sg_list = &parts[i];
        request.num_sge = 1;
        if (work.bytes <= most_inline_) {
          request.send_flags |= IBV_SEND_INLINE;
          ++counters_.inlined;
        }
      }
      request.opcode = work.has_immediate ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE;
      if (work.has_immediate) {
        request.imm_data = htonl(work.immediate);
        request.send_flags |= IBV_SEND_SOLICITED;  // wakes the peer if it sleeps
      }
      request.wr.rdma.remote_addr = work.to;
      request.wr.rdma.rkey = work.remote_key;
      if (work.signalled || ++unsignalled_ >= send_depth_ / 4) {
        request.send_flags |= IBV_SEND_SIGNALED;
        unsignalled_ = 0;
        ++counters_.signalled;
      }
      if (work.ends_put) {
        Put& put = puts[put_to_end_++];
        put.last = posted + i;
        put.posted = true;
      }
    }
    ibv_send_wr* refused = nullptr;
    const int error = ibv_post_send(qp_, requests, &refused);
    posted += count;
    counters_.work_requests += count;
    ++counters_.chains;
    queue.pop(count);
    if (error != 0) {
      errno = error;
      return false;
    }
  }
  return true;
}

bool Connection::refill(bool all) {
  // An eighth at a time: one call for many, long before the peer could run out.
  if (missing == 0 || (!all && missing < (receive_depth_ + 7) / 8)) return true;
  while (missing > 0) {
    ibv_recv_wr requests[kChain];
    const uint32_t count = std::min(missing, kChain);
    for (uint32_t i = 0; i < count; ++i)
      requests[i] = {peer | kReceiveId, i + 1 < count ? &requests[i + 1] : nullptr, nullptr, 0};
    ibv_recv_wr* refused = nullptr;
    if (const int error = ibv_post_recv(qp_, requests, &refused); error != 0) {
      errno = error;
      return false;
    }
    missing -= count;
    counters_.receives_refilled += count;
  }
  return true;
}

bool Connection::take_done(Put& put) {
  if (puts.empty() || !puts.front().posted || static_cast<int32_t>(completed - puts.front().last) <= 0) return false;
  put = puts.front();
  puts.pop();
  --put_to_end_;
  return true;
}

void Connection::stop() {
  state = State::broken;
  queue.clear();
  put_to_end_ = 0;
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_ERR;
  device_->lib.modify_qp(qp_, &attributes, IBV_QP_STATE);
}

}  // namespace nbc::verbs
#endif
