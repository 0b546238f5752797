#include "engine/local_work.h"

#include <algorithm>
#include <cstring>

#include "copy.h"

namespace nbc {
namespace {

constexpr uint64_t kElement = 64;  // the cost of an element or a block beside its bytes

// Where a strided copy is: the index in each dimension, and the offsets of the block on both sides.
struct Cursor {
  uint64_t index[kMaxDimensions];
  uint64_t from = 0;
  uint64_t to = 0;
};

Cursor cursor_at(const Dimension* dimensions, uint32_t count, uint64_t block) {
  Cursor cursor;
  for (uint32_t d = count; d-- > 0;) {
    cursor.index[d] = block % dimensions[d].count;
    block /= dimensions[d].count;
    cursor.from += cursor.index[d] * dimensions[d].from_stride;
    cursor.to += cursor.index[d] * dimensions[d].to_stride;
  }
  return cursor;
}

// To the next row: all dimensions but the innermost.
void next_row(Cursor& cursor, const Dimension* dimensions, uint32_t count) {
  for (uint32_t d = count - 1; d-- > 0;) {
    cursor.from += dimensions[d].from_stride;
    cursor.to += dimensions[d].to_stride;
    if (++cursor.index[d] < dimensions[d].count) return;
    cursor.from -= dimensions[d].from_stride * dimensions[d].count;
    cursor.to -= dimensions[d].to_stride * dimensions[d].count;
    cursor.index[d] = 0;
  }
}

template <size_t kBlock>
void copy_row(std::byte* to, const std::byte* from, const Dimension& dimension, uint64_t blocks) {
  for (uint64_t i = 0; i < blocks; ++i)
    std::memcpy(to + i * dimension.to_stride, from + i * dimension.from_stride, kBlock);
}

void copy_row(std::byte* to, const std::byte* from, const Dimension& dimension, uint64_t blocks, uint64_t block) {
  switch (block) {
    case 1:
      return copy_row<1>(to, from, dimension, blocks);
    case 2:
      return copy_row<2>(to, from, dimension, blocks);
    case 4:
      return copy_row<4>(to, from, dimension, blocks);
    case 8:
      return copy_row<8>(to, from, dimension, blocks);
    case 16:
      return copy_row<16>(to, from, dimension, blocks);
    default:
      for (uint64_t i = 0; i < blocks; ++i)
        copy_bytes(to + i * dimension.to_stride, from + i * dimension.from_stride, block);
  }
}

// Whole blocks from number `first` on.
void copy_blocks(std::byte* to, const std::byte* from, const Dimension* dimensions, uint32_t count, uint64_t block,
                 uint64_t first, uint64_t blocks) {
  const Dimension& innermost = dimensions[count - 1];
  Cursor cursor = cursor_at(dimensions, count, first);
  uint64_t column = cursor.index[count - 1];
  cursor.from -= column * innermost.from_stride;
  cursor.to -= column * innermost.to_stride;
  while (blocks > 0) {
    const uint64_t row = std::min(blocks, innermost.count - column);
    copy_row(to + cursor.to + column * innermost.to_stride, from + cursor.from + column * innermost.from_stride,
             innermost, row, block);
    blocks -= row;
    column = 0;
    next_row(cursor, dimensions, count);
  }
}

// A piece of a strided copy: a part of one block, or whole blocks. Returns the bytes written.
uint64_t copy_strided(const LocalTask& task, const Local& local, std::byte* to, const std::byte* from, uint64_t cost) {
  const Dimension* dimensions = task.plan->dimensions.data() + local.dimension_first;
  const uint32_t count = local.dimension_last - local.dimension_first;
  const uint64_t block = task.written / local.block;
  const uint64_t inside = task.written % local.block;
  if (inside > 0 || local.block + kElement > cost) {
    const Cursor cursor = cursor_at(dimensions, count, block);
    const uint64_t bytes = std::min(local.block - inside, std::max<uint64_t>(cost, 1));
    copy_bytes(to + cursor.to + inside, from + cursor.from + inside, bytes);
    return bytes;
  }
  const uint64_t blocks = std::min((local.bytes - task.written) / local.block, cost / (local.block + kElement));
  copy_blocks(to, from, dimensions, count, local.block, block, blocks);
  return blocks * local.block;
}

// The cost of the first `bytes` of an element.
uint64_t cost_of(const Local& local, uint64_t bytes) {
  return local.strided() ? bytes + bytes / local.block * kElement : bytes;
}

}  // namespace

uint64_t Local::cost() const { return by_function ? 0 : cost_of(*this, bytes) + kElement; }

uint64_t LocalTask::cost_to_function() const {
  uint64_t cost = 0;
  for (uint32_t i = element; i < last && !plan->locals[i].by_function; ++i) cost += plan->locals[i].cost();
  return cost;
}

void complete_element(LocalTask& task) {
  const Local& local = task.plan->locals[task.element];
  if (local.strided()) {
    for (const uint32_t element = task.element; task.element == element;) work_on_element(task, UINT64_MAX);
    return;
  }
  std::byte* to = task.base[static_cast<size_t>(local.to)] + local.to_offset;
  const std::byte* from = task.base[static_cast<size_t>(local.from)] + local.from_offset;
  if (local.reduce != nullptr) {
    local.reduce(to, from, to, local.bytes);
  } else {
    copy_bytes(to, from, local.bytes);
  }
  ++task.element;
}

uint64_t work_on_element(LocalTask& task, uint64_t cost) {
  const Local& local = task.plan->locals[task.element];
  std::byte* to = task.base[static_cast<size_t>(local.to)] + local.to_offset;
  const std::byte* from = task.base[static_cast<size_t>(local.from)] + local.from_offset;
  const uint64_t before = task.written;
  if (local.strided()) {
    task.written += copy_strided(task, local, to, from, cost);
  } else {
    const uint64_t units = std::max<uint64_t>(cost / local.unit, 1);
    const uint64_t bytes = std::min(local.bytes - before, units * local.unit);
    if (local.reduce != nullptr) {
      local.reduce(to + before, from + before, to + before, bytes);
    } else {
      copy_bytes(to + before, from + before, bytes);
    }
    task.written += bytes;
  }
  uint64_t done = cost_of(local, task.written) - cost_of(local, before);
  if (task.written == local.bytes) {
    done += kElement;
    task.written = 0;
    ++task.element;
  }
  return done;
}

void LocalWork::add(LocalTask& task, uint64_t cost) {
  task.next_task = nullptr;
  (tail_ != nullptr ? tail_->next_task : head_) = &task;
  tail_ = &task;
  cost_ += cost;
}

LocalTask* LocalWork::piece(uint64_t most) {
  LocalTask* const task = head_;
  if (task == nullptr) return nullptr;
  head_ = task->next_task;
  if (head_ == nullptr) tail_ = nullptr;
  for (uint64_t left = most; task->element < task->last && task->function_element() == nullptr && left > 0;) {
    const uint64_t done = work_on_element(*task, left);
    left -= std::min(left, done);
    cost_ -= done;
  }
  if (task->element == task->last || task->function_element() != nullptr) return task;
  add(*task, 0);
  return nullptr;
}

}  // namespace nbc
