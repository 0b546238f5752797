#include "fabric/verbs/available.h"

#if NBC_HAS_VERBS
#include "fabric/verbs/registrations.h"

#include <algorithm>
#include <cerrno>

#include "fabric/verbs/locked_memory.h"

namespace nbc::verbs {
namespace {

using State = Registration::State;

bool same_owner(const std::weak_ptr<void>& a, const std::shared_ptr<void>& b) {
  return !a.owner_before(b) && !b.owner_before(a);
}

int access_for(Registrations::Use use) {
  return use == Registrations::Use::exposed ? IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE : IBV_ACCESS_LOCAL_WRITE;
}

}  // namespace

Registrations::Registrations(std::shared_ptr<Device> device, size_t most_entries, size_t most_bytes)
    : device_(std::move(device)),
      most_entries_(most_entries),
      most_bytes_(most_bytes),
      dropped_(device_->lib),
      beside_(
          [this](const ToRegister& what, Registered& result) -> int64_t {
            if (what.entry == nullptr) {
              dropped_.let_one_go();
              return Beside::kNoResult;
            }
            result = {what.entry, register_data(device_->lib, device_->pd, what.base, what.bytes, what.access)};
            return 0;
          },
          "transport 'verbs': no descriptor to register memory with") {}

Registrations::~Registrations() {
  beside_.stop();
  take_results();
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
  if (at->mr != nullptr) let_go(*at);
  bytes_ -= at->bytes;
  entries_.erase(at);
}

void Registrations::let_go(const Registration& entry) {
  if (entry.bytes < kBeside) {
    device_->lib.dereg_mr(entry.mr);
  } else {
    dropped_.add(entry.mr);
    beside_.start({nullptr, nullptr, 0, 0});
  }
}

void Registrations::erase(const Registration* entry) {
  erase(std::find_if(entries_.begin(), entries_.end(), [&](const Registration& one) { return &one == entry; }));
}

void Registrations::drop_expired() {
  for (auto it = entries_.begin(); it != entries_.end();) {
    const auto at = it++;
    if (at->uses > 0 || at->state == State::begun || !at->keeper.expired()) continue;
    ++counters_.expired;
    erase(at);
  }
}

bool Registrations::evict_one() {
  for (auto it = entries_.end(); it != entries_.begin();) {
    --it;
    if (it->uses > 0 || it->state == State::begun || it->state == State::fresh) continue;
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
  auto* address = const_cast<std::byte*>(base);
  for (;;) {
    const uint64_t gone = dropped_.gone();
    ibv_mr* mr = register_data(device_->lib, device_->pd, address, bytes, access_for(use));
    if (mr != nullptr) {
      entries_.push_front({mr, base, bytes, {}, 0, use == Use::exposed});
      bytes_ += bytes;
      return &entries_.front();
    }
    const int error = errno;
    // What was dropped, or what others hold idle, may be what is missing. beside_ may have let go meanwhile.
    if ((error == ENOMEM || error == EAGAIN) && (dropped_.let_all_go(gone) || evict_one())) continue;
    why_ = registration_failure(bytes, error);
    return nullptr;
  }
}

void Registrations::cache(Registration& entry, const std::shared_ptr<void>& keeper) {
  entry.keeper = keeper;
  entry.cached = true;
  by_base_.emplace(entry.base, entries_.begin());
}

Registrations::Extent Registrations::extent_of(const LocalBuffer& buffer) const {
  const Pinned* home = buffer.home;
  if (home == nullptr || home->keeper == nullptr) return {buffer.data, buffer.bytes, nullptr};
  if (home->bytes > most_bytes_ / 2) return {buffer.data, buffer.bytes, &home->keeper};
  return {home->data, home->bytes, &home->keeper};
}

// The entry of this very memory, at the front then. nullptr: there is none for this use.
Registration* Registrations::find(const Extent& extent, Use use) {
  const auto [first, last] = by_base_.equal_range(extent.base);
  bool stale = false;
  for (auto it = first; it != last; ++it) {
    const Entries::iterator entry = it->second;
    if (!same_owner(entry->keeper, *extent.keeper)) {
      stale = true;
      continue;
    }
    if (entry->bytes < extent.bytes || (use == Use::exposed && !entry->exposed)) continue;
    entries_.splice(entries_.begin(), entries_, entry);
    return &*entry;
  }
  if (stale) ++counters_.stale;
  return nullptr;
}

bool Registrations::prepare(const LocalBuffer& buffer, Use use) {
  const Extent extent = extent_of(buffer);
  if (extent.keeper == nullptr || extent.bytes < kBeside) return true;
  if (const Registration* entry = find(extent, use); entry != nullptr) return entry->state != State::begun;
  drop_expired();
  ++counters_.misses;
  ++counters_.beside;
  entries_.push_front({nullptr, extent.base, extent.bytes, {}, 0, use == Use::exposed});
  bytes_ += extent.bytes;
  Registration& entry = entries_.front();
  entry.state = State::begun;
  cache(entry, *extent.keeper);
  beside_.start({&entry, const_cast<std::byte*>(extent.base), extent.bytes, access_for(use)});
  return false;
}

void Registrations::take_results() {
  beside_.drain();
  for (Registered result; beside_.take(result);) {
    result.entry->mr = result.mr;
    result.entry->state = result.mr != nullptr ? State::fresh : State::failed;
    // Its memory may have gone meanwhile, and others be where it was.
    if (result.entry->keeper.expired()) erase(result.entry);
  }
  keep_within_bounds();
}

Registration* Registrations::acquire(const LocalBuffer& buffer, Use use) {
  const Extent extent = extent_of(buffer);
  if (extent.keeper != nullptr) {
    Registration* const found = find(extent, use);
    if (found != nullptr && found->mr != nullptr) {
      if (found->state != State::fresh) ++counters_.hits;  // that was a miss
      found->state = State::ready;
      ++found->uses;
      return found;
    }
    if (found != nullptr && found->state == State::failed) erase(found);
  }
  ++counters_.misses;
  drop_expired();
  Registration* made = make(extent.base, extent.bytes, use);
  const bool stays = made != nullptr && extent.keeper != nullptr;
  // It cannot be pinned as a whole.
  if (made == nullptr && extent.bytes > buffer.bytes) made = make(buffer.data, buffer.bytes, use);
  if (made == nullptr) return nullptr;
  ++made->uses;
  if (stays) cache(*made, *extent.keeper);
  keep_within_bounds();
  return made;
}

void Registrations::release(Registration* registration) {
  if (--registration->uses > 0) return;
  // Of memory whose life nobody knows nothing is kept: it may be gone in a moment.
  if (!registration->cached || registration->keeper.expired()) return erase(registration);
  keep_within_bounds();
}

}  // namespace nbc::verbs
#endif
