// One opened device: which one, which port, which address, and what it can do. Shared by everything that hangs on it,
// so that it is closed last, whatever ends first.
#pragma once
#include <memory>
#include <string>

#include "fabric/verbs/ibverbs.h"
#include "fabric/verbs/options.h"

namespace nbc::verbs {

class Device {
 public:
  // Throws FabricError, naming what is missing and what was looked at.
  explicit Device(const DeviceOptions& options);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const Library& lib;
  ibv_context* context = nullptr;
  ibv_pd* pd = nullptr;
  std::string name;
  uint8_t port = 0;
  uint32_t gid_index = 0;
  ibv_gid gid{};
  bool routed = false;  // RoCE: packets need a global header
  LinkLayer link() const { return routed ? LinkLayer::ethernet : LinkLayer::infiniband; }
  ibv_port_attr port_attributes{};
  ibv_device_attr attributes{};
  size_t longest_message() const { return port_attributes.max_msg_sz != 0 ? port_attributes.max_msg_sz : 1u << 30; }

 private:
  void choose_port(const DeviceOptions& options, std::string& looked_at);
  void choose_gid(int wanted);
};

}  // namespace nbc::verbs
