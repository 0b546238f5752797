#include "engine/trace.h"

#include <algorithm>
#include <new>
#include <sys/mman.h>
#include <unistd.h>

namespace nbc {
namespace {

// Microseconds. Tests with a shorter pause between them are one event: programs test in loops.
constexpr double kPause = 20;

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

void Trace::call(Call which, uint64_t began, uint64_t ended) {
  if (which == Call::test) {
    Record* const last = calls_.last();
    const bool again = last != nullptr && last->head == head_of(Entry::call, which);
    if (again && began - (last->time + last->words[0]) < pause_) {
      ++last->number;
      return this->ended(*last, ended);
    }
  }
  this->ended(call(which, began), ended);
}

void Trace::started(Record* operation, uint64_t began, uint64_t ended) {
  if (operation == nullptr) return call(Call::start, began, ended);
  clock_.anchor_if_due(ended);
  operation->words[1] = ended - began;
}

uint32_t Trace::number_of(const std::string& name) {
  const auto [found, is_new] = numbers_.try_emplace(name, static_cast<uint32_t>(names_.size()));
  if (is_new) names_.push_back(name);
  return found->second;
}

// A state that a message comes to later, or that another message has brought about, has a time of its own.
void Trace::moved(libof::Request& request, libof::State state) {
  using libof::State;
  if (state == State::recv_waiting_eager) {
    if (begun_ != nullptr) write_begun();
    begun_ = &request;
    request.noted = stamp();
    return;
  }
  if (state != State::eager_send_init) stamp_ = ticks();
  if (request.noted != 0) {
    if (begun_ == &request) write_begun();
    Record& record = *reinterpret_cast<Record*>(std::exchange(request.noted, 0));
    const uint64_t lasted = stamp_ - record.time;
    if (state == State::done && lasted < kWaits) {
      record.number = static_cast<uint32_t>(lasted);
      return;
    }
    record.head = head_of(Entry::message, State::recv_waiting_eager);
  }
  message(stamp(), head_of(Entry::message, state), 0, request);
}

// What is received has come, perhaps after the call has begun that takes it.
void Trace::at_once(const libof::MessageInfo& message, libof::State first) {
  if (first == libof::State::recv_waiting_eager) stamp_ = ticks();
  this->message(stamp(), head_of(Entry::at_once, first), 0, message);
  if (begun_ != nullptr) write_begun();
}

// --- reading ---------------------------------------------------------------------------------------------------------

void Trace::read_call(const Record& record, Lists& lists) const {
  const double time = clock_.microseconds(record.time);
  const double duration = after(record, record.words[0]) - time;
  lists.calls.push_back({word(Kind::call), time, {duration, word(record.head >> kWhich), word(record.number), 0}});
}

void Trace::read_operation(const Record& record, Lists& lists, std::vector<Event>& ends) const {
  const auto& [name, call, lasted, waited] = record.words;
  const double number = word(record.number);
  const double time = clock_.microseconds(record.time);
  if (call > 0)
    lists.calls.push_back({word(Kind::call), time, {after(record, call) - time, word(Call::start), 1, number}});
  if (waited > 0 && lasted != kGoesOn) {
    const double began = after(record, waited);
    lists.calls.push_back({word(Kind::call), began, {after(record, lasted) - began, word(Call::wait), 1, 0}});
  }
  lists.events.push_back({word(Kind::operation), time, {number, word(name)}});
  if ((record.head & kHasRounds) != 0) lists.events.push_back({word(Kind::round), time, {number, 1}});
  const uint32_t error = record.head >> kWhich & kWhichMask;
  if (lasted != kGoesOn) ends.push_back({word(Kind::end), after(record, lasted), {number, word(error)}});
}

void Trace::read_message(const Record& record, Lists& lists) const {
  using libof::State;
  libof::MessageInfo message;
  std::memcpy(&message, record.words, sizeof(message));
  const auto& [context, tag, sequence] = message.key;
  const auto entry = static_cast<Entry>(record.head & kEntry);
  const auto state = static_cast<State>(record.head >> kWhich);
  const bool one_state = entry == Entry::message || record.number == kWaits;
  const double id = one_state ? word(message.id) : kNoId;
  const auto add = [&, &context = context, &tag = tag, &sequence = sequence](State to, uint64_t later) {
    lists.events.push_back({word(Kind::message) + word(to),
                            after(record, later),
                            {id, word(message.peer), word(context), word(tag), word(sequence), word(message.bytes)}});
  };
  add(state, 0);
  if (one_state) return;
  if (state == State::eager_send_init) add(State::eager_sending, 0);
  add(State::done, record.number);
}

// The ends of operations come after all that happens in them.
Trace::Lists Trace::read() {
  clock_.anchor();
  if (begun_ != nullptr) write_begun();
  Lists lists;
  std::vector<Event> ends;
  lists.names = names_;
  lists.left_out = calls_.left_out() + events_.left_out();
  for (const Record& record : calls_) read_call(record, lists);
  for (const Record& record : events_) {
    const double time = clock_.microseconds(record.time);
    switch (static_cast<Entry>(record.head & kEntry)) {
      case Entry::call:
        break;  // is in the other list
      case Entry::operation:
        read_operation(record, lists, ends);
        break;
      case Entry::round:
        lists.events.push_back({word(Kind::round), time, {word(record.number), word(record.words[0])}});
        break;
      case Entry::driving:
        lists.events.push_back({word(Kind::driving), time, {after(record, record.words[0]) - time}});
        break;
      case Entry::at_once:
      case Entry::received:
      case Entry::message:
        read_message(record, lists);
        break;
    }
  }
  lists.events.insert(lists.events.end(), ends.begin(), ends.end());
  std::stable_sort(lists.calls.begin(), lists.calls.end(),
                   [](const Event& one, const Event& other) { return one.time < other.time; });
  return lists;
}

}  // namespace nbc
