#include "fabric/verbs/available.h"

#if NBC_HAS_VERBS
#include "fabric/verbs/device.h"

#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <ifaddrs.h>
#include <net/if.h>
#include <sched.h>
#include <sstream>
#include <sys/syscall.h>
#include <unistd.h>

namespace nbc::verbs {
namespace {

constexpr int kTrial = 16;  // entries of the queues that are made for a trial

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

// --- addresses -------------------------------------------------------------------------------------------------------

// The IP addresses of this network namespace.
class Addresses {
 public:
  Addresses() { known_ = getifaddrs(&all_) == 0; }
  ~Addresses() {
    if (known_) freeifaddrs(all_);
  }
  Addresses(const Addresses&) = delete;
  Addresses& operator=(const Addresses&) = delete;

  // Sets the prefix: as long as that of the interface's own address. False: the address belongs to an interface of
  // another namespace, from which nothing is resolved.
  bool complete(Gid& gid, uint32_t interface) const {
    char name[IF_NAMESIZE];
    if (interface != 0 && if_indextoname(interface, name) == nullptr) return false;
    // The port makes some by itself, and no interface needs to have them.
    if (is_link_local(gid)) return true;
    gid.prefix = 128;
    if (!known_) return true;
    for (const ifaddrs* each = all_; each != nullptr; each = each->ifa_next) {
      if (const int prefix = prefix_of(*each, gid); prefix >= 0) {
        gid.prefix = static_cast<uint8_t>(prefix);
        return true;
      }
    }
    return false;
  }

 private:
  static int bits(const void* mask, size_t bytes) {
    int count = 0;
    for (size_t i = 0; i < bytes; ++i) count += __builtin_popcount(static_cast<const uint8_t*>(mask)[i]);
    return count;
  }
  // Of the subnet, if this is the address; otherwise -1.
  static int prefix_of(const ifaddrs& found, const Gid& gid) {
    if (found.ifa_addr == nullptr || found.ifa_netmask == nullptr) return -1;
    if (found.ifa_addr->sa_family == AF_INET6) {
      const auto* address = reinterpret_cast<const sockaddr_in6*>(found.ifa_addr);
      const auto* mask = reinterpret_cast<const sockaddr_in6*>(found.ifa_netmask);
      return std::memcmp(&address->sin6_addr, gid.raw, sizeof gid.raw) == 0 ? bits(&mask->sin6_addr, 16) : -1;
    }
    if (found.ifa_addr->sa_family != AF_INET) return -1;
    const auto* address = reinterpret_cast<const sockaddr_in*>(found.ifa_addr);
    const auto* mask = reinterpret_cast<const sockaddr_in*>(found.ifa_netmask);
    uint8_t mapped[16];
    std::memcpy(mapped, kMappedV4, sizeof kMappedV4);
    std::memcpy(mapped + sizeof kMappedV4, &address->sin_addr, 4);
    return std::memcmp(mapped, gid.raw, sizeof mapped) == 0 ? 96 + bits(&mask->sin_addr, 4) : -1;
  }

  ifaddrs* all_ = nullptr;
  bool known_;
};

GidKind kind_of(const ibv_gid_entry& entry) {
  switch (entry.gid_type) {
    case IBV_GID_TYPE_ROCE_V2:
      return GidKind::roce_v2;
    case IBV_GID_TYPE_ROCE_V1:
      return GidKind::roce_v1;
    default:
      return GidKind::infiniband;
  }
}

// `wanted`: the index of the only one to take; -1: the best.
Attachment attachment_of(const Library& lib, ibv_context* context, uint8_t number, const ibv_port_attr& attributes,
                         int wanted) {
  std::vector<ibv_gid_entry> table(static_cast<size_t>(std::max(attributes.gid_tbl_len, 1)));
  const ssize_t found = lib.query_gid_table(context, table.data(), table.size(), 0, sizeof table[0]);
  table.resize(found > 0 ? static_cast<size_t>(found) : 0);
  const Addresses addresses;
  std::vector<std::pair<Gid, uint32_t>> usable;
  for (const ibv_gid_entry& entry : table) {
    if (entry.port_num != number || (wanted >= 0 && entry.gid_index != static_cast<uint32_t>(wanted))) continue;
    Gid gid{};
    std::memcpy(gid.raw, entry.gid.raw, sizeof gid.raw);
    gid.kind = kind_of(entry);
    gid.prefix = 64;  // the rest is the interface's
    const bool here = gid.kind == GidKind::infiniband || addresses.complete(gid, entry.ndev_ifindex);
    if ((here || wanted >= 0) && quality_of(gid) >= 0) usable.emplace_back(gid, entry.gid_index);
  }
  std::stable_sort(usable.begin(), usable.end(),
                   [](const auto& a, const auto& b) { return quality_of(a.first) > quality_of(b.first); });
  Attachment all;
  all.port.link = attributes.link_layer == IBV_LINK_LAYER_ETHERNET ? LinkLayer::ethernet : LinkLayer::infiniband;
  all.port.mtu = static_cast<uint8_t>(attributes.active_mtu);
  all.port.has_router = (attributes.flags & IBV_QPF_GRH_REQUIRED) != 0 ? 1 : 0;
  all.port.lid = attributes.lid;
  all.port.count = static_cast<uint8_t>(std::min(usable.size(), kMostGids));
  for (size_t i = 0; i < all.port.count; ++i) {
    all.port.gids[i] = usable[i].first;
    all.indexes[i] = usable[i].second;
  }
  return all;
}

// --- the choice ------------------------------------------------------------------------------------------------------

// As the kernel tells it: 10 is the node of this thread's processor. Where nothing is known, the same.
uint32_t distance_of(const std::string& device) {
  constexpr uint32_t kNear = 10;
  int node = -1;
  std::ifstream("/sys/class/infiniband/" + device + "/device/numa_node") >> node;
  unsigned here = 0;
  if (node < 0 || syscall(SYS_getcpu, nullptr, &here, nullptr) != 0) return kNear;
  std::ifstream distances("/sys/devices/system/node/node" + std::to_string(here) + "/distance");
  uint32_t distance = kNear;
  for (int i = 0; i <= node; ++i) {
    if (!(distances >> distance)) return kNear;
  }
  return distance;
}

class DeviceList {
 public:
  explicit DeviceList(const Library& lib) : lib_(lib), all_(lib.get_device_list(&count_)) {}
  ~DeviceList() {
    if (all_ != nullptr) lib_.free_device_list(all_);
  }
  DeviceList(const DeviceList&) = delete;
  DeviceList& operator=(const DeviceList&) = delete;
  ibv_device** begin() const { return all_; }
  ibv_device** end() const { return all_ + (all_ != nullptr ? count_ : 0); }

 private:
  const Library& lib_;
  int count_ = 0;
  ibv_device** all_;
};

// What is active on one device; what is not goes into `looked_at`.
void survey(const Library& lib, ibv_device* device, const DeviceOptions& options, std::vector<Choice>& choices,
            std::string& looked_at) {
  const std::string name = lib.get_device_name(device);
  if (device->transport_type != IBV_TRANSPORT_IB) {
    looked_at +=
        "; " + name +
        (device->transport_type == IBV_TRANSPORT_IWARP ? " is an iWARP device" : " has a transport of its own") +
        ", and this needs the transport of InfiniBand or RoCE";
    return;
  }
  ibv_context* context = lib.open_device(device);
  if (context == nullptr) {
    looked_at += "; " + name + " cannot be opened: " + std::strerror(errno);
    return;
  }
  ibv_device_attr attributes{};
  const uint8_t ports = lib.query_device(context, &attributes) == 0 ? attributes.phys_port_cnt : 0;
  if (options.port > ports) looked_at += "; " + name + " has no port " + std::to_string(options.port);
  for (uint8_t number = 1; number <= ports; ++number) {
    ibv_port_attr port{};
    if ((options.port != 0 && options.port != number) || lib.query_port(context, number, &port) != 0) continue;
    if (port.state != IBV_PORT_ACTIVE) {
      looked_at += "; port " + std::to_string(number) + " of " + name + " is " + state_name(port.state);
      continue;
    }
    choices.push_back({name, number, megabits_of(port.active_width, port.active_speed), distance_of(name),
                       attachment_of(lib, context, number, port, options.gid_index).port});
  }
  lib.close_device(context);
}

// Whether a queue pair can be made there, and a completion queue enlarged. Empty: a queue pair can.
std::string trial(const Library& lib, ibv_context* context, ibv_pd* pd, uint8_t number, bool& enlarges) {
  ibv_cq* queue = lib.create_cq(context, kTrial, nullptr, nullptr, 0);
  if (queue == nullptr) return std::string("no completion queue: ") + std::strerror(errno);
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = queue;
  init.cap.max_send_wr = init.cap.max_recv_wr = kTrial;
  init.cap.max_send_sge = init.cap.max_recv_sge = 1;
  init.qp_type = IBV_QPT_RC;
  std::string why;
  if (ibv_qp* pair = lib.create_qp(pd, &init); pair == nullptr) {
    why = std::string("no queue pair of a reliable connection: ") + std::strerror(errno);
  } else {
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_INIT;
    attributes.port_num = number;
    attributes.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
    const int error =
        lib.modify_qp(pair, &attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
    if (error != 0) why = std::string("a queue pair cannot be prepared: ") + std::strerror(error);
    lib.destroy_qp(pair);
  }
  enlarges = lib.resize_cq(queue, 4 * kTrial) == 0;
  lib.destroy_cq(queue);
  return why;
}

}  // namespace

Device::Device(const DeviceOptions& options)
    : lib(library()), wanted_gid_(options.gid_index), wanted_partition_(options.partition) {
  const DeviceList list(lib);
  if (list.begin() == list.end())
    throw FabricError{
        "transport 'verbs': there is no RDMA device; 'ibv_devices' lists them, and 'rdma link add rxe0 type rxe netdev "
        "eth0' makes one of an Ethernet interface where the kernel has rdma_rxe"};
  std::string looked_at;
  std::string names;
  std::vector<Choice> choices;
  for (ibv_device* device : list) {
    const std::string found = lib.get_device_name(device);
    names += (names.empty() ? "" : ", ") + found;
    if (options.name.empty() || options.name == found) survey(lib, device, options, choices, looked_at);
  }
  for (const size_t choice : in_order(choices, options.turn)) {
    const auto device = std::find_if(list.begin(), list.end(), [&](ibv_device* each) {
      return lib.get_device_name(each) == choices[choice].device;
    });
    if (open(*device, choices[choice], looked_at)) return;
  }
  if (looked_at.empty()) looked_at = "; there is no device " + options.name + ", only " + names;
  throw FabricError{"transport 'verbs': no device can be used" + looked_at};
}

// False: it does not work, and `looked_at` says why.
bool Device::open(ibv_device* device, const Choice& choice, std::string& looked_at) {
  name = choice.device;
  port = choice.number;
  context = lib.open_device(device);
  if (context == nullptr) {
    looked_at += "; " + name + " cannot be opened: " + std::strerror(errno);
    return false;
  }
  std::string why;
  pd = lib.alloc_pd(context);
  if (pd == nullptr) {
    why = std::string("no protection domain is left: ") + std::strerror(errno);
  } else if (lib.query_device(context, &attributes) != 0) {
    why = std::string("it cannot be asked: ") + std::strerror(errno);
  } else {
    try {
      attachment();
      why = trial(lib, context, pd, port, enlarges_queues);
      lib.query_port(context, port, &port_attributes);
    } catch (const FabricError& error) {
      why = error.message;
    }
  }
  if (why.empty()) {
    // poll() reads events, and must not block.
    fcntl(context->async_fd, F_SETFL, fcntl(context->async_fd, F_GETFL) | O_NONBLOCK);
    return true;
  }
  looked_at += "; port " + std::to_string(port) + " of " + name + ": " + why;
  if (pd != nullptr) lib.dealloc_pd(pd);
  lib.close_device(context);
  return false;
}

Device::~Device() {
  lib.dealloc_pd(pd);
  lib.close_device(context);
}

Attachment Device::attachment() const {
  ibv_port_attr now{};
  const std::string here = "port " + std::to_string(port) + " of " + name;
  if (const int error = lib.query_port(context, port, &now); error != 0)
    throw system_failure("transport 'verbs': asking " + here, error);
  if (now.state != IBV_PORT_ACTIVE) throw FabricError{"transport 'verbs': " + here + " is " + state_name(now.state)};
  Attachment found = attachment_of(lib, context, port, now, wanted_gid_);
  if (found.port.count == 0)
    throw FabricError{"transport 'verbs': " + here + " has no " +
                      (wanted_gid_ >= 0 ? "GID with index " + std::to_string(wanted_gid_)
                                        : std::string("GID; give its interface an address"))};
  choose_partition(now.pkey_tbl_len, found);
  return found;
}

// Limited members of a partition do not reach each other, so only full members are of use. `keys`: length of the table.
void Device::choose_partition(int keys, Attachment& attachment) const {
  constexpr uint16_t kFullMember = 0x8000;
  bool limited = false;
  for (int i = 0; i < keys; ++i) {
    __be16 found = 0;
    if (lib.query_pkey(context, port, i, &found) != 0) continue;
    const uint16_t key = ntohs(found);
    const auto partition = static_cast<uint16_t>(key & ~kFullMember);
    if (partition == 0 || (wanted_partition_ != 0 && partition != (wanted_partition_ & ~kFullMember))) continue;
    limited = (key & kFullMember) == 0;
    if (limited) continue;
    attachment.port.partition = partition;
    attachment.partition_index = static_cast<uint16_t>(i);
    return;
  }
  throw FabricError{"transport 'verbs': port " + std::to_string(port) + " of " + name + " is " +
                    (limited ? "only a limited member" : "no member") + " of " +
                    (wanted_partition_ != 0
                         ? "partition " + in_hexadecimal(wanted_partition_) + " (verbs.partitionKey)"
                         : std::string("any partition; ask the subnet manager's administrator for a full membership"))};
}

}  // namespace nbc::verbs
#endif
