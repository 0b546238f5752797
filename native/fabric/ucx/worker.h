// A context and a worker of UCX, which are as good as a network device: what a rank opens for itself.
//
// Threads: one at a time (UCS_THREAD_MODE_SERIALIZED).
#pragma once
#include <string>

#include "fabric/ucx/libucp.h"

namespace nbc::ucx {

class Worker {
 public:
  // Takes which networks to use from UCX's own variables, such as UCX_TLS and UCX_NET_DEVICES. `on_message` gets all
  // that peers send, and `context` first. Throws FabricError.
  Worker(ucp_am_recv_callback_t on_message, void* context);
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // By which peers connect to it.
  const std::string& address() const { return address_; }
  // Readable when something has happened since arm().
  int descriptor() const { return descriptor_; }
  // False: something has happened already, and progress() has to see it first.
  bool arm() { return lib.worker_arm(handle_) == UCS_OK; }
  // Calls on_message and the callbacks of what has ended. False: nothing has happened.
  bool progress() { return lib.worker_progress(handle_) != 0; }
  ucp_worker_h handle() const { return handle_; }

  const Library& lib;

 private:
  void open(ucp_am_recv_callback_t on_message, void* context);
  void close();

  ucp_context_h context_ = nullptr;
  ucp_worker_h handle_ = nullptr;
  std::string address_;
  int descriptor_ = -1;
};

}  // namespace nbc::ucx
