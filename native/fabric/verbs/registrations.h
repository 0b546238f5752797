// The registration cache. Registering pins pages by a system call, so registrations of the user's buffers are kept; but
// the memory of a buffer is freed, and its address used again, without anybody telling us. So an entry belongs to the
// object that keeps the memory allocated (Pinned::keeper), not to the address:
//
//   - An entry is served only to a buffer with the very same keeper. The caller holds that keeper, so the memory has
//     been the same all the time since it was registered. A buffer that happens to lie where another was has another
//     keeper, and gets a registration of its own.
//   - An entry holds its keeper weakly. When nobody holds it any more the entry is dropped, at the latest by the next
//     miss.
//   - While an entry is in use (a put reads from it, a peer may write to it) it stays; the operation keeps the keeper
//     alive meanwhile.
//
// It is bounded in entries and in bytes, and drops what was used least recently. An entry is for all of a buffer, so
// that its other parts are hits. Of a buffer that would fill the cache alone it is for the part that is asked for.
//
// To pin the pages of a large buffer takes long, so prepare() lets a thread of its own do it. The entry is there from
// the beginning, and has a registration when the thread is done. It stays until it is first used, or until nobody holds
// its keeper any more. What the thread could not register is tried again by acquire(), which drops others, or
// registers a part only, or tells why not. The same thread lets go what was dropped and is large. If memory is missing
// meanwhile, acquire() does that first.
//
// Threads: the owner of the engine.
#pragma once
#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <unordered_map>

#include "fabric/verbs/beside.h"
#include "fabric/verbs/device.h"
#include "fabric/verbs/dropped.h"

namespace nbc::verbs {

struct RegistrationCounters {
  uint64_t hits = 0;
  uint64_t misses = 0;
  uint64_t evictions = 0;  // to keep within the bounds, or because locked memory ran out
  uint64_t expired = 0;    // dropped because their memory had gone
  uint64_t stale = 0;      // not served, since another buffer lies at their address now; part of the misses
  uint64_t beside = 0;     // made beside the engine; part of the misses
};

struct Registration {
  ibv_mr* mr = nullptr;  // null: see `state`
  const std::byte* base = nullptr;
  size_t bytes = 0;
  std::weak_ptr<void> keeper;
  uint32_t uses = 0;
  bool exposed = false;  // peers may write there
  bool cached = false;
  enum class State : uint8_t { ready, begun, fresh, failed };  // fresh: ready, and not used yet
  State state = State::ready;
};

struct ToRegister {
  Registration* entry;  // null: let go one that was dropped
  std::byte* base;
  size_t bytes;
  int access;
};

struct Registered {
  Registration* entry = nullptr;
  ibv_mr* mr = nullptr;  // null: that failed
};

class Registrations {
 public:
  using Beside = verbs::Beside<ToRegister, Registered>;

  // From how many bytes on a buffer is registered, and let go, beside the engine. An estimate: to wake the thread takes
  // some 50 µs, and to pin 256 pages not much less.
  static constexpr size_t kBeside = 1 << 20;

  Registrations(std::shared_ptr<Device> device, size_t most_entries, size_t most_bytes);
  ~Registrations();

  // What a buffer is registered for. One that is only sent from is closed to peers.
  enum class Use { sends, exposed };
  // False: that has begun, and beside() will have a result.
  bool prepare(const LocalBuffer& buffer, Use use);
  Beside& beside() { return beside_; }
  bool has_results() const { return beside_.has_results(); }
  // Takes what beside() has.
  void take_results();
  // A registration that holds the buffer, counted as used until release(). nullptr: why() tells.
  Registration* acquire(const LocalBuffer& buffer, Use use);
  void release(Registration* registration);
  // Drops what nobody keeps allocated any more.
  void drop_expired();
  const std::string& why() const { return why_; }
  const RegistrationCounters& counters() const { return counters_; }
  size_t entries() const { return entries_.size(); }

 private:
  using Entries = std::list<Registration>;  // the front was used last
  Registration* make(const std::byte* base, size_t bytes, Use use);
  void cache(Registration& entry, const std::shared_ptr<void>& keeper);
  // What an entry for a buffer is of.
  struct Extent {
    const std::byte* base;
    size_t bytes;
    const std::shared_ptr<void>* keeper;  // null: nobody knows how long it lives
  };
  Extent extent_of(const LocalBuffer& buffer) const;
  Registration* find(const Extent& extent, Use use);
  void erase(Entries::iterator at);
  void let_go(const Registration& entry);
  void erase(const Registration* entry);
  bool evict_one();
  void keep_within_bounds();

  std::shared_ptr<Device> device_;
  size_t most_entries_;
  size_t most_bytes_;
  size_t bytes_ = 0;
  Entries entries_;
  std::unordered_multimap<const std::byte*, Entries::iterator> by_base_;  // cached ones
  std::string why_;
  RegistrationCounters counters_;
  Dropped dropped_;
  Beside beside_;  // uses dropped_
};

}  // namespace nbc::verbs
