#include "fabric/verbs/available.h"

#if NBC_HAS_VERBS
#include "fabric/verbs/ibverbs.h"

#include "fabric/shared_library.h"

namespace nbc::verbs {
namespace {

constexpr const char* kName = "libibverbs.so.1";
constexpr const char* kRemedy =
    "install rdma-core's user-space libraries (Debian: apt install libibverbs1 ibverbs-providers)";

// Programs fork to start others, and kernels before 5.12 would then move registered pages away from under the card.
// ibv_fork_init keeps these pages from children; but with them all that shares a page with them, such as the arguments
// of the program to start (EFAULT). So it is called only where it is needed. Failure only means that such an old kernel
// will have to do without.
void protect_from_fork(const SharedLibrary& library) {
  ibv_fork_status (*status)() = nullptr;
  int (*fork_init)() = nullptr;
  library.find("ibv_is_fork_initialized", status);
  library.find("ibv_fork_init", fork_init);
  if (status() != IBV_FORK_UNNEEDED) fork_init();
}

Library load() {
  const SharedLibrary library("verbs", kName, kRemedy);
  Library l{};
  library.find("ibv_get_device_list", l.get_device_list);
  library.find("ibv_free_device_list", l.free_device_list);
  library.find("ibv_get_device_name", l.get_device_name);
  library.find("ibv_open_device", l.open_device);
  library.find("ibv_close_device", l.close_device);
  library.find("ibv_query_device", l.query_device);
  library.find("ibv_query_port", l.query_port);
  library.find("ibv_query_pkey", l.query_pkey);
  library.find("_ibv_query_gid_table", l.query_gid_table);
  library.find("ibv_alloc_pd", l.alloc_pd);
  library.find("ibv_dealloc_pd", l.dealloc_pd);
  library.find("ibv_reg_mr", l.reg_mr);
  library.find_if_there("ibv_reg_mr_iova2", l.reg_mr_iova2);
  library.find("ibv_dereg_mr", l.dereg_mr);
  library.find("ibv_create_comp_channel", l.create_comp_channel);
  library.find("ibv_destroy_comp_channel", l.destroy_comp_channel);
  library.find("ibv_create_cq", l.create_cq);
  library.find("ibv_resize_cq", l.resize_cq);
  library.find("ibv_destroy_cq", l.destroy_cq);
  library.find("ibv_get_cq_event", l.get_cq_event);
  library.find("ibv_ack_cq_events", l.ack_cq_events);
  library.find("ibv_create_qp", l.create_qp);
  library.find("ibv_modify_qp", l.modify_qp);
  library.find("ibv_destroy_qp", l.destroy_qp);
  library.find("ibv_create_srq", l.create_srq);
  library.find("ibv_destroy_srq", l.destroy_srq);
  library.find("ibv_get_async_event", l.get_async_event);
  library.find("ibv_ack_async_event", l.ack_async_event);
  library.find("ibv_wc_status_str", l.wc_status_str);
  library.find("ibv_event_type_str", l.event_type_str);
  protect_from_fork(library);
  return l;
}

}  // namespace

// An optional right: a kernel or a device that does not know it leaves it out.
ibv_mr* register_data(const Library& lib, ibv_pd* pd, void* address, size_t bytes, int access) {
  if (lib.reg_mr_iova2 == nullptr) return lib.reg_mr(pd, address, bytes, access);
  return lib.reg_mr_iova2(pd, address, bytes, reinterpret_cast<uintptr_t>(address),
                          static_cast<unsigned>(access) | IBV_ACCESS_RELAXED_ORDERING);
}

const Library& library() {
  static Library the =
      load();  // a failure is thrown, and tried again by the next caller; not const: tests replace functions
  return the;
}

}  // namespace nbc::verbs
#endif
