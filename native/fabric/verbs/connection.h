// One reliable connection: a queue pair, what waits to be posted to it, and what was posted and has not completed.
//
//   queue     writes in the order in which they are to happen; posted as chains by post()
//   depth     of the send queue. posted − completed never exceeds it. Of any depth / 4 writes in a row one is signalled, and every write
//             that somebody waits for; a completion stands for all before it. So room always comes back.
//   receives  empty ones, taken by immediates; refilled in chains by refill()
//
// Threads: the owner of the engine.
#pragma once
#include <cstdint>
#include <memory>

#include "fabric/verbs/bootstrap.h"
#include "fabric/verbs/mailboxes.h"
#include "fabric/verbs/registrations.h"
#include "fabric/verbs/ring.h"

namespace nbc::verbs {

struct VerbsCounters {
  uint64_t work_requests = 0;  // writes posted
  uint64_t chains = 0;         // calls that posted them
  uint64_t inlined = 0;        // of the writes: data went with the request
  uint64_t signalled = 0;      // of the writes: asked for a completion
  uint64_t receives_refilled = 0;
  uint64_t parks = 0;
  uint64_t probes = 0;  // are you there?
};

// One RDMA write.
struct Work {
  const std::byte* from = nullptr;
  uint64_t to = 0;
  uint32_t bytes = 0;
  uint32_t local_key = 0;
  uint32_t remote_key = 0;
  uint32_t immediate = 0;
  bool has_immediate = false;
  bool signalled = false;
  bool ends_put = false;  // the next of Connection::puts is complete with it
};

struct Put {
  void* cookie = nullptr;
  Registration* registration = nullptr;  // nullptr: exposed memory
  uint32_t last = 0;                     // number of its last write; counts when `posted`
  bool posted = false;
};

class Connection {
 public:
  enum class State { offered, connected, ready, broken };

  // Takes a place for the mailboxes and makes a queue pair that can receive. Throws FabricError.
  Connection(Rank peer, const std::shared_ptr<Device>& device, Mailboxes& mailboxes, ibv_cq* queue, uint32_t send_depth,
             uint32_t receive_depth, uint32_t most_inline, VerbsCounters& counters);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  Card card(uint32_t eager_limit) const;
  // Both directions, once the peer's card is known. Throws FabricError.
  void connect(const Card& theirs, uint8_t timeout, uint8_t retries);
  // Posts what there is room for. False: the device refused (errno).
  bool post();
  // Replaces receives that were used, if it is worth a call, or `all`. False: the device refused.
  bool refill(bool all);
  bool owns(const ibv_qp* pair) const { return pair == qp_; }
  // A write has completed, and all before it.
  void complete(uint32_t number) { completed = number + 1; }
  // The next put whose last write has completed. False: there is none.
  bool take_done(Put& put);
  // The queue pair takes and sends nothing any more; what was queued is forgotten.
  void stop();

  const Rank peer;
  State state = State::offered;
  bool peer_closed = false;  // it said so
  bool heard = false;        // something came since the last probe
  bool probing = false;
  bool dirty = false;  // is in the list of those to post
  Place place;
  Card theirs{};
  Ring<Work> queue;
  Ring<Put> puts;       // in the order of their last writes
  uint32_t posted = 0;  // writes; they wrap
  uint32_t completed = 0;
  uint32_t missing = 0;  // receives that were used and not replaced

 private:
  std::shared_ptr<Device> device_;
  ibv_qp* qp_ = nullptr;
  uint32_t send_depth_;
  uint32_t receive_depth_;
  uint32_t most_inline_ = 0;
  uint32_t unsignalled_ = 0;  // writes since the last signalled one
  uint32_t put_to_end_ = 0;   // of `puts`: the first whose last write was not posted
  uint32_t first_packet_;
  VerbsCounters& counters_;
};

// Work request ids: the peer, whether it was a receive, and for a write its number.
constexpr uint64_t kReceiveId = uint64_t{1} << 31;
constexpr uint64_t write_id(Rank peer, uint32_t number) { return static_cast<uint64_t>(number) << 32 | peer; }

}  // namespace nbc::verbs
