// The memory that this rank has exposed, and to which peer. A key names an exposure, not memory: it is new each time,
// and dead after close(). A peer that has got the key may still send data for it when the operation has failed here.
// Such data are dropped, and the connection goes on.
//
//   key   bits 31-20 generation   bits 19-0 entry
//
// A key comes again after 4095 exposures by its entry. An entry that was closed is used again after kSpare others, so
// this takes a million exposures.
//
// Threads: the owner of the engine.
#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>

#include "fabric/fabric.h"

namespace nbc {

struct Region {
  std::byte* data = nullptr;
  size_t bytes = 0;
  size_t written = 0;  // by frames that arrived
  Rank peer = 0;
  uint32_t key = 0;
  bool open = false;
  bool reused = false;   // its generations have begun anew, so any of them was open
  bool revoked = false;  // what comes for it is dropped
};

class Regions {
 public:
  // The key, by which `peer` may write the memory once, from its beginning to its end. 0: there are too many.
  uint32_t open(Rank peer, std::byte* data, size_t bytes);
  void close(uint32_t key);
  // Some peer may have got this key, and it is open no more.
  bool was_open(uint32_t key) const;
  // The key stays good, and what is written by it goes nowhere.
  void revoke(uint32_t key);
  // nullptr: it is not open, or not to this peer.
  const Region* find(uint32_t key, Rank peer) const;
  Region* find(uint32_t key, Rank peer) {
    return const_cast<Region*>(static_cast<const Regions*>(this)->find(key, peer));
  }

 private:
  static constexpr uint32_t kEntryBits = 20;
  static constexpr uint32_t kEntries = 1u << kEntryBits;
  static constexpr size_t kSpare = 256;
  std::deque<Region> regions_;
  std::deque<uint32_t> free_;  // entries; the one that was closed longest ago comes first
};

}  // namespace nbc
