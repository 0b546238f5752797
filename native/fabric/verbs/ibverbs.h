// libibverbs, loaded when it is first needed: a machine without it still loads the addon. Only what the library exports
// is here; posting, polling and arming are inline functions of <infiniband/verbs.h> that go through the device's table
// of operations.
#pragma once
#include <infiniband/verbs.h>

#include "fabric/fabric.h"

namespace nbc::verbs {

struct Library {
  // As in ibv_*(3).
  ibv_device** (*get_device_list)(int*);
  void (*free_device_list)(ibv_device**);
  const char* (*get_device_name)(ibv_device*);
  ibv_context* (*open_device)(ibv_device*);
  int (*close_device)(ibv_context*);
  int (*query_device)(ibv_context*, ibv_device_attr*);
  int (*query_port)(ibv_context*, uint8_t, ibv_port_attr*);
  int (*query_pkey)(ibv_context*, uint8_t, int, __be16*);
  ssize_t (*query_gid_table)(ibv_context*, ibv_gid_entry*, size_t, uint32_t, size_t);
  ibv_pd* (*alloc_pd)(ibv_context*);
  int (*dealloc_pd)(ibv_pd*);
  ibv_mr* (*reg_mr)(ibv_pd*, void*, size_t, int);
  ibv_mr* (*reg_mr_iova2)(ibv_pd*, void*, size_t, uint64_t, unsigned);  // nullptr: before rdma-core 28
  int (*dereg_mr)(ibv_mr*);
  ibv_comp_channel* (*create_comp_channel)(ibv_context*);
  int (*destroy_comp_channel)(ibv_comp_channel*);
  ibv_cq* (*create_cq)(ibv_context*, int, void*, ibv_comp_channel*, int);
  int (*resize_cq)(ibv_cq*, int);
  int (*destroy_cq)(ibv_cq*);
  int (*get_cq_event)(ibv_comp_channel*, ibv_cq**, void**);
  void (*ack_cq_events)(ibv_cq*, unsigned);
  ibv_qp* (*create_qp)(ibv_pd*, ibv_qp_init_attr*);
  int (*modify_qp)(ibv_qp*, ibv_qp_attr*, int);
  int (*destroy_qp)(ibv_qp*);
  ibv_srq* (*create_srq)(ibv_pd*, ibv_srq_init_attr*);
  int (*destroy_srq)(ibv_srq*);
  int (*get_async_event)(ibv_context*, ibv_async_event*);
  void (*ack_async_event)(ibv_async_event*);
  const char* (*wc_status_str)(ibv_wc_status);
  const char* (*event_type_str)(ibv_event_type);
};

// Registers memory for data, whose bytes may arrive in any order (relaxed ordering of PCI Express), where the library
// and the device know that; not for mailboxes, whose stamps are looked at while bytes arrive. As ibv_reg_mr(3).
ibv_mr* register_data(const Library& lib, ibv_pd* pd, void* address, size_t bytes, int access);

// The same for the whole process. Throws FabricError, naming what is missing.
const Library& library();

}  // namespace nbc::verbs
