// Writes encoded schedules for the tests, by the structures of engine/encoding.h.
#pragma once
#include <cstdint>
#include <vector>

#include "engine/plan.h"

namespace nbc::check {

class Schedule {
 public:
  Schedule(uint64_t send_bytes, uint64_t receive_bytes, uint64_t temporary_bytes = 0) {
    append(words::Header{kScheduleMagic, 0, send_bytes, receive_bytes, temporary_bytes});
  }
  Schedule& round() {
    ++words[1];
    elements_ = words.size();
    words.push_back(0);
    return *this;
  }
  Schedule& send(uint32_t peer, Role role, uint64_t offset, uint64_t bytes) {
    return element(ElementKind::send, words::Send{peer, number(role), offset, bytes});
  }
  Schedule& receive(uint32_t peer, Role role, uint64_t offset, uint64_t bytes) {
    return element(ElementKind::recv, words::Recv{peer, number(role), offset, bytes});
  }
  Schedule& copy(Role from, uint64_t from_offset, Role to, uint64_t to_offset, uint64_t bytes) {
    return element(ElementKind::copy, words::Copy{number(from), from_offset, number(to), to_offset, bytes});
  }
  Schedule& reduce(Operator op, ElementType type, Role from, uint64_t from_offset, Role to, uint64_t to_offset,
                   uint64_t bytes) {
    return element(ElementKind::reduce, words::Reduce{static_cast<uint32_t>(op), static_cast<uint32_t>(type), 0,
                                                      number(from), from_offset, number(to), to_offset, bytes});
  }
  Schedule& strided(Role from, uint64_t from_offset, Role to, uint64_t to_offset, uint64_t block,
                    const std::vector<Dimension>& dimensions) {
    element(ElementKind::strided, words::Strided{number(from), from_offset, number(to), to_offset, block,
                                                 static_cast<uint32_t>(dimensions.size())});
    for (const Dimension& dimension : dimensions)
      append(words::Dimension{dimension.count, dimension.from_stride, dimension.to_stride});
    return *this;
  }

  std::vector<uint32_t> words;

 private:
  static uint32_t number(Role role) { return static_cast<uint32_t>(role); }

  template <typename Fields>
  Schedule& element(ElementKind kind, Fields fields) {
    ++words[elements_];
    words.push_back(static_cast<uint32_t>(kind));
    append(fields);
    return *this;
  }

  template <typename Fields>
  void append(Fields fields) {
    fields.each([this](auto& field, FieldType) {
      words.push_back(static_cast<uint32_t>(field));
      if constexpr (sizeof field == sizeof(uint64_t)) words.push_back(static_cast<uint32_t>(field >> 32));
    });
  }

  size_t elements_ = 0;  // index of the current round's number of elements
};

}  // namespace nbc::check
