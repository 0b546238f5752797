// Hostile bytes in a mailbox: a peer writes into its eager slots, RTR slots and AckLine whatever it likes, announces
// what it likes, and sends immediates that nobody asked for. Whatever comes, LibOF writes nothing outside its mailbox
// and the buffers of receives that complete; it reads nothing of a peer that it has rejected; and when the connection
// ends, every request has ended with an error that a peer can cause.
//
//   byte 0    bit 0: the peer is reached asynchronously; bit 1: the fabric cannot revoke at once; bit 2: numbers of
//             messages begin just before they wrap; bit 3: nobody knows the calls; bit 4, without bit 0: the mailbox
//             is compact: payloads lie apart from their headers
//   then      commands, each a byte and its operands (Case::step). Where the input ends, operands are 0
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <new>
#include <sanitizer/asan_interface.h>
#include <vector>

#include "libof/libof.h"
#include "test/sleepless_fabric.h"

using namespace nbc;
using namespace nbc::libof;

namespace {

constexpr uint32_t kLimit = 255;
constexpr uint32_t kLimitWithHeads = 600;
static_assert(!has_heads(kLimit) && has_heads(kLimitWithHeads));
constexpr Rank kSelf = 0;
constexpr Rank kPeer = 1;
constexpr Rank kSize = 3;
constexpr std::byte kUntouched{0xa5};
constexpr size_t kMost = 4096;  // bytes of an input

void require(bool holds, int line = __builtin_LINE()) {
  if (holds) return;
  std::fprintf(stderr, "mailbox.cc:%d: what is required does not hold\n", line);
  abort();
}

// Ends where it ends, so that AddressSanitizer sees every step outside.
struct Memory {
  std::unique_ptr<std::byte[]> control{new (std::align_val_t{64}) std::byte[kControlBytes]()};
  std::unique_ptr<std::byte[]> slots{new (std::align_val_t{64}) std::byte[kSlotBytes]()};
  ~Memory() {
    ::operator delete[](control.release(), std::align_val_t{64});
    ::operator delete[](slots.release(), std::align_val_t{64});
  }
  Mailbox mailbox(bool compact) const { return {control.get(), slots.get(), compact}; }
};

// The fabric between this rank and the peer. It moves no data: the peer is this file.
class HostileFabric final : public SleeplessFabric {
 public:
  HostileFabric(bool asynchronous, bool revokes, bool compact)
      : revokes(revokes), asynchronous_(asynchronous), compact_(compact) {}

  Rank rank() const override { return kSelf; }
  Rank size() const override { return kSize; }
  Connect connect(Rank peer) override { return peer == kPeer ? Connect::ready : Connect::later; }
  std::string why(Rank) const override { return {}; }
  Mailbox outbox(Rank) override { return out_.mailbox(compact_); }
  Mailbox inbox(Rank) override { return in_.mailbox(compact_); }
  bool has_closed(Rank) override { return false; }
  const std::shared_ptr<ExposedMemory>& memory() const override { return memory_; }
  bool expose(Rank, const LocalBuffer& buffer, ExposedBuffer& out) override {
    out = {reinterpret_cast<uintptr_t>(buffer.data), 1, nullptr};
    return true;
  }
  void conceal(Rank, const ExposedBuffer&) override {}
  bool revoke(Rank, const ExposedBuffer&, size_t, Error, uint64_t) override { return revokes; }
  void commit(Rank peer, const void* written, size_t bytes, uint32_t note, void* cookie) override {
    require(peer == kPeer && !rejected && note <= kNoteAlarm);
    const auto* at = static_cast<const std::byte*>(written);
    const Mailbox out = out_.mailbox(compact_);
    require((at >= out.control && at + bytes <= out.control + kControlBytes - kFabricBytes) ||
            (at >= out.slots && at + bytes <= out.slots + kSlotBytes));
    if (asynchronous_ && cookie != nullptr) will_come({Completion::Kind::write_done, Error::none, kPeer, 0, 0, cookie});
  }
  bool asynchronous(Rank) const override { return asynchronous_; }
  void flush() override {}
  // Where to the peer wants it is the network's to judge, and whether there still is one. What is sent must be ours.
  void put(Rank peer, const ExposedBuffer&, const LocalBuffer& from, uint32_t immediate, Error error,
           void* cookie) override {
    require(peer == kPeer && immediate >> kImmediateBits == 0);
    if (error == Error::none && from.bytes > 0) require(__asan_region_is_poisoned(from.data, from.bytes) == nullptr);
    will_come({Completion::Kind::put_done, Error::none, kPeer, 0, 0, cookie});
  }
  void retract(Rank, void*, Error, uint64_t) override {}
  void abandon(Rank) override {}
  void reject(Rank peer, const std::string& why) override {
    require(peer == kPeer && !why.empty() && !rejected);
    rejected = true;
    // From now on nobody may look there.
    ASAN_POISON_MEMORY_REGION(in_.control.get(), kControlBytes);
    ASAN_POISON_MEMORY_REGION(in_.slots.get(), kSlotBytes);
    break_off();
  }
  unsigned poll(Completion* out, unsigned max, Effort) override { return move_to(out, 0, max, completions); }
  uint64_t work(uint64_t) const override { return completions.size(); }
  void expect_immediates(Rank, bool) override {}
  Crowd crowd() const override { return {kSize, kSize, true}; }

  // As a network does it: what is on its way ends first.
  void break_off() {
    if (broken) return;
    broken = true;
    for (Completion& completion : to_come) {
      completion.error = Error::unreachable;
      completions.push_back(completion);
    }
    to_come.clear();
    completions.push_back({Completion::Kind::broken, Error::unreachable, kPeer, 0, 0, nullptr});
  }
  // Of a connection that has ended, at once.
  void will_come(Completion completion) {
    if (broken) completion.error = Error::unreachable;
    (broken ? completions : to_come).push_back(completion);
  }
  bool is_asynchronous() const { return asynchronous_; }
  Mailbox in() const { return in_.mailbox(compact_); }

  bool revokes;
  bool rejected = false;
  bool broken = false;
  std::deque<Completion> to_come;
  std::deque<Completion> completions;

 private:
  const bool asynchronous_;
  const bool compact_;
  Memory in_;
  Memory out_;
  std::shared_ptr<ExposedMemory> memory_;
};

// What the engine knows of the calls. What a peer tells must name ranks that are there.
class SomeCalls final : public Calls {
 public:
  bool differs(const MessageKey& key, Rank peer, const KnownCall& theirs, Mismatch& out) override {
    if (key.tag != 1 || theirs.signature == 7) return false;
    out = {key.context, key.tag, {kSelf, peer}, {7, theirs.signature}};
    return true;
  }
  bool knows(uint64_t context) const override { return context != 4; }
  void mismatch(Mismatch& found, bool) override { require(found.ranks[0] < kSize && found.ranks[1] < kSize); }
};

class Input {
 public:
  Input(const uint8_t* data, size_t size) : data_(data), size_(size) {}
  bool empty() const { return at_ >= size_; }
  template <typename Value>
  Value take() {
    Value value{};
    const size_t count = std::min(sizeof value, size_ - at_);
    if (count > 0) std::memcpy(&value, data_ + at_, count);
    at_ += count;
    return value;
  }
  uint32_t below(uint32_t limit) { return take<uint8_t>() % limit; }
  void fill(std::byte* to, size_t bytes) {
    for (size_t i = 0; i < bytes; ++i) to[i] = take<std::byte>();
  }

 private:
  const uint8_t* data_;
  size_t size_;
  size_t at_ = 0;
};

struct Operation : RequestOwner {
  Operation(size_t bytes, bool receives) : bytes(bytes), receives(receives), memory(new std::byte[bytes]) {
    std::fill_n(memory.get(), bytes, kUntouched);
  }
  size_t bytes;
  bool receives;
  Length length = Length::exact;
  std::unique_ptr<std::byte[]> memory;
};

class Case {
 public:
  Case(uint8_t settings, Input input)
      : first_((settings & 4) != 0 ? UINT32_MAX - 3 : 0),
        input_(input),
        compact_((settings & 17) == 16),
        limit_(compact_ ? kLimitWithHeads : kLimit),
        fabric_((settings & 1) != 0, (settings & 2) == 0, compact_),
        of_(fabric_, options()) {
    const Mailbox in = fabric_.in();
    std::byte* const at = compact_ ? in.slots + acks_at(eager_slots(limit_)) : in.control;
    auto& acks = *reinterpret_cast<AckLine*>(at);
    acks.eager_consumed = acks.eager_matched = acks.rtr_consumed = first_;
    if ((settings & 8) == 0) of_.set_calls(&calls_);
  }

  void run() {
    while (!input_.empty()) step();
    fabric_.break_off();
    while (progress() || of_.give_up_cancelled()) {
    }
    require(!of_.is_revoking() && of_.active_peers() == 0);
    for (const auto& operation : operations_) check_end(*operation);
  }

 private:
  static constexpr size_t kSizes[] = {0, 1, 8, 255, 256, 3000};
  static constexpr uint64_t kContexts[] = {0, 1, 2, 4, 8};

  Options options() const {
    Options options;
    options.eager_limit = limit_;
    options.first_message = first_;
    options.unexpected_window = 300;
    options.rtr_window = 64;
    options.revoke_limit = 0;
    return options;
  }

  void step() {
    switch (input_.below(16)) {
      case 0:
      case 1:
        return start(true);
      case 2:
        return start(false);
      case 3:
      case 4:
      case 5:
        return write_eager();
      case 6:
      case 7:
        return write_rtr();
      case 8:
        return write_raw();
      case 9:
        return announce(input_.below(8));
      case 10:
        return immediate();
      case 11:
        return cancel();
      case 12:
        return of_.announce_sends();
      case 13:
        return instead();
      case 14:
        if (!fabric_.to_come.empty()) {
          fabric_.completions.push_back(fabric_.to_come.front());
          fabric_.to_come.pop_front();
        }
        return;
      default:
        of_.look_around(true);
        progress();
    }
  }

  MessageKey key() {
    const uint8_t bits = input_.take<uint8_t>();
    return {kContexts[bits % 5], bits / 5 % 4u, bits / 20 % 3u};
  }

  void start(bool receives) {
    const MessageKey which = key();
    const uint8_t bits = input_.take<uint8_t>();
    operations_.push_back(std::make_unique<Operation>(kSizes[bits % 6], receives));
    Operation& operation = *operations_.back();
    operation.signature = bits / 6 % 2u == 0 ? 0 : 7;
    operation.length = bits / 12 % 2u == 0 ? Length::exact : Length::at_most;
    if (receives) {
      of_.irecv(operation, kPeer, which, operation.memory.get(), operation.bytes, operation.length);
    } else {
      of_.isend(operation, kPeer, which, operation.memory.get(), operation.bytes);
    }
  }

  // The next slot, in its place; what it says is the input's.
  void write_eager() {
    if (fabric_.broken) return;
    const size_t stride = compact_ ? kHeadBytes : eager_slot_bytes(limit_);
    std::byte* slot = fabric_.in().slots + eager_ % eager_slots(limit_) * stride;
    auto* header = reinterpret_cast<EagerHeader*>(slot);
    const uint8_t bits = input_.take<uint8_t>();
    header->kind = static_cast<EagerKind>(bits % 8);
    header->bytes = (bits & 8) != 0 ? input_.take<uint16_t>() : static_cast<uint16_t>(kSizes[bits / 16 % 4]);
    if (compact_) header->body = input_.take<uint8_t>();
    const MessageKey which = key();
    header->context = which.context;
    header->tag = which.tag;
    header->sequence = which.sequence;
    header->about = (bits & 0x40) != 0 ? input_.take<uint32_t>() : 7;
    header->eager_consumed = first_;
    header->eager_matched = first_;
    header->rtr_consumed = first_;
    if ((bits & 0x80) != 0) {
      header->eager_consumed += input_.take<uint8_t>();
      header->eager_matched += input_.take<uint8_t>();
      header->rtr_consumed += input_.take<uint8_t>();
      input_.fill(slot + sizeof(EagerHeader), sizeof(MismatchNotice));
    }
    header->stamp = first_ + ++eager_;
    announce(kNoteEager);
  }

  void write_rtr() {
    if (fabric_.broken) return;
    auto& slot = reinterpret_cast<RtrSlot*>(fabric_.in().control + kRtrOffset)[(first_ + rtr_) % kRtrSlots];
    const uint8_t bits = input_.take<uint8_t>();
    slot.kind = static_cast<RtrKind>(bits % 9);
    const MessageKey which = key();
    slot.context = which.context;
    slot.tag = which.tag;
    slot.sequence = which.sequence;
    slot.address = input_.take<uint32_t>();
    slot.bytes = (bits & 0x40) != 0 ? input_.take<uint64_t>() : 3000;
    slot.buffer_key = 1;
    slot.receive = input_.take<uint16_t>();
    slot.signature = (bits & 0x80) != 0 ? 7 : 0;
    slot.stamp = first_ + ++rtr_;
    announce(kNoteRtr);
  }

  // Anywhere, without a word.
  void write_raw() {
    if (fabric_.broken) return;
    const uint32_t at = input_.take<uint16_t>();
    const size_t bytes = input_.below(64);
    const Mailbox in = fabric_.in();
    if (at < kControlBytes - kFabricBytes - 64) {
      input_.fill(in.control + at, bytes);
    } else if (at < kSlotBytes - 64) {
      input_.fill(in.slots + at, bytes);
    }
  }

  void announce(uint32_t note) {
    if (fabric_.is_asynchronous() && !fabric_.broken)
      fabric_.completions.push_back({Completion::Kind::message, Error::none, kPeer, note, 0, nullptr});
  }

  void immediate() {
    if (fabric_.broken) return;
    const uint32_t which = input_.take<uint16_t>() | input_.below(64) << 22 | input_.below(2) << 29;
    const auto error = static_cast<Error>(input_.below(kLastError + 1));
    const uint64_t bytes = input_.below(2) == 0 ? kSizes[input_.below(6)] : input_.take<uint64_t>();
    if (static_cast<uint32_t>(error) == 1) return;
    fabric_.completions.push_back({Completion::Kind::immediate, error, kPeer, which, bytes, nullptr});
  }

  // As the engine does with an operation that has failed.
  void cancel() {
    if (operations_.empty()) return;
    Operation& operation = *operations_[input_.below(static_cast<uint32_t>(operations_.size()))];
    if (operation.poison == 0 && input_.below(2) == 0) operation.poison = poison_of(kSelf, Error::system);
    of_.cancel(operation);
    of_.give_up_cancelled();
  }

  void instead() {
    const MessageKey which = key();
    switch (input_.below(4)) {
      case 0:
        return of_.poison(kPeer, which, poison_of(kSelf, Error::system));
      case 1:
        return of_.drop(kPeer, which, kSizes[input_.below(6)], poison_of(kSelf, Error::system));
      case 2:
        of_.inquire(kPeer, which.context, which.tag, {7, which.sequence});
        return;
      default:
        of_.compare_kept(which.context);
    }
  }

  bool progress() {
    bool moved = of_.progress(Effort::pass);
    while (RequestOwner* ready = of_.take_ready()) {
      require(ready->outstanding == 0 || ready->error != Error::none);
      // As the engine: what is left of it is given up.
      if (ready->outstanding > 0) of_.cancel(*ready);
      moved = true;
    }
    return moved;
  }

  // How a request may end because of what a peer wrote.
  void check_end(const Operation& operation) {
    require(operation.outstanding == 0);
    if (operation.error == Error::none) {
      require(operation.cancelled || !operation.receives || operation.received == operation.bytes ||
              (operation.length == Length::at_most && operation.received < operation.bytes));
      return;
    }
    require(static_cast<uint32_t>(operation.error) <= kLastError);
    require(operation.error_peer == kPeer);
    const Poison poison = operation.poison;
    require(poison == 0 || (origin_of(poison) < kSize && static_cast<uint32_t>(cause_of(poison)) >= 2 &&
                            static_cast<uint32_t>(cause_of(poison)) <= kLastError));
    // A message may be there when its RTR turns out to be lost with the connection.
    if (!operation.receives || operation.error == Error::unreachable) return;
    for (size_t i = 0; i < operation.bytes; ++i) require(operation.memory[i] == kUntouched);
  }

  const uint32_t first_;
  Input input_;
  const bool compact_;
  const uint32_t limit_;
  HostileFabric fabric_;
  SomeCalls calls_;
  // Before what uses its memory.
  std::vector<std::unique_ptr<Operation>> operations_;
  LibOF of_;
  uint32_t eager_ = 0;
  uint32_t rtr_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2 || size > kMost) return 0;
  Case one(data[0], Input(data + 1, size - 1));
  one.run();
  return 0;
}
