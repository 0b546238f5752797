// Writes encoded schedules for the tests, word by word as plan.h describes them.
#pragma once
#include <cstdint>
#include <vector>

#include "engine/plan.h"

namespace nbc::check {

class Schedule {
 public:
  Schedule(uint64_t send_bytes, uint64_t receive_bytes, uint64_t temporary_bytes = 0) {
    words = {kScheduleMagic, 0};
    size(send_bytes);
    size(receive_bytes);
    size(temporary_bytes);
  }
  Schedule& round() {
    ++words[1];
    elements_ = words.size();
    words.push_back(0);
    return *this;
  }
  Schedule& send(uint32_t peer, Role role, uint64_t offset, uint64_t bytes) {
    return transfer(1, peer, role, offset, bytes);
  }
  Schedule& receive(uint32_t peer, Role role, uint64_t offset, uint64_t bytes) {
    return transfer(2, peer, role, offset, bytes);
  }
  Schedule& copy(Role from, uint64_t from_offset, Role to, uint64_t to_offset, uint64_t bytes) {
    ++words[elements_];
    words.push_back(3);
    words.push_back(static_cast<uint32_t>(from));
    size(from_offset);
    words.push_back(static_cast<uint32_t>(to));
    size(to_offset);
    size(bytes);
    return *this;
  }

  std::vector<uint32_t> words;

 private:
  void size(uint64_t value) {
    words.push_back(static_cast<uint32_t>(value));
    words.push_back(static_cast<uint32_t>(value >> 32));
  }
  Schedule& transfer(uint32_t op, uint32_t peer, Role role, uint64_t offset, uint64_t bytes) {
    ++words[elements_];
    words.push_back(op);
    words.push_back(peer);
    words.push_back(static_cast<uint32_t>(role));
    size(offset);
    size(bytes);
    return *this;
  }

  size_t elements_ = 0;  // index of the current round's number of elements
};

}  // namespace nbc::check
