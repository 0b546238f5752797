// What the compiler's headers and libstdc++ expect of newer versions of glibc than the addon of the package may need
// (2.28). Linked into that addon only, and not visible outside of it.
#include <pthread.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>

#pragma GCC visibility push(hidden)
extern "C" {

// glibc 2.30
pid_t gettid() noexcept { return static_cast<pid_t>(syscall(SYS_gettid)); }

// glibc 2.32: false is always true enough, there may be threads.
char __libc_single_threaded = 0;

// glibc 2.33: functions; before, macros that call others. struct stat is the kernel's on 64-bit systems.
int fstat(int descriptor, struct stat* out) noexcept { return static_cast<int>(syscall(SYS_fstat, descriptor, out)); }
int fstat64(int descriptor, struct stat64* out) noexcept {
  return static_cast<int>(syscall(SYS_fstat, descriptor, out));
}

// glibc 2.36, for std::random_device. So few bytes come whole once the system has collected any.
uint32_t arc4random() noexcept {
  uint32_t number;
  if (getrandom(&number, sizeof number, 0) != sizeof number) std::abort();
  return number;
}

// glibc 2.30. Where the time of day is set during the wait, the wait is longer or shorter by that much. The engine's
// waits are bounded and begin again, so they may be.
int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                           const struct timespec* until) {
  constexpr long kSecond = 1000000000;
  timespec now;
  timespec deadline;
  clock_gettime(clock, &now);
  clock_gettime(CLOCK_REALTIME, &deadline);
  deadline.tv_sec += until->tv_sec - now.tv_sec;
  deadline.tv_nsec += until->tv_nsec - now.tv_nsec;
  if (deadline.tv_nsec < 0) {
    deadline.tv_nsec += kSecond;
    deadline.tv_sec--;
  } else if (deadline.tv_nsec >= kSecond) {
    deadline.tv_nsec -= kSecond;
    deadline.tv_sec++;
  }
  return pthread_cond_timedwait(condition, mutex, &deadline);
}

}  // extern "C"
#pragma GCC visibility pop
