// The memory that this rank has exposed, and to whom. A key names an exposure, not memory: it is new each time and dead
// with conceal(), so what comes late for an earlier one finds nothing.
//
//   key   bits 31-20 generation   bits 19-0 entry
//
// Threads: the owner of the engine.
#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>

#include "fabric/fabric.h"

namespace nbc::tcp {

struct Region {
  std::byte* data = nullptr;
  size_t bytes = 0;
  size_t written = 0;  // by frames that arrived
  Rank peer = 0;
  uint32_t key = 0;
  bool open = false;
};

class Regions {
 public:
  // The key, by which `peer` may write the memory once, from its beginning to its end. 0: there are too many.
  uint32_t open(Rank peer, std::byte* data, size_t bytes);
  void close(uint32_t key);
  // nullptr: it is not open, or not to this peer.
  const Region* find(uint32_t key, Rank peer) const;
  Region* find(uint32_t key, Rank peer) {
    return const_cast<Region*>(static_cast<const Regions*>(this)->find(key, peer));
  }

 private:
  static constexpr uint32_t kEntryBits = 20;
  static constexpr uint32_t kEntries = 1u << kEntryBits;
  std::deque<Region> regions_;
  std::deque<uint32_t> free_;  // entries; the one that was freed longest ago comes next
};

}  // namespace nbc::tcp
