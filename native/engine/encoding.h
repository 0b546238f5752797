// The encoding of schedules. Made from src/schedules/encoding.ts by scripts/headers.mjs; a test compares the two.
// Every structure visits its fields in the order in which they are encoded: uint32_t is one word, uint64_t two, the low
// word first.
#pragma once
#include <cstdint>

namespace nbc {

constexpr uint32_t kScheduleMagic = 0x3243424e;
constexpr uint32_t kMaxDimensions = 16;
constexpr uint32_t kRoles = 3;
constexpr uint32_t kElementTypes = 12;
constexpr uint32_t kOperators = 13;
constexpr uint32_t kOrders = 2;
constexpr uint8_t kTypeBytes[kElementTypes] = {1, 1, 2, 2, 4, 4, 8, 8, 2, 2, 4, 8};

enum class Role : uint32_t {
  send = 0,
  receive = 1,
  temporary = 2,
};

enum class ElementKind : uint32_t {
  send = 1,
  recv = 2,
  copy = 3,
  reduce = 4,
  strided = 5,
};

enum class ElementType : uint32_t {
  int8 = 0,
  uint8 = 1,
  int16 = 2,
  uint16 = 3,
  int32 = 4,
  uint32 = 5,
  int64 = 6,
  uint64 = 7,
  float16 = 8,
  bfloat16 = 9,
  float32 = 10,
  float64 = 11,
};

enum class Operator : uint32_t {
  sum = 0,
  prod = 1,
  min = 2,
  max = 3,
  land = 4,
  lor = 5,
  lxor = 6,
  band = 7,
  bor = 8,
  bxor = 9,
  minloc = 10,
  maxloc = 11,
  user = 12,
};

enum class Order : uint32_t {
  source_first = 0,
  target_first = 1,
};

// What a field holds.
enum class FieldType : uint8_t {
  rank = 0,
  source = 1,
  target = 2,
  offset = 3,
  size = 4,
  count = 5,
  stride = 6,
  op = 7,
  type = 8,
  order = 9,
  dimensions = 10,
  rounds = 11,
  magic = 12,
};

namespace words {

struct Header {
  uint32_t magic = 0;
  uint32_t rounds = 0;
  uint64_t send_bytes = 0;
  uint64_t receive_bytes = 0;
  uint64_t temp_bytes = 0;

  template <typename Visit>
  void each(Visit&& visit) {
    visit(magic, FieldType::magic);
    visit(rounds, FieldType::rounds);
    visit(send_bytes, FieldType::size);
    visit(receive_bytes, FieldType::size);
    visit(temp_bytes, FieldType::size);
  }
};

struct Send {
  uint32_t peer = 0;
  uint32_t role = 0;
  uint64_t offset = 0;
  uint64_t bytes = 0;

  template <typename Visit>
  void each(Visit&& visit) {
    visit(peer, FieldType::rank);
    visit(role, FieldType::source);
    visit(offset, FieldType::offset);
    visit(bytes, FieldType::size);
  }
};

struct Recv {
  uint32_t peer = 0;
  uint32_t role = 0;
  uint64_t offset = 0;
  uint64_t bytes = 0;

  template <typename Visit>
  void each(Visit&& visit) {
    visit(peer, FieldType::rank);
    visit(role, FieldType::target);
    visit(offset, FieldType::offset);
    visit(bytes, FieldType::size);
  }
};

struct Copy {
  uint32_t source_role = 0;
  uint64_t source_offset = 0;
  uint32_t target_role = 0;
  uint64_t target_offset = 0;
  uint64_t bytes = 0;

  template <typename Visit>
  void each(Visit&& visit) {
    visit(source_role, FieldType::source);
    visit(source_offset, FieldType::offset);
    visit(target_role, FieldType::target);
    visit(target_offset, FieldType::offset);
    visit(bytes, FieldType::size);
  }
};

struct Reduce {
  uint32_t op = 0;
  uint32_t type = 0;
  uint32_t order = 0;
  uint32_t source_role = 0;
  uint64_t source_offset = 0;
  uint32_t target_role = 0;
  uint64_t target_offset = 0;
  uint64_t bytes = 0;

  template <typename Visit>
  void each(Visit&& visit) {
    visit(op, FieldType::op);
    visit(type, FieldType::type);
    visit(order, FieldType::order);
    visit(source_role, FieldType::source);
    visit(source_offset, FieldType::offset);
    visit(target_role, FieldType::target);
    visit(target_offset, FieldType::offset);
    visit(bytes, FieldType::size);
  }
};

struct Strided {
  uint32_t source_role = 0;
  uint64_t source_offset = 0;
  uint32_t target_role = 0;
  uint64_t target_offset = 0;
  uint64_t block_bytes = 0;
  uint32_t dimensions = 0;

  template <typename Visit>
  void each(Visit&& visit) {
    visit(source_role, FieldType::source);
    visit(source_offset, FieldType::offset);
    visit(target_role, FieldType::target);
    visit(target_offset, FieldType::offset);
    visit(block_bytes, FieldType::size);
    visit(dimensions, FieldType::dimensions);
  }
};

struct Dimension {
  uint64_t count = 0;
  uint64_t source_stride = 0;
  uint64_t target_stride = 0;

  template <typename Visit>
  void each(Visit&& visit) {
    visit(count, FieldType::count);
    visit(source_stride, FieldType::stride);
    visit(target_stride, FieldType::stride);
  }
};

}  // namespace words

}  // namespace nbc
