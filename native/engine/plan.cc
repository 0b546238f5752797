#include "engine/plan.h"

#include <algorithm>
#include <unordered_map>

namespace nbc {
namespace {

constexpr uint64_t kMaxBytes = uint64_t{1} << 53;  // what a JavaScript number counts exactly
constexpr size_t kMaxWords = size_t{1} << 26;

enum class Op : uint32_t { send = 1, receive = 2, copy = 3 };

// A range that an element of the current round touches, to find elements that are not independent.
struct Range {
  Role role;
  uint64_t first;
  uint64_t last;
  bool writes;
  size_t word;
};

class Compiler {
 public:
  Compiler(const uint32_t* words, size_t count, const std::vector<Rank>& members, Rank rank)
      : words_(words), count_(count), members_(members), rank_(rank) {}

  Plan run() {
    if (count_ > kMaxWords) fail(0, "the schedule is longer than 2^26 words");
    if (word() != kScheduleMagic) fail(0, "this is not an encoded schedule (wrong magic number)");
    const uint32_t rounds = word();
    for (uint64_t& bytes : plan_.role_bytes) bytes = size("a buffer");
    for (uint32_t i = 0; i < rounds; ++i) round();
    if (at_ != count_) fail(at_, "words are left over after the last round");
    return std::move(plan_);
  }

 private:
  [[noreturn]] static void fail(size_t word, std::string reason) { throw ScheduleError{word, std::move(reason)}; }

  uint32_t word() {
    if (at_ >= count_) fail(count_, "the schedule ends in the middle of an element");
    return words_[at_++];
  }

  uint64_t size(const char* what) {
    const size_t start = at_;
    const uint64_t low = word();
    const uint64_t value = low | static_cast<uint64_t>(word()) << 32;
    if (value > kMaxBytes) fail(start, std::string("the size of ") + what + " is above 2^53 bytes");
    return value;
  }

  Role role() {
    const uint32_t value = word();
    if (value >= kRoles) fail(at_ - 1, "there is no buffer role " + std::to_string(value));
    return static_cast<Role>(value);
  }

  void inside(size_t start, Role role, uint64_t offset, uint64_t bytes) {
    const uint64_t limit = plan_.role_bytes[static_cast<uint32_t>(role)];
    if (offset > limit || bytes > limit - offset)
      fail(start, "bytes " + std::to_string(offset) + " to " + std::to_string(offset + bytes) + " are outside the " +
                      std::to_string(limit) + " bytes of buffer role " + std::to_string(static_cast<uint32_t>(role)));
  }

  void writable(size_t start, Role role) {
    if (role == Role::send) fail(start, "the send buffer is not written by a collective");
  }

  void round() {
    Round round{};
    round.receive_first = static_cast<uint32_t>(plan_.receives.size());
    round.send_first = static_cast<uint32_t>(plan_.sends.size());
    round.copy_first = static_cast<uint32_t>(plan_.copies.size());
    ranges_.clear();
    const uint32_t elements = word();
    for (uint32_t i = 0; i < elements; ++i) element();
    independent();
    round.receive_last = static_cast<uint32_t>(plan_.receives.size());
    round.send_last = static_cast<uint32_t>(plan_.sends.size());
    round.copy_last = static_cast<uint32_t>(plan_.copies.size());
    plan_.rounds.push_back(round);
  }

  void element() {
    const size_t start = at_;
    const uint32_t op = word();
    if (op == static_cast<uint32_t>(Op::send) || op == static_cast<uint32_t>(Op::receive)) {
      const bool sends = op == static_cast<uint32_t>(Op::send);
      const uint32_t peer = word();
      if (peer >= members_.size())
        fail(start,
             "rank " + std::to_string(peer) + " is not in this communicator of " + std::to_string(members_.size()));
      if (peer == rank_) fail(start, "a schedule does not send to its own rank; use COPY");
      Transfer transfer{};
      transfer.peer = members_[peer];
      transfer.role = role();
      transfer.offset = size("an offset");
      transfer.bytes = size("a message");
      inside(start, transfer.role, transfer.offset, transfer.bytes);
      if (!sends) writable(start, transfer.role);
      transfer.sequence = (sends ? sent_ : received_)[peer]++;
      (sends ? plan_.sends : plan_.receives).push_back(transfer);
      // An empty message is sent, too: only so do both ranks learn that the other one expects something else.
      if (transfer.bytes > 0)
        ranges_.push_back({transfer.role, transfer.offset, transfer.offset + transfer.bytes, !sends, start});
    } else if (op == static_cast<uint32_t>(Op::copy)) {
      Copy copy{};
      copy.from = role();
      copy.from_offset = size("an offset");
      copy.to = role();
      copy.to_offset = size("an offset");
      copy.bytes = size("a copy");
      inside(start, copy.from, copy.from_offset, copy.bytes);
      inside(start, copy.to, copy.to_offset, copy.bytes);
      writable(start, copy.to);
      if (copy.bytes == 0) return;
      plan_.copies.push_back(copy);
      ranges_.push_back({copy.from, copy.from_offset, copy.from_offset + copy.bytes, false, start});
      ranges_.push_back({copy.to, copy.to_offset, copy.to_offset + copy.bytes, true, start});
    } else {
      fail(start, "there is no element of kind " + std::to_string(op));
    }
  }

  // Elements of a round run at the same time: what one writes, no other may touch.
  void independent() {
    std::sort(ranges_.begin(), ranges_.end(),
              [](const Range& a, const Range& b) { return a.role != b.role ? a.role < b.role : a.first < b.first; });
    const Range* writer = nullptr;  // of those seen, the write and the access of any kind that reach furthest
    const Range* any = nullptr;
    for (const Range& range : ranges_) {
      if (writer != nullptr && writer->role != range.role) writer = nullptr;
      if (any != nullptr && any->role != range.role) any = nullptr;
      if ((writer != nullptr && writer->last > range.first) ||
          (range.writes && any != nullptr && any->last > range.first))
        fail(range.word, "two elements of one round touch the same bytes and one of them writes");
      if (range.writes && (writer == nullptr || range.last > writer->last)) writer = &range;
      if (any == nullptr || range.last > any->last) any = &range;
    }
  }

  const uint32_t* words_;
  size_t count_;
  const std::vector<Rank>& members_;
  Rank rank_;
  size_t at_ = 0;
  Plan plan_;
  std::vector<Range> ranges_;
  std::unordered_map<uint32_t, uint32_t> sent_;
  std::unordered_map<uint32_t, uint32_t> received_;
};

}  // namespace

Plan compile_schedule(const uint32_t* words, size_t count, const std::vector<Rank>& members, Rank rank) {
  return Compiler(words, count, members, rank).run();
}

}  // namespace nbc
