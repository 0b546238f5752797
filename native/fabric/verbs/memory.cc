#include "fabric/verbs/available.h"

#if NBC_HAS_VERBS
#include "fabric/verbs/memory.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <sys/mman.h>

#include "fabric/system_memory.h"
#include "fabric/verbs/locked_memory.h"
#include "job/page.h"

namespace nbc::verbs {
namespace {

// Registering costs a system call and pins every page; small blocks share one registration.
constexpr size_t kChunkBytes = size_t{4} << 20;

}  // namespace

Memory::~Memory() {
  for (auto& [address, chunk] : chunks_) drop(chunk);
}

void Memory::drop(Chunk& chunk) {
  device_->lib.dereg_mr(chunk.mr);
  give_back(chunk.base, chunk.bytes);
}

// Zeroed, page-aligned.
void* Memory::obtain(size_t bytes, std::string& why) {
  if (source_ != nullptr) {
    void* at = source_->allocate(bytes);
    if (at == nullptr) why = source_->why();
    return at;
  }
  void* at = map_memory(bytes);
  if (at == nullptr) why = "the system has no more memory for this process";
  return at;
}

void Memory::give_back(void* chunk, size_t bytes) {
  if (source_ != nullptr) {
    source_->release(chunk);
  } else {
    munmap(chunk, bytes);
  }
}

bool Memory::make(size_t length, Chunk& chunk, std::string& why) {
  chunk.bytes = std::max(length, kChunkBytes);
  for (;;) {
    void* at = obtain(chunk.bytes, why);
    if (at == nullptr) return false;
    chunk.base = static_cast<std::byte*>(at);
    chunk.mr =
        register_data(device_->lib, device_->pd, at, chunk.bytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    if (chunk.mr != nullptr) break;
    const int error = errno;
    give_back(at, chunk.bytes);
    if (chunk.bytes == length) {
      why = registration_failure(length, error);
      return false;
    }
    chunk.bytes = length;  // locked memory may be scarce: only what is needed
  }
  chunk.free.emplace(0, chunk.bytes);
  return true;
}

Memory::Block Memory::take(Chunk& chunk, size_t length) {
  for (auto it = chunk.free.begin(); it != chunk.free.end(); ++it) {
    if (it->second < length) continue;
    const size_t offset = it->first;
    const size_t rest = it->second - length;
    chunk.free.erase(it);
    if (rest > 0) chunk.free.emplace(offset + length, rest);
    chunk.allocated.emplace(offset, length);
    used_ += length;
    const size_t used = offset < chunk.touched ? std::min(length, chunk.touched - offset) : 0;
    chunk.touched = std::max(chunk.touched, offset + length);
    return {chunk.base + offset, used};
  }
  return {};
}

Memory::Block Memory::take(size_t length) {
  for (auto& [address, chunk] : chunks_) {
    if (const Block block = take(chunk, length); block.data != nullptr) return block;
  }
  return {};
}

void* Memory::allocate(size_t bytes) {
  if (bytes > SIZE_MAX / 2) return nullptr;
  const size_t page = job::system_page();
  const size_t length = std::max<size_t>(1, (bytes + page - 1) / page) * page;
  std::unique_lock<std::mutex> lock(mutex_);
  Block block = take(length);
  if (block.data == nullptr) {
    lock.unlock();
    Chunk chunk;
    std::string why;
    const bool is_made = make(length, chunk, why);
    lock.lock();
    if (is_made) {
      const auto address = reinterpret_cast<uintptr_t>(chunk.base);
      block = take(chunks_.emplace(address, std::move(chunk)).first->second, length);
    } else {
      block = take(length);  // what another thread has made or released meanwhile
      if (block.data == nullptr) why_ = std::move(why);
    }
  }
  lock.unlock();
  // Giving the pages back to the system would take them away from under the registration.
  if (block.used > 0) std::memset(block.data, 0, block.used);
  return block.data;
}

void Memory::release(void* block) {
  decltype(chunks_)::node_type last;  // goes without the mutex
  std::unique_lock<std::mutex> lock(mutex_);
  auto at = chunks_.upper_bound(reinterpret_cast<uintptr_t>(block));
  if (at == chunks_.begin()) return;
  Chunk& chunk = (--at)->second;
  const auto found = chunk.allocated.find(static_cast<size_t>(static_cast<std::byte*>(block) - chunk.base));
  if (found == chunk.allocated.end()) return;
  size_t start = found->first;
  size_t length = found->second;
  chunk.allocated.erase(found);
  used_ -= length;
  const auto next = chunk.free.lower_bound(start);
  if (next != chunk.free.end() && next->first == start + length) {
    length += next->second;
    chunk.free.erase(next);
  }
  const auto after = chunk.free.lower_bound(start);
  if (after != chunk.free.begin()) {
    const auto before = std::prev(after);
    if (before->first + before->second == start) {
      start = before->first;
      length += before->second;
      chunk.free.erase(before);
    }
  }
  chunk.free.emplace(start, length);
  if (chunk.allocated.empty() && (chunks_.size() > 1 || chunk.bytes > kChunkBytes)) last = chunks_.extract(at);
  lock.unlock();
  if (last) drop(last.mapped());
}

size_t Memory::used() const {
  const std::lock_guard<std::mutex> guard(mutex_);
  return used_;
}

std::string Memory::why() const {
  const std::lock_guard<std::mutex> guard(mutex_);
  return why_;
}

ibv_mr* Memory::find(const void* data, size_t bytes) const {
  const auto address = reinterpret_cast<uintptr_t>(data);
  const std::lock_guard<std::mutex> guard(mutex_);
  auto at = chunks_.upper_bound(address);
  if (at == chunks_.begin()) return nullptr;
  const Chunk& chunk = (--at)->second;
  return address - at->first + bytes <= chunk.bytes ? chunk.mr : nullptr;
}

}  // namespace nbc::verbs
#endif
