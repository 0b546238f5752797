// LibOF over UCX (OpenUCX), which drives networks that verbs does not: Omni-Path, Slingshot, EFA, several rails.
// Everything travels as active messages (message.h). What is committed is an eager one, which the peer copies into its
// mailbox. A put is a rendezvous: UCX tells the peer that there are data, and fetches or sends them in whatever way is
// best when the peer has said where to. So a key of exposed memory is a number of ours (fabric/regions.h), and no key
// of UCX has to travel.
//
// An endpoint of UCX connects by itself, but only when a message needs what the peer's endpoint is called; and it keeps
// such messages until both sides have been asked to progress. A rank that closes could lose them. So the first message,
// hello, asks for that, and a peer counts as reached when it has answered and nothing is kept. The inbox for a peer is
// there before this rank gives it a card, so the peer may send before this rank has its card.
//
// Local completion of what was committed: at once. The outbox belongs to the writer's messages until the peer has
// reported them (fabric.h), and UCX is done with them by then.
//
// The end. A rank that closes says so behind everything else, and waits for the farewell of those peers that are still
// there: only then has its last message been taken from the network. That a process has ended, or is given up, tells
// the bootstrap, or UCX where its networks see it.
//
// The worker of a rank outlives it while a peer with its card may still connect: the tcp of UCX 1.13 ends a process
// that connects to a worker which goes at that moment.
//
// Threads: the owner of the engine, but for what fabric.h excepts.
#pragma once
#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "fabric/cards/bootstrap.h"
#include "fabric/plain_memory.h"
#include "fabric/regions.h"
#include "fabric/ring.h"
#include "fabric/ucx/message.h"
#include "fabric/ucx/parking.h"
#include "fabric/ucx/worker.h"

namespace nbc::ucx {

class UcxFabric final : public Fabric {
 public:
  // Throws FabricError, naming what is missing.
  UcxFabric(std::unique_ptr<cards::Bootstrap> bootstrap, uint32_t eager_limit);
  ~UcxFabric() override;

  Rank rank() const override { return rank_; }
  Rank size() const override { return size_; }
  Network network_to(Rank) const override { return Network::ucx; }
  Connect connect(Rank peer) override;
  std::string why(Rank peer) const override { return links_[peer].why; }
  Mailbox outbox(Rank peer) override { return mailbox(peer == rank_ ? self_->bytes : links_[peer].boxes->out); }
  Mailbox inbox(Rank peer) override { return mailbox(peer == rank_ ? self_->bytes : links_[peer].boxes->in); }
  bool has_closed(Rank peer) override;
  const std::shared_ptr<ExposedMemory>& memory() const override { return memory_; }
  bool expose(Rank peer, const LocalBuffer& buffer, ExposedBuffer& out) override;
  void conceal(Rank peer, const ExposedBuffer& buffer) override;
  bool revoke(Rank peer, const ExposedBuffer& buffer, size_t, Error, uint64_t) override;
  void retract(Rank, void*, Error, uint64_t) override {}
  void commit(Rank peer, const void* written, size_t bytes, uint32_t note, void* cookie) override;
  bool asynchronous(Rank) const override { return true; }
  void flush() override {}  // UCX has it already
  void put(Rank peer, const ExposedBuffer& to, const LocalBuffer& from, uint32_t immediate, Error error,
           void* cookie) override;
  void abandon(Rank peer) override;
  void reject(Rank peer, const std::string& why) override;
  unsigned poll(Completion* out, unsigned max, Effort effort) override;
  uint64_t work(uint64_t) const override { return arrived_.size() + offers_.size() + failed_.size(); }
  bool holds_back() const override { return sending() > 0; }
  void expect_immediates(Rank, bool) override {}  // they all come through the one worker
  uint32_t put_window() const override { return UINT32_MAX; }
  bool called() const override { return parking_.called() || bootstrap_->called(); }
  bool receiver_copies() const override { return true; }
  uint32_t ticket(Sleeper) override { return 0; }  // a ring stays in its descriptor until the next sleep
  void arm(Sleeper who, uint32_t need) override;
  void disarm() override { parking_.disarm(); }
  bool is_armed() const override { return parking_.is_armed(); }
  void sleep(Sleeper who, uint32_t ticket, int64_t nanoseconds) override;
  void ring_self(Sleeper who) override { parking_.ring(who); }
  void announce_closed() override;
  Crowd crowd() const override { return bootstrap_->crowd(); }
  void visit_counters(const CounterVisitor& visit) const override;

 private:
  struct alignas(64) Boxes {
    std::byte in[kBoxBytes];
    std::byte out[kBoxBytes];
  };
  struct alignas(64) Self {
    std::byte bytes[kBoxBytes];
  };

  // A message that came before its turn, or a rendezvous that nobody has answered yet.
  struct Waiting {
    Head head;
    std::vector<std::byte> data;  // of a message
    void* offer = nullptr;        // of a put: what UCX has told
    size_t offered = 0;           // bytes
  };

  // What is known about a peer.
  struct Link {
    UcxFabric* fabric = nullptr;
    Rank peer = 0;
    Connect verdict = Connect::later;
    Error error = Error::unreachable;  // where it is broken
    std::string why;
    std::unique_ptr<Boxes> boxes;  // from when this rank has published its card on
    ucp_ep_h endpoint = nullptr;
    bool reports = true;  // the endpoint tells of failures, and can be closed at any time
    uint64_t token = 0;   // that the peer sends with
    uint64_t theirs = 0;  // that this rank sends with
    uint32_t sent = 0;
    uint32_t received = 0;
    std::map<uint32_t, Waiting> early;  // by number
    uint32_t pending = 0;               // of what UCX has been given
    bool greeted = false;               // the peer has said hello
    bool welcomed = false;              // the peer has answered
    bool heard = false;                 // something came since the last look at who has gone
    bool peer_closed = false;
    bool parted = false;             // the peer has seen that this rank closes
    std::string failure;             // of its endpoint, or what it wrote
    std::vector<void*> failed_puts;  // that ended before it was known why
  };

  // What UCX has been given, until it gives it back.
  struct Pending {
    Link* link = nullptr;  // nullptr: this place is free
    Head head{};
    void* cookie = nullptr;
    std::shared_ptr<void> keeper;  // of the data
    bool put = false;              // put_done is still to be told
  };
  // Memory that is exposed.
  struct Exposure {
    std::shared_ptr<void> keeper;
    bool receiving = false;
  };

  static Mailbox mailbox(std::byte* box) { return {box, box + kControlBytes}; }
  static ucs_status_t on_message(void* fabric, const void* header, size_t header_bytes, void* data, size_t bytes,
                                 const ucp_am_recv_param_t* param);
  static void on_sent(void* request, ucs_status_t status, void* pending);
  static void on_received(void* request, ucs_status_t status, size_t bytes, void* pending);
  static void on_failure(void* link, ucp_ep_h endpoint, ucs_status_t status);

  Connect advance(Rank peer, bool wanted);
  bool fits(std::string_view card, Link& link, CardHead& theirs) const;
  void tell(Link& link);
  bool open_endpoint(Link& link, std::string_view card);
  ucs_status_t create_endpoint(Link& link, const std::string& address, bool reports);
  uint32_t sending() const { return sending_.load(std::memory_order_relaxed); }
  static bool usable(const Link& link) { return link.endpoint != nullptr; }
  // The peer may not have seen all that this rank sent to it before it closed.
  static bool has_unread(const Link& link) { return usable(link) && !link.peer_closed && !link.parted; }
  bool may_connect(const Link& link) const;
  static void linger(std::unique_ptr<Worker> worker);
  void answer_calls();
  void say(Link& link, Kind kind);
  void send(Link& link, Head head, const void* data, size_t bytes, void* cookie, std::shared_ptr<void> keeper);
  Pending& add_pending(Link& link, const Head& head);
  void remove(Pending& pending);
  void sent(Pending& pending, ucs_status_t status);
  bool arrived(Link& link, const Head& head, void* data, size_t bytes, bool offered);
  const char* handle(Link& link, const Head& head, const void* data, size_t bytes, void* offer);
  void handle_early(Link& link);
  void fail(Link& link, const std::string& why);
  void fail(Link& link, ucs_status_t status);
  void progress();
  void take_offers();
  void take_offer(Link& link, const Waiting& offer);
  void received(Pending& pending, ucs_status_t status);
  void handle_failures();
  void break_off(Link& link, Error error, const std::string& why);
  void close_endpoint(Link& link);
  void look_who_has_gone();
  void drop_offers(Link& link);

  std::unique_ptr<cards::Bootstrap> bootstrap_;
  const uint32_t eager_limit_;  // in the card, so that peers can refuse a rank with another one
  Rank rank_;
  Rank size_;
  std::shared_ptr<ExposedMemory> memory_ = std::make_shared<PlainMemory>();
  Regions regions_;
  std::unordered_map<uint32_t, Exposure> exposures_;  // by key
  std::vector<Link> links_;                           // by rank
  std::unique_ptr<Self> self_;                        // this rank's mailbox to itself
  std::deque<std::pair<Rank, Waiting>> offers_;       // in order
  Ring<Completion> arrived_;
  std::deque<Pending> pending_;       // places
  std::vector<Pending*> spare_;       // those that are free
  std::vector<Rank> failed_;          // whose endpoints have failed, or who wrote what makes no sense
  std::atomic<uint32_t> sending_{0};  // of all links; stored by the owner, also loaded by who goes to sleep (relaxed)
  uint64_t messages_ = 0, puts_ = 0, parks_ = 0;
  int64_t looked_ = 0;  // when, in milliseconds
  uint32_t asked_ = 0;
  bool closed_ = false;
  std::unique_ptr<Worker> worker_;  // its callbacks need the rest
  Parking parking_;
};

}  // namespace nbc::ucx
