// The memory of one mailbox: control, and slots behind it. What is never used of it takes no memory.
#pragma once
#include <sys/mman.h>

#include "fabric/fabric.h"
#include "fabric/tcp/frame.h"

namespace nbc::tcp {

class Box {
 public:
  // Throws FabricError.
  explicit Box(uint32_t eager_limit) : bytes_(inbox_bytes(eager_limit)) {
    void* at = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) throw FabricError{"no memory for mailboxes"};
    data_ = static_cast<std::byte*>(at);
  }
  ~Box() { munmap(data_, bytes_); }
  Box(const Box&) = delete;
  Box& operator=(const Box&) = delete;

  std::byte* data() const { return data_; }
  Mailbox mailbox() const { return {data_, data_ + kControlBytes}; }

 private:
  const size_t bytes_;
  std::byte* data_;
};

}  // namespace nbc::tcp
