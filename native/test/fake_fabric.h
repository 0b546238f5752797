// A network in which nothing moves unless the test says so. One FakeNetwork connects the FakeFabrics of all its ranks, in one thread.
//
// Not asynchronous: outbox and inbox are the same memory, and puts arrive at once; like shared memory.
// Asynchronous: like an RDMA network. What is built in the outbox stays there; commit() sends the cache lines that changed. Four kinds of event
// are then held back until the test lets them happen, each in order: a write arrives (per pair), a write is locally complete (per rank),
// a put arrives with its immediate (per pair, and after the writes that were committed before it), a put is locally complete (per rank).
#pragma once
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "fabric/fabric.h"
#include "libof/mailbox.h"
#include "test/check.h"
#include "test/random.h"

namespace nbc::check {

class FakeFabric;

class FakeNetwork {
 public:
  // first_message: as in libof::Options; the mailboxes start as if that many messages had been consumed.
  FakeNetwork(Rank size, bool asynchronous, uint32_t first_message = 0);
  FakeFabric& rank(Rank rank) { return *fabrics_[rank]; }

  // One event of the kind, the oldest. False if there is none.
  bool deliver_write(Rank from, Rank to);
  bool deliver_put(Rank from, Rank to);
  bool complete_write(Rank rank);
  bool complete_put(Rank rank);
  // Any event at all, chosen at random. False if there is none.
  bool step(Random& random);
  void run() {
    while (run_once()) {
    }
  }

  enum class Presence { absent, open, closed };
  std::vector<Presence> presence;
  bool refuse = false;

 private:
  friend class FakeFabric;
  static constexpr size_t kBytes = kControlBytes + kSlotBytes;
  static constexpr size_t kLine = 64;

  struct Lines {
    std::vector<std::pair<uint32_t, std::array<std::byte, kLine>>> changed;
  };
  struct Arrival {
    ExposedBuffer to;
    std::vector<std::byte> data;
    Completion completion;
    uint64_t after;  // writes that must have arrived before
  };
  struct alignas(64) Memory {
    std::byte bytes[kBytes];
  };
  struct Pair {  // from one rank to another
    std::unique_ptr<Memory> inbox;
    std::unique_ptr<Memory> outbox;  // asynchronous only
    std::unique_ptr<Memory> sent;    // the outbox as it was when something was committed last
    std::deque<Lines> writes;
    uint64_t delivered = 0;
    std::deque<Arrival> puts;
  };

  bool run_once();
  Pair& pair(Rank from, Rank to) { return pairs_[from * size_ + to]; }

  Rank size_;
  bool asynchronous_;
  std::vector<Pair> pairs_;
  std::vector<std::unique_ptr<FakeFabric>> fabrics_;
};

class FakeFabric final : public Fabric {
 public:
  FakeFabric(FakeNetwork& network, Rank rank)
      : network_(network), rank_(rank), expected_(network.size_, false), arrived_(network.size_) {}

  Rank rank() const override { return rank_; }
  Rank size() const override { return network_.size_; }
  Connect connect(Rank peer) override {
    if (network_.refuse) return Connect::refused;
    return network_.presence[peer] == FakeNetwork::Presence::absent ? Connect::later : Connect::ready;
  }
  const char* why() const override { return "the test says so"; }
  Mailbox outbox(Rank peer) override {
    FakeNetwork::Pair& pair = network_.pair(rank_, peer);
    return mailbox(network_.asynchronous_ ? *pair.outbox : *pair.inbox);
  }
  Mailbox inbox(Rank peer) override { return mailbox(*network_.pair(peer, rank_).inbox); }
  bool has_closed(Rank peer) override { return network_.presence[peer] == FakeNetwork::Presence::closed; }
  ExposedBuffer expose(const void* buffer) override { return {reinterpret_cast<uintptr_t>(buffer), 0}; }

  void commit(Rank peer, uint32_t messages, void* cookie) override {
    commits += messages;
    if (!network_.asynchronous_) return;
    FakeNetwork::Pair& pair = network_.pair(rank_, peer);
    FakeNetwork::Lines lines;
    for (uint32_t at = 0; at < FakeNetwork::kBytes; at += FakeNetwork::kLine) {
      if (std::memcmp(pair.outbox->bytes + at, pair.sent->bytes + at, FakeNetwork::kLine) == 0) continue;
      lines.changed.emplace_back(at, std::array<std::byte, FakeNetwork::kLine>{});
      std::memcpy(lines.changed.back().second.data(), pair.outbox->bytes + at, FakeNetwork::kLine);
      std::memcpy(pair.sent->bytes + at, pair.outbox->bytes + at, FakeNetwork::kLine);
    }
    CHECK(!lines.changed.empty());  // a commit without anything written
    pair.writes.push_back(std::move(lines));
    if (cookie != nullptr) local_writes_.push_back({Completion::Kind::write_done, Error::none, peer, 0, 0, cookie});
  }
  bool asynchronous() const override { return network_.asynchronous_; }
  void flush() override {}

  void put(Rank peer, ExposedBuffer to, const void* from, size_t bytes, uint32_t immediate, Error error,
           void* cookie) override {
    const FakeNetwork::Pair& pair = network_.pair(rank_, peer);
    FakeNetwork::Arrival arrival{to,
                                 {},
                                 {Completion::Kind::immediate, error, rank_, immediate, bytes, nullptr},
                                 pair.delivered + pair.writes.size()};
    const auto* data = static_cast<const std::byte*>(from);
    if (bytes > 0 && error == Error::none) arrival.data.assign(data, data + bytes);
    network_.pair(rank_, peer).puts.push_back(std::move(arrival));
    local_puts_.push_back({Completion::Kind::put_done, Error::none, peer, 0, 0, cookie});
    if (!network_.asynchronous_) {
      network_.deliver_put(rank_, peer);
      network_.complete_put(rank_);
    }
  }
  void abandon(Rank peer) override { abandoned.push_back(peer); }
  unsigned poll(Completion* out, unsigned max, Effort /*effort*/) override {
    if (before_poll) std::exchange(before_poll, nullptr)();
    unsigned count = 0;
    while (count < max && !completions_.empty()) {
      out[count++] = completions_.front();
      completions_.pop_front();
    }
    // Immediates are looked for only where they are expected.
    for (Rank peer = 0; peer < network_.size_; ++peer) {
      while (expected_[peer] && count < max && !arrived_[peer].empty()) {
        out[count++] = arrived_[peer].front();
        arrived_[peer].pop_front();
      }
    }
    return count;
  }
  uint64_t work() const override {
    uint64_t work = completions_.size();
    for (Rank peer = 0; peer < network_.size_; ++peer) work += expected_[peer] ? arrived_[peer].size() : 0;
    return work;
  }
  void expect_immediates(Rank peer, bool expected) override {
    CHECK(expected_[peer] != expected);  // said twice
    expected_[peer] = expected;
  }
  bool receiver_copies() const override { return false; }
  uint32_t ticket(Sleeper) override { return 0; }
  void arm(Sleeper, uint32_t) override {}
  bool is_armed() const override { return false; }
  void disarm() override {}
  void sleep(Sleeper, uint32_t, int64_t) override {}
  void ring_self(Sleeper) override {}

  bool expects(Rank peer) const { return expected_[peer]; }
  // Nothing is on its way from this rank, and nothing arrived that was not taken.
  bool quiet() const {
    if (!completions_.empty() || !local_writes_.empty() || !local_puts_.empty()) return false;
    for (Rank peer = 0; peer < network_.size_; ++peer) {
      if (expected_[peer] || !arrived_[peer].empty()) return false;
    }
    return true;
  }

  std::function<void()>
      before_poll;  // called once: what happens between a look into the mailboxes and one at the completions
  std::vector<Rank> abandoned;
  uint64_t commits = 0;  // messages committed

 private:
  friend class FakeNetwork;
  static Mailbox mailbox(FakeNetwork::Memory& memory) { return {memory.bytes, memory.bytes + kControlBytes}; }

  FakeNetwork& network_;
  Rank rank_;
  std::vector<bool> expected_;
  std::deque<Completion> local_writes_;          // not yet told
  std::deque<Completion> local_puts_;            // not yet told
  std::deque<Completion> completions_;           // told, not yet polled
  std::vector<std::deque<Completion>> arrived_;  // by peer: immediates, not yet polled
};

inline FakeNetwork::FakeNetwork(Rank size, bool asynchronous, uint32_t first_message)
    : presence(size, Presence::open), size_(size), asynchronous_(asynchronous), pairs_(size * size) {
  for (Pair& pair : pairs_) {
    for (auto* memory : {&pair.inbox, &pair.outbox, &pair.sent}) {
      *memory = std::make_unique<Memory>();
      auto& acks = *reinterpret_cast<libof::AckLine*>((*memory)->bytes);
      acks.eager_consumed = acks.eager_matched = acks.rtr_consumed = first_message;
    }
  }
  for (Rank rank = 0; rank < size; ++rank) fabrics_.push_back(std::make_unique<FakeFabric>(*this, rank));
}

inline bool FakeNetwork::deliver_write(Rank from, Rank to) {
  Pair& p = pair(from, to);
  if (p.writes.empty()) return false;
  // Last line first: nobody may rely on ascending addresses.
  const auto& changed = p.writes.front().changed;
  for (auto line = changed.rbegin(); line != changed.rend(); ++line)
    std::memcpy(p.inbox->bytes + line->first, line->second.data(), kLine);
  p.writes.pop_front();
  ++p.delivered;
  return true;
}

inline bool FakeNetwork::deliver_put(Rank from, Rank to) {
  Pair& p = pair(from, to);
  if (p.puts.empty() || p.puts.front().after > p.delivered) return false;
  Arrival& arrival = p.puts.front();
  if (!arrival.data.empty())
    std::memcpy(reinterpret_cast<void*>(static_cast<uintptr_t>(arrival.to.address)), arrival.data.data(),
                arrival.data.size());
  fabrics_[to]->arrived_[from].push_back(arrival.completion);
  p.puts.pop_front();
  return true;
}

inline bool FakeNetwork::complete_write(Rank rank) {
  FakeFabric& fabric = *fabrics_[rank];
  if (fabric.local_writes_.empty()) return false;
  fabric.completions_.push_back(fabric.local_writes_.front());
  fabric.local_writes_.pop_front();
  return true;
}

inline bool FakeNetwork::complete_put(Rank rank) {
  FakeFabric& fabric = *fabrics_[rank];
  if (fabric.local_puts_.empty()) return false;
  fabric.completions_.push_back(fabric.local_puts_.front());
  fabric.local_puts_.pop_front();
  return true;
}

inline bool FakeNetwork::run_once() {
  bool moved = false;
  for (Rank from = 0; from < size_; ++from) {
    moved |= complete_write(from);
    moved |= complete_put(from);
    for (Rank to = 0; to < size_; ++to) {
      moved |= deliver_write(from, to);
      moved |= deliver_put(from, to);
    }
  }
  return moved;
}

inline bool FakeNetwork::step(Random& random) {
  const uint32_t kinds = size_ * size_ * 2 + size_ * 2;
  const uint32_t start = random.below(kinds);
  for (uint32_t i = 0; i < kinds; ++i) {
    const uint32_t kind = (start + i) % kinds;
    const uint32_t which = kind / 2;
    const bool put = kind % 2 == 1;
    if (which < size_) {
      if (put ? complete_put(which) : complete_write(which)) return true;
    } else {
      const uint32_t p = which - size_;
      if (put ? deliver_put(p / size_, p % size_) : deliver_write(p / size_, p % size_)) return true;
    }
  }
  return false;
}

}  // namespace nbc::check
