// Runs a program on a system that forbids cross-memory attach:
//
//   forbid_cma PROGRAM [ARGUMENTS]
//
// Exit status 125: the kernel takes no such filter, so the test that wants it cannot be run here. 127: PROGRAM was not
// found.
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <unistd.h>

#include "test/seccomp.h"

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(
        stderr,
        "usage: %s PROGRAM [ARGUMENTS]\nRuns PROGRAM with process_vm_readv and process_vm_writev forbidden (EPERM).\n",
        argv[0]);
    return 125;
  }
  if (!nbc::check::forbid_cross_memory()) {
    std::fprintf(stderr, "%s: this kernel takes no system call filter: %s\n", argv[0], std::strerror(errno));
    return 125;
  }
  execvp(argv[1], argv + 1);
  std::fprintf(stderr, "%s: %s: %s\n", argv[0], argv[1], std::strerror(errno));
  return errno == ENOENT ? 127 : 126;
}
