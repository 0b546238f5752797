#include "fabric/ucx/available.h"

#if NBC_HAS_UCX
#include "fabric/ucx/message.h"
#include "fabric/ucx/worker.h"

namespace nbc::ucx {
namespace {

// What is used here has been there since then.
constexpr unsigned kMajor = 1, kMinor = 11;

void check(ucs_status_t status, const char* what) {
  if (status != UCS_OK) throw failure(what, status);
}

}  // namespace

Worker::Worker(ucp_am_recv_callback_t on_message, void* context) : lib(library()) {
  try {
    open(on_message, context);
  } catch (...) {
    close();
    throw;
  }
}

Worker::~Worker() { close(); }

void Worker::open(ucp_am_recv_callback_t on_message, void* context) {
  ucp_config_t* config = nullptr;
  check(lib.config_read(nullptr, nullptr, &config), "reading its configuration");
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES;
  params.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
  const ucs_status_t status = lib.init_version(kMajor, kMinor, &params, config, &context_);
  lib.config_release(config);
  check(status, "no network can be opened (UCX_TLS, UCX_NET_DEVICES)");

  ucp_worker_params_t worker{};
  worker.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  worker.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  check(lib.worker_create(context_, &worker, &handle_), "creating a worker");
  check(lib.worker_get_efd(handle_, &descriptor_), "these networks cannot wake a thread that sleeps (UCX_TLS)");
  ucp_worker_attr_t attributes{};
  attributes.field_mask = UCP_WORKER_ATTR_FIELD_MAX_AM_HEADER;
  check(lib.worker_query(handle_, &attributes), "asking what the worker can do");
  if (attributes.max_am_header < sizeof(Head))
    throw FabricError{"transport 'ucx': these networks have too little room for a header (UCX_TLS)"};

  ucp_am_handler_param_t handler{};
  handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG |
                       UCP_AM_HANDLER_PARAM_FIELD_FLAGS;
  handler.id = kMessageId;
  handler.cb = on_message;
  handler.arg = context;
  handler.flags = UCP_AM_FLAG_WHOLE_MSG;
  check(lib.worker_set_am_recv_handler(handle_, &handler), "receiving messages");

  ucp_address_t* address = nullptr;
  size_t bytes = 0;
  check(lib.worker_get_address(handle_, &address, &bytes), "finding the address of the worker");
  address_.assign(reinterpret_cast<const char*>(address), bytes);
  lib.worker_release_address(handle_, address);
}

void Worker::close() {
  if (handle_ != nullptr) lib.worker_destroy(handle_);
  if (context_ != nullptr) lib.cleanup(context_);
}

}  // namespace nbc::ucx
#endif
