#include "fabric/verbs/locked_memory.h"

#include <cerrno>
#include <cstring>
#include <sys/resource.h>

namespace nbc::verbs {

std::string registration_failure(size_t bytes, int error) {
  std::string text =
      "registering " + std::to_string(bytes) + " bytes with the network card failed: " + std::strerror(error);
  rlimit limit{};
  if ((error == ENOMEM || error == EAGAIN || error == EPERM) && getrlimit(RLIMIT_MEMLOCK, &limit) == 0 &&
      limit.rlim_cur != RLIM_INFINITY)
    text += "; this process may lock " + std::to_string(limit.rlim_cur / 1024) +
            " KiB of memory, which is too little. Raise it with 'ulimit -l unlimited' before the start, 'memlock' in "
            "/etc/security/limits.conf, LimitMEMLOCK=infinity in a systemd unit, or the option '--ulimit memlock=-1' "
            "of docker "
            "and podman";
  return text;
}

}  // namespace nbc::verbs
