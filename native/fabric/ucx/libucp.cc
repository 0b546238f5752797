#include "fabric/ucx/available.h"

#if NBC_HAS_UCX
#include <cstdlib>
#include <string>
#include <sys/statvfs.h>
#include <vector>

#include "fabric/shared_library.h"
#include "fabric/ucx/libucp.h"

namespace nbc::ucx {
namespace {

constexpr const char* kName = "libucp.so.0";
constexpr const char* kRemedy = "install UCX 1.11 or newer (Debian: apt install libucx0)";

// Variables of UCX that hold while it is loaded, unless they are set.
class Defaults {
 public:
  Defaults() {
    // UCX would take over the signals of crashes, and write to the standard output of the program.
    add("UCX_HANDLE_ERRORS", "none");
    add("UCX_LOG_LEVEL", "fatal");
    // UCX would patch mmap(), brk() and others in the process, to learn of memory that is given back. UCX 1.13 tries
    // its patches by moving the end of the heap up and down by a page. Where another thread allocates meanwhile, the
    // heap loses a page that is in use. Without this UCX registers memory for each large message anew.
    add("UCX_MEM_EVENTS", "n");
  }
  ~Defaults() {
    for (const char* name : set_) unsetenv(name);
  }
  Defaults(const Defaults&) = delete;
  Defaults& operator=(const Defaults&) = delete;

 private:
  void add(const char* name, const char* value) {
    if (std::getenv(name) == nullptr && setenv(name, value, 0) == 0) set_.push_back(name);
  }

  std::vector<const char*> set_;
};

// "64 KiB left of 1024 KiB"
std::string shared_memory_left() {
  struct statvfs status {};
  if (statvfs("/dev/shm", &status) != 0) return "no file system there";
  const auto kib = [&](fsblkcnt_t blocks) { return std::to_string(blocks * status.f_frsize / 1024) + " KiB"; };
  return kib(status.f_bavail) + " left of " + kib(status.f_blocks);
}

Library load() {
  const Defaults defaults;
  const SharedLibrary library("ucx", kName, kRemedy);
  Library l{};
  library.find("ucp_config_read", l.config_read);
  library.find("ucp_config_release", l.config_release);
  library.find("ucp_init_version", l.init_version);
  library.find("ucp_cleanup", l.cleanup);
  library.find("ucp_worker_create", l.worker_create);
  library.find("ucp_worker_destroy", l.worker_destroy);
  library.find("ucp_worker_query", l.worker_query);
  library.find("ucp_worker_get_address", l.worker_get_address);
  library.find("ucp_worker_release_address", l.worker_release_address);
  library.find("ucp_worker_get_efd", l.worker_get_efd);
  library.find("ucp_worker_arm", l.worker_arm);
  library.find("ucp_worker_progress", l.worker_progress);
  library.find("ucp_worker_set_am_recv_handler", l.worker_set_am_recv_handler);
  library.find("ucp_ep_create", l.ep_create);
  library.find("ucp_ep_close_nbx", l.ep_close_nbx);
  library.find("ucp_am_send_nbx", l.am_send_nbx);
  library.find("ucp_am_recv_data_nbx", l.am_recv_data_nbx);
  library.find("ucp_am_data_release", l.am_data_release);
  library.find("ucp_request_check_status", l.request_check_status);
  library.find("ucp_request_free", l.request_free);
  library.find("ucs_status_string", l.status_string);  // of libucs, which libucp brings
  return l;
}

}  // namespace

const Library& library() {
  static const Library the = load();  // a failure is thrown, and tried again by the next caller
  return the;
}

FabricError failure(const std::string& what, ucs_status_t status) {
  std::string text = "transport 'ucx': " + what + ": " + library().status_string(status);
  if (status == UCS_ERR_NO_MEMORY)
    text += "; UCX keeps its queues in /dev/shm, which has " + shared_memory_left() +
            ". Make it larger (--shm-size of a container), or take networks without shared memory (UCX_TLS=tcp,self)";
  return {text};
}

}  // namespace nbc::ucx
#endif
