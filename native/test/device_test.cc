// Which device a rank opens, on machines that are only played: every function of libibverbs is replaced.
#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include "fabric/verbs/available.h"
#include "test/check.h"

#if NBC_HAS_VERBS
#include "fabric/verbs/completion_queue.h"
#include "fabric/verbs/device.h"

namespace {

using namespace nbc;
using namespace nbc::check;

// One device with one port.
struct Played {
  const char* name;
  ibv_transport_type transport = IBV_TRANSPORT_IB;
  ibv_port_state state = IBV_PORT_ACTIVE;
  bool makes_pairs = true;
  int gids = 1;
  uint8_t speed = 32;
  bool opens = true;
  uint8_t network = 1;  // the subnet prefix of its GIDs
  std::vector<uint16_t> partitions = {0xffff};
  int most_entries = 1 << 20;  // of a completion queue that is enlarged; 0: none is
};

// The devices of this machine. They are InfiniBand ones: their addresses need no interface of IP.
struct Machine {
  static inline std::vector<Played> played;
  static inline std::vector<ibv_device> devices;
  static inline std::vector<ibv_context> contexts;
  static inline int open = 0;  // devices, domains, queues and pairs that were not given back

  static const Played& of(const ibv_context* context) { return played[static_cast<size_t>(context - contexts.data())]; }

  explicit Machine(std::vector<Played> all) {
    played = std::move(all);
    devices.assign(played.size(), {});
    contexts.assign(played.size(), {});
    for (size_t i = 0; i < played.size(); ++i) {
      std::strcpy(devices[i].name, played[i].name);
      devices[i].transport_type = played[i].transport;
      contexts[i].async_fd = -1;
    }
    open = 0;
    play();
  }

  static const verbs::Library& loaded() {
    try {
      return verbs::library();
    } catch (const FabricError& error) {
      throw Skip{error.message};
    }
  }

  static void play() {
    auto& lib = const_cast<verbs::Library&>(loaded());
    static ibv_pd domain;
    static ibv_cq queue;
    static ibv_qp pair;
    static std::vector<ibv_device*> list;
    lib.get_device_list = [](int* count) {
      list.clear();
      for (ibv_device& each : devices) list.push_back(&each);
      *count = static_cast<int>(list.size());
      list.push_back(nullptr);
      return list.data();
    };
    lib.free_device_list = [](ibv_device**) {};
    lib.get_device_name = [](ibv_device* device) -> const char* { return device->name; };
    lib.open_device = [](ibv_device* device) -> ibv_context* {
      const auto index = static_cast<size_t>(device - devices.data());
      errno = EPERM;
      if (!played[index].opens) return nullptr;
      ++open;
      return &contexts[index];
    };
    lib.close_device = [](ibv_context*) { return --open, 0; };
    lib.query_device = [](ibv_context*, ibv_device_attr* attributes) {
      attributes->phys_port_cnt = 1;
      return 0;
    };
    lib.query_port = [](ibv_context* context, uint8_t, ibv_port_attr* port) {
      port->state = of(context).state;
      port->link_layer = IBV_LINK_LAYER_INFINIBAND;
      port->active_mtu = IBV_MTU_4096;
      port->active_width = 2;
      port->active_speed = of(context).speed;
      port->gid_tbl_len = 32;
      port->pkey_tbl_len = static_cast<uint16_t>(of(context).partitions.size());
      return 0;
    };
    lib.query_pkey = [](ibv_context* context, uint8_t, int index, __be16* key) {
      *key = htons(of(context).partitions[static_cast<size_t>(index)]);
      return 0;
    };
    lib.query_gid_table = [](ibv_context* context, ibv_gid_entry* entries, size_t room, uint32_t, size_t) -> ssize_t {
      const int count = std::min(of(context).gids, static_cast<int>(room));
      for (int i = 0; i < count; ++i) {
        entries[i] = {};
        entries[i].port_num = 1;
        entries[i].gid_index = static_cast<uint32_t>(i);
        entries[i].gid.raw[0] = 0xfe;
        entries[i].gid.raw[1] = 0x80;
        entries[i].gid.raw[7] = of(context).network;
        entries[i].gid.raw[15] = static_cast<uint8_t>(i + 1);
      }
      return count;
    };
    lib.alloc_pd = [](ibv_context* context) { return ++open, domain.context = context, &domain; };
    lib.dealloc_pd = [](ibv_pd*) { return --open, 0; };
    lib.create_cq = [](ibv_context* context, int entries, void*, ibv_comp_channel*, int) {
      queue.context = context;
      queue.cqe = entries;
      return ++open, &queue;
    };
    lib.resize_cq = [](ibv_cq* enlarged, int entries) {
      const int most = of(enlarged->context).most_entries;
      if (entries > most) return most == 0 ? EOPNOTSUPP : ENOMEM;
      return enlarged->cqe = entries, 0;
    };
    lib.destroy_cq = [](ibv_cq*) { return --open, 0; };
    lib.create_qp = [](ibv_pd* of_pair, ibv_qp_init_attr*) -> ibv_qp* {
      errno = EOPNOTSUPP;
      if (!of(of_pair->context).makes_pairs) return nullptr;
      return ++open, &pair;
    };
    lib.modify_qp = [](ibv_qp*, ibv_qp_attr*, int) { return 0; };
    lib.destroy_qp = [](ibv_qp*) { return --open, 0; };
  }
};

std::string taken(const verbs::DeviceOptions& options = {}) {
  std::string name;
  {
    const verbs::Device device(options);
    name = device.name;
  }
  CHECK_EQ(Machine::open, 0);
  return name;
}

std::string refusal(const verbs::DeviceOptions& options = {}) {
  try {
    const verbs::Device device(options);
  } catch (const FabricError& error) {
    CHECK_EQ(Machine::open, 0);
    return error.message;
  }
  throw Failure{"a device was taken"};
}

void check_parts(const std::string& text, std::initializer_list<const char*> parts) {
  for (const char* part : parts) {
    if (text.find(part) == std::string::npos) throw Failure{std::string("no ") + part + " in: " + text};
  }
}

TEST(a_port_is_used_as_a_full_member_of_a_partition) {
  const auto place = [](std::vector<uint16_t> partitions, uint16_t wanted = 0) {
    Machine machine({{.name = "ib0", .partitions = std::move(partitions)}});
    verbs::DeviceOptions options;
    options.partition = wanted;
    const verbs::Device device(options);
    const verbs::Attachment found = device.attachment();
    return std::pair{found.port.partition, found.partition_index};
  };
  using Found = std::pair<uint16_t, uint16_t>;
  CHECK(place({0xffff}) == Found(0x7fff, 0));
  CHECK(place({0x7fff, 0x8005}) == Found(0x0005, 1));
  CHECK(place({0, 0xffff, 0x8005}, 5) == Found(0x0005, 2));
  CHECK(place({0xffff, 0x8005}, 0x8005) == Found(0x0005, 1));
  const auto why = [](std::vector<uint16_t> partitions, uint16_t wanted = 0) {
    Machine machine({{.name = "ib0", .partitions = std::move(partitions)}});
    verbs::DeviceOptions options;
    options.partition = wanted;
    return refusal(options);
  };
  check_parts(why({0xffff}, 5), {"port 1 of ib0", "no member of partition 0x0005", "verbs.partitionKey"});
  check_parts(why({0xffff, 0x0005}, 0x8005), {"only a limited member of partition 0x8005"});
  check_parts(why({0x7fff}), {"only a limited member of any partition"});
}

TEST(a_device_of_another_transport_is_passed_over) {
  const Machine machine({{"siw0", IBV_TRANSPORT_IWARP}, {"efa0", IBV_TRANSPORT_UNSPECIFIED}, {"mlx5_0"}});
  CHECK_EQ(taken(), std::string("mlx5_0"));
}

TEST(devices_of_other_transports_are_refused_by_name) {
  const Machine machine({{"siw0", IBV_TRANSPORT_IWARP}, {"efa0", IBV_TRANSPORT_UNSPECIFIED}});
  check_parts(refusal(), {"no device can be used", "siw0 is an iWARP device", "efa0 has a transport of its own"});
}

TEST(a_device_that_makes_no_queue_pair_is_passed_over) {
  Played odd{"odd0"};
  odd.makes_pairs = false;
  odd.speed = 64;
  const Machine machine({odd, {"mlx5_0"}});
  CHECK_EQ(taken(), std::string("mlx5_0"));
  verbs::DeviceOptions only;
  only.name = "odd0";
  check_parts(refusal(only), {"port 1 of odd0: no queue pair of a reliable connection: ", std::strerror(EOPNOTSUPP)});
}

TEST(what_stands_in_the_way_is_named) {
  Played down{"a"}, starting{"b"}, closed{"c"}, unnamed{"d"};
  down.state = IBV_PORT_DOWN;
  starting.state = IBV_PORT_INIT;
  closed.opens = false;
  unnamed.gids = 0;
  const Machine machine({down, starting, closed, unnamed});
  check_parts(refusal(), {"port 1 of a is down", "port 1 of b is initialising: is a subnet manager running?",
                          "c cannot be opened: ", "port 1 of d has no GID"});
  verbs::DeviceOptions options;
  options.name = "e";
  check_parts(refusal(options), {"there is no device e, only a, b, c, d"});
}

TEST(a_port_and_a_gid_that_are_not_there_are_named) {
  const Machine machine({{"mlx5_0"}});
  verbs::DeviceOptions options;
  options.port = 2;
  check_parts(refusal(options), {"mlx5_0 has no port 2"});
  options.port = 0;
  options.gid_index = 5;
  check_parts(refusal(options), {"has no GID with index 5"});
}

TEST(a_completion_queue_grows_where_the_device_lets_it) {
  const auto rooms = [](int most_entries, std::initializer_list<uint32_t> needed) {
    Played played{"mlx5_0"};
    played.most_entries = most_entries;
    const Machine machine({played});
    std::vector<uint32_t> found;
    {
      verbs::CompletionQueue queue(std::make_shared<verbs::Device>(verbs::DeviceOptions{}), 100, 1000, nullptr, 0);
      found.push_back(queue.room());
      for (const uint32_t entries : needed) {
        queue.reserve(entries);
        found.push_back(queue.room());
      }
    }
    CHECK_EQ(Machine::open, 0);
    return found;
  };
  CHECK(rooms(1 << 20, {100, 101, 150, 201, 950}) == std::vector<uint32_t>({100, 100, 200, 200, 400, 950}));
  CHECK(rooms(1 << 20, {600, 700}) == std::vector<uint32_t>({100, 600, 1000}));
  CHECK(rooms(0, {100, 1000}) == std::vector<uint32_t>({1000, 1000, 1000}));
  try {
    rooms(300, {200, 300});
    CHECK(false);
  } catch (const FabricError& error) {
    check_parts(error.message, {"enlarging the completion queue to 400 entries", std::strerror(ENOMEM)});
  }
}

TEST(a_machine_without_devices_says_so) {
  const Machine machine({});
  check_parts(refusal(), {"there is no RDMA device"});
}

TEST(ranks_take_equal_devices_in_turns) {
  Played slow{"slow"}, elsewhere{"elsewhere"};
  slow.speed = 16;
  elsewhere.network = 2;
  const Machine machine({slow, {"a"}, elsewhere, {"b"}});
  std::string names;
  for (uint32_t turn = 0; turn < 4; ++turn) {
    verbs::DeviceOptions options;
    options.turn = turn;
    names += taken(options);
  }
  CHECK_EQ(names, std::string("abab"));
}

TEST(a_port_is_asked_again_for_every_card) {
  const Machine machine({{"mlx5_0"}});
  const verbs::Device device{verbs::DeviceOptions{}};
  CHECK_EQ(device.attachment().port.count, 1);
  Machine::played[0].gids = 20;
  const verbs::Attachment more = device.attachment();
  CHECK_EQ(static_cast<size_t>(more.port.count), verbs::kMostGids);
  CHECK_EQ(more.indexes[7], 7u);
  Machine::played[0].state = IBV_PORT_DOWN;
  try {
    device.attachment();
    CHECK(false);
  } catch (const FabricError& error) {
    check_parts(error.message, {"port 1 of mlx5_0 is down"});
  }
}

}  // namespace
#else
TEST(device) { throw nbc::check::Skip{"this build has no verbs: <infiniband/verbs.h> was not found"}; }
#endif

TEST_MAIN(60)
