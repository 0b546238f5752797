// LibOF over an RDMA network: reliable connections. A put is a write into the user's memory with an immediate value
// behind its last piece, so that the receiver learns of it when all of it is there, in whatever order the bytes came.
// What is committed travels in one of two ways, the same on all ranks:
//
//   eager 'write'   as a write into the mailbox, also with an immediate. The card stops where the peer has no receive
//                   for it
//   eager 'send'    as a SEND into receives that all connections of the peer share; the peer copies it into the mailbox
//                   (parcel.h), and nothing leaves without a credit for a receive (credits.h). The immediate of a SEND
//                   returns credits, and what is called immediate below stands in the header of the parcel
//
// Completions of both directions come through one queue.
//
//   immediate   bits 31-30: kind                                  bits 29-0
//               0 put      data of a put is complete              LibOF's immediate
//               1 noted    see the note                           LibOF's immediate
//               2 message  something was written to the mailbox   LibOF's note
//               3 closed   this rank does no more                 how many messages of the peer it has had
//
//   note area (in the mailbox, between control and slots): Note[64], the n-th one in entry n mod 64. A note tells of a
//   put that failed (nothing was written), or that took several writes, so that no completion tells its length
//
// Local completion of what was committed: at once. The outbox belongs to the writer's messages until the peer has
// reported them (fabric.h), and a report means that the card is done with them, so no thread waits for the card.
//
// A peer that has died says nothing. So before a thread sleeps, and now and then while the caller only tests, this rank
// probes every connection from which nothing was heard for a second: it posts an empty write and awaits its completion.
// The connection of a dead peer then breaks within the transport's retries, or at once if the bootstrap knows that its
// process has ended. If the device neither completes nor fails a probe for as long as option peerTimeout says, the
// connection ends without it (Connection::patience; longer behind large puts).
#pragma once
#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "fabric/cards/bootstrap.h"
#include "fabric/verbs/completion_queue.h"
#include "fabric/verbs/connecting.h"
#include "fabric/verbs/connection.h"
#include "fabric/verbs/memory.h"
#include "fabric/verbs/options.h"
#include "fabric/verbs/parking.h"

namespace nbc::verbs {

class VerbsFabric : public FarFabric {
 public:
  // Throws FabricError, naming what is missing.
  // `exposed`: where its exposed memory is to come from; null: from the system.
  VerbsFabric(std::unique_ptr<cards::Bootstrap> bootstrap, const VerbsOptions& options,
              std::shared_ptr<ExposedMemory> exposed = nullptr);
  ~VerbsFabric() override;

  Rank rank() const override { return rank_; }
  Rank size() const override { return size_; }
  Network network_to(Rank) const override { return Network::verbs; }
  Connect connect(Rank peer) override;
  std::string why(Rank peer) const override { return peer == rank_ ? registrations_.why() : links_[peer].why; }
  Mailbox outbox(Rank peer) override;
  Mailbox inbox(Rank peer) override;
  bool has_closed(Rank peer) override;
  const std::shared_ptr<ExposedMemory>& memory() const override { return exposed_memory_; }
  bool prepare(Rank peer, const LocalBuffer& buffer, bool sends) override;
  bool expose(Rank, const LocalBuffer& buffer, ExposedBuffer& out) override;
  void conceal(Rank, const ExposedBuffer& buffer) override;
  // A network card writes without asking: only the peer, or the end of the connection, can stop it.
  bool revoke(Rank peer, const ExposedBuffer&, size_t, Error, uint64_t) override {
    return peer == rank_ || ready(peer) == nullptr;
  }
  void retract(Rank, void*, Error, uint64_t) override {}
  void commit(Rank peer, const void* written, size_t bytes, uint32_t note, void* cookie) override;
  bool asynchronous(Rank) const override { return true; }
  void flush() override;
  bool flushed() const override { return !unflushed_; }
  void put(Rank peer, const ExposedBuffer& to, const LocalBuffer& from, uint32_t immediate, Error error,
           void* cookie) override;
  void abandon(Rank peer) override;
  void reject(Rank peer, const std::string& why) override;
  unsigned poll(Completion* out, unsigned max, Effort effort) override;
  uint64_t work(uint64_t) const override { return arrived_.size(); }
  bool holds_back() const override { return !dirty_.empty(); }
  void expect_immediates(Rank, bool) override {}  // they all come through the one queue
  // Credits for less than half a share are not returned yet.
  uint32_t put_window() const override { return shared_ == nullptr ? depths_.receive : depths_.receive / 2; }
  bool called() const override {
    return parking_.called() || bootstrap_->called() || connecting_.has_results() || registrations_.has_results();
  }
  bool receiver_copies() const override { return false; }
  uint32_t ticket(Sleeper) override { return 0; }  // a ring stays in its descriptor until the next sleep
  void arm(Sleeper who, uint32_t need) override;
  void disarm() override { parking_.disarm(); }
  bool is_armed() const override { return parking_.is_armed(); }
  void sleep(Sleeper who, uint32_t ticket, int64_t nanoseconds) override;
  void ring_self(Sleeper who) override { parking_.ring(who); }
  void announce_closed() override;
  Crowd crowd() const override { return bootstrap_->crowd(); }
  void wake_on(Sleeper who, int descriptor) override { parking_.wake_on(who, descriptor); }
  int sleeping_set(Sleeper who) const override { return parking_.set(who); }
  void visit_counters(const CounterVisitor& visit) const override;

  const Device& device() const { return *device_; }
  uint32_t completions() const { return queue_.room(); }

 private:
  enum Kind : uint32_t { kPut = 0, kNoted = 1, kMessage = 2, kClosed = 3 };
  struct Note {
    uint64_t bytes;
    uint32_t error;
    uint32_t reserved;
  };
  static constexpr uint32_t kValueBits = kImmediateBits;
  static constexpr uint32_t kValueMask = (1u << kValueBits) - 1;
  static constexpr int64_t kProbeMilliseconds = 1000;
  static constexpr uint32_t kNotes = kNoteBytes / sizeof(Note);

  // What is known about a peer.
  struct Link {
    std::unique_ptr<Connection> connection;
    Connect verdict = Connect::later;
    std::string why;
    uint32_t notes_sent = 0;
    uint32_t notes_received = 0;
  };

  // Every connection has its part of the one completion queue, so that it cannot overflow.
  struct Depths {
    uint32_t send;
    uint32_t receive;
    uint32_t connections;  // at most
    uint32_t spare;        // completions that belong to none
    uint32_t completions(uint32_t of) const { return of * (send + receive) + spare; }
  };
  static Depths depths_of(const VerbsOptions& options, const ibv_device_attr& attributes, Rank peers);

  // A put whose buffer is being registered.
  struct Unregistered {
    Rank peer;
    ExposedBuffer to;
    LocalBuffer from;
    Pinned home;  // of `from`: that of the operation may go first
    uint32_t immediate;
    void* cookie;
  };

  void start_registered();
  void drop_unregistered(Rank peer, Error error);
  Connect advance(Rank peer, bool wanted);
  bool is_refused(Link& link, Rank peer);
  bool fits(std::string_view card, Link& link, Card& theirs) const;
  void take_connected();
  void answer_calls();
  void device_events();
  Connection* ready(Rank peer);
  void touch(Connection& connection);
  void queue_work(Connection& connection, const Work& work);
  void queue_note(Connection& connection, uint32_t immediate, Error error, uint64_t bytes);
  unsigned collect();
  void replace_receives(const ibv_wc* batch, int count);
  Link* link_of(const ibv_wc& wc);
  void completed(Link& link, const ibv_wc& wc);
  const char* took_shared(Link& link, const ibv_wc& wc);
  const char* unpack(Link& link, const ibv_wc& wc);
  void received(Link& link, uint32_t immediate, uint32_t bytes);
  void sent(Connection& connection, const ibv_wc& wc);
  void finish(const Put& put, Rank peer, Error error);
  void break_off(Link& link, Error error, const std::string& why);
  void probe();
  void send_probe(Connection& connection);
  void give_up_if_lost(Link& link);

  std::unique_ptr<cards::Bootstrap> bootstrap_;
  VerbsOptions options_;
  Rank rank_;
  Rank size_;
  std::shared_ptr<Device> device_;
  std::shared_ptr<Memory> memory_;
  std::shared_ptr<ExposedMemory> exposed_memory_;  // the same
  Registrations registrations_;
  const Depths depths_;
  Mailboxes mailboxes_;
  Connecting connecting_;
  Parking parking_;
  uint32_t connections_ = 0;
  CompletionQueue queue_;
  VerbsCounters counters_;
  std::unique_ptr<SharedReceives> shared_;     // eager 'send'
  std::vector<Link> links_;                    // by rank
  std::unordered_map<uint32_t, Rank> owners_;  // of queue pairs, by number
  std::vector<Connection*> dirty_;             // with something to post
  std::deque<Unregistered> unregistered_;
  bool unflushed_ = false;  // something was queued since flush()
  struct alignas(64) Box {
    std::byte bytes[kBoxBytes];
  };
  std::unique_ptr<Box> self_;  // this rank's mailbox to itself
  Ring<Completion> arrived_;
  uint64_t awaited_ = 0;  // puts and probes on their way: their completion must wake the thread that sleeps
  int64_t probed_ = 0;    // when, in milliseconds
  uint32_t looks_ = 0;
  bool closed_ = false;
};

}  // namespace nbc::verbs
