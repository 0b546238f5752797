// The clock of traces, and what a record keeps of an event.
#include "engine/trace.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "engine/ticks.h"
#include "test/check.h"
#include "test/fake_fabric.h"

namespace {

using namespace nbc;

// A reading lies between two of CLOCK_MONOTONIC around it, but for what the anchors may be wrong by.
TEST(ticks_are_times_of_the_monotonic_clock) {
  for (const bool counts : {false, TickClock::counter_is_reliable()}) {
    TickClock clock(counts);
    for (int i = 0; i < 1000; ++i) {
      const auto before = static_cast<double>(monotonic_nanoseconds()) / 1000;
      const uint64_t ticks = clock.ticks();
      const auto after = static_cast<double>(monotonic_nanoseconds()) / 1000;
      clock.anchor();
      const double found = clock.microseconds(ticks);
      // From the last anchor on, it is extrapolated over as much time as lies between two at least.
      const double tolerance = counts ? 0.1 + 4 * clock.uncertainty() : 0.001;
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
  trace.at_once({key, kBytes, 0xfffffff0}, libof::State::recv_waiting_eager);
  libof::Request request;
  request.key = {5, 7, 9};
  request.peer = 3;
  request.bytes = 8;
  request.id = 77;
  trace.moved(request, libof::State::done);
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
  libof::Request eager, other;
  eager.key = {5, 7, 9};
  other.key = {5, 7, 10};
  other.id = 1;
  const uint64_t began = trace.ticks();
  trace.happens_at(began);
  trace.moved(eager, State::recv_waiting_eager);
  trace.moved(other, State::recv_waiting_eager);
  trace.time_passes();
  trace.moved(eager, State::done);
  trace.moved(other, State::recv_sending_rtr);
  trace.moved(other, State::done);
  const auto& [calls, events, names, left_out] = traced.read();
  CHECK_EQ(events.size(), 5u);
  CHECK(is_state(events[0], State::recv_waiting_eager) && has(events[0], {Trace::kNoId, 0, 5, 7, 9, 0}));
  CHECK(is_state(events[1], State::done) && has(events[1], {Trace::kNoId, 0, 5, 7, 9, 0}));
  CHECK(is_state(events[2], State::recv_waiting_eager) && has(events[2], {1, 0, 5, 7, 10, 0}));
  CHECK(is_state(events[3], State::recv_sending_rtr) && is_state(events[4], State::done));
  CHECK(events[2].time == events[0].time && events[1].time > events[0].time && events[3].time > events[1].time);
  CHECK(eager.noted == 0 && other.noted == 0);
}

// The peer sends nothing. To read a trace changes nothing.
TEST(a_receive_that_still_waits_is_read_too) {
  Traced traced(10);
  libof::RequestOwner owner;
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
  Trace::Record* const operation = trace.operation(1, trace.number_of("ibcast"));
  trace.round(operation, 1);
  trace.at_once({{1, 1, 1}, 8, 1}, libof::State::eager_send_init);
  trace.at_once({{1, 1, 2}, 8, 1}, libof::State::recv_waiting_eager);
  trace.round(operation, 2);
  trace.end(operation, Error::none);
  const uint64_t ended = trace.stamp();
  trace.time_passes();
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

// A wait ends with its operation, and is in its record; another one, or one that gives up, is not.
TEST(an_operation_has_the_call_that_waits_for_it) {
  Traced traced(4);
  Trace& trace = traced.trace;
  trace.happens_at(1000);
  Trace::Record* const operation = trace.operation(1, Trace::kSendName);
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
  Trace::Record* const failed = trace.operation(1, Trace::kSendName);
  trace.operation(2, Trace::kReceiveName);
  CHECK(trace.operation(3, Trace::kSendName) == nullptr);  // there is no room
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
    trace.started(trace.operation(i, Trace::kSendName), began, began + 10);
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
