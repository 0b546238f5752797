#include "fabric/verbs/available.h"

#if NBC_HAS_VERBS
#include "fabric/verbs/device.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>

namespace nbc::verbs {
namespace {

// Better is larger. RoCE v2 goes through routers and v1 does not; a link-local address is as good as any on one link
// only.
int quality(const ibv_gid_entry& entry) {
  const uint8_t* raw = entry.gid.raw;
  bool empty = true;
  for (size_t i = 8; i < 16; ++i) empty &= raw[i] == 0;
  if (empty) return -1;
  const bool link_local = raw[0] == 0xfe && (raw[1] & 0xc0) == 0x80;
  return (entry.gid_type == IBV_GID_TYPE_ROCE_V2 ? 2 : 0) + (link_local ? 0 : 1);
}

const char* state_name(ibv_port_state state) {
  switch (state) {
    case IBV_PORT_DOWN:
      return "down";
    case IBV_PORT_INIT:
      return "initialising: is a subnet manager running?";
    case IBV_PORT_ARMED:
      return "armed";
    case IBV_PORT_ACTIVE:
      return "active";
    default:
      return "in an unknown state";
  }
}

}  // namespace

Device::Device(const DeviceOptions& options) : lib(library()) {
  int count = 0;
  ibv_device** list = lib.get_device_list(&count);
  if (list == nullptr || count == 0) {
    if (list != nullptr) lib.free_device_list(list);
    throw FabricError{
        "transport 'verbs': there is no RDMA device; 'ibv_devices' lists them, and 'rdma link add rxe0 type rxe netdev "
        "eth0' makes one of an Ethernet interface where the kernel has rdma_rxe"};
  }
  std::string looked_at;
  std::string names;
  for (int i = 0; i < count && pd == nullptr; ++i) {
    const std::string found = lib.get_device_name(list[i]);
    names += (names.empty() ? "" : ", ") + found;
    if (!options.name.empty() && options.name != found) continue;
    context = lib.open_device(list[i]);
    if (context == nullptr) {
      looked_at += "; " + found + " cannot be opened: " + std::strerror(errno);
      continue;
    }
    name = found;
    if (lib.query_device(context, &attributes) == 0) choose_port(options, looked_at);
    if (port != 0) {
      pd = lib.alloc_pd(context);
      if (pd == nullptr) looked_at += "; " + found + " has no protection domain left: " + std::strerror(errno);
    }
    if (pd == nullptr) {
      lib.close_device(context);
      context = nullptr;
    }
  }
  lib.free_device_list(list);
  if (context == nullptr) {
    if (looked_at.empty()) looked_at = "; there is no device " + options.name + ", only " + names;
    throw FabricError{"transport 'verbs': no device can be used" + looked_at};
  }
  try {
    choose_gid(options.gid_index);
  } catch (const FabricError&) {
    lib.dealloc_pd(pd);
    lib.close_device(context);
    throw;
  }
  // poll() reads events, and must not block.
  fcntl(context->async_fd, F_SETFL, fcntl(context->async_fd, F_GETFL) | O_NONBLOCK);
}

Device::~Device() {
  lib.dealloc_pd(pd);
  lib.close_device(context);
}

void Device::choose_port(const DeviceOptions& options, std::string& looked_at) {
  port = 0;
  for (uint8_t candidate = 1; candidate <= attributes.phys_port_cnt && port == 0; ++candidate) {
    if (options.port != 0 && options.port != candidate) continue;
    port_attributes = {};
    if (lib.query_port(context, candidate, &port_attributes) != 0) continue;
    if (port_attributes.state == IBV_PORT_ACTIVE) {
      port = candidate;
    } else {
      looked_at += "; port " + std::to_string(candidate) + " of " + name + " is " + state_name(port_attributes.state);
    }
  }
  if (port == 0 && options.port > attributes.phys_port_cnt)
    looked_at += "; " + name + " has no port " + std::to_string(options.port);
  routed = port_attributes.link_layer == IBV_LINK_LAYER_ETHERNET;
}

void Device::choose_gid(int wanted) {
  int best = -1;
  for (uint32_t i = 0; i < static_cast<uint32_t>(port_attributes.gid_tbl_len); ++i) {
    if (wanted >= 0 && static_cast<uint32_t>(wanted) != i) continue;
    ibv_gid_entry entry{};
    if (lib.query_gid_ex(context, port, i, &entry, 0, sizeof entry) != 0) continue;
    const int good = quality(entry);
    if (good <= best) continue;
    best = good;
    gid = entry.gid;
    gid_index = i;
  }
  if (best < 0 && (routed || wanted >= 0))
    throw FabricError{
        "transport 'verbs': " + name + " port " + std::to_string(port) + " has no " +
        (wanted >= 0 ? "GID with index " + std::to_string(wanted) : std::string("GID; give its interface an address"))};
}

}  // namespace nbc::verbs
#endif
