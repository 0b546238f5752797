// How ranks of a network that cannot listen tell each other where they are. What a rank tells one peer is a card: bytes
// that mean something to its fabric only. Each direction of each pair has its own card, written by one side only, so
// two ranks that connect at the same time make one connection:
//
//   offered   here I can be reached; you may connect to me
//   ready     and you may send
//
// Every card of every version begins with its version, 32 bits. A card comes from another process: the fabric checks
// what it says. A rank that finds a card for itself answers with its own, whether it wanted to connect or not. Nothing
// here blocks.
// There are two: one machine's, through the job's shared file (host_bootstrap.h), and one over sockets
// (socket_bootstrap.h).
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "fabric/fabric.h"

namespace nbc::cards {

enum class CardState : uint32_t { none = 0, offered = 1, ready = 2 };

// No card is longer. An address of UCX has 100 bytes for each device or so.
constexpr size_t kMostCard = 2000;

// Of a card of any version; 0: it has none.
inline uint32_t version_of(std::string_view card) {
  uint32_t version = 0;
  if (card.size() >= sizeof version) std::memcpy(&version, card.data(), sizeof version);
  return version;
}

// Why a peer with a card of another version is refused.
inline std::string other_version(Rank peer, uint32_t there, uint32_t here) {
  return "rank " + std::to_string(peer) +
         " of the world has another version of node-nbc, whose addresses have version " + std::to_string(there) +
         ", and here version " + std::to_string(here);
}

// gone: its process has ended, or it has closed. lost: it is given up (job/pulse.h), and may go on.
enum class Standing { absent, open, gone, lost };

class Bootstrap {
 public:
  virtual ~Bootstrap() = default;

  virtual Rank rank() const = 0;
  virtual Rank size() const = 0;
  // Makes our card for the peer visible, and wakes it. The first one counts; later ones only change the state.
  virtual void publish(Rank peer, std::string_view card, CardState state) = 0;
  // The peer's card for us, as far as it is there. The bytes stay where they are until close().
  virtual CardState look(Rank peer, std::string_view& card) = 0;
  // Why the peer will never have a card for us, or none that is ready. Empty: it may.
  virtual std::string refusal(Rank peer) const = 0;
  // Of a peer with a refusal(): what Fabric::connect() gives. broken: nobody has refused, the peer does not answer.
  virtual Connect verdict(Rank) const { return Connect::refused; }
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

}  // namespace nbc::cards
