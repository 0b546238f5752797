#include "fabric/verbs/available.h"

#if NBC_HAS_VERBS
#include "fabric/verbs/mailboxes.h"

#include <algorithm>
#include <cerrno>
#include <sys/mman.h>

#include "fabric/verbs/locked_memory.h"

namespace nbc::verbs {
namespace {

constexpr size_t kPlacesPerSlab = 16;

}  // namespace

Mailboxes::Mailboxes(std::shared_ptr<Device> device, Rank peers, uint32_t headers)
    : device_(std::move(device)), peers_(peers), stride_((2 * kBoxBytes + headers * sizeof(Header) + 63) / 64 * 64) {
  if (peers_ > 0) add_slab();
}

Mailboxes::~Mailboxes() {
  for (const Slab& slab : slabs_) {
    device_->lib.dereg_mr(slab.mr);
    munmap(slab.base, slab.bytes);
  }
}

void Mailboxes::add_slab() {
  const size_t places = std::clamp<size_t>(peers_ - taken_, 1, kPlacesPerSlab);
  const size_t bytes = places * stride_;
  void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) throw FabricError{"no memory for mailboxes"};
  ibv_mr* mr = device_->lib.reg_mr(device_->pd, at, bytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  if (mr == nullptr) {
    const int error = errno;
    munmap(at, bytes);
    throw FabricError{"transport 'verbs': " + registration_failure(bytes, error)};
  }
  slabs_.push_back({static_cast<std::byte*>(at), bytes, mr});
  left_ = places;
}

Place Mailboxes::take() {
  if (left_ == 0) add_slab();
  const Slab& slab = slabs_.back();
  std::byte* at = slab.base + --left_ * stride_;
  ++taken_;
  return {at, at + kBoxBytes, reinterpret_cast<Header*>(at + 2 * kBoxBytes), slab.mr};
}

}  // namespace nbc::verbs
#endif
