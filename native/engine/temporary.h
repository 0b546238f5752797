// Temporary memory of operations: one pool for each world. Fresh exposed memory costs page faults and a system call, so
// the pool keeps what operations give back, up to a bound. What is beyond the bound goes back to the system in pieces,
// when the owner of the engine has time: for 8 MiB of shared memory that takes 0.8 ms.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "fabric/fabric.h"

namespace nbc {

// Belongs to the owner of the engine, who calls it under the engine's lock.
class TemporaryPool {
 public:
  // The pool keeps free blocks of at most this many bytes in total, and beside them the last block that is larger. A
  // program that repeats one operation then never allocates twice, however large its temporary memory is.
  static constexpr uint64_t kKeptBytes = uint64_t{64} << 20;
  // The search is linear.
  static constexpr size_t kKeptBlocks = 32;
  // What release_piece() gives back at once, in 20 to 30 µs.
  static constexpr uint64_t kPiece = 256 * 1024;

  struct Block {
    std::byte* data = nullptr;
    uint64_t bytes = 0;      // allocated
    uint64_t discarded = 0;  // of them, from the first on, given back to the system
  };

  explicit TemporaryPool(std::shared_ptr<ExposedMemory> memory) : memory_(std::move(memory)) {}
  ~TemporaryPool();
  TemporaryPool(const TemporaryPool&) = delete;
  TemporaryPool& operator=(const TemporaryPool&) = delete;

  // At least `bytes`, with any content. `data` is null where there is no more memory.
  Block take(uint64_t bytes);
  void give_back(Block block);
  // Why the last take() gave nothing.
  std::string why() const { return memory_->why(); }
  // Bytes that the pool holds beyond its bounds.
  uint64_t surplus() const;
  // Gives a piece of the surplus back. There is one.
  void release_piece();
  uint64_t kept_bytes() const { return kept_bytes_ + large_.bytes; }

 private:
  void add(Block block, size_t index);
  Block remove(size_t index);
  void clear();

  std::shared_ptr<ExposedMemory> memory_;
  std::vector<Block> free_;  // the block given back last is at the end
  uint64_t kept_bytes_ = 0;  // of free_, without what is discarded
  Block large_;              // above kKeptBytes
};

}  // namespace nbc
