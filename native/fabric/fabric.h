// The contract between LibOF and a network. A fabric offers what an RDMA network offers, and nothing of the protocol:
//
//   connect   make a peer reachable, lazily, without waiting for it
//   mailbox   memory of ours that one peer writes (inbox), and the memory that becomes the peer's (outbox)
//   commit    what was built in a part of the outbox is on its way. Where outbox and inbox are the same memory, a
//             release store of a stamp made it visible already (see libof/mailbox.h); where a peer is reached
//             asynchronously, a completion (message) tells the owner, and until then it must not look, because bytes
//             arrive in any order. Local completion at once, or later as write_done
//   put       write a large local buffer into memory that the peer exposed, then deliver a 32-bit immediate value
//             there, after everything that was committed to that peer before
//   poll      completions: of our puts (put_done), of the peers' puts (immediate), of their commits (message), ends of
//             connections (broken)
//   memory    allocate memory that peers can reach at no further price; plain memory is reached at the price that the
//             fabric has
//   doorbell  sleep until a peer commits something; wake a peer only if it sleeps
//
// Threads: a fabric belongs to the owner of the engine (engine/engine.h), except ring_self(), called() and the sleeping
// call, which may run beside it, and ExposedMemory, which any thread may use. Nothing here blocks, except sleep() and
// announce_closed().
#pragma once
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>

#include "counters.h"
#include "error.h"

namespace nbc {

using Rank = uint32_t;

// Where a peer may write, in the terms of the rank that exposed it. Travels in an RTR.
struct ExposedBuffer {
  // shm: virtual address in the exposing process (key 0) or offset in its arena (key 1); verbs: virtual address
  uint64_t address = 0;
  uint32_t key = 0;        // verbs: the remote key of a registration
  void* holder = nullptr;  // what the exposing fabric has to remember about it; does not travel
};

// Memory of the user, and what keeps it allocated whatever happens to the object that it came from. As long as any copy
// of `keeper` lives, `data` is the same memory; afterwards the address may belong to anybody. That is what a
// registration's life hangs on.
struct Pinned {
  std::byte* data = nullptr;
  size_t bytes = 0;
  std::shared_ptr<void> keeper;
};

// A part of this rank's memory that a message comes from or goes to.
struct LocalBuffer {
  std::byte* data = nullptr;
  size_t bytes = 0;
  const Pinned* home = nullptr;  // what it is a part of; null: of exposed memory, or of memory whose life nobody knows
};

// target[i] = left[i] op right[i], for a number of bytes. The target may be one of the operands.
using CombineKernel = void (*)(std::byte* target, const std::byte* left, const std::byte* right, size_t bytes);

// What a message is for that is combined with something else.
struct Combining {
  CombineKernel kernel = nullptr;
  std::byte* target = nullptr;
  const std::byte* other = nullptr;  // the other operand; may be the target
  bool is_left = false;              // the message is the left operand, and `other` the right one
  uint32_t number = 0;               // what other ranks know the kernel by; 0: they do not
};
// The kernel with such a number, which may be any; null: there is none, or it does not combine so many bytes.
using FindKernel = CombineKernel (*)(uint32_t number, size_t bytes);

// Memory that every peer can reach without further ado, page-aligned and zeroed. Any thread.
class ExposedMemory {
 public:
  virtual ~ExposedMemory() = default;
  virtual void* allocate(size_t bytes) = 0;  // nullptr when there is no more
  virtual void release(void* block) = 0;
  // What this part of a block holds is not needed any more. Where that makes a later release() of a large block shorter
  // (8 MiB of shared memory: 0.8 ms), the pages go back to the system. `part` is page-aligned.
  virtual void discard(void* /*part*/, size_t /*bytes*/) {}
  virtual size_t used() const = 0;
  // Why allocate() gave nothing, for the text of an error.
  virtual std::string why() const = 0;
};

// A fabric, or a part of it, could not be set up; the message says what to do about it.
struct FabricError {
  std::string message;
  int system_errno = 0;        // where a system call failed
  const char* code = nullptr;  // of the JavaScript error, where it is a particular one: 'ERR_NBC_…'
};

// A system call failed: `what` was being done.
inline FabricError system_failure(const std::string& what, int error = errno) {
  return {what + ": " + std::strerror(error), error};
}

// Of this process (ulimit -n) or machine.
inline bool out_of_descriptors(int error) { return error == EMFILE || error == ENFILE; }

// One direction of a connection, as one side sees it: the two parts that LibOF lays out.
struct Mailbox {
  std::byte* control = nullptr;  // kControlBytes: acknowledgements and the RTR array
  std::byte* slots = nullptr;    // room_for(the eager limit): eager slots
  // What is written together need not lie together, since the reader has the same memory; and the fewer pages of it
  // are touched the better.
  bool compact = false;
};
constexpr size_t kControlBytes = 3072;
constexpr size_t kSlotBytes = 60 * 1024;
// The longest message of which that holds four; where memory for mailboxes is limited, none is longer.
constexpr uint32_t kLargestEagerLimit = 15320;
// The last bytes of `control` belong to the fabric.
constexpr size_t kFabricBytes = 64;
// No commit is longer than the largest message that travels through a mailbox (the eager limit) and this many bytes.
constexpr size_t kCommitHead = 64;
// Of longer messages, a mailbox holds eight: a network takes more than four until an acknowledgement has come.
constexpr size_t room_for(uint32_t eager_limit) {
  return eager_limit <= kLargestEagerLimit ? kSlotBytes : 8 * (eager_limit + 2 * kCommitHead);  // in whole lines
}

struct Completion {
  // message: something that the peer committed is here. broken: the connection to the peer has ended with `error`, for
  // good; it comes after everything that arrived before and after put_done of every put to this peer. answered:
  // connect() has another answer than before; only where poll() finds that out, since nobody may go to sleep without
  // having asked again.
  enum class Kind : uint8_t { write_done, put_done, immediate, message, broken, answered };
  Kind kind;
  Error error;
  Rank peer;
  uint32_t immediate;  // kind immediate: the value that came with the data; kind message: the note given to commit()
  uint64_t bytes;  // kind immediate: how many bytes were written, or, with an error, how many would have been; kinds
                   // immediate and put_done with Error::abandoned: what the rank said that gave it up
  void* cookie;    // kinds write_done and put_done: what commit() or put() was given
};
// Immediates and notes are smaller than this many bits can tell: a fabric needs the others.
constexpr uint32_t kImmediateBits = 30;

// ready: the mailboxes may be used. later: the peer is not there yet; the doorbell rings when it is. refused: the two
// ranks do not match. broken: no connection can be made, or it is lost. exhausted: this rank has no descriptor for one.
// why() explains these three. closed: the peer has closed.
enum class Connect { ready, later, refused, broken, exhausted, closed };

// How many ranks share the processors of this machine.
struct Crowd {
  uint32_t ranks = 1;
  uint32_t processors = 1;
  bool complete = false;  // all ranks have opened: it will not change any more
};

// How much work one poll may do on bulk copies before it returns; ascending.
enum class Effort {
  look,     // announce and collect, copy nothing large: the caller wants to leave
  pass,     // one piece: the caller has other things to do
  driving,  // larger pieces: the caller has nothing else to do, and is the progress thread
  waiting,  // more of them: the caller waits, but has local work, with which no peer can help
  helping,  // also pieces of what peers are writing to us: the caller has nothing else to do
};

// Which thread sleeps at the doorbell: the calling thread inside wait(), the progress thread, or the calling thread in
// its event loop, where it sleeps on descriptors and does not own the engine.
enum class Sleeper : uint32_t { nobody = 0, caller = 1, progress = 2, loop = 3 };

// Why two ranks must not talk: an option has one value there, and another one here.
inline std::string other_setting(Rank peer, const std::string& option, const std::string& there,
                                 const std::string& here) {
  return "rank " + std::to_string(peer) + " runs with " + option + " " + there + ", this rank with " + here +
         "; it must be equal on all ranks";
}

// What carries messages to a peer. Unknown: the peer has not opened yet, and what it says of its host decides.
enum class Network { shm, tcp, verbs, ucx, unknown };

class Fabric {
 public:
  virtual ~Fabric() = default;

  virtual Rank rank() const = 0;
  virtual Rank size() const = 0;
  // The same as long as the fabric lives, once it is known.
  virtual Network network_to(Rank peer) const = 0;

  virtual Connect connect(Rank peer) = 0;
  // Why connect() gave refused, broken or exhausted, or why memory could not be exposed (peer: this rank).
  virtual std::string why(Rank peer) const = 0;
  // Why this rank could not move data of this peer, or of its own for this peer: Error::system. Empty: the peer could
  // not.
  virtual std::string why_not_moved(Rank /*peer*/) const { return {}; }
  // The longest message that goes through the mailbox of this peer, in bytes: the same on both sides, and it stays.
  // `general`: what LibOF is told for all.
  virtual uint32_t eager_limit(Rank, uint32_t general) const { return general; }
  virtual Mailbox outbox(Rank peer) = 0;
  virtual Mailbox inbox(Rank peer) = 0;
  // True once the peer has closed its world: everything that it ever wrote is visible to the caller that has seen this.
  virtual bool has_closed(Rank peer) = 0;
  // What that means for a peer that has_closed() and has been given to abandon(): Error::peer_closed, or,
  // where one of the two ranks has been given up (job/pulse.h), Error::unreachable for the peer, which why() explains,
  // and Error::counted_lost for this rank. Then the peer may go on, and be in the middle of something.
  virtual Error end_of(Rank /*peer*/) const { return Error::peer_closed; }

  // A peer has given this rank up, because it did not answer: what fails now, fails because of that.
  virtual bool is_given_up() const { return false; }

  virtual const std::shared_ptr<ExposedMemory>& memory() const = 0;
  // Before expose(), which may take long: false, the fabric has begun to do beside the engine what takes long, and the
  // doorbell rings when it is worth asking again. `sends`: the buffer is one to put from; put() then waits by itself,
  // and this is only to begin early.
  virtual bool prepare(Rank /*peer*/, const LocalBuffer& /*buffer*/, bool /*sends*/) { return true; }
  // Opens a buffer to writes of the peer, until conceal(). False: that failed, why(rank()) tells.
  virtual bool expose(Rank peer, const LocalBuffer& buffer, ExposedBuffer& out) = 0;
  // The same, and the message is combined as it comes, by this rank or by its sender. What is in the target is the
  // result once the immediate is here without an error, and what is in the buffer, unless that is the target, is
  // undefined. revoke() of the buffer also keeps the sender from the operands. conceal() follows then, too. False:
  // nothing is exposed, since this fabric does not do that, or not for such a message.
  virtual bool expose_combining(Rank /*peer*/, const LocalBuffer& /*buffer*/, const Combining& /*how*/,
                                ExposedBuffer& /*out*/) {
    return false;
  }
  virtual void conceal(Rank peer, const ExposedBuffer& buffer) = 0;
  // The receive failed, and its buffer of `bytes` goes back to the user before the peer's immediate has come. True:
  // from now on the peer writes nothing there. False: a write may be under way; ask again after poll(). The immediate
  // still comes, perhaps with an error. conceal() follows as ever. `why` and `told`: what the peer's put ends with, if
  // the fabric stops it.
  virtual bool revoke(Rank peer, const ExposedBuffer& buffer, size_t bytes, Error why, uint64_t told) = 0;

  // Something was written to the peer's mailbox: these bytes, which lie in one of the two parts, and no others. They
  // must stay as they are until the peer has reported them as consumed, or until they are replaced by what is as good.
  // Nothing is guaranteed to wake the peer before flush(). To a peer that is reached asynchronously the fabric delivers
  // the note, and reports write_done with the cookie, unless it is null; on others it is done on return.
  virtual void commit(Rank peer, const void* written, size_t bytes, uint32_t note, void* cookie) = 0;
  // Holds from the connection on.
  virtual bool asynchronous(Rank peer) const = 0;
  virtual void flush() = 0;
  // For checks in tests: flush() has nothing to do for peers that sleep.
  virtual bool flushed() const { return true; }

  // The buffer must stay until put_done arrives with the cookie. With an error nothing is written:
  // the immediate is delivered with it, and the number of bytes is only told. Where the buffer cannot be read, both
  // ends get Error::memory.
  virtual void put(Rank peer, const ExposedBuffer& to, const LocalBuffer& from, uint32_t immediate, Error error,
                   void* cookie) = 0;
  // The put with this cookie is given up: what is not written yet need not be written, and then the peer gets the
  // immediate with this error, and `told` in the place of bytes. put_done comes as ever, and as far as the fabric can
  // do it without the peer.
  virtual void retract(Rank peer, void* cookie, Error error, uint64_t told) = 0;
  // The peer has closed: puts to it that need its help end with Error::peer_closed.
  virtual void abandon(Rank peer) = 0;
  // What the peer wrote is not what ranks write: from now on there is no way to it, for the reason that why() tells.
  virtual void reject(Rank peer, const std::string& why) = 0;
  // Completions into out[0…max); also moves bulk copies on by one piece.
  virtual unsigned poll(Completion* out, unsigned max, Effort effort) = 0;
  // Bytes that this rank can move on by polling, even if no peer does anything; at least 1 if there is anything to
  // collect. Stops counting where there are `enough`.
  virtual uint64_t work(uint64_t enough) const = 0;
  bool has_work() const { return work(1) > 0; }
  // As much work as this is done inside a start, because handing it over would take longer.
  virtual uint64_t short_work() const { return 256 * 1024; }
  // There is some, and no more than that.
  virtual bool has_short_work() const {
    const uint64_t all = work(short_work() + 1);
    return all > 0 && all <= short_work();
  }
  // Something that was committed could not leave yet: somebody has to poll when room comes, although it counts as done.
  // arm() sees to the waking.
  virtual bool holds_back() const = 0;
  // Among ranks that share memory. alarm(): the peer has to look into its mailbox of this rank, although it may expect
  // nothing from this rank; it wakes with the next flush(). alarmed(): some peer has called alarm() since the last one.
  // may_alarm(): this peer can.
  virtual void alarm(Rank) {}
  virtual bool alarmed() { return false; }
  virtual bool may_alarm(Rank) const { return false; }
  // Immediates from this peer are expected: its puts must be looked for.
  virtual void expect_immediates(Rank peer, bool expected) = 0;
  // How many puts of one peer can be on their way to us before we must poll.
  virtual uint32_t put_window() const = 0;
  // A peer wants something of this rank that nothing pending here stands for (a connection), or may want it (the answer
  // to a revoke, see libof/mailbox.h): somebody should poll. Any thread.
  virtual bool called() const = 0;
  // Receivers must take part in every put (no access to private memory of others): a waiting receiver is not passive.
  virtual bool receiver_copies() const = 0;

  // Doorbell. ticket() before the last look; arm() makes peers ring after `need` messages; sleep() returns when it rang
  // since the ticket was taken, spuriously, or after `nanoseconds` (negative: never). disarm() as soon as somebody
  // polls again.
  virtual uint32_t ticket(Sleeper who) = 0;
  virtual void arm(Sleeper who, uint32_t need) = 0;
  virtual void disarm() = 0;
  virtual bool is_armed() const = 0;  // nobody has rung since arm()
  virtual void sleep(Sleeper who, uint32_t ticket, int64_t nanoseconds) = 0;
  virtual void ring_self(Sleeper who) = 0;
  // The same after a while, where that costs less than waking a thread now. False: it cannot.
  virtual bool ring_self_later(Sleeper, int64_t) { return false; }

  // The event loop as a sleeper. open_loop() returns a descriptor that becomes readable when the event loop is rung
  // for, and that the event loop reads; -1: this fabric cannot. Only after that may arm() name Sleeper::loop.
  virtual int open_loop() { return -1; }
  // The doorbell is armed for the event loop: the progress thread is to be rung for, too. False: it has rung already.
  virtual bool arm_progress_too() { return false; }

  // Tells the peers on which processor the calling thread runs.
  virtual void note_processor() {}
  // The peer last ran on the processor that the calling thread runs on: it cannot go on while this thread runs.
  virtual bool shares_processor(Rank) const { return false; }

  // Puts are done, and peers have still to read what they carry: from exposed memory.
  virtual bool is_read() const { return false; }
  // Before the end: memory that peers may still use. True: the fabric knows when they do not any more, and keeps it
  // until then.
  virtual bool keep(std::vector<std::shared_ptr<void>>& /*keepers*/) { return false; }
  // Tells everybody that this rank will do no more, after all that it committed. The destructor does it; a process that
  // ends without it, too. May wait for a bounded time until what was committed has arrived.
  virtual void announce_closed() = 0;
  virtual Crowd crowd() const = 0;
  virtual void visit_counters(const CounterVisitor& visit) const = 0;
};

// A fabric that sleeps on descriptors, so that another one can share its sleepers (mixed/mixed_fabric.h).
class FarFabric : public Fabric {
 public:
  // From now on the descriptor, while it is readable, keeps `who` from sleeping; the caller reads it. Before
  // anybody sleeps.
  virtual void wake_on(Sleeper who, int descriptor) = 0;
  // A descriptor that is readable while there is something that sleep() would not sleep for.
  virtual int sleeping_set(Sleeper who) const = 0;
};

}  // namespace nbc
