// The contract between LibOF and a network. A fabric offers what an RDMA network offers, and nothing of the protocol:
//
//   connect   make a peer reachable, lazily, without waiting for it
//   mailbox   memory of ours that one peer writes (inbox), and the memory that becomes the peer's (outbox)
//   commit    what was built in the outbox is on its way; a release store of a stamp makes it visible (see libof/mailbox.h);
//             local completion at once, or later as write_done where the fabric is asynchronous
//   put       write a large local buffer into memory that the peer exposed, then deliver a 32-bit immediate value there, after
//             everything that was committed to that peer before
//   poll      completions of puts, ours (put_done) and the peers' (immediate)
//   doorbell  sleep until a peer commits something; wake a peer only if it sleeps
//
// Threads: a fabric belongs to the owner of the engine (engine/engine.h), except ring_self() and the sleeping call, which
// may run beside it. Nothing here blocks, except sleep().
#pragma once
#include <cstddef>
#include <cstdint>

#include "error.h"

namespace nbc {

using Rank = uint32_t;

// Where a peer may write, in the terms of the rank that exposed it. Travels in an RTR.
struct ExposedBuffer {
  uint64_t address = 0;  // key 0: virtual address in the exposing process; key 1: offset in its exposed arena
  uint32_t key = 0;
};

// One direction of a connection, as one side sees it: the two parts that LibOF lays out.
struct Mailbox {
  std::byte* control = nullptr;  // kControlBytes: acknowledgements and the RTR array
  std::byte* slots = nullptr;    // kSlotBytes: eager slots
};
constexpr size_t kControlBytes = 3072;
constexpr size_t kSlotBytes = 60 * 1024;

struct Completion {
  enum class Kind : uint8_t { write_done, put_done, immediate };
  Kind kind;
  Error error;
  Rank peer;
  uint32_t immediate;  // kind immediate: the value that came with the data
  uint64_t bytes;      // kind immediate: how many bytes were written
  void* cookie;        // kinds write_done and put_done: what commit() or put() was given
};

enum class Connect { ready, later, refused };

// How much work one poll may do on bulk copies before it returns.
enum class Effort {
  look,     // announce and collect, copy nothing large: the caller wants to leave
  pass,     // one piece: the caller has other things to do
  helping,  // one piece, and also pieces of what peers are writing to us: the caller has nothing else to do
};

// Who sleeps at the doorbell.
enum class Sleeper : uint32_t { nobody = 0, caller = 1, progress = 2 };

class Fabric {
 public:
  virtual ~Fabric() = default;

  virtual Rank rank() const = 0;
  virtual Rank size() const = 0;

  // ready: inbox/outbox may be used. later: the peer is not there yet; the doorbell rings when it is. refused: why() tells.
  virtual Connect connect(Rank peer) = 0;
  virtual const char* why() const = 0;
  virtual Mailbox outbox(Rank peer) = 0;
  virtual Mailbox inbox(Rank peer) = 0;
  // True once the peer has closed its world: everything that it ever wrote is visible to whoever has seen this.
  virtual bool has_closed(Rank peer) = 0;

  virtual ExposedBuffer expose(const void* buffer) = 0;

  // `messages` things were written to the peer's mailbox. Nothing is guaranteed to wake the peer before flush().
  // An asynchronous fabric reports write_done with the cookie, unless it is null; others are done when they return.
  virtual void commit(Rank peer, uint32_t messages, void* cookie) = 0;
  virtual bool asynchronous() const = 0;
  virtual void flush() = 0;

  // The buffer must stay until put_done arrives with the cookie. With an error nothing is written:
  // the immediate is delivered with it, and `bytes` is only told.
  virtual void put(Rank peer, ExposedBuffer to, const void* from, size_t bytes, uint32_t immediate, Error error,
                   void* cookie) = 0;
  // The peer has closed: puts to it that need its help end with Error::peer_closed.
  virtual void abandon(Rank peer) = 0;
  // Completions into out[0…max); also moves bulk copies on by one piece.
  virtual unsigned poll(Completion* out, unsigned max, Effort effort) = 0;
  // Bytes that this rank can move on by polling, even if no peer does anything; at least 1 if there is anything to collect.
  virtual uint64_t work() const = 0;
  // Immediates from this peer are expected: its puts must be looked for.
  virtual void expect_immediates(Rank peer, bool expected) = 0;
  // Receivers must take part in every put (no access to private memory of others): a waiting receiver is not passive.
  virtual bool receiver_copies() const = 0;

  // Doorbell. ticket() before the last look; arm() makes peers ring after `need` messages; sleep() returns when it rang since the
  // ticket was taken, spuriously, or after `nanoseconds` (negative: never). disarm() as soon as somebody polls again.
  virtual uint32_t ticket(Sleeper who) = 0;
  virtual void arm(Sleeper who, uint32_t need) = 0;
  virtual void disarm() = 0;
  virtual bool is_armed() const = 0;  // nobody has rung since arm()
  virtual void sleep(Sleeper who, uint32_t ticket, int64_t nanoseconds) = 0;
  virtual void ring_self(Sleeper who) = 0;
};

}  // namespace nbc
