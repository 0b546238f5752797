// How ranks learn where each other's queue pairs and mailboxes are. What a rank tells one peer is a card; each
// direction of each pair has its own card, written by one side only, so two ranks that connect at the same time make
// one connection:
//
//   offered   my queue pair and my inbox exist; you may connect to them
//   ready     and I have connected mine to yours: you may send
//
// A rank that finds a card for itself answers with its own, whether it wanted to connect or not. Nothing here blocks.
// There are two: one machine's, through the job's shared file (host_bootstrap.h), and one over sockets
// (socket_bootstrap.h).
#pragma once
#include <cstdint>
#include <string>

#include "fabric/fabric.h"
#include "fabric/verbs/options.h"
#include "fabric/verbs/reach.h"

namespace nbc::verbs {

enum class CardState : uint32_t { none = 0, offered = 1, ready = 2 };

// Of the structure below. A peer with another one is refused.
constexpr uint32_t kCardVersion = 2;

struct Card {
  uint32_t version;  // first in every version
  Port port;
  uint64_t inbox;  // virtual address of the mailbox that the reader of this card may write
  uint32_t inbox_key;
  uint32_t queue_pair;
  uint32_t first_packet;  // sequence number that the writer of this card starts to send with
  uint32_t eager_limit;
  uint32_t credits;  // eager 'send': how many messages the writer of this card can take (credits.h)
  Eager eager;
};

// gone: its process has ended, or it has closed. lost: it is given up (job/pulse.h), and may go on.
enum class Standing { absent, open, gone, lost };

class Bootstrap {
 public:
  virtual ~Bootstrap() = default;

  virtual Rank rank() const = 0;
  virtual Rank size() const = 0;
  // Makes our card for the peer visible, and wakes it. The card may not change between offered and ready.
  virtual void publish(Rank peer, const Card& card, CardState state) = 0;
  // The peer's card for us, as far as it is there.
  virtual CardState look(Rank peer, Card& card) = 0;
  // Why the peer will never have a card for us, or none that is ready. Empty: it may.
  virtual std::string refusal(Rank peer) const = 0;
  // Of a peer with a refusal(): nobody has refused, the peer does not answer.
  virtual bool unreachable(Rank) const { return false; }
  // gone: the peer has closed, or its process has ended.
  virtual Standing standing(Rank peer) = 0;
  // It has gone, or its process is ending: what it had registered goes first, and the network tells of that while the
  // process still stands. Slow.
  virtual bool is_ending(Rank peer) = 0;
  virtual Crowd crowd() const = 0;
  // Something was published for us, or a peer closed, since forget_calls(). Cheap; any thread.
  virtual bool called() const = 0;
  virtual void forget_calls() = 0;
  // Readable when called() became true; drain() makes it unreadable. Any thread. −1: there is none, look now and then.
  virtual int descriptor() const = 0;
  virtual void drain() = 0;
  // This rank does no more; tells all others.
  virtual void close() = 0;
};

}  // namespace nbc::verbs
