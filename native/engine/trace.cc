#include "engine/trace.h"

#include <algorithm>
#include <cstring>
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
  source_of("isend", nullptr);
  source_of("irecv", nullptr);
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
  const uint64_t lasted = ended - began;
  if (operation == nullptr || lasted > UINT32_MAX) return call(Call::start, began, ended);
  clock_.anchor_if_due(ended);
  operation->operation.call = static_cast<uint32_t>(lasted);
}

uint32_t Trace::source_of(const std::string& name, const Plan* plan) {
  if (!events_.has_room()) return 0;
  Source source{number_of(name), {}, {}};
  uint32_t exchanges = 0;
  if (plan != nullptr && !plan->rounds.empty()) {
    const Round& round = plan->rounds.front();
    const uint32_t sends = round.send_last - round.send_first, receives = round.receive_last - round.receive_first;
    if (sends == 1) source.send = plan->sends[round.send_first];
    if (receives == 1) source.receive = plan->receives[round.receive_first];
    if (sends <= 1 && receives <= 1 && sends + receives > 0) exchanges = kExchange;
  }
  sources_.push_back(source);
  return static_cast<uint32_t>(sources_.size() - 1) << 1 | exchanges;
}

uint32_t Trace::number_of(const std::string& name) {
  const auto [found, is_new] = numbers_.try_emplace(name, static_cast<uint32_t>(names_.size()));
  if (is_new) names_.push_back(name);
  return found->second;
}

// A state that a message comes to later, or that another message has brought about, has a time of its own.
void Trace::moved(libof::Request& request, libof::State state) {
  using libof::State;
  if (request.owner->noted != nullptr) {
    if (state == State::done && request.state == State::recv_waiting_eager) [[likely]] {
      Record& record = *static_cast<Record*>(request.owner->noted);
      stamp_ = ticks();
      record.operation.came = stamp_ - record.time;
      return;
    }
    leaves_exchange(request, state);
  }
  if (state == State::recv_waiting_eager) {
    request.noted = &message(stamp(), head_of(Entry::received, state), kWaits, request);
    return;
  }
  if (state != State::eager_send_init) stamp_ = ticks();
  if (request.noted != nullptr) {
    Record& record = *static_cast<Record*>(std::exchange(request.noted, nullptr));
    const uint64_t lasted = stamp_ - record.time;
    if (state == State::done && lasted < kWaits) {
      record.number = static_cast<uint32_t>(lasted);
      return;
    }
    record.head = head_of(Entry::message, State::recv_waiting_eager);
  }
  message(stamp(), head_of(Entry::message, state), 0, request);
}

// A message of an exchange that does not go the usual way has records of its own, from the first of its states on.
void Trace::leaves_exchange(const libof::Request& request, libof::State state) {
  using libof::State;
  Record& record = *static_cast<Record*>(request.owner->noted);
  if (state == State::eager_send_init || state == State::send_waiting_rtr) {
    record.head |= kSendApart;
  } else if (state == State::rndv_recv_init) {
    record.head |= kReceiveApart;
  } else if (request.state == State::recv_waiting_eager) {
    record.head |= kReceiveApart;
    message(record.time, head_of(Entry::message, State::recv_waiting_eager), 0, request);
  }
}

// What is received has come, perhaps after the call has begun that takes it.
void Trace::at_once(const libof::RequestOwner& owner, const libof::MessageInfo& message, libof::State first) {
  if (first == libof::State::recv_waiting_eager) stamp_ = ticks();
  if (owner.noted != nullptr) {  // a receive: nobody tells of such a send
    Record& record = *static_cast<Record*>(owner.noted);
    record.head |= kCameBefore;
    record.operation.came = stamp_ - record.time;
    return;
  }
  this->message(stamp(), head_of(Entry::at_once, first), 0, message);
}

// --- reading ---------------------------------------------------------------------------------------------------------

void Trace::read_call(const Record& record, Lists& lists) const {
  const double time = clock_.microseconds(record.time);
  const double duration = after(record, record.words[0]) - time;
  lists.calls.push_back({word(Kind::call), time, {duration, word(record.head >> kWhich), word(record.number), 0}});
}

void Trace::read_operation(const Record& record, Lists& lists, std::vector<Event>& ends) const {
  const auto& [lasted, waited, came, context, tag, repetition, source, call] = record.operation;
  const double number = word(record.number);
  const double time = clock_.microseconds(record.time);
  if (call > 0)
    lists.calls.push_back({word(Kind::call), time, {after(record, call) - time, word(Call::start), 1, number}});
  if (waited > 0 && lasted != kGoesOn) {
    const double began = after(record, waited);
    lists.calls.push_back({word(Kind::call), began, {after(record, lasted) - began, word(Call::wait), 1, 0}});
  }
  lists.events.push_back({word(Kind::operation), time, {number, word(sources_[source >> 1].name)}});
  if ((record.head & kHasRounds) != 0) lists.events.push_back({word(Kind::round), time, {number, 1}});
  const uint32_t error = record.head >> kWhich & kWhichMask;
  const bool began = (record.head & kHasRounds) != 0 && error != static_cast<uint32_t>(Error::too_many_requests);
  if (began && (record.head & kExchanges) != 0) read_exchange(record, lists);
  if (lasted != kGoesOn) ends.push_back({word(Kind::end), after(record, lasted), {number, word(error)}});
}

// As if its messages had records of their own.
void Trace::read_exchange(const Record& record, Lists& lists) const {
  using libof::State;
  const auto& [lasted, waited, came, context, tag, repetition, source, call] = record.operation;
  const auto read = [&, &context = context, &tag = tag, &repetition = repetition](const Transfer& t, State first,
                                                                                  uint64_t time, uint64_t lasted) {
    const libof::MessageKey key{context, tag, t.sequence + repetition * t.of};
    Record one{time, head_of(Entry::at_once, first), 0, {}};
    write(one, {key, t.bytes, t.peer, record.number | kIdByOperation});
    read_message(one, lasted, lists);
  };
  const auto& [name, send, receive] = sources_[source >> 1];
  if (send && (record.head & kSendApart) == 0) read(*send, State::eager_send_init, record.time, 0);
  if (!receive || (record.head & kReceiveApart) != 0) return;
  if ((record.head & kCameBefore) != 0) return read(*receive, State::recv_waiting_eager, record.time + came, 0);
  // One that was given up ends with its operation.
  read(*receive, State::recv_waiting_eager, record.time, came == kGoesOn ? lasted : came);
}

// `lasted`: to its end, or kGoesOn if that is not here.
void Trace::read_message(const Record& record, uint64_t lasted, Lists& lists) const {
  using libof::State;
  libof::MessageInfo message;
  std::memcpy(&message, record.words, sizeof(message));
  const auto& [context, tag, sequence] = message.key;
  const auto state = static_cast<State>(record.head >> kWhich);
  const double id = lasted == kGoesOn ? word(message.id) : kNoId;
  const auto add = [&, &context = context, &tag = tag, &sequence = sequence](State to, uint64_t later) {
    lists.events.push_back({word(Kind::message) + word(to),
                            after(record, later),
                            {id, word(message.peer), word(context), word(tag), word(sequence), word(message.bytes)}});
  };
  add(state, 0);
  if (lasted == kGoesOn) return;
  if (state == State::eager_send_init) add(State::eager_sending, 0);
  add(State::done, lasted);
}

// The ends of operations come after all that happens in them.
Trace::Lists Trace::read() {
  clock_.anchor();
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
        read_message(record, 0, lists);
        break;
      case Entry::received:
        read_message(record, record.number == kWaits ? kGoesOn : record.number, lists);
        break;
      case Entry::message:
        read_message(record, kGoesOn, lists);
        break;
    }
  }
  lists.events.insert(lists.events.end(), ends.begin(), ends.end());
  std::stable_sort(lists.calls.begin(), lists.calls.end(),
                   [](const Event& one, const Event& other) { return one.time < other.time; });
  return lists;
}

}  // namespace nbc
