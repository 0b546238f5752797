// One opened device: which one, which port, and what it can do. Shared by everything that hangs on it, so that it is
// closed last, whatever ends first.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "fabric/verbs/device_choice.h"
#include "fabric/verbs/ibverbs.h"
#include "fabric/verbs/options.h"

namespace nbc::verbs {

// Where a port is attached, now.
struct Attachment {
  Port port{};
  uint32_t indexes[kMostGids] = {};  // of its addresses, in the table of the device
  uint16_t partition_index = 0;      // in another table
};

class Device {
 public:
  // Takes the best port that works (device_choice.h): one of a device with the transport of InfiniBand or RoCE, on
  // which a queue pair can be made. Throws FabricError, naming what is missing and what was looked at.
  explicit Device(const DeviceOptions& options);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const Library& lib;
  ibv_context* context = nullptr;
  ibv_pd* pd = nullptr;
  std::string name;
  uint8_t port = 0;
  ibv_port_attr port_attributes{};
  ibv_device_attr attributes{};
  bool enlarges_queues = false;  // of completions
  size_t longest_message() const { return port_attributes.max_msg_sz != 0 ? port_attributes.max_msg_sz : 1u << 30; }
  // Asks the device: addresses come and go. Throws FabricError where the port is not active, or has no address.
  Attachment attachment() const;

 private:
  bool open(ibv_device* device, const Choice& choice, std::string& looked_at);

  void choose_partition(int keys, Attachment& attachment) const;

  int wanted_gid_;             // index; -1: any
  uint16_t wanted_partition_;  // key; 0: any
};

}  // namespace nbc::verbs
