// What the compiler's headers and libstdc++ expect of newer versions of glibc than the addon of the package may need
// (2.28). Linked into that addon only, and not visible outside of it.
#include <dlfcn.h>
#include <pthread.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdint>
#include <cstdio>
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

// glibc 2.38: what its headers call in place of the functions of C. Here those would call themselves by their names.
long of_c_strtol(const char*, char**, int) noexcept asm("strtol");
unsigned long of_c_strtoul(const char*, char**, int) noexcept asm("strtoul");
int of_c_vsscanf(const char*, const char*, va_list) noexcept asm("vsscanf");
int of_c_vfscanf(FILE*, const char*, va_list) asm("vfscanf");
long __isoc23_strtol(const char* text, char** end, int base) noexcept { return of_c_strtol(text, end, base); }
unsigned long __isoc23_strtoul(const char* text, char** end, int base) noexcept {
  return of_c_strtoul(text, end, base);
}
int __isoc23_sscanf(const char* text, const char* format, ...) noexcept {
  va_list arguments;
  va_start(arguments, format);
  const int found = of_c_vsscanf(text, format, arguments);
  va_end(arguments);
  return found;
}
int __isoc23_fscanf(FILE* file, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const int found = of_c_vfscanf(file, format, arguments);
  va_end(arguments);
  return found;
}

// glibc 2.30. Without it, a wait is longer or shorter by as much as the time of day is set meanwhile.
int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                           const struct timespec* until) {
  using Wait = int (*)(pthread_cond_t*, pthread_mutex_t*, clockid_t, const struct timespec*);
  static const auto newer = reinterpret_cast<Wait>(dlsym(RTLD_DEFAULT, "pthread_cond_clockwait"));
  if (newer != nullptr) return newer(condition, mutex, clock, until);
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
