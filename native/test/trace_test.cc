// The clock of traces, and what a record keeps of an event.
#include "engine/trace.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <vector>

#include "engine/ticks.h"
#include "test/check.h"
#include "test/fake_fabric.h"

namespace {

using namespace nbc;

// Microseconds between two values of the counter: it need not have as many as its frequency says. In an emulator it
// can be a clock of microseconds.
double step_of(const TickClock& clock) {
  uint64_t least = UINT64_MAX;
  uint64_t last = clock.ticks();
  for (int steps = 0; steps < 20;) {
    const uint64_t now = clock.ticks();
    if (now == last) continue;
    least = std::min(least, now - last);
    last = now;
    ++steps;
  }
  constexpr double kSecond = 1e6;
  return kSecond * static_cast<double>(least) / static_cast<double>(clock.ticks_in(kSecond));
}

// A reading lies between two of CLOCK_MONOTONIC around it, but for what the anchors may be wrong by.
TEST(ticks_are_times_of_the_monotonic_clock) {
  for (const bool counts : {false, TickClock::counter_is_reliable()}) {
    TickClock clock(counts);
    const double step = step_of(clock);
    for (int i = 0; i < 1000; ++i) {
      const auto before = static_cast<double>(monotonic_nanoseconds()) / 1000;
      const uint64_t ticks = clock.ticks();
      const auto after = static_cast<double>(monotonic_nanoseconds()) / 1000;
      clock.anchor();
      const double found = clock.microseconds(ticks);
      // From the last anchor on, it is extrapolated over as much time as lies between two at least.
      const double tolerance = counts ? 0.1 + 4 * (clock.uncertainty() + step) : 0.001;
      CHECK(found >= before - tolerance);
      CHECK(found <= after + tolerance);
    }
  }
}

TEST(ticks_ascend_as_times_do) {
  TickClock clock;
  uint64_t ticks[200];
  for (uint64_t& one : ticks) {
    one = clock.ticks();
    clock.anchor();
  }
  for (size_t i = 1; i < 200; ++i) CHECK(clock.microseconds(ticks[i]) >= clock.microseconds(ticks[i - 1]));
}

libof::RequestOwner owner;  // of messages that have records of their own

libof::Request request_with(const libof::MessageKey& key, uint32_t id = 0) {
  libof::Request request;
  request.owner = &owner;
  request.key = key;
  request.id = id;
  return request;
}

// So that later readings of the clock are later times, also where it has few values.
void let_clock_tick(const Trace& trace) {
  const uint64_t now = trace.ticks();
  while (trace.ticks() == now) {
  }
}

void let_time_pass(Trace& trace) {
  trace.time_passes();
  let_clock_tick(trace);
}

void move(Trace& trace, libof::Request& request, libof::State state) {
  trace.moved(request, state);
  request.state = state;
}

Trace::Record* begin(Trace& trace, uint64_t number, uint32_t source) {
  return trace.operation(number, source, 0, 0, 0);
}

// A rank whose messages are traced, and whose peer does nothing.
struct Traced {
  explicit Traced(size_t most) : trace(most), of(network.rank(0), libof::Options()) { of.observe(&trace); }
  Trace::Lists read() { return trace.read(); }
  check::FakeNetwork network{2, false};
  Trace trace;
  libof::LibOF of;
};

bool is_state(const Trace::Event& event, libof::State state) {
  return event.kind == static_cast<double>(Trace::Kind::message) + static_cast<double>(state);
}

bool has(const Trace::Event& event, const double (&words)[6]) {
  return std::equal(std::begin(words), std::end(words), std::begin(event.words));
}

TEST(a_record_keeps_all_of_a_message) {
  Traced traced(4);
  Trace& trace = traced.trace;
  const libof::MessageKey key{0xfedcba987654321, 0xffffffff, 0xfffffffe};
  constexpr uint64_t kBytes = (uint64_t{200} << 32) + 0xfffffffd;
  trace.at_once(owner, {key, kBytes, 0xfffffff0}, libof::State::recv_waiting_eager);
  libof::Request request = request_with({5, 7, 9}, 77);
  request.peer = 3;
  request.bytes = 8;
  move(trace, request, libof::State::done);
  const auto& [calls, events, names, left_out] = traced.read();
  CHECK_EQ(events.size(), 3u);
  const double first[6] = {Trace::kNoId, 0xfffffff0, static_cast<double>(key.context),
                           0xffffffff,   0xfffffffe, static_cast<double>(kBytes)};
  CHECK(is_state(events[0], libof::State::recv_waiting_eager) && has(events[0], first));
  CHECK(is_state(events[1], libof::State::done) && has(events[1], first));
  CHECK(events[0].time == events[1].time);
  CHECK(is_state(events[2], libof::State::done) && has(events[2], {77, 3, 5, 7, 9, 8}));
}

// A receive that an eager message completes is one record. One that goes on otherwise keeps the time of its beginning.
TEST(a_receive_keeps_its_beginning) {
  using libof::State;
  Traced traced(10);
  Trace& trace = traced.trace;
  libof::Request eager = request_with({5, 7, 9});
  libof::Request other = request_with({5, 7, 10}, 1);
  const uint64_t began = trace.ticks();
  trace.happens_at(began);
  move(trace, eager, State::recv_waiting_eager);
  move(trace, other, State::recv_waiting_eager);
  let_time_pass(trace);
  move(trace, eager, State::done);
  move(trace, other, State::recv_sending_rtr);
  move(trace, other, State::done);
  const auto& [calls, events, names, left_out] = traced.read();
  CHECK_EQ(events.size(), 5u);
  CHECK(is_state(events[0], State::recv_waiting_eager) && has(events[0], {Trace::kNoId, 0, 5, 7, 9, 0}));
  CHECK(is_state(events[1], State::done) && has(events[1], {Trace::kNoId, 0, 5, 7, 9, 0}));
  CHECK(is_state(events[2], State::recv_waiting_eager) && has(events[2], {1, 0, 5, 7, 10, 0}));
  CHECK(is_state(events[3], State::recv_sending_rtr) && is_state(events[4], State::done));
  CHECK(events[2].time == events[0].time && events[1].time > events[0].time && events[3].time > events[1].time);
  CHECK(eager.noted == nullptr && other.noted == nullptr);
}

// The peer sends nothing. To read a trace changes nothing.
TEST(a_receive_that_still_waits_is_read_too) {
  Traced traced(10);
  std::byte buffer[8];
  CHECK(!traced.of.irecv(owner, 1, {5, 7, 9}, buffer, sizeof(buffer), libof::Length::exact));
  for (int i = 0; i < 2; ++i) {
    const auto& [calls, events, names, left_out] = traced.read();
    CHECK_EQ(events.size(), 1u);
    CHECK(is_state(events[0], libof::State::recv_waiting_eager) && has(events[0], {0, 1, 5, 7, 9, 8}));
  }
}

// What a call starts has its time, until time passes or a message comes.
TEST(events_in_one_go_share_a_time) {
  Traced traced(10);
  Trace& trace = traced.trace;
  const uint64_t began = trace.ticks();
  trace.happens_at(began);
  Trace::Record* const operation = begin(trace, 1, trace.source_of("ibcast", nullptr));
  trace.round(operation, 1);
  trace.at_once(owner, {{1, 1, 1}, 8, 1}, libof::State::eager_send_init);
  trace.at_once(owner, {{1, 1, 2}, 8, 1}, libof::State::recv_waiting_eager);
  trace.round(operation, 2);
  trace.end(operation, Error::none);
  const uint64_t ended = trace.stamp();
  let_time_pass(trace);
  CHECK(trace.stamp() > ended);
  trace.started(operation, began, ended);
  const auto& [calls, events, names, left_out] = traced.read();
  CHECK(names.back() == "ibcast");
  const auto is = [&events = events](size_t at, Trace::Kind kind, double number, double second) {
    const Trace::Event& event = events[at];
    return event.kind == static_cast<double>(kind) && event.words[0] == number && event.words[1] == second;
  };
  CHECK_EQ(events.size(), 9u);
  CHECK(is(0, Trace::Kind::operation, 1, 2) && is(1, Trace::Kind::round, 1, 1));
  CHECK(is(7, Trace::Kind::round, 1, 2) && is(8, Trace::Kind::end, 1, 0));
  for (size_t i = 1; i < 5; ++i) CHECK(events[i].time == events[0].time);
  CHECK(events[5].time > events[0].time);
  for (size_t i = 6; i < 9; ++i) CHECK(events[i].time == events[5].time);
  CHECK_EQ(calls.size(), 1u);
  CHECK(calls[0].time == events[0].time && calls[0].words[3] == 1);
  CHECK(std::abs(calls[0].time + calls[0].words[0] - events[8].time) < 0.001);
}

// An exchange of 8 or of 4096 bytes between two ranks, in a world with these properties. What the trace of rank 0 says
// of it: kinds and words of its events, sorted, but for the ids of messages; and whether a receive began only later.
struct Way {
  bool asynchronous, large, peer_first, test_on_init;
};

std::vector<std::vector<double>> story(const Way& way, bool in_record) {
  check::FakeNetwork network(2, way.asynchronous);
  libof::Options options;
  options.eager_limit = 100;
  options.test_on_init = way.test_on_init;
  libof::LibOF one(network.rank(0), options), other(network.rank(1), options);
  Trace trace(20);
  one.observe(&trace);
  const auto pump = [&] {
    for (int i = 0; i < 20; ++i) {
      network.run();
      one.progress(Effort::look);
      other.progress(Effort::look);
    }
  };
  const uint64_t bytes = way.large ? 4096 : 8;
  Plan plan;
  plan.receives.push_back({1, 2, 3, Role::receive, 0, bytes});
  plan.sends.push_back({1, 2, 3, Role::send, 0, bytes});
  plan.rounds.push_back({0, 1, 0, 1, 0, 0, 0});
  std::vector<std::byte> sent(bytes), received(bytes), sent_by_peer(bytes), received_by_peer(bytes);
  libof::RequestOwner operation, operation_of_peer;
  const libof::MessageKey key{5, 7, 2 + 4 * 3};
  const auto exchange = [&](libof::LibOF& of, libof::RequestOwner& owner, Rank peer, auto& send, auto& receive) {
    of.irecv(owner, peer, key, receive.data(), bytes);
    of.isend(owner, peer, key, send.data(), bytes);
  };
  pump();
  if (way.peer_first) {
    exchange(other, operation_of_peer, 0, sent_by_peer, received_by_peer);
    pump();
    one.look_around(true);
  }
  Trace::Record* const record = trace.operation(1, trace.source_of("ibcast", &plan), 5, 7, 4);
  if (in_record) operation.noted = trace.exchange(record);
  CHECK(!in_record || operation.noted == record);
  trace.round(record, 1);
  let_clock_tick(trace);
  exchange(one, operation, 1, sent, received);
  let_time_pass(trace);
  if (!way.peer_first) exchange(other, operation_of_peer, 0, sent_by_peer, received_by_peer);
  pump();
  CHECK_EQ(operation.outstanding, 0);
  trace.end(record, operation.error);
  const Trace::Lists lists = trace.read();
  std::vector<std::vector<double>> events;
  const double begun = lists.events.front().time;
  bool message_is_late = false;
  for (const Trace::Event& event : lists.events) {
    const bool is_message = event.kind >= static_cast<double>(Trace::Kind::message);
    const bool later = event.time > begun;
    if (is_state(event, libof::State::done)) message_is_late |= later;
    events.emplace_back(1, event.kind);
    if (is_state(event, libof::State::recv_waiting_eager)) events.back().push_back(later);
    events.back().insert(events.back().end(), event.words + (is_message ? 1 : 0), std::end(event.words));
    if (!is_message) events.back().resize(3);  // words that it does not have are undefined
  }
  CHECK(message_is_late);
  CHECK_EQ(lists.left_out, 0u);
  std::sort(events.begin(), events.end());
  return events;
}

// Whatever way its messages go, a trace that keeps an exchange in the record of its operation tells the same of it.
TEST(an_exchange_reads_as_its_messages_would) {
  constexpr bool kBoth[] = {false, true};
  for (const bool asynchronous : kBoth)
    for (const bool large : kBoth)
      for (const bool peer_first : kBoth)
        for (const bool test_on_init : kBoth) {
          const Way way{asynchronous, large, peer_first, test_on_init};
          CHECK(story(way, true) == story(way, false));
        }
}

// One whose first round has begun: it receives 8 bytes.
struct Exchange : Traced {
  explicit Exchange(size_t most) : Traced(most) {
    Plan plan;
    plan.receives.push_back({1, 0, 1, Role::receive, 0, 8});
    plan.rounds.push_back({0, 1, 0, 0, 0, 0, 0});
    record = trace.operation(1, trace.source_of("ibcast", &plan), 5, 7, 0);
    operation.noted = trace.exchange(record);
    trace.round(record, 1);
  }
  libof::RequestOwner operation;
  Trace::Record* record;
};

TEST(a_usual_exchange_is_one_record) {
  Exchange exchange(1);
  Trace& trace = exchange.trace;
  std::byte buffer[8];
  exchange.of.irecv(exchange.operation, 1, {5, 7, 0}, buffer, sizeof(buffer));
  const Trace::Lists waiting = exchange.read();
  CHECK_EQ(waiting.events.size(), 3u);
  CHECK(is_state(waiting.events[2], libof::State::recv_waiting_eager));
  CHECK_EQ(waiting.events[2].words[0], 0x80000001);  // no other message has this id
  libof::Request request = request_with({5, 7, 0});
  request.owner = &exchange.operation;
  request.state = libof::State::recv_waiting_eager;
  let_time_pass(trace);
  move(trace, request, libof::State::done);
  trace.end(exchange.record, Error::none);
  const Trace::Lists lists = exchange.read();
  CHECK_EQ(lists.events.size(), 5u);
  CHECK_EQ(lists.left_out, 0u);
  CHECK(is_state(lists.events[3], libof::State::done) && has(lists.events[3], {Trace::kNoId, 1, 5, 7, 0, 8}));
  CHECK(lists.events[3].time == lists.events[4].time);
}

// Its sender is congested: the receiver asks.
TEST(a_receive_of_an_exchange_may_go_on_otherwise) {
  using libof::State;
  Exchange exchange(10);
  Trace& trace = exchange.trace;
  let_time_pass(trace);
  libof::Request request = request_with({5, 7, 0}, 77);
  request.owner = &exchange.operation;
  request.state = State::recv_waiting_eager;
  move(trace, request, State::recv_sending_rtr);
  move(trace, request, State::done);
  trace.end(exchange.record, Error::none);
  const auto& [calls, events, names, left_out] = exchange.read();
  CHECK_EQ(events.size(), 6u);
  CHECK(is_state(events[2], State::recv_waiting_eager) && has(events[2], {77, 0, 5, 7, 0, 0}));
  CHECK(is_state(events[3], State::recv_sending_rtr) && is_state(events[4], State::done));
  CHECK(events[2].time == events[0].time && events[3].time > events[2].time);
}

TEST(a_receive_of_an_exchange_that_is_given_up_ends_with_its_operation) {
  Exchange exchange(10);
  Trace& trace = exchange.trace;
  std::byte buffer[8];
  exchange.of.irecv(exchange.operation, 1, {5, 7, 0}, buffer, sizeof(buffer));
  exchange.operation.error = Error::revoked;
  exchange.of.cancel(exchange.operation);
  exchange.of.give_up_cancelled();
  let_time_pass(trace);
  trace.end(exchange.record, Error::revoked);
  const Trace::Lists lists = exchange.read();
  CHECK_EQ(lists.events.size(), 5u);
  CHECK(is_state(lists.events[2], libof::State::recv_waiting_eager) && is_state(lists.events[3], libof::State::done));
  CHECK(lists.events[2].words[0] == Trace::kNoId && lists.events[3].time == lists.events[4].time);
}

// Where the requests run out it may have none of its messages, so none is told of.
TEST(an_exchange_that_found_no_request_has_no_message) {
  Exchange exchange(1);
  exchange.trace.end(exchange.record, Error::too_many_requests);
  const Trace::Lists lists = exchange.read();
  CHECK_EQ(lists.events.size(), 3u);
  for (const Trace::Event& event : lists.events) CHECK(event.kind < static_cast<double>(Trace::Kind::message));
}

// Two messages one way, or none at all, are none.
TEST(only_a_first_round_of_one_message_each_way_is_an_exchange) {
  Traced traced(10);
  Trace& trace = traced.trace;
  Plan plan;
  const auto is_exchange = [&] {
    return trace.exchange(trace.operation(1, trace.source_of("ibcast", &plan), 5, 7, 0)) != nullptr;
  };
  CHECK(!is_exchange());
  plan.receives.resize(2, {1, 0, 2, Role::receive, 0, 8});
  plan.rounds.push_back({0, 0, 0, 0, 0, 0, 0});
  CHECK(!is_exchange());
  plan.rounds.push_back({0, 1, 0, 0, 0, 0, 0});
  CHECK(!is_exchange());
  plan.rounds.front().receive_last = 1;
  CHECK(is_exchange());
  plan.rounds.front().receive_last = 2;
  CHECK(!is_exchange());
  CHECK(trace.exchange(nullptr) == nullptr);
}

// A wait ends with its operation, and is in its record; another one, or one that gives up, is not.
TEST(an_operation_has_the_call_that_waits_for_it) {
  Traced traced(4);
  Trace& trace = traced.trace;
  trace.happens_at(1000);
  Trace::Record* const operation = begin(trace, 1, Trace::kSends);
  CHECK(!trace.waits(nullptr, 1100));
  CHECK(trace.waits(operation, 1100));
  CHECK(!trace.waits(operation, 1150));
  CHECK(!trace.waited(*operation));
  CHECK(traced.read().calls.empty());
  CHECK(trace.waits(operation, 1200));
  trace.happens_at(1300);
  trace.end(operation, Error::none);
  CHECK(trace.waited(*operation));
  const auto& [calls, events, names, left_out] = traced.read();
  CHECK_EQ(calls.size(), 1u);
  CHECK_EQ(events.size(), 2u);
  CHECK(calls[0].words[1] == static_cast<double>(Trace::Call::wait));
  CHECK(calls[0].time > events[0].time && calls[0].time < events[1].time);
  CHECK(std::abs(calls[0].time + calls[0].words[0] - events[1].time) < 0.001);
}

TEST(an_operation_says_how_it_ended) {
  Traced traced(2);
  Trace& trace = traced.trace;
  Trace::Record* const failed = begin(trace, 1, Trace::kSends);
  begin(trace, 2, Trace::kReceives);
  CHECK(begin(trace, 3, Trace::kSends) == nullptr);  // there is no room
  trace.end(failed, Error::counted_lost);
  trace.end(nullptr, Error::none);
  trace.round(nullptr, 2);
  const auto& [calls, events, names, left_out] = traced.read();
  CHECK_EQ(events.size(), 3u);
  CHECK(events[2].kind == static_cast<double>(Trace::Kind::end) && events[2].words[0] == 1);
  CHECK(events[2].words[1] == static_cast<double>(Error::counted_lost));
  CHECK_EQ(left_out, 1u);
}

TEST(tests_in_a_row_are_one_call) {
  Traced traced(10);
  uint64_t now = traced.trace.ticks();
  for (uint32_t i = 0; i < 5; ++i, now += 2) traced.trace.call(Trace::Call::test, now, now + 1);
  const Trace::Lists lists = traced.read();
  CHECK_EQ(lists.calls.size(), 1u);
  CHECK(lists.calls[0].words[2] == 5);
}

// What a call has started stands in another list than other calls.
TEST(calls_are_in_the_order_of_their_times) {
  Traced traced(10);
  Trace& trace = traced.trace;
  for (uint64_t i = 0; i < 6; i += 3) {
    const uint64_t began = 1000 + 100 * i;
    trace.happens_at(began);
    trace.started(begin(trace, i, Trace::kSends), began, began + 10);
    Trace::Record& wait = trace.call(Trace::Call::wait, began + 100);
    trace.ended(wait, began + 150);
    trace.call(Trace::Call::look, began + 200, began + 200);
  }
  const Trace::Lists lists = traced.read();
  const auto by_time = [](const Trace::Event& one, const Trace::Event& other) { return one.time < other.time; };
  CHECK_EQ(lists.calls.size(), 6u);
  CHECK(std::is_sorted(lists.calls.begin(), lists.calls.end(), by_time));
  for (size_t i = 0; i < 6; ++i)
    CHECK(lists.calls[i].words[1] == static_cast<double>(i % 3 == 0   ? Trace::Call::start
                                                         : i % 3 == 1 ? Trace::Call::wait
                                                                      : Trace::Call::look));
}

}  // namespace

TEST_MAIN(10)
