#include "fabric/verbs/available.h"

#if NBC_HAS_VERBS
#include "fabric/verbs/mailboxes.h"

#include <cerrno>
#include <sys/mman.h>

#include "fabric/verbs/locked_memory.h"

namespace nbc::verbs {

Mailboxes::Mailboxes(std::shared_ptr<Device> device, Rank peers, uint32_t headers)
    : device_(std::move(device)), bytes_(2 * kBoxBytes + headers * sizeof(Header)) {
  if (peers == 0) return;
  add();
  spare_ = true;
}

Mailboxes::~Mailboxes() {
  for (const Place& place : places_) remove(place);
}

ibv_mr* Mailboxes::register_memory(std::byte* at, size_t bytes, int access) {
  ibv_mr* mr = device_->lib.reg_mr(device_->pd, at, bytes, access);
  if (mr == nullptr) throw FabricError{"transport 'verbs': " + registration_failure(bytes, errno)};
  return mr;
}

void Mailboxes::add() {
  void* at = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) throw FabricError{"no memory for mailboxes"};
  Place place;
  place.inbox = static_cast<std::byte*>(at);
  place.outbox = place.inbox + kBoxBytes;
  place.headers = reinterpret_cast<Header*>(place.outbox + kBoxBytes);
  try {
    place.inbox_mr = register_memory(place.inbox, kBoxBytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    place.outbox_mr = register_memory(place.outbox, bytes_ - kBoxBytes, 0);
  } catch (const FabricError&) {
    remove(place);
    throw;
  }
  places_.push_back(place);
}

void Mailboxes::remove(const Place& place) {
  for (ibv_mr* mr : {place.inbox_mr, place.outbox_mr}) {
    if (mr != nullptr) device_->lib.dereg_mr(mr);
  }
  munmap(place.inbox, bytes_);
}

Place Mailboxes::take() {
  if (!spare_) add();
  spare_ = false;
  return places_.back();
}

}  // namespace nbc::verbs
#endif
