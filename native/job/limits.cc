#include "job/limits.h"

#include <bit>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/resource.h>
#include <sys/vfs.h>

#include "job/page.h"

namespace nbc::job {
namespace {

size_t limit_of(__rlimit_resource resource) {
  rlimit limit{};
  if (getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return SIZE_MAX;
  return static_cast<size_t>(limit.rlim_cur);
}

std::string gib(size_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f GiB", static_cast<double>(bytes) / static_cast<double>(size_t{1} << 30));
  return text;
}

// vm.overcommit_memory is 2: the kernel gives no page that it has not counted.
bool counts_memory_strictly() {
  std::FILE* file = std::fopen("/proc/sys/vm/overcommit_memory", "re");
  if (file == nullptr) return false;
  const int mode = std::fgetc(file);
  std::fclose(file);
  return mode == '2';
}

}  // namespace

size_t address_space_limit() { return limit_of(RLIMIT_AS); }

// The kernel puts the first stack at the end of the address space, but for a random distance that is a small part of
// it, and the name of the program at the end of that stack. Where addresses can have more bits, as with five levels of
// page tables, that is also below where a mapping ends that does not ask for them.
size_t address_space_width() {
  const auto last = static_cast<size_t>(getauxval(AT_EXECFN));
  return last == 0 ? SIZE_MAX : std::bit_ceil(last);
}

size_t file_size_limit() { return limit_of(RLIMIT_FSIZE); }

size_t address_space_in_use() {
  unsigned long long pages = 0;
  std::FILE* file = std::fopen("/proc/self/statm", "re");
  if (file == nullptr) return 0;
  if (std::fscanf(file, "%llu", &pages) != 1) pages = 0;
  std::fclose(file);
  return static_cast<size_t>(pages) * system_page();
}

FabricError no_address_space(const char* what, size_t bytes) {
  const int error = errno;
  std::string text = std::string(what) + " takes " + gib(bytes) + " of address space, which the system refuses (" +
                     std::strerror(error) + ")";
  const size_t limit = address_space_limit();
  if (limit != SIZE_MAX)
    text += "; the limit of this process is " + gib(limit) + " (ulimit -v), of which " + gib(address_space_in_use()) +
            " are in use";
  return {text +
              ". Let each rank expose less (NBC_EXPOSED_BYTES for the launcher, or option exposedBytes), use fewer "
              "ranks, or raise the limit",
          error, "ERR_NBC_NO_MEMORY"};
}

FabricError no_file_size(size_t bytes) {
  return {"the shared file of the job takes " + gib(bytes) +
              " (only what is touched costs memory); the limit of this " + "process for a file is " +
              gib(file_size_limit()) + " (ulimit -f). Let each rank expose less " +
              "(NBC_EXPOSED_BYTES for the launcher, or option exposedBytes), use fewer ranks, or raise the limit",
          EFBIG, "ERR_NBC_NO_MEMORY"};
}

FabricError no_anonymous_file() {
  const int error = errno;
  FabricError failure = system_failure("memfd_create, for the shared file of the job", error);
  if (error == EPERM || error == ENOSYS || error == EACCES)
    failure.message +=
        ". The system forbids it, a seccomp profile for example: allow memfd_create, or use transport "
        "'tcp' (NBC_TRANSPORT=tcp), which needs no shared file";
  return failure;
}

// The kernel's own file system, in which memfd_create() makes its files, counts no blocks: it has no limit.
bool pages_may_run_out(int fd) {
  struct statfs status {};
  return (fstatfs(fd, &status) == 0 && status.f_blocks != 0) || counts_memory_strictly();
}

bool reserve_pages(int fd, size_t offset, size_t bytes) {
  int result = 0;
  do {
    result = fallocate(fd, FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset), static_cast<off_t>(bytes));
  } while (result != 0 && errno == EINTR);
  return result == 0;
}

std::string why_no_pages(size_t bytes) {
  return "the system has no " + std::to_string((bytes + 1023) / 1024) + " KiB left for the shared file of the job (" +
         std::strerror(errno) + "). Use fewer ranks or smaller buffers, or give the machine or container more memory";
}

}  // namespace nbc::job
