// Words that claim to be a schedule, as a program may write them (Communicator.start). They are refused with the word
// that is wrong, or become a plan. What a plan does stays inside its three buffers and leaves the send buffer alone. It
// is what the words say, in whatever order the elements of a round run that may run at the same time.
//
//   byte 0    bit 0: of messages; bit 1: there is a function of createOp; bit 2: local elements are done in small
//             pieces; bit 3: a round's transfers run backwards; bits 4 to 6: what of a round comes first (kTurns)
//   then      the words
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "engine/local_work.h"
#include "engine/plan.h"

using namespace nbc;

namespace {

const std::vector<Rank> kMembers = {7, 3, 11, 5};  // world ranks of the communicator
constexpr Rank kRank = 2;                          // ours in it
constexpr size_t kMostWords = 2048;
constexpr uint64_t kMostBytes = 4096;  // of a buffer: a plan with larger ones is checked and does not run
constexpr uint64_t kPieceCost = 100;

enum Kind { kReceives, kSends, kLocals };
constexpr Kind kInTurn[3] = {kSends, kReceives, kLocals};
constexpr Kind kTurns[6][3] = {{kSends, kReceives, kLocals}, {kSends, kLocals, kReceives},
                               {kReceives, kSends, kLocals}, {kReceives, kLocals, kSends},
                               {kLocals, kSends, kReceives}, {kLocals, kReceives, kSends}};

void require(bool holds, int line = __builtin_LINE()) {
  if (holds) return;
  std::fprintf(stderr, "plans.cc:%d: what is required does not hold\n", line);
  abort();
}

// A message of the schedule: its place among those to or from the peer, and what is in it.
struct Message {
  Rank peer;
  uint32_t sequence;
  std::vector<std::byte> data;
  bool operator==(const Message&) const = default;
};

// What a peer sends.
void arrive(std::byte* to, uint64_t bytes, Rank peer, uint32_t sequence) {
  for (uint64_t i = 0; i < bytes; ++i) to[i] = static_cast<std::byte>(31 * peer + 7 * sequence + 3 * i + 1);
}

// A function of createOp that does not commute.
void call_function(std::byte* to, const std::byte* from, uint64_t bytes, Order order) {
  for (uint64_t i = 0; i < bytes; ++i) {
    const auto [left, right] = order == Order::source_first ? std::pair{from[i], to[i]} : std::pair{to[i], from[i]};
    to[i] = static_cast<std::byte>(3 * static_cast<unsigned>(left) + static_cast<unsigned>(right));
  }
}

// The buffers of one execution, which end where they end, so that AddressSanitizer sees every step outside; and what it
// has sent.
struct Memory {
  explicit Memory(const uint64_t (&role_bytes)[kRoles]) {
    for (uint32_t role = 0; role < kRoles; ++role) {
      bytes[role] = role_bytes[role];
      base[role].reset(new std::byte[bytes[role]]);
      for (uint64_t i = 0; i < bytes[role]; ++i) base[role][i] = static_cast<std::byte>(5 * i + 77 * role + i / 256);
    }
  }

  std::byte* at(Role role, uint64_t offset) const { return base[static_cast<uint32_t>(role)].get() + offset; }
  bool equals(const Memory& other, Role role) const {
    const auto r = static_cast<uint32_t>(role);
    return std::equal(base[r].get(), base[r].get() + bytes[r], other.base[r].get());
  }
  Message message(Rank peer, uint32_t sequence, const std::byte* from, uint64_t length) const {
    return {peer, sequence, {from, from + length}};
  }

  uint64_t bytes[kRoles];
  std::unique_ptr<std::byte[]> base[kRoles];
  std::vector<Message> sent;
};

// --- what the words say ----------------------------------------------------------------------------------------------

// Executes the words of a schedule that has been accepted, element by element.
class Words {
 public:
  Words(const uint32_t* words, Memory& memory) : words_(words), memory_(memory) {}

  void run() {
    const auto header = read<words::Header>();
    for (uint32_t i = 0; i < header.rounds; ++i) {
      const size_t start = at_;
      for (const Kind turn : kInTurn) {
        at_ = start;
        for (uint32_t left = words_[at_++]; left > 0; --left) element(turn);
      }
    }
  }

 private:
  template <typename Fields>
  Fields read() {
    Fields fields;
    fields.each([this](auto& field, FieldType) {
      field = words_[at_++];
      if constexpr (sizeof field == sizeof(uint64_t)) field |= static_cast<uint64_t>(words_[at_++]) << 32;
    });
    return fields;
  }

  void element(Kind turn) {
    switch (static_cast<ElementKind>(words_[at_++])) {
      case ElementKind::send: {
        const auto send = read<words::Send>();
        const std::byte* const from = at(send.role, send.offset);
        if (turn == kSends)
          memory_.sent.push_back(memory_.message(kMembers[send.peer], sent_[send.peer]++, from, send.bytes));
        return;
      }
      case ElementKind::recv: {
        const auto receive = read<words::Recv>();
        if (turn == kReceives)
          arrive(at(receive.role, receive.offset), receive.bytes, kMembers[receive.peer], received_[receive.peer]++);
        return;
      }
      case ElementKind::copy: {
        const auto copy = read<words::Copy>();
        if (turn == kLocals && copy.bytes > 0)
          std::memcpy(at(copy.target_role, copy.target_offset), at(copy.source_role, copy.source_offset), copy.bytes);
        return;
      }
      case ElementKind::reduce:
        return reduce(read<words::Reduce>(), turn);
      case ElementKind::strided:
        return strided(read<words::Strided>(), turn);
    }
    require(false);
  }

  void reduce(const words::Reduce& reduce, Kind turn) {
    if (turn != kLocals || reduce.bytes == 0) return;
    std::byte* const to = at(reduce.target_role, reduce.target_offset);
    const std::byte* const from = at(reduce.source_role, reduce.source_offset);
    const auto op = static_cast<Operator>(reduce.op);
    if (op == Operator::user) return call_function(to, from, reduce.bytes, static_cast<Order>(reduce.order));
    reduce_kernel(op, static_cast<ElementType>(reduce.type))(to, from, to, reduce.bytes);
  }

  void strided(const words::Strided& strided, Kind turn) {
    std::vector<words::Dimension> dimensions;
    bool empty = strided.block_bytes == 0;
    for (uint32_t d = 0; d < strided.dimensions; ++d) {
      dimensions.push_back(read<words::Dimension>());
      empty |= dimensions.back().count == 0;
    }
    if (turn == kLocals && !empty) blocks(strided, dimensions, 0, strided.source_offset, strided.target_offset);
  }

  void blocks(const words::Strided& strided, const std::vector<words::Dimension>& dimensions, size_t d, uint64_t source,
              uint64_t target) {
    if (d == dimensions.size()) {
      std::memcpy(at(strided.target_role, target), at(strided.source_role, source), strided.block_bytes);
      return;
    }
    for (uint64_t i = 0; i < dimensions[d].count; ++i)
      blocks(strided, dimensions, d + 1, source + i * dimensions[d].source_stride,
             target + i * dimensions[d].target_stride);
  }

  std::byte* at(uint32_t role, uint64_t offset) const { return memory_.at(static_cast<Role>(role), offset); }

  const uint32_t* words_;
  Memory& memory_;
  size_t at_ = 0;
  uint32_t sent_[4] = {};
  uint32_t received_[4] = {};
};

// --- what the plan does ----------------------------------------------------------------------------------------------

struct Way {
  bool pieces;
  bool backwards;
  const Kind* turns;
};

// Executes a plan as the engine does, on a network that combines what it receives wherever it may.
class Execution {
 public:
  Execution(const Plan& plan, const Way& way, Memory& memory) : plan_(plan), way_(way), memory_(memory) {}

  void run() {
    memory_.sent.resize(plan_.sends.size());
    for (const Round& round : plan_.rounds) {
      const bool combined = combined_;
      combined_ = false;
      for (int i = 0; i < 3; ++i) {
        const Kind turn = way_.turns[i];
        if (turn == kReceives) each(round.receive_first, round.receive_last, [this](uint32_t r) { receive(r); });
        if (turn == kSends) each(round.send_first, round.send_last, [this](uint32_t s) { send(plan_.sends[s], s); });
        if (turn == kLocals && !combined) locals(round);
      }
    }
    require(!combined_);
  }

 private:
  template <typename Visit>
  void each(uint32_t first, uint32_t last, Visit&& visit) const {
    for (uint32_t i = first; i < last; ++i) visit(way_.backwards ? first + last - 1 - i : i);
  }

  void send(const Transfer& t, uint32_t index) {
    memory_.sent[index] = memory_.message(t.peer, t.sequence, memory_.at(t.role, t.offset), t.bytes);
  }

  void receive(uint32_t index) {
    const Transfer& t = plan_.receives[index];
    std::byte* const place = memory_.at(t.role, t.offset);
    if (t.combined_by == kNobody) return arrive(place, t.bytes, t.peer, t.sequence);
    const Local& local = plan_.locals[t.combined_by];
    std::byte* const target = memory_.at(local.to, local.to_offset);
    const std::byte* const source = memory_.at(local.from, local.from_offset);
    require(local.bytes == t.bytes && (place == target || place == source));
    std::vector<std::byte> message(t.bytes);
    arrive(message.data(), t.bytes, t.peer, t.sequence);
    if (place == target) {
      local.reduce(target, source, message.data(), t.bytes);
    } else {
      local.reduce(target, message.data(), target, t.bytes);
    }
    require(!combined_);
    combined_ = true;
  }

  void locals(const Round& round) {
    LocalTask task;
    task.plan = &plan_;
    for (uint32_t role = 0; role < kRoles; ++role) task.base[role] = memory_.base[role].get();
    task.element = round.local_first;
    task.last = round.local_last;
    while (task.element < task.last) {
      if (const Local* local = task.function_element()) {
        call_function(memory_.at(local->to, local->to_offset), memory_.at(local->from, local->from_offset),
                      local->bytes, local->order);
        ++task.element;
      } else if (way_.pieces) {
        work_on_element(task, kPieceCost);
      } else {
        complete_element(task);
      }
    }
  }

  const Plan& plan_;
  const Way way_;
  Memory& memory_;
  bool combined_ = false;  // a message of the round before, by what the next round would do
};

// --- plans of any size -----------------------------------------------------------------------------------------------

void check_range(const Plan& plan, Role role, uint64_t offset, unsigned __int128 bytes) {
  require(static_cast<uint32_t>(role) < kRoles);
  require(offset + bytes <= plan.role_bytes[static_cast<uint32_t>(role)]);
}

void check(const Plan& plan, bool messages) {
  for (const auto* transfers : {&plan.receives, &plan.sends}) {
    for (const Transfer& t : *transfers) {
      check_range(plan, t.role, t.offset, t.bytes);
      require(std::find(kMembers.begin(), kMembers.end(), t.peer) != kMembers.end());
      require(messages || t.peer != kMembers[kRank]);
      require(t.sequence < t.of);
    }
  }
  require(!messages || (plan.receives.size() <= 1 && plan.sends.size() <= 1));
  for (const Transfer& receive : plan.receives) require(receive.role != Role::send);
  for (const Local& local : plan.locals) {
    unsigned __int128 from = local.strided() ? local.block : local.bytes;
    unsigned __int128 to = from;
    for (uint32_t d = local.dimension_first; d < local.dimension_last; ++d) {
      const Dimension& dimension = plan.dimensions[d];
      from += static_cast<unsigned __int128>(dimension.count - 1) * dimension.from_stride;
      to += static_cast<unsigned __int128>(dimension.count - 1) * dimension.to_stride;
    }
    check_range(plan, local.from, local.from_offset, from);
    check_range(plan, local.to, local.to_offset, to);
    require(local.to != Role::send);
    require(local.bytes > 0 && local.bytes % local.unit == 0);
  }
}

// From memory that ends where the words end.
bool compile(const uint32_t* words, size_t count, bool messages, bool has_function, Plan& plan) {
  try {
    plan = compile_schedule(words, count, kMembers, kRank, messages, has_function);
    return true;
  } catch (const ScheduleError& error) {
    require(!error.reason.empty() && error.word <= count);
    return false;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const size_t count = std::min((size - 1) / sizeof(uint32_t), kMostWords);
  const std::unique_ptr<uint32_t[]> words(new uint32_t[count]);
  if (count > 0) std::memcpy(words.get(), data + 1, count * sizeof(uint32_t));
  const bool messages = (data[0] & 1) != 0;
  Plan plan;
  if (!compile(words.get(), count, messages, (data[0] & 2) != 0, plan)) return 0;
  check(plan, messages);
  for (const uint64_t bytes : plan.role_bytes) {
    if (bytes > kMostBytes) return 0;
  }
  Memory expected(plan.role_bytes);
  Words(words.get(), expected).run();
  Memory memory(plan.role_bytes);
  Execution(plan, {(data[0] & 4) != 0, (data[0] & 8) != 0, kTurns[(data[0] >> 4 & 7) % 6]}, memory).run();
  require(memory.sent == expected.sent);
  require(memory.equals(Memory(plan.role_bytes), Role::send));
  require(memory.equals(expected, Role::receive));
  // A message that is combined as it comes is not in temporary memory afterwards.
  const auto combined = [](const Transfer& t) { return t.combined_by != kNobody; };
  require(std::any_of(plan.receives.begin(), plan.receives.end(), combined) ||
          memory.equals(expected, Role::temporary));
  return 0;
}
