// LibOF over TCP: one connection for each pair of ranks that talk, made when they first do. An RDMA write is a framed
// message that lands in the memory that it names (frame.h), as soon as a thread of the receiver reads its socket; so a
// receiver takes part in all of it, and its progress thread has to run (receiver_copies()).
//
// Local completion of what was committed is at once: the outbox belongs to the writer's messages until the peer has
// reported them.
//
// A peer that closes says so behind everything else. The system closes the socket of a process that ends. Keep-alives
// find out that a machine is gone, and look_for_silence() does so while it owes acknowledgements. The machine of a
// process that is stopped answers all the same. So ranks that have a progress thread send beats, and one that has begun
// to and falls silent is given up: beat().
//
// Threads: see fabric.h.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "fabric/fabric.h"
#include "fabric/tcp/connection.h"
#include "fabric/tcp/connector.h"
#include "fabric/tcp/handshake.h"
#include "fabric/plain_memory.h"
#include "fabric/tcp/parking.h"
#include "fabric/regions.h"
#include "fabric/ring.h"
#include "job/patience.h"

namespace nbc::tcp {

// What a rank has to know of its job.
struct JobDescription {
  Rank rank = 0;
  std::vector<Address> addresses;  // of all ranks
  std::vector<uint32_t> hosts;     // of all ranks: equal numbers, equal machines
  uint32_t processors = 1;         // for all ranks of this machine
  std::string key;                 // that connections prove that they know (handshake.h)
  Socket listener;                 // of this rank, at its address
};

// The ranks of this machine, and its processors.
Crowd crowd_of(const JobDescription& job);

struct TcpOptions {
  uint32_t eager_limit = 255;                       // bytes, as in libof::Options
  int64_t connect_milliseconds = 30'000;            // that a peer is given to answer when this rank connects to it
  int64_t handshake_milliseconds = 10'000;          // until a connection that did not prove itself is closed
  int64_t grace_milliseconds = 100;                 // until its place may be given to another connection
  size_t pending = 256;                             // places for such connections, beside two for each rank
  int silence_milliseconds = kSilenceMilliseconds;  // of a peer's machine that owes an acknowledgement
  int64_t peer_timeout = 0;                         // milliseconds without a beat; 0: nobody looks
  bool beats = false;                               // somebody polls, whatever the calling thread does
};

class TcpFabric final : public FarFabric, private ConnectionOwner {
 public:
  // `exposed`: where its exposed memory is to come from; null: from the system. Throws FabricError.
  TcpFabric(JobDescription job, const TcpOptions& options, std::shared_ptr<ExposedMemory> exposed = nullptr);
  ~TcpFabric() override;

  Rank rank() const override { return identity_.rank; }
  Rank size() const override { return identity_.size; }
  Network network_to(Rank) const override { return Network::tcp; }
  Connect connect(Rank peer) override;
  std::string why(Rank peer) const override;
  uint32_t eager_limit(Rank, uint32_t) const override { return options_.eager_limit; }
  Mailbox outbox(Rank peer) override;
  Mailbox inbox(Rank peer) override;
  bool has_closed(Rank peer) override;
  bool is_given_up() const override { return given_up_; }
  const std::shared_ptr<ExposedMemory>& memory() const override { return memory_; }
  bool expose(Rank peer, const LocalBuffer& buffer, ExposedBuffer& out) override;
  void conceal(Rank peer, const ExposedBuffer& buffer) override;
  bool revoke(Rank, const ExposedBuffer& buffer, size_t, Error, uint64_t) override {
    regions_.revoke(buffer.key);
    return true;
  }
  void retract(Rank peer, void* cookie, Error error, uint64_t told) override;
  void commit(Rank peer, const void* written, size_t bytes, uint32_t note, void* cookie) override;
  bool asynchronous(Rank) const override { return true; }
  void flush() override;
  bool flushed() const override;
  void put(Rank peer, const ExposedBuffer& to, const LocalBuffer& from, uint32_t immediate, Error error,
           void* cookie) override;
  void abandon(Rank peer) override;
  void reject(Rank peer, const std::string& why) override;
  unsigned poll(Completion* out, unsigned max, Effort effort) override;
  uint64_t work(uint64_t enough) const override;
  // The kernel copies, cuts into packets and, on loopback, delivers: 64 KiB inside a start are 25 µs of it.
  uint64_t short_work() const override { return 16 * 1024; }
  bool holds_back() const override;
  void expect_immediates(Rank, bool) override {}  // they all come through the sockets
  uint32_t put_window() const override { return UINT32_MAX; }
  bool called() const override { return parking_.called(); }
  bool receiver_copies() const override { return true; }
  uint32_t ticket(Sleeper) override { return 0; }  // a ring stays in its descriptor until the next sleep
  void arm(Sleeper who, uint32_t) override { parking_.arm(who); }
  void disarm() override { parking_.disarm(); }
  bool is_armed() const override { return parking_.is_armed(); }
  void sleep(Sleeper who, uint32_t ticket, int64_t nanoseconds) override;
  void ring_self(Sleeper who) override { parking_.ring(who); }
  bool ring_self_later(Sleeper who, int64_t nanoseconds) override {
    parking_.ring_later(who, nanoseconds);
    return true;
  }
  void wake_on(Sleeper who, int descriptor) override { parking_.wake_on(who, descriptor); }
  int sleeping_set(Sleeper who) const override { return parking_.set(who); }
  void announce_closed() override;
  Crowd crowd() const override { return crowd_; }
  void visit_counters(const CounterVisitor& visit) const override;

 private:
  void take(Rank peer, Socket socket) override;
  void answered(Rank peer) override;
  void set_timer() override;
  void on_timer();
  void look_for_silence();
  void beat();
  void begin_to_beat(Connection& connection);

  Connection* open(Rank peer) const;
  void break_off(Connection& connection, Error error, const std::string& why);
  void lost(Connection& connection);
  void finish_puts(Connection& connection, Error error);

  void list(Connection& connection);
  void unlist(Connection& connection);
  void watch(Connection& connection);
  void send(Connection& connection, size_t budget);
  void receive(Connection& connection, size_t budget);
  void look(Effort effort);
  void move_listed(size_t budget);
  void put_to_self(const ExposedBuffer& to, const LocalBuffer& from, uint32_t immediate, Error error, void* cookie);

  Identity identity_;
  TcpOptions options_;
  Crowd crowd_;
  std::shared_ptr<ExposedMemory> memory_;
  Socket timer_;  // fires when the first of what is limited in time has had its time
  Regions regions_;
  Parking parking_;
  Counters counters_;
  Connector connector_;
  std::vector<std::unique_ptr<Connection>> connections_;  // by rank; null: none was made. One that broke stays
  std::vector<Connection*> listed_;                       // with something to send, or to receive that a budget cut off
  int64_t silence_check_ = 0;  // milliseconds: when to look for silent peers; 0: none owes an acknowledgement
  const job::Patience patience_;
  int64_t next_beat_ = 0;      // milliseconds; 0: there is no connection, or nobody looks
  uint64_t parks_ = 0;         // times the calling thread slept
  std::unique_ptr<Box> self_;  // this rank's mailbox to itself
  Ring<Completion> arrived_;
  bool closed_ = false;
  bool given_up_ = false;  // a peer has said so
};

}  // namespace nbc::tcp
