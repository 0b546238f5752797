// A compiled schedule: what src/schedules/schedule.ts encodes, validated and with everything resolved that does not
// depend on buffers.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "fabric/fabric.h"

namespace nbc {

// A schedule was refused. `word` is the index of the offending word.
struct ScheduleError {
  size_t word;
  std::string reason;
};

enum class Role : uint32_t { send = 0, receive = 1, temporary = 2 };
constexpr uint32_t kRoles = 3;

struct Transfer {
  Rank peer;          // world rank
  uint32_t sequence;  // position among the messages to (or from) this peer in the schedule
  Role role;
  uint64_t offset;
  uint64_t bytes;
};

struct Copy {
  Role from;
  Role to;
  uint64_t from_offset;
  uint64_t to_offset;
  uint64_t bytes;
};

// Elements of one round, as ranges of the plan's arrays: [first, last).
struct Round {
  uint32_t receive_first, receive_last;
  uint32_t send_first, send_last;
  uint32_t copy_first, copy_last;
};

struct Plan {
  uint64_t role_bytes[kRoles] = {0, 0, 0};  // how much of each buffer the schedule may touch
  std::vector<Round> rounds;
  std::vector<Transfer> receives;
  std::vector<Transfer> sends;
  std::vector<Copy> copies;
};

// Encoding: 32-bit words. 64-bit values are two words, low first.
//   0 magic 'NBC1'   1 rounds   2-3 bytes of the send buffer   4-5 of the receive buffer   6-7 temporary bytes
//   then per round: number of elements, and each element:
//   SEND 1, peer, role, offset (2), bytes (2)          RECV 2, the same
//   COPY 3, from role, offset (2), to role, offset (2), bytes (2)
constexpr uint32_t kScheduleMagic = 0x3143424e;

// Checks every word and every range. Nothing that passes can touch memory outside the three buffers, or send to nobody.
// Throws ScheduleError. `members`: world ranks of the communicator; `rank`: ours in it.
Plan compile_schedule(const uint32_t* words, size_t count, const std::vector<Rank>& members, Rank rank);

}  // namespace nbc
