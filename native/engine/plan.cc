#include "engine/plan.h"

#include <algorithm>
#include <unordered_map>

#include "engine/box.h"

namespace nbc {
namespace {

constexpr uint64_t kMaxBytes = uint64_t{1} << 53;  // what a JavaScript number counts exactly
constexpr size_t kMaxWords = size_t{1} << 26;

// A range that a transfer of the current round touches.
struct Range {
  Role role;
  uint64_t first;
  uint64_t last;
  bool writes;
  size_t word;
  // The furthest end of this range and those before it, of all and of those that write.
  uint64_t reach = 0;
  uint64_t reach_of_writes = 0;
};

// The same of a local element.
struct Access {
  Role role;
  Box box;
  bool writes;
  size_t word;
};

Role role_of(uint32_t word) { return static_cast<Role>(word); }

class Compiler {
 public:
  Compiler(const uint32_t* words, size_t count, const std::vector<Rank>& members, Rank rank, bool messages,
           bool has_function)
      : words_(words),
        count_(count),
        members_(members),
        rank_(rank),
        messages_(messages),
        has_function_(has_function) {}

  Plan run() {
    if (count_ > kMaxWords) fail(0, "the schedule is longer than 2^26 words");
    const auto header = read<words::Header>();
    plan_.role_bytes[0] = header.send_bytes;
    plan_.role_bytes[1] = header.receive_bytes;
    plan_.role_bytes[2] = header.temp_bytes;
    for (uint32_t i = 0; i < header.rounds; ++i) round();
    if (at_ != count_) fail(at_, "words are left over after the last round");
    for (Transfer& transfer : plan_.sends) transfer.of = sent_[transfer.peer];
    for (Transfer& transfer : plan_.receives) transfer.of = received_[transfer.peer];
    keep_what_is_read();
    if (messages_ && (plan_.sends.size() > 1 || plan_.receives.size() > 1))
      fail(at_, "more than one message is sent or received");
    return std::move(plan_);
  }

 private:
  [[noreturn]] static void fail(size_t word, std::string reason) { throw ScheduleError{word, std::move(reason)}; }

  // --- words ---------------------------------------------------------------------------------------------------------

  uint32_t word() {
    if (at_ >= count_) fail(count_, "the schedule ends in the middle of an element");
    return words_[at_++];
  }

  template <typename Fields>
  Fields read() {
    Fields fields;
    fields.each([this](auto& field, FieldType type) {
      const size_t start = at_;
      field = word();
      if constexpr (sizeof field == sizeof(uint64_t)) field |= static_cast<uint64_t>(word()) << 32;
      check(start, type, field);
    });
    return fields;
  }

  void check(size_t at, FieldType type, uint64_t value) const {
    const auto below = [&](uint64_t limit, const char* what) {
      if (value >= limit) fail(at, "there is no " + std::string(what) + " " + std::to_string(value));
    };
    switch (type) {
      case FieldType::magic:
        if (value != kScheduleMagic) fail(at, "this is not an encoded schedule (wrong magic number)");
        break;
      case FieldType::rank:
        if (value >= members_.size())
          fail(at,
               "rank " + std::to_string(value) + " is not in this communicator of " + std::to_string(members_.size()));
        if (value == rank_ && !messages_) fail(at, "a schedule does not send to its own rank; use COPY");
        break;
      case FieldType::target:
        if (value == static_cast<uint32_t>(Role::send)) fail(at, "the send buffer is not written by a collective");
        [[fallthrough]];
      case FieldType::source:
        return below(kRoles, "buffer role");
      case FieldType::op:
        return below(kOperators, "operator");
      case FieldType::type:
        return below(kElementTypes, "element type");
      case FieldType::order:
        return below(kOrders, "order of operands");
      case FieldType::dimensions:
        if (value > kMaxDimensions)
          fail(at, "a strided copy has at most " + std::to_string(kMaxDimensions) + " dimensions, not " +
                       std::to_string(value));
        break;
      case FieldType::offset:
      case FieldType::size:
      case FieldType::count:
      case FieldType::stride:
        if (value > kMaxBytes) fail(at, std::to_string(value) + " is above 2^53");
        break;
      case FieldType::rounds:
        break;
    }
  }

  // --- elements ------------------------------------------------------------------------------------------------------

  void round() {
    Round round{};
    round.receive_first = static_cast<uint32_t>(plan_.receives.size());
    round.send_first = static_cast<uint32_t>(plan_.sends.size());
    round.local_first = static_cast<uint32_t>(plan_.locals.size());
    std::swap(ranges_, ranges_before_);
    std::swap(accesses_, accesses_before_);
    ranges_.clear();
    accesses_.clear();
    const uint32_t elements = word();
    for (uint32_t i = 0; i < elements; ++i) element();
    independent();
    round.receive_last = static_cast<uint32_t>(plan_.receives.size());
    round.send_last = static_cast<uint32_t>(plan_.sends.size());
    round.local_last = static_cast<uint32_t>(plan_.locals.size());
    for (uint32_t i = round.local_first; i < round.local_last; ++i) round.local_cost += plan_.locals[i].cost();
    for (uint32_t i = round.receive_first; i < round.receive_last; ++i) note_message(round, plan_.receives[i]);
    for (uint32_t i = round.send_first; i < round.send_last; ++i) note_message(round, plan_.sends[i]);
    combine_early(round);
    plan_.rounds.push_back(round);
  }

  static void note_message(Round& round, const Transfer& t) { round.longest = std::max(round.longest, t.bytes); }

  // Finds the receive of the round before that the reduction of this round may be joined with.
  void combine_early(const Round& round) {
    if (messages_ || plan_.rounds.empty() || round.local_last - round.local_first != 1) return;
    const Local& local = plan_.locals[round.local_first];
    if (local.reduce == nullptr) return;
    const Round& before = plan_.rounds.back();
    for (uint32_t i = before.receive_first; i < before.receive_last; ++i) {
      Transfer& t = plan_.receives[i];
      if (t.bytes != local.bytes) continue;
      const bool is_source = t.role == Role::temporary && t.role == local.from && t.offset == local.from_offset;
      const bool is_target = t.role == local.to && t.offset == local.to_offset;
      // What the reduction does beside the receive: it writes its target, or reads its source.
      const bool free = is_source ? is_untouched(local.to, local.to_offset, local.bytes, true)
                                  : is_target && is_untouched(local.from, local.from_offset, local.bytes, false);
      if (free) t.combined_by = round.local_first;
    }
  }

  // A message that is combined as it comes is not in temporary memory afterwards.
  void keep_what_is_read() {
    for (size_t r = 0; r < plan_.rounds.size(); ++r) {
      const Round& round = plan_.rounds[r];
      for (uint32_t i = round.receive_first; i < round.receive_last; ++i) {
        Transfer& t = plan_.receives[i];
        if (t.combined_by == kNobody || t.role != Role::temporary) continue;
        if (plan_.locals[t.combined_by].from == t.role && is_read_after(t, r)) t.combined_by = kNobody;
      }
    }
  }

  // Whether anything but the reduction reads some of what was received in a round, before it is overwritten.
  bool is_read_after(const Transfer& t, size_t r) const {
    uint64_t first = t.offset;
    uint64_t last = t.offset + t.bytes;
    const auto touches = [&](Role role, uint64_t offset, uint64_t bytes) {
      return role == t.role && offset < last && first < offset + bytes;
    };
    const auto overwrite = [&](Role role, uint64_t offset, uint64_t bytes) {
      if (!touches(role, offset, bytes)) return;
      if (offset <= first) {
        first = std::min(last, offset + bytes);
      } else if (offset + bytes >= last) {
        last = offset;
      }
    };
    while (++r < plan_.rounds.size() && first < last) {
      const Round& round = plan_.rounds[r];
      for (uint32_t i = round.send_first; i < round.send_last; ++i) {
        const Transfer& send = plan_.sends[i];
        if (touches(send.role, send.offset, send.bytes)) return true;
      }
      for (uint32_t i = round.local_first; i < round.local_last; ++i) {
        const Local& local = plan_.locals[i];
        if (i == t.combined_by) continue;
        if (local.strided() ? local.from == t.role : touches(local.from, local.from_offset, local.bytes)) return true;
        const bool reduces = local.reduce != nullptr || local.by_function;
        if (reduces && touches(local.to, local.to_offset, local.bytes)) return true;
        if (!reduces && !local.strided()) overwrite(local.to, local.to_offset, local.bytes);
      }
      for (uint32_t i = round.receive_first; i < round.receive_last; ++i) {
        const Transfer& receive = plan_.receives[i];
        overwrite(receive.role, receive.offset, receive.bytes);
      }
    }
    return false;
  }

  // Whether nothing in the round before minds that these bytes are written in it, or else read.
  bool is_untouched(Role role, uint64_t first, uint64_t bytes, bool writes) const {
    const uint64_t last = first + bytes;
    return std::none_of(ranges_before_.begin(), ranges_before_.end(),
                        [&](const Range& range) {
                          return (writes || range.writes) && range.role == role && range.first < last &&
                                 first < range.last;
                        }) &&
           std::none_of(accesses_before_.begin(), accesses_before_.end(), [&](const Access& access) {
             return (writes || access.writes) && access.role == role && access.box.touches(first, last);
           });
  }

  void element() {
    const size_t start = at_;
    switch (const uint32_t kind = word(); static_cast<ElementKind>(kind)) {
      case ElementKind::send:
        return transfer(start, read<words::Send>(), false);
      case ElementKind::recv:
        return transfer(start, read<words::Recv>(), true);
      case ElementKind::copy:
        return copy(start);
      case ElementKind::reduce:
        return reduce(start);
      case ElementKind::strided:
        return strided(start);
      default:
        fail(start, "there is no element of kind " + std::to_string(kind));
    }
  }

  void inside(size_t start, Role role, uint64_t first, uint64_t last) const {
    const uint64_t limit = plan_.role_bytes[static_cast<uint32_t>(role)];
    if (last > limit)
      fail(start, "bytes " + std::to_string(first) + " to " + std::to_string(last) + " are outside the " +
                      std::to_string(limit) + " bytes of buffer role " + std::to_string(static_cast<uint32_t>(role)));
  }

  template <typename Fields>
  void transfer(size_t start, const Fields& fields, bool writes) {
    Transfer transfer{members_[fields.peer], 0, 0, role_of(fields.role), fields.offset, fields.bytes};
    const uint64_t last = fields.offset + fields.bytes;
    inside(start, transfer.role, fields.offset, last);
    transfer.sequence = (writes ? received_ : sent_)[transfer.peer]++;
    (writes ? plan_.receives : plan_.sends).push_back(transfer);
    // An empty message is sent, too: only so do both ranks learn that the other one expects something else.
    if (transfer.bytes > 0) ranges_.push_back({transfer.role, fields.offset, last, writes, start});
  }

  // Checks what a local element touches. `from` and `to` are complete.
  void add(size_t start, const Local& local, Box from, Box to) {
    from.finish();
    to.finish();
    inside(start, local.from, from.offset(), from.end());
    inside(start, local.to, to.offset(), to.end());
    if (!to.distinct()) fail(start, "two blocks of a strided copy write the same bytes");
    if (local.from == local.to && from.offset() < to.end() && to.offset() < from.end())
      fail(start, "an element reads the bytes that it writes");
    plan_.locals.push_back(local);
    accesses_.push_back({local.from, std::move(from), false, start});
    accesses_.push_back({local.to, std::move(to), true, start});
  }

  // Not a word of an element is kept of what touches no byte, but its ranges are checked.
  void add_plain(size_t start, const Local& local) {
    if (local.bytes > 0)
      return add(start, local, Box(local.from_offset, local.bytes), Box(local.to_offset, local.bytes));
    inside(start, local.from, local.from_offset, local.from_offset);
    inside(start, local.to, local.to_offset, local.to_offset);
  }

  void copy(size_t start) {
    const auto fields = read<words::Copy>();
    add_plain(start, {role_of(fields.source_role), role_of(fields.target_role), fields.source_offset,
                      fields.target_offset, fields.bytes});
  }

  void reduce(size_t start) {
    const auto fields = read<words::Reduce>();
    const auto op = static_cast<Operator>(fields.op);
    const auto type = static_cast<ElementType>(fields.type);
    Local local{role_of(fields.source_role), role_of(fields.target_role), fields.source_offset, fields.target_offset,
                fields.bytes};
    local.reduce = reduce_kernel(op, type);
    local.number = reduce_number(op, type);
    local.unit = reduce_unit(op, type);
    local.by_function = op == Operator::user;
    local.type = type;
    local.order = static_cast<Order>(fields.order);
    if (local.by_function && !has_function_)
      fail(start, "operator " + std::to_string(fields.op) + " is for operations that are given a function of createOp");
    if (local.reduce == nullptr && !local.by_function)
      fail(start,
           "operator " + std::to_string(fields.op) + " is not defined for element type " + std::to_string(fields.type));
    if (local.bytes % local.unit != 0)
      fail(start, std::to_string(local.bytes) + " bytes are not a multiple of " + std::to_string(local.unit) +
                      ", which operator " + std::to_string(fields.op) + " combines as a whole");
    add_plain(start, local);
  }

  void strided(size_t start) {
    const auto fields = read<words::Strided>();
    std::vector<Dimension> dimensions;
    for (uint32_t i = 0; i < fields.dimensions; ++i) {
      const auto words = read<words::Dimension>();
      dimensions.push_back({words.count, words.source_stride, words.target_stride});
    }
    Local local{role_of(fields.source_role), role_of(fields.target_role), fields.source_offset, fields.target_offset,
                fields.block_bytes};
    for (const Dimension& dimension : dimensions) {
      if (dimension.count == 0) local.bytes = 0;
    }
    if (local.bytes == 0) return add_plain(start, local);
    Box from(local.from_offset, local.bytes);
    Box to(local.to_offset, local.bytes);
    for (const Dimension& dimension : dimensions) {
      const auto bytes = static_cast<unsigned __int128>(local.bytes) * dimension.count;
      if (bytes > kMaxBytes || !from.repeat(dimension.count, dimension.from_stride) ||
          !to.repeat(dimension.count, dimension.to_stride))
        fail(start, "a strided copy reaches beyond 2^53 bytes");
      local.bytes = static_cast<uint64_t>(bytes);
    }
    local.block = fields.block_bytes;
    simplify(local, dimensions);
    add(start, local, std::move(from), std::move(to));
  }

  // Leaves out dimensions of one block, and joins blocks that are neighbours on both sides.
  void simplify(Local& local, const std::vector<Dimension>& given) {
    local.dimension_first = static_cast<uint32_t>(plan_.dimensions.size());
    auto& all = plan_.dimensions;
    for (const Dimension& dimension : given) {
      if (dimension.count > 1) all.push_back(dimension);
    }
    while (all.size() > local.dimension_first && all.back().from_stride == local.block &&
           all.back().to_stride == local.block) {
      local.block *= all.back().count;
      all.pop_back();
    }
    local.dimension_last = static_cast<uint32_t>(all.size());
  }

  // --- independence --------------------------------------------------------------------------------------------------

  // Transfers of a round run at the same time as each other and as its local elements: what one writes, no other may
  // touch. Local elements run one after another.
  void independent() {
    std::sort(ranges_.begin(), ranges_.end(),
              [](const Range& a, const Range& b) { return a.role != b.role ? a.role < b.role : a.first < b.first; });
    const Range* previous = nullptr;
    for (Range& range : ranges_) {
      if (previous != nullptr && previous->role == range.role) {
        range.reach = previous->reach;
        range.reach_of_writes = previous->reach_of_writes;
      }
      if ((range.writes ? range.reach : range.reach_of_writes) > range.first) collide(range.word);
      range.reach = std::max(range.reach, range.last);
      if (range.writes) range.reach_of_writes = std::max(range.reach_of_writes, range.last);
      previous = &range;
    }
    for (const Access& access : accesses_) apart(access);
  }

  // From the last transfer that begins before the end of the access, back.
  void apart(const Access& access) const {
    auto range = std::lower_bound(ranges_.begin(), ranges_.end(), access, [](const Range& a, const Access& b) {
      return a.role != b.role ? a.role < b.role : a.first < b.box.end();
    });
    while (range != ranges_.begin()) {
      --range;
      if (range->role != access.role) return;
      if ((access.writes ? range->reach : range->reach_of_writes) <= access.box.offset()) return;
      if ((access.writes || range->writes) && access.box.touches(range->first, range->last)) collide(access.word);
    }
  }

  [[noreturn]] static void collide(size_t word) {
    fail(word, "two elements of one round touch the same bytes and one of them writes");
  }

  const uint32_t* words_;
  size_t count_;
  const std::vector<Rank>& members_;
  Rank rank_;
  bool messages_;
  bool has_function_;
  size_t at_ = 0;
  Plan plan_;
  std::vector<Range> ranges_;
  std::vector<Access> accesses_;
  // The same of the round before.
  std::vector<Range> ranges_before_;
  std::vector<Access> accesses_before_;
  // Messages by world rank.
  std::unordered_map<Rank, uint32_t> sent_;
  std::unordered_map<Rank, uint32_t> received_;
};

}  // namespace

Plan compile_schedule(const uint32_t* words, size_t count, const std::vector<Rank>& members, Rank rank, bool messages,
                      bool has_function) {
  return Compiler(words, count, members, rank, messages, has_function).run();
}

}  // namespace nbc
