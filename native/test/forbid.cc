// Runs a program on a system that forbids some calls (EPERM), as containers do:
//
//   forbid WHAT[,WHAT…] PROGRAM [ARGUMENTS]
//
// WHAT is one of kCalls. Exit status 125: the kernel takes no such filter, so the test that wants it cannot be run
// here. 127: PROGRAM was not found.
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>
#include <sys/syscall.h>
#include <unistd.h>

#include "test/seccomp.h"

namespace {

constexpr long kPidfdOpen = 434;  // the same on all architectures

struct Calls {
  const char* name;
  long one;
  long other;
};
constexpr Calls kCalls[] = {
    {"cross-memory", SYS_process_vm_readv, SYS_process_vm_writev},
    {"memfd", SYS_memfd_create, SYS_memfd_create},
    {"pidfd", kPidfdOpen, kPidfdOpen},
    {"affinity", SYS_sched_setaffinity, SYS_sched_setaffinity},
    {"namespaces", SYS_unshare, SYS_setns},
};

int usage(const char* program) {
  std::fprintf(stderr, "usage: %s WHAT[,WHAT...] PROGRAM [ARGUMENTS]\nWHAT:", program);
  for (const Calls& calls : kCalls) std::fprintf(stderr, " %s", calls.name);
  std::fprintf(stderr, "\n");
  return 125;
}

const Calls* find(const std::string& name) {
  for (const Calls& calls : kCalls) {
    if (name == calls.name) return &calls;
  }
  return nullptr;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return usage(argv[0]);
  const std::string all = argv[1];
  for (size_t begin = 0; begin <= all.size();) {
    const size_t end = std::min(all.find(',', begin), all.size());
    const Calls* const calls = find(all.substr(begin, end - begin));
    if (calls == nullptr) return usage(argv[0]);
    if (!nbc::check::forbid(calls->one, calls->other)) {
      std::fprintf(stderr, "%s: this kernel takes no system call filter: %s\n", argv[0], std::strerror(errno));
      return 125;
    }
    begin = end + 1;
  }
  execvp(argv[2], argv + 2);
  std::fprintf(stderr, "%s: %s: %s\n", argv[0], argv[2], std::strerror(errno));
  return errno == ENOENT ? 127 : 126;
}
