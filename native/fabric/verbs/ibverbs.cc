#include "fabric/verbs/available.h"

#if NBC_HAS_VERBS
#include "fabric/verbs/ibverbs.h"

#include <dlfcn.h>

namespace nbc::verbs {
namespace {

constexpr const char* kName = "libibverbs.so.1";
constexpr const char* kRemedy =
    "install rdma-core's user-space libraries (Debian: apt install libibverbs1 ibverbs-providers)";

template <typename Function>
void find(void* handle, const char* name, Function& function) {
  // dlsym gives the default version of a symbol, which is the one that the headers describe.
  void* symbol = dlsym(handle, name);
  if (symbol == nullptr) throw FabricError{std::string(kName) + " has no " + name + ": it is too old; " + kRemedy};
  function = reinterpret_cast<Function>(symbol);
}

// Programs fork to start others, and kernels before 5.12 would then move registered pages away from under the card.
// ibv_fork_init keeps these pages from children; but with them all that shares a page with them, such as the arguments
// of the program to start (EFAULT). So it is called only where it is needed. Failure only means that such an old kernel
// will have to do without.
void protect_from_fork(void* handle) {
  ibv_fork_status (*status)() = nullptr;
  int (*fork_init)() = nullptr;
  find(handle, "ibv_is_fork_initialized", status);
  find(handle, "ibv_fork_init", fork_init);
  if (status() != IBV_FORK_UNNEEDED) fork_init();
}

Library load() {
  // Never closed: the providers that it loads keep threads and handlers of their own.
  void* handle = dlopen(kName, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* why = dlerror();
    throw FabricError{std::string("transport 'verbs' needs ") + kName + ": " + (why != nullptr ? why : "not found") +
                      "; " + kRemedy};
  }
  Library l{};
  find(handle, "ibv_get_device_list", l.get_device_list);
  find(handle, "ibv_free_device_list", l.free_device_list);
  find(handle, "ibv_get_device_name", l.get_device_name);
  find(handle, "ibv_open_device", l.open_device);
  find(handle, "ibv_close_device", l.close_device);
  find(handle, "ibv_query_device", l.query_device);
  find(handle, "ibv_query_port", l.query_port);
  find(handle, "_ibv_query_gid_table", l.query_gid_table);
  find(handle, "ibv_alloc_pd", l.alloc_pd);
  find(handle, "ibv_dealloc_pd", l.dealloc_pd);
  find(handle, "ibv_reg_mr", l.reg_mr);
  find(handle, "ibv_dereg_mr", l.dereg_mr);
  find(handle, "ibv_create_comp_channel", l.create_comp_channel);
  find(handle, "ibv_destroy_comp_channel", l.destroy_comp_channel);
  find(handle, "ibv_create_cq", l.create_cq);
  find(handle, "ibv_destroy_cq", l.destroy_cq);
  find(handle, "ibv_get_cq_event", l.get_cq_event);
  find(handle, "ibv_ack_cq_events", l.ack_cq_events);
  find(handle, "ibv_create_qp", l.create_qp);
  find(handle, "ibv_modify_qp", l.modify_qp);
  find(handle, "ibv_destroy_qp", l.destroy_qp);
  find(handle, "ibv_create_srq", l.create_srq);
  find(handle, "ibv_destroy_srq", l.destroy_srq);
  find(handle, "ibv_get_async_event", l.get_async_event);
  find(handle, "ibv_ack_async_event", l.ack_async_event);
  find(handle, "ibv_wc_status_str", l.wc_status_str);
  find(handle, "ibv_event_type_str", l.event_type_str);
  protect_from_fork(handle);
  return l;
}

}  // namespace

const Library& library() {
  static Library the =
      load();  // a failure is thrown, and tried again by the next caller; not const: tests replace functions
  return the;
}

}  // namespace nbc::verbs
#endif
