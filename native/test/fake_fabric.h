// A network in which nothing moves unless the test says so. One FakeNetwork connects the FakeFabrics of all its ranks,
// in one thread.
//
// Not asynchronous: outbox and inbox are the same memory, and puts arrive at once; like shared memory. Asynchronous:
// like an RDMA network. What is built in the outbox stays there; commit() sends the bytes that it names, and they must
// be the ones that were written: every changed byte is among them, and every cache line among them was written to. Four
// kinds of event are then held back until the test lets them happen, each in order: a write arrives and is announced
// (per pair), a write is locally complete (per rank), a put arrives with its immediate (per pair, and after the writes
// that were committed before it), a put is locally complete (per rank). The stamp of the next write is there before its
// turn: nobody may rely on it.
#pragma once
#include <algorithm>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "libof/mailbox.h"
#include "test/check.h"
#include "test/random.h"
#include "test/sleepless_fabric.h"

namespace nbc::check {

class FakeFabric;

class FakeNetwork {
 public:
  // first_message: as in libof::Options; the mailboxes start as if that many messages had been consumed. host_size: as
  // many ranks in a row reach each other as by shared memory, and others asynchronously; 0: there are no hosts.
  FakeNetwork(Rank size, bool asynchronous, uint32_t first_message = 0, Rank host_size = 0);
  FakeFabric& rank(Rank rank) { return *fabrics_[rank]; }
  // For an engine, which owns its fabric, and must end before the network.
  std::unique_ptr<FakeFabric> take(Rank rank) { return std::move(owned_[rank]); }

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

  struct Write {
    size_t at;
    std::vector<std::byte> bytes;
    uint32_t note;
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
    std::deque<Write> writes;
    uint64_t delivered = 0;
    std::deque<Arrival> puts;
  };

  bool run_once();
  bool asynchronous(Rank from, Rank to) const {
    return asynchronous_ && (host_size_ == 0 || from / host_size_ != to / host_size_);
  }
  Pair& pair(Rank from, Rank to) { return pairs_[from * size_ + to]; }
  static void show_stamp_of_next(Pair& pair);

  Rank size_;
  bool asynchronous_;
  Rank host_size_;
  std::vector<Pair> pairs_;
  std::vector<std::unique_ptr<FakeFabric>> owned_;
  std::vector<FakeFabric*> fabrics_;
};

class FakeFabric final : public SleeplessFabric {
 public:
  FakeFabric(FakeNetwork& network, Rank rank)
      : network_(network), rank_(rank), expected_(network.size_, false), arrived_(network.size_) {}

  Rank rank() const override { return rank_; }
  Rank size() const override { return network_.size_; }
  Connect connect(Rank peer) override {
    if (network_.refuse) return Connect::refused;
    return network_.presence[peer] == FakeNetwork::Presence::absent ? Connect::later : Connect::ready;
  }
  std::string why(Rank) const override { return "the test says so"; }
  Mailbox outbox(Rank peer) override {
    FakeNetwork::Pair& pair = network_.pair(rank_, peer);
    return mailbox(asynchronous(peer) ? *pair.outbox : *pair.inbox);
  }
  Mailbox inbox(Rank peer) override { return mailbox(*network_.pair(peer, rank_).inbox); }
  bool has_closed(Rank peer) override {
    if (before_has_closed) std::exchange(before_has_closed, nullptr)();
    return network_.presence[peer] == FakeNetwork::Presence::closed;
  }
  const std::shared_ptr<ExposedMemory>& memory() const override { return memory_; }
  bool prepare(Rank, const LocalBuffer& buffer, bool sends) override { return sends || buffer.bytes < prepares_from; }
  bool expose(Rank peer, const LocalBuffer& buffer, ExposedBuffer& out) override {
    CHECK(buffer.bytes < prepares_from);
    if (refuse_to_expose) return false;
    out = {reinterpret_cast<uintptr_t>(buffer.data), ++exposures_, nullptr};
    if (asynchronous(peer)) open_.push_back(out.key);
    return true;
  }
  void conceal(Rank peer, const ExposedBuffer& buffer) override {
    if (asynchronous(peer)) CHECK_EQ(std::erase(open_, buffer.key), 1u);  // once, and only what was exposed
  }
  bool revoke(Rank, const ExposedBuffer& buffer, size_t, Error, uint64_t) override {
    if (!revokes) return false;
    revoked_.push_back(buffer.key);
    return true;
  }
  void retract(Rank, void*, Error, uint64_t) override { ++retractions; }

  void commit(Rank peer, const void* written, size_t bytes, uint32_t note, void* cookie) override {
    ++commits;
    unflushed_ = true;
    CHECK(note < 1u << kImmediateBits);
    FakeNetwork::Pair& pair = network_.pair(rank_, peer);
    FakeNetwork::Memory& outbox = asynchronous(peer) ? *pair.outbox : *pair.inbox;
    const auto at = static_cast<size_t>(static_cast<const std::byte*>(written) - outbox.bytes);
    CHECK(bytes > 0 && at + bytes <= FakeNetwork::kBytes);
    CHECK(at >= kControlBytes || at + bytes <= kControlBytes);  // in one of the two parts
    if (!asynchronous(peer)) return;
    for (size_t i = 0; i < FakeNetwork::kBytes; ++i) {
      if (i < at || i >= at + bytes) CHECK(outbox.bytes[i] == pair.sent->bytes[i]);  // changed, and not named
    }
    for (size_t line = at / FakeNetwork::kLine * FakeNetwork::kLine; line < at + bytes; line += FakeNetwork::kLine) {
      const size_t from = std::max(line, at);
      const size_t length = std::min(line + FakeNetwork::kLine, at + bytes) - from;
      // Named, and not written. Two or three bytes may be the pattern by chance.
      CHECK(length < 4 || std::memcmp(outbox.bytes + from, pair.sent->bytes + from, length) != 0);
    }
    pair.writes.push_back({at, {outbox.bytes + at, outbox.bytes + at + bytes}, note});
    // What the outbox holds from now on is nobody's business but the writer's; another pattern shows what it writes
    // next. The AckLine is written in parts that are each as good as the last.
    if (note != libof::kNoteAck) {
      for (size_t i = at; i < at + bytes; ++i) outbox.bytes[i] = static_cast<std::byte>(pattern_.below(256));
    }
    std::memcpy(pair.sent->bytes + at, outbox.bytes + at, bytes);
    if (pair.writes.size() == 1) FakeNetwork::show_stamp_of_next(pair);
    if (cookie != nullptr) local_writes_.push_back({Completion::Kind::write_done, Error::none, peer, 0, 0, cookie});
  }
  bool asynchronous(Rank peer) const override { return network_.asynchronous(rank_, peer); }
  void flush() override { unflushed_ = false; }
  bool flushed() const override { return !unflushed_; }

  void put(Rank peer, const ExposedBuffer& to, const LocalBuffer& from, uint32_t immediate, Error error,
           void* cookie) override {
    CHECK(immediate < 1u << kImmediateBits);
    if (refuse_to_read && error == Error::none) error = Error::memory;
    const FakeNetwork::Pair& pair = network_.pair(rank_, peer);
    FakeNetwork::Arrival arrival{to,
                                 {},
                                 {Completion::Kind::immediate, error, rank_, immediate, from.bytes, nullptr},
                                 pair.delivered + pair.writes.size()};
    if (from.bytes > 0 && error == Error::none) arrival.data.assign(from.data, from.data + from.bytes);
    network_.pair(rank_, peer).puts.push_back(std::move(arrival));
    const Error unread = error == Error::memory ? error : Error::none;
    const Completion done{Completion::Kind::put_done, unread, peer, 0, 0, cookie};
    if (asynchronous(peer)) {
      local_puts_.push_back(done);
    } else {
      network_.deliver_put(rank_, peer);
      completions_.push_back(done);
    }
  }
  void abandon(Rank peer) override { abandoned.push_back(peer); }
  void reject(Rank peer, const std::string&) override { break_off(peer, Error::unreachable); }
  unsigned poll(Completion* out, unsigned max, Effort /*effort*/) override {
    if (before_poll) std::exchange(before_poll, nullptr)();
    unsigned count = move_to(out, 0, max, completions_);
    // Immediates are looked for only where they are expected.
    for (Rank peer = 0; peer < network_.size_; ++peer) {
      if (expected_[peer]) count = move_to(out, count, max, arrived_[peer]);
    }
    return count;
  }
  uint64_t work(uint64_t) const override {
    uint64_t work = completions_.size();
    for (Rank peer = 0; peer < network_.size_; ++peer) work += expected_[peer] ? arrived_[peer].size() : 0;
    return work;
  }
  void expect_immediates(Rank peer, bool expected) override {
    CHECK(expected_[peer] != expected);  // said twice
    expected_[peer] = expected;
  }
  void sleep(Sleeper who, uint32_t, int64_t) override {
    if (who == Sleeper::caller) CHECK(flushed());  // it sleeps as the owner; a peer may sleep, too
  }
  Crowd crowd() const override { return {network_.size_, network_.size_, true}; }

  bool expects(Rank peer) const { return expected_[peer]; }
  // Buffers that peers reached asynchronously may write to.
  size_t exposed() const { return open_.size(); }
  // Nothing is on its way from this rank, and nothing arrived that was not taken.
  bool quiet() const {
    if (!completions_.empty() || !local_writes_.empty() || !local_puts_.empty() || !open_.empty()) return false;
    for (Rank peer = 0; peer < network_.size_; ++peer) {
      if (expected_[peer] || !arrived_[peer].empty()) return false;
    }
    return true;
  }

  std::function<void()>
      before_poll;  // called once: what happens between a look into the mailboxes and one at the completions
  std::function<void()> before_has_closed;  // called once
  std::vector<Rank> abandoned;
  uint64_t commits = 0;
  size_t prepares_from = SIZE_MAX;  // buffers so large are not prepared yet
  bool refuse_to_expose = false;
  bool refuse_to_read = false;  // what is to be put
  bool revokes = true;          // at once; otherwise not until this is true
  uint32_t retractions = 0;
  // The connection ends: what is on its way from this rank to the peer is lost, and the peer's writes do not arrive any
  // more.
  void break_off(Rank peer, Error error);

 private:
  friend class FakeNetwork;
  static Mailbox mailbox(FakeNetwork::Memory& memory) { return {memory.bytes, memory.bytes + kControlBytes}; }

  FakeNetwork& network_;
  Rank rank_;
  std::vector<bool> expected_;
  std::shared_ptr<ExposedMemory> memory_;  // none: nothing here allocates
  std::vector<uint32_t> open_;             // keys of what is exposed
  std::vector<uint32_t> revoked_;          // keys
  uint32_t exposures_ = 0;
  bool unflushed_ = false;
  Random pattern_{1};
  std::deque<Completion> local_writes_;          // not yet told
  std::deque<Completion> local_puts_;            // not yet told
  std::deque<Completion> completions_;           // told, not yet polled
  std::vector<std::deque<Completion>> arrived_;  // by peer: immediates, not yet polled
};

inline FakeNetwork::FakeNetwork(Rank size, bool asynchronous, uint32_t first_message, Rank host_size)
    : presence(size, Presence::open),
      size_(size),
      asynchronous_(asynchronous),
      host_size_(host_size),
      pairs_(size * size) {
  for (Pair& pair : pairs_) {
    for (auto* memory : {&pair.inbox, &pair.outbox, &pair.sent}) {
      *memory = std::make_unique<Memory>();
      auto& acks = *reinterpret_cast<libof::AckLine*>((*memory)->bytes);
      acks.eager_consumed = acks.eager_matched = acks.rtr_consumed = first_message;
    }
  }
  for (Rank rank = 0; rank < size; ++rank) {
    owned_.push_back(std::make_unique<FakeFabric>(*this, rank));
    fabrics_.push_back(owned_.back().get());
  }
}

inline bool FakeNetwork::deliver_write(Rank from, Rank to) {
  Pair& p = pair(from, to);
  if (p.writes.empty()) return false;
  const Write& write = p.writes.front();
  std::memcpy(p.inbox->bytes + write.at, write.bytes.data(), write.bytes.size());
  fabrics_[to]->completions_.push_back({Completion::Kind::message, Error::none, from, write.note, 0, nullptr});
  p.writes.pop_front();
  ++p.delivered;
  show_stamp_of_next(p);
  return true;
}

inline void FakeNetwork::show_stamp_of_next(Pair& pair) {
  if (pair.writes.empty() || pair.writes.front().note == libof::kNoteAck) return;
  const Write& write = pair.writes.front();
  std::memcpy(pair.inbox->bytes + write.at, write.bytes.data(), sizeof(uint32_t));
}

inline void FakeFabric::break_off(Rank peer, Error error) {
  network_.pair(rank_, peer).writes.clear();
  network_.pair(rank_, peer).puts.clear();
  network_.pair(peer, rank_).writes.clear();
  network_.pair(peer, rank_).puts.clear();
  for (auto* list : {&local_writes_, &local_puts_}) {
    for (Completion& completion : *list) {
      if (completion.peer == peer) completion.error = error;
      completions_.push_back(completion);
    }
    list->clear();
  }
  completions_.push_back({Completion::Kind::broken, error, peer, 0, 0, nullptr});
}

inline bool FakeNetwork::deliver_put(Rank from, Rank to) {
  Pair& p = pair(from, to);
  if (p.puts.empty() || p.puts.front().after > p.delivered) return false;
  Arrival& arrival = p.puts.front();
  const std::vector<uint32_t>& revoked = fabrics_[to]->revoked_;
  if (!arrival.data.empty() && std::find(revoked.begin(), revoked.end(), arrival.to.key) == revoked.end())
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
