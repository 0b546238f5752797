// A compiled schedule: what src/schedules/schedule.ts encodes (engine/encoding.h), validated and with everything
// resolved that does not depend on buffers.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "engine/encoding.h"
#include "engine/reduce.h"
#include "fabric/fabric.h"

namespace nbc {

// A schedule was refused. `word` is the index of the offending word.
struct ScheduleError {
  size_t word;
  std::string reason;
};

constexpr uint32_t kNobody = UINT32_MAX;

struct Transfer {
  Rank peer;          // world rank
  uint32_t sequence;  // position among the messages to (or from) this peer in the schedule
  uint32_t of;        // how many these are: what a repetition of the schedule adds to the sequence
  Role role;
  uint64_t offset;
  uint64_t bytes;
  // Of a receive: the reduction that is all local work of the next round, combines just these bytes, and may do so as
  // soon as they are here. Index in Plan::locals, or kNobody.
  uint32_t combined_by = kNobody;
};

// One dimension of a strided copy.
struct Dimension {
  uint64_t count;
  uint64_t from_stride;  // bytes
  uint64_t to_stride;
};

// A part of a buffer that one rank copies or reduces within its own memory. Local elements of a round run one after
// another, in the order of the schedule, beside the round's transfers.
struct Local {
  Role from;
  Role to;
  uint64_t from_offset;
  uint64_t to_offset;
  // What is written. A copy without dimensions and a reduction write it in one go, a strided copy in blocks.
  uint64_t bytes;
  ReduceKernel reduce = nullptr;  // null: a copy
  uint32_t number = 0;            // of this kernel
  uint32_t unit = 1;              // a piece is a multiple of this many bytes
  // A reduction by a function of the user's (user_work.h), for which `reduce` is null.
  bool by_function = false;
  ElementType type = ElementType::uint8;
  Order order = Order::source_first;
  // Strided copies: blocks of `block` bytes, and Plan::dimensions [first, last), the outermost first.
  uint64_t block = 0;
  uint32_t dimension_first = 0;
  uint32_t dimension_last = 0;

  bool strided() const { return dimension_first < dimension_last; }
  // The time that it takes here, in bytes of a plain copy; a block costs a cache line beside its bytes.
  uint64_t cost() const;
};

// Elements of one round, as ranges of the plan's arrays: [first, last).
struct Round {
  uint32_t receive_first, receive_last;
  uint32_t send_first, send_last;
  uint32_t local_first, local_last;
  uint64_t local_cost;  // of all local elements
  uint64_t longest;     // bytes of its longest message
};

struct Plan {
  uint64_t role_bytes[kRoles] = {0, 0, 0};  // how much of each buffer the schedule may touch
  std::vector<Round> rounds;
  std::vector<Transfer> receives;
  std::vector<Transfer> sends;
  std::vector<Local> locals;
  std::vector<Dimension> dimensions;
};

// Checks every word and every range. Nothing that passes can touch memory outside the three buffers, or send to nobody.
// Throws ScheduleError. `members`: world ranks of the communicator; `rank`: ours in it. `messages`: the transfers are
// point-to-point messages, at most one each way; only these may go to the own rank. `has_function`: the operator USER
// may be used.
Plan compile_schedule(const uint32_t* words, size_t count, const std::vector<Rank>& members, Rank rank,
                      bool messages = false, bool has_function = false);

}  // namespace nbc
