// A system that forbids some calls, as containers often do: they fail with EPERM, for this process and all that it
// starts.
#pragma once
#include <cerrno>
#include <cstddef>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

namespace nbc::check {

// False, with errno, if the kernel does not take the filter.
inline bool forbid(long one, long other) {
#if defined(__x86_64__)
  constexpr unsigned kArchitecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
  constexpr unsigned kArchitecture = AUDIT_ARCH_AARCH64;
#else
  static_cast<void>(one);
  static_cast<void>(other);
  errno = ENOSYS;
  return false;
#endif
#if defined(__x86_64__) || defined(__aarch64__)
  sock_filter program[] = {
      // Calls of another architecture have other numbers: let them pass.
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, arch)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kArchitecture, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(one), 2, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(other), 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
  };
  const sock_fprog filter{sizeof program / sizeof program[0], program};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
#endif
}

// Cross-memory attach: process_vm_readv and process_vm_writev.
inline bool forbid_cross_memory() { return forbid(SYS_process_vm_readv, SYS_process_vm_writev); }

// To wait for the end of a process by a descriptor.
inline bool forbid_process_descriptors() {
  constexpr long kPidfdOpen = 434;  // the same on all architectures
  return forbid(kPidfdOpen, kPidfdOpen);
}

}  // namespace nbc::check
