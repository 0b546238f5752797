// What travels on a connection after its handshake: frames, each a header of 24 bytes and what it announces.
//
//   kind      bytes            value       key                at
//   message   of the payload   the note    0                  where in the inbox the payload belongs
//   data      of the payload   0           of the region      where in the region
//   done      0                immediate   of the region      how many bytes of data there were
//   failed    0                immediate   the error          how many bytes there would have been; what is told
//   closed    0                0           0                  0
//   beat      0                interval    0                  0
//   lost      0                0           0                  0
//
// A beat says that the sender lives, and after how many milliseconds the next one comes at the latest. Lost: the sender
// has given the receiver up, because it was silent for too long.
//
// Numbers are in the order of little-endian machines, which all that Node.js runs on are. Nothing in a header is
// believed: check() says what is wrong with one before a byte behind it is read.
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>

#include "error.h"
#include "fabric/fabric.h"
#include "fabric/regions.h"

namespace nbc::tcp {

static_assert(std::endian::native == std::endian::little);

enum class FrameKind : uint32_t { message = 1, data = 2, done = 3, failed = 4, closed = 5, beat = 6, lost = 7 };

// Milliseconds between two beats of a peer, at most.
constexpr uint32_t kLongestBeat = 1000;

struct FrameHeader {
  FrameKind kind;
  uint32_t bytes;
  uint32_t value;
  uint32_t key;
  uint64_t at;
};
static_assert(sizeof(FrameHeader) == 24);

// Control messages wait for one of these at most. 128 KiB take 1 ms at 1 Gbit/s.
constexpr uint32_t kLargestData = 128 * 1024;

// The part of an inbox that messages may write: control, then slots behind it.
constexpr size_t inbox_bytes(uint32_t eager_limit) { return kControlBytes + room_for(eager_limit); }

// nullptr, or what is wrong with a frame from this peer. Data may be right whose region was closed: they are dropped.
const char* check(const FrameHeader& header, Rank peer, const Regions& regions, uint32_t eager_limit);

}  // namespace nbc::tcp
