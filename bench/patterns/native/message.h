// A message of any size that is a multiple of 8:
//
//   front  8   the stamp once more, where there is room for it
//   …
//   end    8   the stamp: number << 8 | client
//
// A reader of a mailbox polls the end, because a card writes a message in the order of its addresses ("RDMA
// Communication Patterns", section 4.1). No specification promises that, so the front is compared, and messages whose
// end came first are counted. Numbers grow, so nothing has to be cleared.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace nbc::patterns {

constexpr size_t kStampBytes = sizeof(uint64_t);

inline uint64_t make_stamp(uint64_t number, uint32_t client) { return number << 8 | client; }
inline uint32_t client_of(uint64_t stamp) { return static_cast<uint32_t>(stamp & 0xff); }

// Of memory that a card or another process writes.
inline uint64_t load_stamp(const std::byte* at) {
  // acquire: a reader that sees the end sees what was stored before it; pairs with the release in store_stamp.
  return __atomic_load_n(reinterpret_cast<const uint64_t*>(at), __ATOMIC_ACQUIRE);
}
inline void store_stamp(std::byte* at, uint64_t stamp) {
  __atomic_store_n(reinterpret_cast<uint64_t*>(at), stamp, __ATOMIC_RELEASE);
}

inline const std::byte* end_of(const std::byte* message, size_t bytes) { return message + bytes - kStampBytes; }
inline std::byte* end_of(std::byte* message, size_t bytes) { return message + bytes - kStampBytes; }

inline void put_stamp(std::byte* message, size_t bytes, uint64_t stamp) {
  store_stamp(message, stamp);
  store_stamp(end_of(message, bytes), stamp);
}

// A message that has come.
struct Arrival {
  uint32_t client = 0;
  uint32_t receive = 0;  // which of the posted receives took it
  uint64_t stamp = 0;
};

}  // namespace nbc::patterns
