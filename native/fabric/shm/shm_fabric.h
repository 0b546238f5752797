// The shared-memory fabric: ranks are processes (or, in tests, threads) on one machine.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "fabric/fabric.h"
#include "fabric/shm/arena.h"
#include "fabric/shm/bulk.h"
#include "fabric/shm/doorbell.h"
#include "job/rank_socket.h"
#include "job/presence.h"
#include "job/segment.h"

namespace nbc::shm {

using job::RankLine;
using job::Route;

// With so many ranks on a host, payloads of more than 216 bytes lie apart from their headers (libof/mailbox.h): that
// takes a quarter of the memory for each pair of them, and 5 to 15 % of the time of a message of 1 to 4 KiB.
constexpr Rank kCompactFrom = 33;

struct ShmOptions {
  Rank rank = 0;
  uint32_t eager_limit = 0;  // published, so that peers can refuse a rank with another one
  bool cross_memory = true;  // may be tried; whether it works is found out for each peer
  bool by_host = false;      // only ranks of the same host are reached (presence.h)
  std::string host = {};
  size_t exposed_bytes = 0;          // what the rank exposes at most; 0: all of its arena
  Rank compact_from = kCompactFrom;  // equal on all ranks of the host
  FindKernel find_kernel = nullptr;  // null: only receivers combine

  template <typename Reader>
  void read_options(Reader& from) {
    from.choice("crossMemory", cross_memory, {{"auto", true}, {"off", false}});
    from("exposedBytes", exposed_bytes);
  }
};

struct ShmCounters {
  uint64_t doorbells = 0;  // sleeping peers woken
  uint64_t parks = 0;      // times this rank slept
};

class ShmFabric final : public Fabric {
 public:
  // What is left to do when it has been made: nothing, or open().
  enum class Opening { now, later };
  // Publishes the rank. Throws FabricError, for example if the rank is taken.
  ShmFabric(std::shared_ptr<Segment> segment, const ShmOptions& options, Opening opening = Opening::now);
  ~ShmFabric() override;  // marks the rank closed and wakes everybody who waits for it

  Rank rank() const override { return options_.rank; }
  Rank size() const override { return segment_->size(); }
  Network network_to(Rank) const override { return Network::shm; }
  Connect connect(Rank peer) override;
  std::string why(Rank peer) const override;
  std::string why_not_moved(Rank peer) const override { return bulk_.why_not_moved(peer); }
  Mailbox outbox(Rank peer) override { return mailbox(peer, rank()); }
  Mailbox inbox(Rank peer) override { return mailbox(rank(), peer); }
  bool has_closed(Rank peer) override;
  bool is_given_up() const override { return job::is_lost(*segment_, options_.rank); }
  Error end_of(Rank peer) const override {
    if (is_given_up()) return Error::counted_lost;
    return rejected_.count(peer) > 0 ? Error::unreachable : Error::peer_closed;
  }
  const std::shared_ptr<ExposedMemory>& memory() const override { return memory_; }
  bool expose(Rank peer, const LocalBuffer& buffer, ExposedBuffer& out) override;
  bool expose_combining(Rank peer, const LocalBuffer& buffer, const Combining& how, ExposedBuffer& out) override;
  void conceal(Rank peer, const ExposedBuffer& buffer) override { bulk_.conceal(peer, buffer); }
  bool revoke(Rank peer, const ExposedBuffer& buffer, size_t bytes, Error why, uint64_t told) override;
  void retract(Rank peer, void* cookie, Error error, uint64_t told) override;
  // The outbox is the peer's inbox: what was written is there, and only has to be counted for the doorbell.
  void commit(Rank peer, const void*, size_t, uint32_t, void*) override { count(peer); }
  bool asynchronous(Rank) const override { return false; }
  void flush() override;
  bool flushed() const override { return dirty_.empty(); }
  void put(Rank peer, const ExposedBuffer& to, const LocalBuffer& from, uint32_t immediate, Error error,
           void* cookie) override;
  void abandon(Rank peer) override;
  void reject(Rank peer, const std::string& why) override { rejected_[peer] = why; }
  unsigned poll(Completion* out, unsigned max, Effort effort) override;
  uint64_t work(uint64_t enough) const override { return bulk_.work(enough); }
  void expect_immediates(Rank peer, bool expected) override { bulk_.expect(peer, expected); }
  uint32_t put_window() const override { return kBulkSlots; }
  bool called() const override { return false; }
  void alarm(Rank peer) override;
  bool alarmed() override;
  bool may_alarm(Rank peer) const override { return route_to(peer) == Route::shared_memory; }
  bool holds_back() const override { return false; }
  bool is_read() const override { return bulk_.is_read(); }
  bool receiver_copies() const override { return bulk_.receiver_copies(); }
  uint32_t ticket(Sleeper who) override { return doorbell_ticket(bell(), who); }
  void arm(Sleeper who, uint32_t need) override { doorbell_arm(bell(), {who, false}, need); }
  void disarm() override { doorbell_disarm(bell()); }
  bool is_armed() const override { return doorbell_is_armed(segment_->line(options_.rank).bell); }
  void sleep(Sleeper who, uint32_t ticket, int64_t nanoseconds) override;
  void ring_self(Sleeper who) override { doorbell_wake(bell(), who); }
  int open_loop() override;
  bool arm_progress_too() override { return doorbell_add_progress(bell()); }
  void note_processor() override;
  bool shares_processor(Rank peer) const override;

  bool keep(std::vector<std::shared_ptr<void>>& keepers) override { return segment_->keep(keepers); }
  void announce_closed() override;
  Crowd crowd() const override;
  void visit_counters(const CounterVisitor& visit) const override;

  // For a rank that is also on a network. open(): it is ready, and that network, too; or it is not, and the text says
  // why.
  void open(bool far, const std::string& why_not_far);
  Route route_to(Rank peer) const;  // unknown until the peer has opened
  // connect(), where route_to() has said this.
  Connect connect(Rank peer, Route route);
  // Sleeping on a descriptor instead of the doorbell's futex. open_sockets() throws FabricError.
  void open_sockets();
  int descriptor(Sleeper who) const { return socket_of(who).descriptor(); }
  void arm_on_socket(Sleeper who, uint32_t need) { doorbell_arm(bell(), {who, true}, need); }
  void drain_socket(Sleeper who) {
    socket_of(who).drain();
  }  // by `who`, or by the owner of the engine once it has taken over

  const std::shared_ptr<Arena>& arena() const { return arena_; }
  const BulkCounters& bulk_counters() const { return bulk_.counters(); }
  const ShmCounters& counters() const { return counters_; }

 private:
  DoorbellLine& bell() { return segment_->line(options_.rank).bell; }
  void count(Rank peer);
  // Either of the two ranks has been given up.
  bool is_lost(Rank peer) const;
  job::RankSocket& socket_of(Sleeper who) { return sockets_[who == Sleeper::progress ? 1 : 0]; }
  const job::RankSocket& socket_of(Sleeper who) const { return sockets_[who == Sleeper::progress ? 1 : 0]; }
  Mailbox mailbox(Rank owner, Rank writer) const {
    std::byte* pair = segment_->pair(owner, writer);
    return {pair, pair + kControlBytes + kBulkBytes, segment_->members().size() >= options_.compact_from};
  }

  std::shared_ptr<Segment> segment_;
  ShmOptions options_;
  std::shared_ptr<Arena> arena_;
  std::shared_ptr<ExposedMemory> memory_;  // the same
  Bulk bulk_;
  std::unique_ptr<uint64_t> probe_;    // what peers read to find out whether they may
  std::vector<uint32_t> uncommitted_;  // by peer: messages since the last flush
  std::vector<Rank> dirty_;            // peers with uncommitted_ > 0
  std::string why_not_far_;
  std::map<Rank, std::string> rejected_;  // why, by peer
  job::RankSocket sockets_[2];
  job::RankPipe loop_pipe_;
  uint32_t processor_ = 0;  // what this rank's line says
  uint32_t alarms_ = 0;     // of them, those that alarmed() has told of
  job::RankCaller caller_;
  ShmCounters counters_;
};

}  // namespace nbc::shm
