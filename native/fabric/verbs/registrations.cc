#include "fabric/verbs/available.h"

#if NBC_HAS_VERBS
#include "fabric/verbs/registrations.h"

#include <cerrno>

#include "fabric/verbs/locked_memory.h"

namespace nbc::verbs {
namespace {

bool same_owner(const std::weak_ptr<void>& a, const std::shared_ptr<void>& b) {
  return !a.owner_before(b) && !b.owner_before(a);
}

}  // namespace

Registrations::~Registrations() {
  while (!entries_.empty()) erase(entries_.begin());
}

void Registrations::erase(Entries::iterator at) {
  if (at->cached) {
    const auto [first, last] = by_base_.equal_range(at->base);
    for (auto it = first; it != last; ++it) {
      if (it->second != at) continue;
      by_base_.erase(it);
      break;
    }
  }
  device_->lib.dereg_mr(at->mr);
  bytes_ -= at->bytes;
  entries_.erase(at);
}

void Registrations::drop_expired() {
  for (auto it = entries_.begin(); it != entries_.end();) {
    const auto at = it++;
    if (at->uses > 0 || !at->keeper.expired()) continue;
    ++counters_.expired;
    erase(at);
  }
}

bool Registrations::evict_one() {
  for (auto it = entries_.end(); it != entries_.begin();) {
    --it;
    if (it->uses > 0) continue;
    ++counters_.evictions;
    erase(it);
    return true;
  }
  return false;
}

void Registrations::keep_within_bounds() {
  while ((entries_.size() > most_entries_ || bytes_ > most_bytes_) && evict_one()) {
  }
}

Registration* Registrations::make(const std::byte* base, size_t bytes, Use use) {
  const bool exposed = use == Use::exposed;
  const int access = exposed ? IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE : IBV_ACCESS_LOCAL_WRITE;
  auto* address = const_cast<std::byte*>(base);
  for (;;) {
    ibv_mr* mr = register_data(device_->lib, device_->pd, address, bytes, access);
    if (mr != nullptr) {
      entries_.push_front({mr, base, bytes, {}, 0, exposed, false});
      bytes_ += bytes;
      return &entries_.front();
    }
    const int error = errno;
    // What others hold idle may be what is missing.
    if ((error == ENOMEM || error == EAGAIN) && evict_one()) continue;
    why_ = registration_failure(bytes, error);
    return nullptr;
  }
}

Registration* Registrations::acquire(const LocalBuffer& buffer, Use use) {
  const Pinned* home = buffer.home;
  const bool lives = home != nullptr && home->keeper != nullptr;
  if (lives) {
    const auto [first, last] = by_base_.equal_range(home->data);
    bool stale = false;
    for (auto it = first; it != last; ++it) {
      const Entries::iterator entry = it->second;
      if (!same_owner(entry->keeper, home->keeper)) {
        stale = true;
        continue;
      }
      if (entry->bytes < home->bytes || (use == Use::exposed && !entry->exposed)) continue;
      ++counters_.hits;
      ++entry->uses;
      entries_.splice(entries_.begin(), entries_, entry);
      return &*entry;
    }
    if (stale) ++counters_.stale;
  }
  ++counters_.misses;
  drop_expired();
  Registration* made = nullptr;
  // All of a buffer, so that its other parts are hits; unless it would fill the cache alone, or cannot be pinned as a
  // whole.
  if (lives && home->bytes <= most_bytes_ / 2) made = make(home->data, home->bytes, use);
  const bool whole = made != nullptr;
  if (made == nullptr) made = make(buffer.data, buffer.bytes, use);
  if (made == nullptr) return nullptr;
  ++made->uses;
  if (whole) {
    made->keeper = home->keeper;
    made->cached = true;
    by_base_.emplace(made->base, entries_.begin());
  }
  keep_within_bounds();
  return made;
}

void Registrations::release(Registration* registration) {
  if (--registration->uses > 0) return;
  // Of memory whose life nobody knows nothing is kept: it may be gone in a moment.
  if (!registration->cached || registration->keeper.expired()) {
    for (auto it = entries_.begin(); it != entries_.end(); ++it) {
      if (&*it != registration) continue;
      erase(it);
      return;
    }
  }
  keep_within_bounds();
}

}  // namespace nbc::verbs
#endif
