#include "fabric/regions.h"

#include <algorithm>

namespace nbc {

uint32_t Regions::open(Rank peer, std::byte* data, size_t bytes) {
  uint32_t entry;
  if (free_.size() > std::max(kSpare, regions_.size() / 2) || (regions_.size() == kEntries && !free_.empty())) {
    entry = free_.front();
    free_.pop_front();
  } else if (regions_.size() < kEntries) {
    entry = static_cast<uint32_t>(regions_.size());
    regions_.push_back({});
    regions_.back().key = entry;
  } else {
    return 0;
  }
  Region& region = regions_[entry];
  // Never 0, which is no key.
  do {
    region.key += kEntries;
    region.reused |= region.key < kEntries;
  } while (region.key == 0);
  region.data = data;
  region.bytes = bytes;
  region.written = 0;
  region.peer = peer;
  region.open = true;
  region.revoked = false;
  return region.key;
}

void Regions::close(uint32_t key) {
  const uint32_t entry = key % kEntries;
  if (entry >= regions_.size() || !regions_[entry].open || regions_[entry].key != key) return;
  regions_[entry].open = false;
  free_.push_back(entry);
}

bool Regions::was_open(uint32_t key) const {
  const uint32_t entry = key % kEntries;
  if (key == 0 || entry >= regions_.size()) return false;
  const Region& region = regions_[entry];
  if (region.key == key) return !region.open;
  return region.reused || (key >= kEntries && key < region.key);
}

void Regions::revoke(uint32_t key) {
  const uint32_t entry = key % kEntries;
  if (entry < regions_.size() && regions_[entry].open && regions_[entry].key == key) regions_[entry].revoked = true;
}

const Region* Regions::find(uint32_t key, Rank peer) const {
  const uint32_t entry = key % kEntries;
  if (entry >= regions_.size()) return nullptr;
  const Region& region = regions_[entry];
  return region.open && region.key == key && region.peer == peer ? &region : nullptr;
}

}  // namespace nbc
