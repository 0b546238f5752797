#include "fabric/verbs/device_choice.h"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace nbc::verbs {
namespace {

// The smaller, the better.
auto rating_of(const Choice& choice) { return std::tuple(choice.port.link, ~choice.megabits, choice.distance); }

}  // namespace

// InfiniBand Architecture Specification, volume 1, PortInfo.
uint32_t megabits_of(uint8_t width, uint8_t speed) {
  const auto lanes = [&]() -> uint32_t {
    switch (width) {
      case 1:
        return 1;
      case 2:
        return 4;
      case 4:
        return 8;
      case 8:
        return 12;
      case 16:
        return 2;
      default:
        return 0;
    }
  };
  const auto of_lane = [&]() -> uint32_t {
    switch (speed) {
      case 1:
        return 2'500;
      case 2:
        return 5'000;
      case 4:
      case 8:
        return 10'000;
      case 16:
        return 14'000;
      case 32:
        return 25'000;
      case 64:
        return 50'000;
      case 128:
        return 100'000;
      default:
        return 0;
    }
  };
  return lanes() * of_lane();
}

std::vector<size_t> in_order(const std::vector<Choice>& choices, uint32_t turn) {
  std::vector<size_t> order(choices.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return rating_of(choices[a]) < rating_of(choices[b]); });
  if (order.empty()) return order;
  const Choice& first = choices[order[0]];
  const auto equal = std::stable_partition(order.begin(), order.end(), [&](size_t each) {
    return rating_of(choices[each]) == rating_of(first) &&
           (&choices[each] == &first || share_subnet(choices[each].port, first.port));
  });
  std::rotate(order.begin(), order.begin() + turn % (equal - order.begin()), equal);
  return order;
}

}  // namespace nbc::verbs
