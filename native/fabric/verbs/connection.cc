#include "fabric/verbs/available.h"

#if NBC_HAS_VERBS
#include "fabric/verbs/connection.h"

#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <cstring>
#include <random>

#include "fabric/verbs/locked_memory.h"

namespace nbc::verbs {
namespace {

constexpr uint32_t kChain = 32;  // work requests built at a time, on the stack
constexpr uint32_t kParts = 2;   // a header, and what was committed

bool takes_receive(const Work& work) { return work.verb != Verb::write; }

}  // namespace

struct Connection::Chain {
  uint32_t count = 0;
  ibv_send_wr requests[kChain];
  ibv_sge parts[kChain][kParts];
};

Connection::Connection(Rank peer, const Equipment& equipment)
    : peer(peer),
      credits(equipment.receive_depth),
      device_(equipment.device),
      sends_(equipment.shared != nullptr),
      send_depth_(equipment.send_depth),
      receive_depth_(equipment.receive_depth),
      counters_(equipment.counters),
      attachment_(device_->attachment()) {
  place = equipment.mailboxes.take();
  first_packet_ = std::random_device{}() & 0xffffff;
  if (sends_) equipment.shared->add(receive_depth_);
  // Devices say how much they take inline only by refusing more.
  for (uint32_t wanted = equipment.most_inline;; wanted /= 2) {
    ibv_qp_init_attr init{};
    init.send_cq = equipment.completions;
    init.recv_cq = equipment.completions;
    init.srq = sends_ ? equipment.shared->queue() : nullptr;
    init.cap.max_send_wr = send_depth_;
    init.cap.max_recv_wr = sends_ ? 0 : receive_depth_;
    init.cap.max_send_sge = sends_ ? kParts : 1;
    init.cap.max_recv_sge = 1;
    init.cap.max_inline_data = wanted;
    init.qp_type = IBV_QPT_RC;
    qp_ = device_->lib.create_qp(device_->pd, &init);
    if (qp_ != nullptr) {
      most_inline_ = std::min(init.cap.max_inline_data, equipment.most_inline);
      break;
    }
    if (wanted == 0) throw device_refusal("creating a queue pair");
  }
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.port_num = device_->port;
  attributes.pkey_index = attachment_.partition_index;
  attributes.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
  const int error =
      device_->lib.modify_qp(qp_, &attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
  missing = sends_ ? 0 : receive_depth_;
  if (error != 0 || !refill(true)) {
    device_->lib.destroy_qp(qp_);
    throw device_refusal("preparing a queue pair", error);
  }
}

Connection::~Connection() { device_->lib.destroy_qp(qp_); }

Card Connection::card(uint32_t eager_limit) const {
  Card card{};
  card.version = kCardVersion;
  card.port = attachment_.port;
  card.inbox = reinterpret_cast<uintptr_t>(place.inbox);
  card.inbox_key = place.inbox_mr->rkey;
  card.queue_pair = qp_->qp_num;
  card.first_packet = first_packet_;
  card.eager_limit = eager_limit;
  card.eager = sends_ ? Eager::send : Eager::write;
  card.credits = receive_depth_;
  return card;
}

Steps Connection::begin(const Card& card, const Way& way, const VerbsOptions& options) {
  theirs = card;
  credits.start(card.credits);
  state = State::connecting;
  silence_ = options.silence;
  const Port& mine = attachment_.port;
  Steps steps;
  steps.pair = qp_;
  ibv_qp_attr& receive = steps.receive;
  receive.qp_state = IBV_QPS_RTR;
  receive.path_mtu = static_cast<ibv_mtu>(std::min(card.port.mtu, mine.mtu));
  receive.dest_qp_num = card.queue_pair;
  receive.rq_psn = card.first_packet;
  receive.max_dest_rd_atomic = 1;
  receive.min_rnr_timer = 12;  // 0.64 ms until a peer without a receive is tried again
  receive.ah_attr.port_num = device_->port;
  receive.ah_attr.dlid = card.port.lid;
  receive.ah_attr.sl = options.service_level;
  if (needs_global_header(mine, card.port, way)) {
    receive.ah_attr.is_global = 1;
    std::memcpy(receive.ah_attr.grh.dgid.raw, card.port.gids[way.theirs].raw, sizeof card.port.gids[0].raw);
    receive.ah_attr.grh.sgid_index = static_cast<uint8_t>(attachment_.indexes[way.mine]);
    receive.ah_attr.grh.hop_limit = 64;
    receive.ah_attr.grh.traffic_class = options.traffic_class;
  }
  steps.receive_mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  ibv_qp_attr& send = steps.send;
  send.qp_state = IBV_QPS_RTS;
  send.timeout = options.timeout;
  send.retry_cnt = options.retries;
  send.rnr_retry = options.receiver_retries;
  send.sq_psn = first_packet_;
  send.max_rd_atomic = 1;
  steps.send_mask =
      IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;
  return steps;
}

Work Connection::mail(const std::byte* from, size_t bytes, uint32_t immediate) const {
  Work work;
  work.from = from;
  work.bytes = static_cast<uint32_t>(bytes);
  work.local_key = place.outbox_mr->lkey;
  work.to = theirs.inbox + static_cast<uint64_t>(from - place.outbox);
  work.remote_key = theirs.inbox_key;
  work.immediate = immediate;
  work.verb = sends_ ? Verb::send : Verb::announced_write;
  return work;
}

bool Connection::post() {
  for (;;) {
    Chain chain;
    while (chain.count < kChain && posted - completed < send_depth_) {
      if (next_may_leave()) {
        add(chain, queue.front());
        queue.pop();
      } else if (payment_due()) {
        Work payment;
        payment.verb = Verb::payment;
        payment.signalled = true;  // nothing may come behind it
        add(chain, payment);
      } else {
        break;
      }
    }
    if (chain.count == 0) return true;
    if (!post(chain)) return false;
  }
}

bool Connection::next_may_leave() {
  if (queue.empty()) return false;
  const bool may = !sends_ || !takes_receive(queue.front()) || credits.may_send();
  if (!may && !waits_for_credit_) ++counters_.credit_waits;
  waits_for_credit_ = !may;
  return may;
}

void Connection::add(Chain& chain, const Work& work) {
  ibv_send_wr& request = chain.requests[chain.count];
  if (chain.count > 0) chain.requests[chain.count - 1].next = &request;
  std::memset(&request, 0, sizeof request);
  request.wr_id = write_id(peer, posted);
  address(request, chain.parts[chain.count], work);
  if (takes_receive(work)) {
    request.send_flags |= IBV_SEND_SOLICITED;  // wakes the peer if it sleeps
    ++unanswered_;
    ++messages_;
    if (sends_) credits.spend();
  }
  if (work.signalled || ++unsignalled_ >= send_depth_ / 4) {
    request.send_flags |= IBV_SEND_SIGNALED;
    unsignalled_ = 0;
    ++counters_.signalled;
  }
  if (work.ends_put) {
    Put& put = puts[put_to_end_++];
    put.last = posted;
    put.message = messages_;
    put.posted = true;
  }
  ++posted;
  ++chain.count;
}

// What kind of request it is, where its bytes come from, and where they go.
void Connection::address(ibv_send_wr& request, ibv_sge* parts, const Work& work) {
  uint32_t bytes = 0;
  const auto part = [&](const void* from, uint32_t length, uint32_t key) {
    if (length == 0) return;
    parts[request.num_sge++] = {reinterpret_cast<uintptr_t>(from), length, key};
    request.sg_list = parts;
    bytes += length;
  };
  if (work.verb == Verb::write || work.verb == Verb::announced_write) {
    request.opcode = work.verb == Verb::write ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_WRITE_WITH_IMM;
    request.imm_data = htonl(work.immediate);
    request.wr.rdma.remote_addr = work.to;
    request.wr.rdma.rkey = work.remote_key;
  } else {
    const uint32_t payment = credits.pay();
    request.opcode = IBV_WR_SEND_WITH_IMM;
    request.imm_data = htonl(payment);
    ++counters_.sends;
    counters_.credits_returned += payment;
    if (work.verb == Verb::payment) ++counters_.credit_messages;
  }
  if (work.verb == Verb::send) {
    // Used again when this request has completed: there are as many as the send queue has entries.
    Header& header = place.headers[posted % send_depth_];
    header = {work.immediate, static_cast<uint32_t>(work.to - theirs.inbox)};
    part(&header, sizeof header, place.outbox_mr->lkey);
  }
  part(work.from, work.bytes, work.local_key);
  if (bytes > 0 && bytes <= most_inline_) {
    request.send_flags |= IBV_SEND_INLINE;
    ++counters_.inlined;
  }
}

bool Connection::post(Chain& chain) {
  ibv_send_wr* refused = nullptr;
  const int error = ibv_post_send(qp_, chain.requests, &refused);
  counters_.work_requests += chain.count;
  ++counters_.chains;
  errno = error;
  return error == 0;
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
  return take(put);
}

bool Connection::take_delivered(uint32_t messages, Put& put) {
  constexpr uint32_t kHalf = 1u << (kImmediateBits - 1);
  constexpr uint32_t kAll = 2 * kHalf - 1;
  if (puts.empty() || !puts.front().posted || ((messages - puts.front().message) & kAll) >= kHalf) return false;
  return take(put);
}

bool Connection::take(Put& put) {
  put = puts.front();
  puts.pop();
  --put_to_end_;
  return true;
}

uint32_t Connection::patience() const {
  if (!sends_ && unanswered_ >= receive_depth_ / 2) return 0;
  // A probe comes after the puts before it. A network that does a megabyte in a second is slow, and alive.
  double megabytes = 0;
  for (size_t i = 0; i < puts.size(); ++i) megabytes += static_cast<double>(puts[i].bytes) * 1e-6;
  return static_cast<uint32_t>(std::min(silence_ + megabytes, 4e9));
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
