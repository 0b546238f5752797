// A process that has no descriptor left.
#pragma once

#include <sys/resource.h>
#include <unistd.h>

#include "test/check.h"

namespace nbc::check {

// The lowest that is free.
inline rlim_t next_descriptor() {
  const int next = ::dup(0);
  ::close(next);
  return static_cast<rlim_t>(next);
}

// As long as it lives, no new descriptor from `limit` on can be had in this process: of all ranks. The system takes no
// more than `limit` of them in one call of poll() either.
class NoDescriptors {
 public:
  explicit NoDescriptors(rlim_t limit = 0) {
    CHECK(::getrlimit(RLIMIT_NOFILE, &before_) == 0);
    const rlimit none{limit, before_.rlim_max};
    CHECK(::setrlimit(RLIMIT_NOFILE, &none) == 0);
  }
  ~NoDescriptors() { CHECK(::setrlimit(RLIMIT_NOFILE, &before_) == 0); }

 private:
  rlimit before_{};
};

}  // namespace nbc::check
