#include "fabric/verbs/locked_memory.h"

#include <cstring>
#include <sys/resource.h>

namespace nbc::verbs {
namespace {

// Empty: there is no limit, or this is about something else.
std::string advice_on(int error) {
  rlimit limit{};
  const bool memory = error == ENOMEM || error == EAGAIN || error == EPERM;
  if (!memory || getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return {};
  return "; this process may lock " + std::to_string(limit.rlim_cur / 1024) +
         " KiB of memory, which is too little. Raise it with 'ulimit -l unlimited' before the start, 'memlock' in "
         "/etc/security/limits.conf, LimitMEMLOCK=infinity in a systemd unit, or the option '--ulimit memlock=-1' of "
         "docker and podman";
}

}  // namespace

std::string registration_failure(size_t bytes, int error) {
  return "registering " + std::to_string(bytes) + " bytes with the network card failed: " + std::strerror(error) +
         advice_on(error);
}

FabricError device_refusal(const std::string& what, int error) {
  return {"transport 'verbs': " + what + ": " + std::strerror(error) + advice_on(error), error};
}

}  // namespace nbc::verbs
