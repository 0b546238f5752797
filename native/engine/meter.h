// What is counted only while somebody wants to see it: nbctop (addon/monitor.h), or a program that has asked for its
// utilization. Otherwise it costs one comparison for each wait.
//
// All of it is guarded by the lock of the engine.
#pragma once
#include <cstdint>

#include "engine/ticks.h"
#include "libof/request.h"

namespace nbc {

// Since the meter was turned on for the first time; what happens while it is off is not counted.
struct Metered {
  double time = 0;        // microseconds of CLOCK_MONOTONIC: now
  double waited = 0;      // microseconds that the calling thread was in wait, or looked for what is awaited
  uint64_t sent = 0;      // bytes of messages that were given to the fabric
  uint64_t received = 0;  // bytes of messages that have come, and were complete
};

class Meter {
 public:
  // Who wants it: bits.
  static constexpr uint8_t kMonitor = 1, kProgram = 2;

  bool is_on() const { return listeners_ != 0; }
  uint8_t listeners() const { return listeners_; }
  void listen(uint8_t listeners) { listeners_ = listeners; }

  // The calling thread begins, and ends, to wait; it may have been turned on, or off, in between.
  void begin_wait() { since_ = now(); }
  void end_wait() {
    if (since_ != 0) waited_ += now() - since_;
    since_ = 0;
  }
  void moved(const libof::Request& request, libof::State state) {
    if (state == libof::State::eager_sending || state == libof::State::send_sending_data) {
      sent_ += request.bytes;
    } else if (state == libof::State::done && request.error == Error::none) {
      received_ += request.got;  // 0 of a send
    }
  }
  void at_once(const libof::MessageInfo& message, libof::State first) {
    (first == libof::State::eager_send_init ? sent_ : received_) += message.bytes;
  }

  Metered read() const {
    const double time = now();
    return {time, waited_ + (since_ == 0 ? 0 : time - since_), sent_, received_};
  }

 private:
  static double now() { return static_cast<double>(monotonic_nanoseconds()) / 1000; }

  uint8_t listeners_ = 0;
  double since_ = 0;  // 0: the calling thread does not wait, or it began to while nobody listened
  double waited_ = 0;
  uint64_t sent_ = 0;
  uint64_t received_ = 0;
};

}  // namespace nbc
