// The state table: what became of the request in each slot. Written by the owner of the engine, read by JavaScript
// without a call.
//
//   int32[kSlots]       states
//   uint32[kExchange]   exchange
//   float64[kSlots]     lengths: of a single message that was received, its bytes; other slots keep what they hold
//   int32               functions: pieces of reductions that wait for a function of the calling thread (user_work.h)
//   uint32              world: its number in this process
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <sys/mman.h>

namespace nbc {

constexpr uint32_t kSlots = 1u << 20;  // requests pending at a time; the table is touched only as far as it is used
// Numbers of slots that one call of look() takes and gives back. They belong to the calling thread.
constexpr uint32_t kExchange = 4096;

enum class SlotState : int32_t { pending = 0, done = 1 };  // larger values: enum Error

// Zeros, of which only the pages that have been touched take memory. Not huge ones: few slots are in use.
class SlotMemory {
 public:
  explicit SlotMemory(size_t bytes) : bytes_(bytes) {
    void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) return;
    data_ = at;
    madvise(data_, bytes, MADV_NOHUGEPAGE);
  }
  ~SlotMemory() {
    if (data_ != nullptr) munmap(data_, bytes_);
  }
  SlotMemory(const SlotMemory&) = delete;
  SlotMemory& operator=(const SlotMemory&) = delete;

  void* data() const { return data_; }  // nullptr: there is none

 private:
  size_t bytes_;
  void* data_ = nullptr;
};

class SlotTable {
 public:
  SlotTable() { static_assert((kSlots + kExchange) * sizeof(int32_t) % alignof(double) == 0); }

  bool valid() const { return states_ != nullptr; }
  void* data() const { return states_; }
  uint32_t* exchange() const { return reinterpret_cast<uint32_t*>(states_ + kSlots); }
  static constexpr size_t bytes() {
    return (kSlots + kExchange) * sizeof(int32_t) + kSlots * sizeof(double) + 2 * sizeof(int32_t);
  }
  std::atomic<int32_t>& functions() const { return *tail(); }
  uint32_t world() const { return static_cast<uint32_t>(tail()[1].load(std::memory_order_relaxed)); }
  void set_world(uint32_t number) { tail()[1].store(static_cast<int32_t>(number), std::memory_order_relaxed); }
  // Before the state is set, which releases it.
  void set_length(uint32_t slot, uint64_t bytes) { lengths()[slot] = static_cast<double>(bytes); }
  // release: a reader that sees the state sees the received data
  void set(uint32_t slot, int32_t state) { states_[slot].store(state, std::memory_order_release); }
  int32_t get(uint32_t slot) const { return states_[slot].load(std::memory_order_acquire); }

 private:
  double* lengths() const { return reinterpret_cast<double*>(states_ + kSlots + kExchange); }
  std::atomic<int32_t>* tail() const { return reinterpret_cast<std::atomic<int32_t>*>(lengths() + kSlots); }

  SlotMemory memory_{bytes()};
  std::atomic<int32_t>* const states_ = static_cast<std::atomic<int32_t>*>(memory_.data());
};

}  // namespace nbc
