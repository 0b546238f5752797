// The slab of a rank: inboxes and outboxes of the peers that it is connected to, registered once for many of them.
//
//   a place: 0        inbox    control 3072, note 1024, slots 60 KiB: what the peer committed;
//                              written by its card, or by us (parcel.h)
//            64 KiB   outbox   the same: what becomes the peer's inbox, read by our card
//            128 KiB  headers  of the SENDs on their way, if there are any
//
// At most one place per peer; sixteen peers share a registration, so a rank that talks to few pins little. Places stay
// until the end: a connection that broke may still be named by packets on their way.
#pragma once
#include <memory>
#include <vector>

#include "fabric/verbs/device.h"

namespace nbc::verbs {

constexpr size_t kBoxBytes = 64 * 1024;
constexpr size_t kNoteBytes = 1024;
static_assert(kControlBytes + kNoteBytes + kSlotBytes == kBoxBytes);

// In front of the bytes of a SEND; see parcel.h.
struct Header {
  uint32_t immediate;
  uint32_t offset;
};

struct Place {
  std::byte* inbox = nullptr;
  std::byte* outbox = nullptr;
  Header* headers = nullptr;
  ibv_mr* mr = nullptr;
};

inline Mailbox mailbox_at(std::byte* box) { return {box, box + kControlBytes + kNoteBytes}; }

class Mailboxes {
 public:
  // Registers the first slab at once: where that cannot be, the rank can reach nobody, and its user should hear of it
  // when it opens. Throws FabricError.
  Mailboxes(std::shared_ptr<Device> device, Rank peers, uint32_t headers);
  ~Mailboxes();
  // Throws FabricError where memory cannot be registered.
  Place take();

 private:
  struct Slab {
    std::byte* base;
    size_t bytes;
    ibv_mr* mr;
  };
  void add_slab();
  std::shared_ptr<Device> device_;
  Rank peers_;
  size_t stride_;
  Rank taken_ = 0;
  size_t left_ = 0;  // places of the last slab
  std::vector<Slab> slabs_;
};

}  // namespace nbc::verbs
