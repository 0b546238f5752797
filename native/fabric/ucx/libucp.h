// libucp, loaded when it is first needed: a machine without it still loads the addon.
#pragma once
#include <ucp/api/ucp.h>

#include <string>

#include "fabric/fabric.h"

namespace nbc::ucx {

struct Library {
  // As in <ucp/api/ucp.h>.
  ucs_status_t (*config_read)(const char*, const char*, ucp_config_t**);
  void (*config_release)(ucp_config_t*);
  ucs_status_t (*init_version)(unsigned, unsigned, const ucp_params_t*, const ucp_config_t*, ucp_context_h*);
  void (*cleanup)(ucp_context_h);
  ucs_status_t (*worker_create)(ucp_context_h, const ucp_worker_params_t*, ucp_worker_h*);
  void (*worker_destroy)(ucp_worker_h);
  ucs_status_t (*worker_query)(ucp_worker_h, ucp_worker_attr_t*);
  ucs_status_t (*worker_get_address)(ucp_worker_h, ucp_address_t**, size_t*);
  void (*worker_release_address)(ucp_worker_h, ucp_address_t*);
  ucs_status_t (*worker_get_efd)(ucp_worker_h, int*);
  ucs_status_t (*worker_arm)(ucp_worker_h);
  unsigned (*worker_progress)(ucp_worker_h);
  ucs_status_t (*worker_set_am_recv_handler)(ucp_worker_h, const ucp_am_handler_param_t*);
  ucs_status_t (*ep_create)(ucp_worker_h, const ucp_ep_params_t*, ucp_ep_h*);
  ucs_status_ptr_t (*ep_close_nbx)(ucp_ep_h, const ucp_request_param_t*);
  ucs_status_ptr_t (*am_send_nbx)(ucp_ep_h, unsigned, const void*, size_t, const void*, size_t,
                                  const ucp_request_param_t*);
  ucs_status_ptr_t (*am_recv_data_nbx)(ucp_worker_h, void*, void*, size_t, const ucp_request_param_t*);
  void (*am_data_release)(ucp_worker_h, void*);
  ucs_status_t (*request_check_status)(void*);
  void (*request_free)(void*);
  const char* (*status_string)(ucs_status_t);
};

// The same for the whole process. Throws FabricError, naming what is missing.
const Library& library();

// "creating a worker: Device is busy"
FabricError failure(const std::string& what, ucs_status_t status);

}  // namespace nbc::ucx
