#include "engine/trace.h"

#include <new>
#include <sys/mman.h>
#include <unistd.h>

namespace nbc {
namespace {

// Microseconds. Tests with a shorter pause between them are one event: programs test in loops.
constexpr double kPause = 20;

// Bits of a record's head: from where on.
constexpr uint32_t kWhich = 4;  // a call, or a state; four bits, as the kind has
constexpr uint32_t kContext = 8, kContexts = 1 << 16;
constexpr uint32_t kBytes = 24;

template <typename Kind>
constexpr uint32_t head_of(Trace::Kind kind, Kind which) {
  return static_cast<uint32_t>(kind) | static_cast<uint32_t>(which) << kWhich;
}

template <typename Number>
double word(Number number) {
  return static_cast<double>(number);
}

}  // namespace

// --- records ---------------------------------------------------------------------------------------------------------

Trace::Records::Records(size_t most) : bytes_(most * sizeof(Record)) {
  void* const memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  madvise(memory, bytes_, MADV_HUGEPAGE);
  // Now: a page that an event touches first costs as much as a hundred events.
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  for (size_t at = 0; at < bytes_; at += page) static_cast<volatile char*>(memory)[at] = 0;
  first_ = next_ = static_cast<Record*>(memory);
  end_ = first_ + most;
}

Trace::Records::~Records() { munmap(first_, bytes_); }

// --- writing ---------------------------------------------------------------------------------------------------------

Trace::Trace(size_t most) : pause_(clock_.ticks_in(kPause)), calls_(most), events_(most) {
  number_of("isend");
  number_of("irecv");
}

void Trace::call(Call which, uint64_t began, uint64_t ended, uint64_t operation) {
  clock_.anchor_if_due(ended);
  if (which == Call::test) {
    Record* const last = calls_.last();
    if (last != nullptr && last->head == head_of(Kind::call, which) && began - (last->time + last->last) < pause_) {
      last->last = ended - last->time;
      ++last->words[0];
      return;
    }
  }
  calls_.add() = {began, head_of(Kind::call, which), {1, static_cast<uint32_t>(operation), 0}, ended - began};
}

uint32_t Trace::number_of(const std::string& name) {
  const auto [found, is_new] = numbers_.try_emplace(name, static_cast<uint32_t>(names_.size()));
  if (is_new) names_.push_back(name);
  return found->second;
}

// A number that has no room in a record stands for contexts that have none: more than any program has communicators.
uint32_t Trace::number_of(uint64_t context) {
  if (context == last_context_ && !contexts_.empty()) return last_context_number_;
  const auto [found, is_new] = context_numbers_.try_emplace(context, static_cast<uint32_t>(contexts_.size()));
  if (is_new) contexts_.push_back(context);
  last_context_ = context;
  return last_context_number_ = found->second;
}

void Trace::operation(uint64_t number, uint32_t name) {
  events_.add() = {stamp(), static_cast<uint32_t>(Kind::operation), {static_cast<uint32_t>(number), name, 0}, 0};
}

// The first round begins with its operation: one record has both.
void Trace::round(uint64_t number, uint32_t round) {
  Record* const last = events_.last();
  if (last != nullptr && last->head == static_cast<uint32_t>(Kind::operation) && last->time == stamp() &&
      last->words[0] == static_cast<uint32_t>(number)) {
    last->words[2] = round;
    return;
  }
  events_.add() = {stamp(), static_cast<uint32_t>(Kind::round), {static_cast<uint32_t>(number), round, 0}, 0};
}

void Trace::end(uint64_t number, Error error) {
  const auto code = static_cast<uint32_t>(error);
  events_.add() = {stamp(), static_cast<uint32_t>(Kind::end), {static_cast<uint32_t>(number), code, 0}, 0};
}

void Trace::driving(uint64_t began) {
  events_.add() = {began, static_cast<uint32_t>(Kind::driving), {}, ticks() - began};
}

void Trace::message(uint32_t head, uint64_t time, uint32_t id, Rank peer, const libof::MessageKey& key,
                    uint64_t bytes) {
  const uint32_t context = number_of(key.context);
  if (context >= kContexts) return events_.leave_out();
  head |= context << kContext | static_cast<uint32_t>(bytes >> 32) << kBytes;
  events_.add() = {time, head, {id, peer, key.tag}, uint64_t{key.sequence} << 32 | static_cast<uint32_t>(bytes)};
}

// A state that a message comes to later, or that another message has brought about, has a time of its own.
void Trace::moved(const libof::Request& request, libof::State state) {
  const bool begins = state == libof::State::eager_send_init || state == libof::State::recv_waiting_eager;
  if (!begins) stamp_ = ticks();
  message(head_of(Kind::message, state), stamp(), request.id, request.peer, request.key, request.bytes);
}

// What is received has come, perhaps after the call has begun that takes it.
void Trace::at_once(const libof::MessageKey& key, Rank peer, size_t bytes, libof::State first) {
  if (first == libof::State::recv_waiting_eager) stamp_ = ticks();
  message(head_of(Kind::at_once, first), stamp(), 0, peer, key, bytes);
}

// --- reading ---------------------------------------------------------------------------------------------------------

Trace::Event Trace::read(const Record& record) const {
  constexpr uint32_t kBits = (1u << kWhich) - 1;
  const auto kind = static_cast<Kind>(record.head & kBits);
  const uint32_t which = record.head >> kWhich & kBits;
  const auto& words = record.words;
  const double time = clock_.microseconds(record.time);
  const auto event = [&](double a, double b = 0, double c = 0, double d = 0, double e = 0, double f = 0) {
    return Event{word(kind), time, {a, b, c, d, e, f}};
  };
  const auto duration = [&] { return clock_.microseconds(record.time + record.last) - time; };
  switch (kind) {
    case Kind::call:
      return event(duration(), which, words[0], words[1]);
    case Kind::driving:
      return event(duration());
    case Kind::operation:
      return event(words[0], words[1], words[2]);
    case Kind::round:
    case Kind::end:
      return event(words[0], words[1]);
    case Kind::at_once:
    case Kind::message:
      break;
  }
  const uint64_t bytes = uint64_t{record.head >> kBytes} << 32 | static_cast<uint32_t>(record.last);
  const double context = word(contexts_[record.head >> kContext & (kContexts - 1)]);
  const uint32_t id = kind == Kind::message ? words[0] : which;
  Event found = event(id, words[1], context, words[2], word(record.last >> 32), word(bytes));
  if (kind == Kind::message) found.kind += which;
  return found;
}

Trace::Lists Trace::read() {
  clock_.anchor();
  Lists lists;
  lists.names = names_;
  lists.left_out = calls_.left_out() + events_.left_out();
  lists.calls.reserve(static_cast<size_t>(calls_.end() - calls_.begin()));
  for (const Record& record : calls_) lists.calls.push_back(read(record));
  lists.events.reserve(static_cast<size_t>(events_.end() - events_.begin()));
  for (const Record& record : events_) lists.events.push_back(read(record));
  return lists;
}

}  // namespace nbc
