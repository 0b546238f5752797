// Tests that need a kernel which copies between the memories of processes. qemu-user does not, nor do some containers.
#pragma once
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <sys/uio.h>
#include <unistd.h>

#include "test/check.h"

namespace nbc {

inline void need_cross_memory() {
  uint64_t from = 1;
  uint64_t to = 0;
  const iovec local{&to, sizeof to};
  const iovec remote{&from, sizeof from};
  if (process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == sizeof to && to == from) return;
  throw check::Skip{std::string("process_vm_readv() does not work here: ") + std::strerror(errno)};
}

}  // namespace nbc
