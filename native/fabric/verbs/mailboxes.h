// Inboxes and outboxes of the peers that a rank is connected to.
//
//   a place: 0        inbox    control 3072, note 1024, slots 60 KiB
//            64 KiB   outbox   the same; read by our card, and written to the peer's inbox
//            128 KiB  headers  of the SENDs on their way, if there are any
//
// The peer's card writes the inbox, or we do (parcel.h). It is registered by itself, so the peer's key is good for it
// and for no other memory. The outbox and the headers are registered for our card only.
//
// At most one place per peer. Places stay until the end: packets on their way may still name a connection that broke.
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
  ibv_mr* inbox_mr = nullptr;
  ibv_mr* outbox_mr = nullptr;  // of the headers, too
};

inline Mailbox mailbox_at(std::byte* box) { return {box, box + kControlBytes + kNoteBytes}; }

class Mailboxes {
 public:
  // Registers the first place at once: where that fails, the rank can reach no peer, and init() should say so.
  // Throws FabricError.
  Mailboxes(std::shared_ptr<Device> device, Rank peers, uint32_t headers);
  ~Mailboxes();
  // Throws FabricError where memory cannot be registered.
  Place take();

 private:
  void add();
  void remove(const Place& place);
  ibv_mr* register_memory(std::byte* at, size_t bytes, int access);

  std::shared_ptr<Device> device_;
  size_t bytes_;               // of a place
  std::vector<Place> places_;  // all that were made
  bool spare_ = false;         // the last one is not taken
};

}  // namespace nbc::verbs
