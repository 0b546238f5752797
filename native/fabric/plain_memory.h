// Exposed memory of networks that reach any memory alike: whole pages, zeroed, from the system and back to it.
#pragma once
#include <map>
#include <mutex>

#include "fabric/fabric.h"

namespace nbc {

class PlainMemory final : public ExposedMemory {
 public:
  ~PlainMemory() override;
  void* allocate(size_t bytes) override;
  void release(void* block) override;
  void discard(void* part, size_t bytes) override;
  size_t used() const override;
  std::string why() const override;

 private:
  mutable std::mutex mutex_;  // guards the rest: buffers are freed by garbage collection, on other threads
  std::map<void*, size_t> blocks_;
  size_t used_ = 0;
};

}  // namespace nbc
