// LibOF: point-to-point messages over any fabric, after section III of Hoefler and Lumsdaine, "Optimizing non-blocking
// collective operations for InfiniBand". Small messages go eagerly into a mailbox; large ones wait until their receiver
// says where to.
//
// Threads: an object belongs to the owner of the engine; nothing here locks or blocks.
#pragma once
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include "fabric/fabric.h"
#include "libof/mailbox.h"
#include "libof/request.h"

namespace nbc::libof {

struct Options {
  // Bytes; the paper's. Equal on all ranks. A fabric may have another one for some peers.
  uint32_t eager_limit = 255;
  bool test_on_init = true;  // the first test of a request runs when it is started
  // Messages that one peer may have delivered to us without a receive for them, before it must wait for receives.
  uint32_t unexpected_window = 1024;
  // Number of the first message and of the first RTR of every peer. Numbers wrap; tests start close to the end. Equal
  // on all ranks.
  uint32_t first_message = 0;
  // How long a request that was given up may wait for its peer, in milliseconds. What is on its way between the two has
  // time besides, see time_for().
  int64_t revoke_limit = 3000;
  // RTRs that wait for one peer's answers. Others stay with the receiver, unless an RTS says that their send waits. So
  // a peer keeps at most this many RTRs without a send, about 80 bytes each. Equal on all ranks.
  uint32_t rtr_window = 1u << 17;
  // Messages pending at a time, over all peers: as many as an immediate value can tell apart.
  uint32_t most_requests = 1u << 22;

  template <typename Reader>
  void read_options(Reader& from) {
    from("eagerLimit", eager_limit);
    from("testOnInit", test_on_init);
  }
};

// What should not grow in a rank that runs for long.
struct Holdings {
  uint64_t mailbox_slots;  // of this rank's messages that peers are not known to have given back
  uint64_t messages;       // requests, and what has come before its receive or send
};

struct Counters {
  uint64_t eager_sent = 0;
  uint64_t eager_stalled = 0;     // found no free slot at first
  uint64_t eager_unexpected = 0;  // arrived before their receive
  uint64_t acks_piggybacked = 0;
  uint64_t acks_explicit = 0;
  uint64_t rtr_sent = 0;
  uint64_t rtr_stalled = 0;  // found no free RTR slot at first
  uint64_t rtr_early = 0;    // arrived before their send
  uint64_t rts_sent = 0;
  uint64_t data_sent = 0;
  uint64_t connections = 0;
};

// What LibOF asks the engine about the calls of a communicator, and tells it. Called from inside of LibOF, so nothing
// here calls back.
class Calls {
 public:
  virtual ~Calls() = default;
  // A peer has made this call. True: it differs from what is known of the call, or the peer waits there for a rank that
  // has closed the communicator without it; `out` is complete.
  virtual bool differs(const MessageKey& key, Rank peer, const KnownCall& theirs, Mismatch& out) = 0;
  // False: this rank has not made the communicator yet, or has closed it.
  virtual bool knows(uint64_t context) const = 0;
  // Two calls differ, or a rank has revoked the communicator: found here or told by a peer. Once each.
  virtual void mismatch(Mismatch& found, bool told) = 0;
};

// Sees what happens to messages. Called from inside of LibOF, so nothing here calls back.
class Observer {
 public:
  virtual ~Observer() = default;
  // The message comes to this state; the request still has the one before. Of a new one, it is the first. May write
  // the request's `noted`.
  virtual void moved(Request& request, State state) = 0;
  // A message that needed no request: it began in this state, and went through all others at once.
  virtual void at_once(const RequestOwner& owner, const MessageInfo& message, State first) = 0;
  // Where the owner's `noted` is not null, the observer is not told of what is usual: of a send that needs no request,
  // and that a receive waits for an eager message.
};

class LibOF {
 public:
  LibOF(Fabric& fabric, const Options& options);
  ~LibOF();
  LibOF(const LibOF&) = delete;
  LibOF& operator=(const LibOF&) = delete;

  // Start one message. True: it is complete already, nothing was added to the owner. False: the owner's `outstanding`
  // was counted up, and goes down when it completes. Buffers belong to the message until then. Sizes must be equal on
  // both sides.
  bool isend(RequestOwner& owner, Rank peer, const MessageKey& key, const void* buffer, size_t bytes);
  // The owner then has the size of the message in `received`.
  // `combining`: what the message is for, as far as the network can do that. If it has, the owner learns it.
  bool irecv(RequestOwner& owner, Rank peer, const MessageKey& key, void* buffer, size_t bytes,
             Length length = Length::exact, const Combining& combining = {});

  // One pass over everything that can move. True if anything did.
  bool progress(Effort effort);
  // Owners whose last message completed, or whose first message failed, in no particular order.
  RequestOwner* take_ready();
  // The owner has failed, or is not wanted any more: its messages are given up. `outstanding` becomes 0 as soon as
  // nothing of them reads or writes its buffers any more: at once, where the fabric can see to that without the peer.
  // Messages that peers count on still leave, small ones from a copy; large ones are answered with Error::abandoned.
  // Takes effect with give_up_cancelled(), which walks once over all requests. True: some owner became ready.
  void cancel(RequestOwner& owner);
  // In place of isend() and irecv(), for messages of an operation that has failed: the receiver learns of the failure,
  // and what the sender sends is dropped; if it is large, its sender learns of the failure.
  void poison(Rank peer, const MessageKey& key, Poison poison);
  void drop(Rank peer, const MessageKey& key, size_t bytes, Poison poison);
  // This rank is about to close: peers learn from that what becomes of their messages.
  void closing() { closing_ = true; }
  bool is_closing() const { return closing_; }
  bool give_up_cancelled();

  // Who knows the calls; null, as at first: nothing is compared that has no receive or send.
  void set_calls(Calls* calls) { calls_ = calls; }
  // From now on nothing of the collectives of this communicator is matched, and of one that is revoked nothing at all:
  // peers that send something get the notice.
  void end_communicator(Mismatch found, bool told = false);
  // It is closed: what is known of its end is kept for messages that still come, and dropped some time later.
  void close_communicator(uint64_t communicator);
  // What has ended the communicator of this context, for messages in it; null: nothing has.
  const Mismatch* mismatch_of(uint64_t context) const;
  // Some peer is still to be told of a mismatch.
  bool has_notices() const { return notices_pending_ > 0; }
  // Once for each peer.
  void tell(Rank peer, const Mismatch& mismatch);
  // The peer compares its call with this one. False: there is no room, later perhaps.
  bool inquire(Rank peer, uint64_t context, uint32_t tag, const KnownCall& call);
  // The calls of this communicator are known from now on: compares what has come before.
  void compare_kept(uint64_t context);
  // Messages of its collectives that wait for their receives.
  struct Kept {
    Rank peer;
    MessageKey key;
    KnownCall call;
  };
  std::vector<Kept> kept_messages(uint64_t context) const;
  // Looks into all mailboxes, also of peers from which nothing is expected. `alarmed`: also of those that this rank has
  // not named, but which may have raised an alarm. True: something was there.
  bool look_around(bool alarmed);
  // Into that of one peer: what it wrote before something else that is known of it.
  void look_at(Rank peer);
  // The owner is about to go away: forget that it is ready.
  void remove_ready(RequestOwner& owner);
  // Drops peers that have closed: what depends on them completes with an error. To be called before sleeping.
  bool fail_closed_peers();

  // Sends that wait for their RTR tell their receivers so, once each. Nobody needs it who agrees about the size of the
  // message; but a receiver that expects a small one asks for nothing, and both would wait for ever. To be called
  // before sleeping, when it costs nobody time.
  void announce_sends();

  // Messages that were given up have still to meet their peers.
  bool has_orphans() const { return orphans_.outstanding > 0; }
  // Requests that were given up wait for their peers, for a limited time: somebody must look when it is over.
  bool is_revoking() const { return !revoking_.empty(); }
  // Something is waiting that needs an answer from this rank whenever a peer moves: stalled sends, RTRs, rendezvous
  // sends.
  bool needs_driving() const {
    return sends_pending_ + rtrs_pending_ + poisons_pending_ + notices_pending_ + connecting_ > 0 || !revoking_.empty();
  }

  // How many arrivals a sleeper may wait for at most, after it has looked at everything. `puts`: how many a peer can
  // have on its way.
  uint32_t most_arrivals(uint32_t puts) const;

  const Counters& counters() const { return counters_; }
  uint32_t eager_limit() const { return options_.eager_limit; }
  // A peer that something is expected from and that cannot go on while this thread runs, because both have the same
  // processor; kNobody: there is none.
  static constexpr Rank kNobody = UINT32_MAX;
  Rank peer_on_own_processor() const;
  uint32_t active_peers() const { return static_cast<uint32_t>(active_.size()); }
  // For tests: keys that were compared in searches for receives.
  uint64_t comparisons() const;
  // This owner's that are not complete.
  void visit_requests(const RequestOwner& owner, const std::function<void(const Request&)>& visit) const;
  // For tests: no request is alive, and no message is kept.
  bool idle() const;
  Holdings holdings() const;
  // Null, as at first: nobody observes.
  void observe(Observer* observer) { observer_ = observer; }

 private:
  struct Unexpected {
    MessageKey key;
    Unexpected* previous;
    Unexpected* next;
    uint32_t bytes;
    EagerKind kind;
    uint32_t about;  // as in its EagerHeader
    std::byte* payload() { return reinterpret_cast<std::byte*>(this + 1); }
  };
  // What a receiver says in an RTR, copied out of its slot.
  struct Rtr {
    MessageKey key;
    ExposedBuffer buffer;  // kinds refuse and abandon: in place of the address, the poison
    uint64_t bytes;
    uint32_t receive;
    RtrKind kind;
    Signature signature;
    bool asks_for_another_length(uint64_t send) const { return kind == RtrKind::ready && bytes != send; }
  };
  // An RTR that came before its send.
  struct EarlyRtr : Rtr {
    explicit EarlyRtr(const Rtr& rtr) : Rtr(rtr) {}
    EarlyRtr* previous = nullptr;
    EarlyRtr* next = nullptr;
    bool revoked = false;  // the receiver was told so
  };
  struct QueuedPoison {
    MessageKey key;
    Poison poison;
    bool asked;  // an RTR has come for it: its receive is there, so it needs no room in the window
  };
  // A request that was given up, while the fabric cannot say yet that its buffer is left alone.
  struct Revoking {
    Request* request;
    uint32_t generation;
    int64_t limit;  // on the clock in milliseconds; see also Peer::answers_by
  };
  // An RTR, or the cancellation of one, that waits for a slot in the sender's RTR array.
  struct QueuedRtr {
    RtrKind kind;
    MessageKey key;
    Request* receive;  // kinds ready and abandon, until it is written
    Poison poison;     // kinds abandon, withdraw and revoke
  };
  struct Peer;

  Peer& peer_of(Rank rank);
  bool connect(Peer& peer);
  void activate(Peer& peer);
  void deactivate_if_idle(Peer& peer);

  Request* new_request(RequestOwner& owner, Peer& peer, const MessageKey& key, void* buffer, size_t bytes, State state);
  void set_state(Request& request, State state);
  void make_ready(RequestOwner& owner);
  void complete(Request& request, Error error, uint64_t expected = 0, uint64_t got = 0);

  bool may_send_eager(Peer& peer, size_t bytes);
  uint32_t free_body(Peer& peer) const;
  bool has_eager_slot(Peer& peer);
  void write_eager(Peer& peer, EagerKind kind, const MessageKey& key, const void* buffer, size_t bytes, void* cookie,
                   uint32_t about);
  bool send_stalled(Peer& peer);
  void queue_poison(Peer& peer, const QueuedPoison& poison);
  bool write_poison(Peer& peer, const QueuedPoison& poison);
  bool send_poisons(Peer& peer);
  bool answer_by_poison(Peer& peer, const MessageKey& key, RtrKind kind);
  void poison_send(Peer& peer, Request& send, bool quietly = false);
  bool drain_eager(Peer& peer);
  void take_waiting(Peer& peer, Request& send);
  void handle_rts(Peer& peer, Request& receive, Signature theirs);
  void deliver(Peer& peer, Request& receive, EagerKind kind, uint32_t about, const std::byte* payload, size_t bytes);
  void keep(Peer& peer, const MessageKey& key, EagerKind kind, uint32_t about, const std::byte* payload, size_t bytes);
  // A message of the peer has met one of this rank, the owner's. True: its signature is that of another call; or its
  // length is, where all messages of a call have the same. That ends the communicator. Each message comes through here.
  bool is_of_another_call(const Peer& peer, const MessageKey& key, const RequestOwner& owner, Signature theirs,
                          bool another_length) {
    return (owner.signature != theirs || another_length) && ends_by(peer, key, owner, theirs);
  }
  bool ends_by(const Peer& peer, const MessageKey& key, const RequestOwner& owner, Signature theirs);
  bool ends(Peer& peer, const MessageKey& key, const KnownCall& theirs);
  void take_inquiry(Peer& peer, const MessageKey& key, Signature theirs);
  bool read_notice(Peer& peer, const MessageKey& key, Signature other, const std::byte* payload);
  bool send_notices(Peer& peer);
  void write_notice(Peer& peer, const Mismatch& mismatch);
  void drop_messages_of(uint64_t communicator);
  void keep_ended(uint64_t communicator);
  void forget_notices(uint64_t communicator);
  void forget(Peer& peer, Unexpected* message);
  void report(Peer& peer, bool force);
  void read_acks(Peer& peer, uint32_t consumed, uint32_t matched, uint32_t rtrs);
  void read_ack_line(Peer& peer);

  void ask_by_rtr(Peer& peer, Request& receive, bool announced = false);
  void cancel_rtr(Peer& peer, const MessageKey& key);
  void cancel_queued_rtr(Peer& peer, const Request& receive);
  bool write_rtr(Peer& peer, const QueuedRtr& rtr);
  bool send_rtrs(Peer& peer);
  bool drain_rtrs(Peer& peer);
  Rtr read_rtr(const Peer& peer, const RtrSlot& slot) const;
  bool handle_rtr(Peer& peer, const Rtr& rtr);
  bool handle_data_rtr(Peer& peer, const Rtr& rtr);
  bool keep_rtr(Peer& peer, const Rtr& rtr);
  void answer(Peer& peer, Request& send, const Rtr& rtr);
  bool expose(Peer& peer, Request& receive);
  bool is_prepared(Peer& peer, const QueuedRtr& rtr);
  void conceal(Peer& peer, Request& receive);
  void start_data(Peer& peer, Request& send, const Rtr& rtr);
  const RtrSlot* find_withdraw(const Peer& peer, const MessageKey& key) const;
  void withdraw(Peer& peer, EarlyRtr& rtr, uint64_t poison, bool asks);
  void queue_rtr(Peer& peer, const QueuedRtr& rtr, bool urgent);
  bool may_ask(const Peer& peer) const;
  // What a peer is told whose message this rank gives up.
  Error reason() const { return closing_ ? Error::peer_closed : Error::abandoned; }
  void give_up(Request& request);
  void give_up_receive(Peer& peer, Request& receive);
  void adopt(Request& request);
  void revoked(Peer& peer, const MessageKey& key);
  void await_peer(Peer& peer, Request& given_up);
  int64_t time_for(const Peer& peer) const;
  void has_written(Rank peer);
  bool poll_revoking();
  void break_off(Peer& peer, Error error);
  void reject(Peer& peer, const char* why);
  void end(Peer& peer, Error error);
  void refused(Request& send, const ExposedBuffer& told);
  Poison poison_told(uint64_t told) const { return poison_from(told, fabric_.size()); }
  void relieve_backpressure(Peer& peer);
  void on_completion(const Completion& completion);
  void on_write_done(const Completion& completion);
  void on_put_done(const Completion& completion);
  void on_immediate(const Completion& completion);
  void finish_receive(Peer& peer, Request& receive);
  bool poll_peer(Peer& peer);
  void fail(Peer& peer, Error error);

  Fabric& fabric_;
  Options options_;
  std::vector<std::unique_ptr<Peer>> peers_;  // by rank, made when first named
  std::vector<Peer*> active_;                 // peers from which something is expected
  std::deque<Request> pool_;
  Request* free_requests_ = nullptr;
  uint32_t live_requests_ = 0;
  uint32_t sends_pending_ = 0;  // requests in eager_send_init, eager_sending, send_waiting_rtr, send_sending_data
  uint32_t unannounced_ = 0;    // of these, sends in send_waiting_rtr without an RTS
  uint32_t rtrs_pending_ = 0;   // RTRs and cancellations that are not written yet
  uint32_t poisons_pending_ = 0;
  uint32_t notices_pending_ = 0;
  uint32_t connecting_ = 0;  // active peers that are not there yet
  RequestOwner* ready_ = nullptr;
  RequestOwner orphans_;  // of requests that were given up, and still have to end
  bool closing_ = false;
  bool cancels_ = false;  // some owner was cancelled since give_up_cancelled()
  std::vector<Revoking> revoking_;
  Calls* calls_ = nullptr;
  std::unordered_map<uint64_t, Mismatch> mismatches_;  // by communicator
  std::deque<uint64_t> ended_;                         // of these, those that are not open here, the oldest first
  std::vector<Kept> inquiries_;                        // about communicators that this rank does not know yet
  Counters counters_;
  Observer* observer_ = nullptr;
};

}  // namespace nbc::libof
