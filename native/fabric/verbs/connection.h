// One reliable connection: a queue pair, what waits to be posted to it, and what was posted and has not completed.
//
//   queue     work in the order in which it is to happen; posted as chains by post()
//   depth     of the send queue. posted − completed never exceeds it. Of any depth / 4 requests in a row one is
//             signalled, and every one that this rank waits for; a completion stands for all before it. So room always
//             comes back.
//   receives  eager 'write': empty ones of its own, taken by immediates; refilled in chains by refill(). Where there is
//             none the card waits. eager 'send': those that all connections share (receives.h). Where there is none for
//             us, work waits in `queue`: `credits`.
//
// Threads: the owner of the engine.
#pragma once
#include <cstdint>
#include <memory>

#include "fabric/verbs/card.h"
#include "fabric/verbs/connecting.h"
#include "fabric/verbs/counters.h"
#include "fabric/verbs/credits.h"
#include "fabric/verbs/mailboxes.h"
#include "fabric/verbs/receives.h"
#include "fabric/verbs/registrations.h"
#include "fabric/ring.h"

namespace nbc::verbs {

enum class Verb : uint8_t {
  write,
  announced_write,  // with an immediate value, which takes a receive of the peer
  send,             // a parcel (parcel.h) for the peer's mailbox, which takes a receive, too
  payment,          // a SEND of nothing that returns credits, and takes a receive
};

// One work request.
struct Work {
  const std::byte* from = nullptr;
  uint64_t to = 0;
  uint32_t bytes = 0;
  uint32_t local_key = 0;
  uint32_t remote_key = 0;
  uint32_t immediate = 0;
  Verb verb = Verb::write;
  bool signalled = false;
  bool ends_put = false;  // the next of Connection::puts is complete with it
};

struct Put {
  void* cookie = nullptr;
  Registration* registration = nullptr;  // nullptr: exposed memory
  uint64_t bytes = 0;                    // that it writes
  uint32_t last = 0;                     // number of its last write; counts when `posted`
  uint32_t message = 0;                  // which of those that take a receive it is, from 1 on; as `last`
  bool posted = false;
};

// What the connections of a rank have in common.
struct Equipment {
  std::shared_ptr<Device> device;
  Mailboxes& mailboxes;
  ibv_cq* completions;
  SharedReceives* shared;  // nullptr: eager 'write'
  uint32_t send_depth;
  uint32_t receive_depth;  // of a queue of its own, or its share
  uint32_t most_inline;
  VerbsCounters& counters;
};

class Connection {
 public:
  enum class State { offered, connecting, connected, ready, broken };

  // Takes a place for the mailboxes and makes a queue pair that can receive. Throws FabricError.
  Connection(Rank peer, const Equipment& equipment);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  Card card(uint32_t eager_limit) const;
  // Where this rank's port was attached when the card was made.
  const Port& port() const { return attachment_.port; }
  // The peer's card is known: what is to be done to connect both directions.
  Steps begin(const Card& theirs, const Way& way, const VerbsOptions& options);
  // What lies in our outbox, on its way into the peer's inbox.
  Work mail(const std::byte* from, size_t bytes, uint32_t immediate) const;
  // Posts what there is room and credit for, and a payment if one is due. False: the device refused (errno).
  bool post();
  // Something is left to post.
  bool has_more() const { return !queue.empty() || payment_due(); }
  bool payment_due() const { return sends_ && state != State::broken && !peer_closed && credits.payment_due(); }
  // Eager 'write': replaces receives that were used, if it is worth a call, or `all`. False: the device refused.
  bool refill(bool all);
  bool owns(const ibv_qp* pair) const { return pair == qp_; }
  uint32_t number() const { return qp_->qp_num; }
  // A request has completed, and all before it.
  void complete(uint32_t number) { completed = number + 1; }
  // The next put whose last write has completed. False: there is none.
  bool take_done(Put& put);
  // The next put among the first `messages` that took a receive; of their number there are kImmediateBits. False: none.
  bool take_delivered(uint32_t messages, Put& put);
  // A message of the peer is here. It took a receive, and its program has looked at what came before.
  void arrived() {
    heard = true;
    unanswered_ = 0;
    ++arrivals;
  }
  // How many probes in a row may stay without a completion, of those that are a second apart. After that the device
  // has lost what it was given: it neither completes nor fails it. 0: there is no limit, because the peer may have no
  // receive left for what was posted, and a peer that does not look is slow, not dead.
  uint32_t patience() const;
  // The queue pair takes and sends nothing any more; what was queued is forgotten.
  void stop();

  const Rank peer;
  State state = State::offered;
  bool peer_closed = false;  // it said so
  bool heard = false;        // something came since the last probe
  bool probing = false;
  uint32_t silent = 0;  // probes in a row that came due while one was on its way and nothing was heard
  bool dirty = false;   // is in the list of those to post
  Place place;
  Card theirs{};
  Ring<Work> queue;
  Ring<Put> puts;  // in the order of their last writes
  Credits credits;
  uint32_t posted = 0;  // requests; they wrap
  uint32_t completed = 0;
  uint32_t missing = 0;   // receives that were used and not replaced
  uint32_t arrivals = 0;  // messages of the peer, each of which took a receive; they wrap

 private:
  struct Chain;
  bool next_may_leave();
  bool take(Put& put);
  void add(Chain& chain, const Work& work);
  void address(ibv_send_wr& request, ibv_sge* parts, const Work& work);
  bool post(Chain& chain);

  std::shared_ptr<Device> device_;
  ibv_qp* qp_ = nullptr;
  const bool sends_;  // eager 'send'
  uint32_t send_depth_;
  uint32_t receive_depth_;
  uint32_t most_inline_ = 0;
  uint32_t unsignalled_ = 0;  // requests since the last signalled one
  uint32_t put_to_end_ = 0;   // of `puts`: the first whose last write was not posted
  uint32_t first_packet_;
  uint32_t messages_ = 0;    // requests that took a receive; they wrap
  uint32_t unanswered_ = 0;  // requests that took a receive since the last message of the peer
  uint32_t silence_ = 0;     // see VerbsOptions
  bool waits_for_credit_ = false;
  VerbsCounters& counters_;
  const Attachment attachment_;
};

// Work request ids: the peer, whether it was a receive, and otherwise the number of the request. A receive that
// connections share has the number of its buffer and no peer.
constexpr uint64_t kReceiveId = uint64_t{1} << 31;
constexpr uint64_t shared_receive_id(uint32_t number) { return static_cast<uint64_t>(number) << 32 | kReceiveId; }
constexpr uint64_t write_id(Rank peer, uint32_t number) { return static_cast<uint64_t>(number) << 32 | peer; }

}  // namespace nbc::verbs
