// Which of a machine's ports a rank takes. A pure function of what the devices say, so that it can be tested without
// any.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "fabric/verbs/reach.h"

namespace nbc::verbs {

// A port that is active, on a device whose transport is that of InfiniBand or RoCE.
struct Choice {
  std::string device;
  uint8_t number = 0;      // of the port
  uint32_t megabits = 0;   // a second
  uint32_t distance = 10;  // of the device from the processor of this thread, as the kernel tells it for NUMA nodes
  Port port{};
};

// Megabits a second of `active_width` and `active_speed` in ibv_port_attr. 0: unknown.
uint32_t megabits_of(uint8_t width, uint8_t speed);

// In which order they are tried: InfiniBand before Ethernet, then the faster, then the nearer, then as they are listed.
// Where several are as good as the first and in one subnet with it, ranks of a machine take them in turns: the rank
// with `turn` begins with the one that has this number, modulo how many there are.
std::vector<size_t> in_order(const std::vector<Choice>& choices, uint32_t turn);

}  // namespace nbc::verbs
