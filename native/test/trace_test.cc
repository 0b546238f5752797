// The clock of traces, and what a record keeps of an event.
#include "engine/trace.h"

#include <string>

#include "engine/ticks.h"
#include "test/check.h"

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

TEST(a_record_keeps_all_of_a_message) {
  Trace trace(4);
  const libof::MessageKey key{0xfedcba987654321, 0xffffffff, 0xfffffffe};
  constexpr uint64_t kBytes = (uint64_t{200} << 32) + 0xfffffffd;
  trace.at_once(key, 0xfffffff0, kBytes, libof::State::recv_waiting_eager);
  libof::Request request;
  request.key = {5, 7, 9};
  request.peer = 3;
  request.bytes = 8;
  request.id = 77;
  trace.moved(request, libof::State::done);
  const Trace::Lists lists = trace.read();
  CHECK_EQ(lists.events.size(), 2u);
  const Trace::Event& first = lists.events[0];
  const double expected[6] = {static_cast<double>(libof::State::recv_waiting_eager),
                              0xfffffff0,
                              static_cast<double>(key.context),
                              0xffffffff,
                              0xfffffffe,
                              static_cast<double>(kBytes)};
  CHECK(first.kind == static_cast<double>(Trace::Kind::at_once));
  for (size_t i = 0; i < 6; ++i) CHECK(first.words[i] == expected[i]);
  const double second[6] = {77, 3, 5, 7, 9, 8};
  CHECK(lists.events[1].kind == static_cast<double>(Trace::Kind::message) + static_cast<double>(libof::State::done));
  for (size_t i = 0; i < 6; ++i) CHECK(lists.events[1].words[i] == second[i]);
}

// What a call starts has its time, until time passes or a message comes.
TEST(events_in_one_go_share_a_time) {
  Trace trace(10);
  const uint64_t began = trace.ticks();
  trace.happens_at(began);
  trace.operation(1, trace.number_of(std::string("ibcast")));
  trace.round(1, 1);
  trace.at_once({1, 1, 1}, 1, 8, libof::State::eager_send_init);
  trace.at_once({1, 1, 2}, 1, 8, libof::State::recv_waiting_eager);
  trace.end(1, Error::none);
  const uint64_t ended = trace.stamp();
  trace.time_passes();
  CHECK(trace.stamp() > ended);
  trace.call(Trace::Call::start, began, ended, 1);
  const Trace::Lists lists = trace.read();
  CHECK(lists.names.back() == "ibcast");
  const auto& events = lists.events;
  CHECK_EQ(events.size(), 4u);
  CHECK(events[0].words[2] == 1);  // the first round
  CHECK(events[1].time == events[0].time);
  CHECK(events[2].time > events[1].time);
  CHECK(events[3].time == events[2].time);
  CHECK(lists.calls[0].time == events[0].time);
}

TEST(tests_in_a_row_are_one_call) {
  Trace trace(10);
  uint64_t now = trace.ticks();
  for (uint32_t i = 0; i < 5; ++i, now += 2) trace.call(Trace::Call::test, now, now + 1, 0);
  const Trace::Lists lists = trace.read();
  CHECK_EQ(lists.calls.size(), 1u);
  CHECK(lists.calls[0].words[2] == 5);
}

}  // namespace

TEST_MAIN(10)
