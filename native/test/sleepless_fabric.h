// What fabrics of tests have in common whose engine, or LibOF, is driven by hand: nobody sleeps, and nothing calls.
#pragma once
#include <deque>

#include "fabric/fabric.h"

namespace nbc {

class SleeplessFabric : public Fabric {
 public:
  Network network_to(Rank) const override { return Network::shm; }
  uint32_t put_window() const override { return 16; }
  bool called() const override { return false; }
  bool holds_back() const override { return false; }
  bool receiver_copies() const override { return false; }
  uint32_t ticket(Sleeper) override { return 0; }
  void arm(Sleeper, uint32_t) override {}
  bool is_armed() const override { return false; }
  void disarm() override {}
  void sleep(Sleeper, uint32_t, int64_t) override {}
  void ring_self(Sleeper) override {}
  void announce_closed() override {}
  void visit_counters(const CounterVisitor&) const override {}

 protected:
  // Moves completions into out[count…max). Returns how many are there then.
  static unsigned move_to(Completion* out, unsigned count, unsigned max, std::deque<Completion>& from) {
    for (; count < max && !from.empty(); ++count) {
      out[count] = from.front();
      from.pop_front();
    }
    return count;
  }
};

}  // namespace nbc
