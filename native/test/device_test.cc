// Which device a rank opens, and its completion queue, on machines that are only played.
#include <algorithm>
#include <cerrno>
#include <initializer_list>
#include <memory>
#include <string>
#include <sys/resource.h>
#include <unistd.h>
#include <vector>

#include "fabric/verbs/available.h"
#include "test/check.h"

#if NBC_HAS_VERBS
#include "fabric/verbs/completion_queue.h"
#include "fabric/cards/host_bootstrap.h"
#include "fabric/verbs/device.h"
#include "fabric/verbs/verbs_fabric.h"
#include "test/played_devices.h"

namespace {

using namespace nbc;
using namespace nbc::check;

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

// In a process that may lock little memory, a queue that is not made or enlarged says so, too.
TEST(a_queue_for_which_memory_cannot_be_locked_names_the_limit) {
  rlimit before{};
  CHECK_EQ(getrlimit(RLIMIT_MEMLOCK, &before), 0);
  const rlimit low{std::min<rlim_t>(before.rlim_max, 64 << 10), before.rlim_max};
  CHECK_EQ(setrlimit(RLIMIT_MEMLOCK, &low), 0);
  const auto refused = [](int entries) {
    Machine machine({{.name = "ib0", .most_entries = entries}});
    auto& lib = const_cast<verbs::Library&>(verbs::library());
    const auto device = std::make_shared<verbs::Device>(verbs::DeviceOptions{});
    if (entries == 0)
      lib.create_cq = [](ibv_context*, int, void*, ibv_comp_channel*, int) -> ibv_cq* {
        errno = ENOMEM;
        return nullptr;
      };
    try {
      verbs::CompletionQueue queue(device, 100, 1000, nullptr, 0);
      queue.reserve(1000);
    } catch (const FabricError& error) {
      return error.message;
    }
    return std::string("nothing was refused");
  };
  const std::string made = refused(0), enlarged = refused(500);
  setrlimit(RLIMIT_MEMLOCK, &before);
  check_parts(made, {"creating the completion queue", "64 KiB", "ulimit -l"});
  check_parts(enlarged, {"enlarging the completion queue to 1000 entries", "64 KiB", "ulimit -l"});
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

// Else one processor would have the interrupts of all ranks of a machine.
TEST(ranks_of_a_machine_have_completion_vectors_in_turns) {
  const auto taken_of = [](int vectors) {
    const Machine machine({{.name = "mlx5_0", .vectors = vectors}});
    for (uint32_t turn = 0; turn < 8; ++turn) {
      const int fd = job::Segment::create(1);
      verbs::VerbsOptions options;
      options.device.turn = turn;
      const verbs::VerbsFabric fabric(std::make_unique<cards::HostBootstrap>(job::Segment::map(fd), 0, 255), options);
      ::close(fd);
    }
    CHECK_EQ(Machine::open, 0);
    return Machine::vectors;
  };
  CHECK(taken_of(1) == std::vector<int>({0, 0, 0, 0, 0, 0, 0, 0}));
  CHECK(taken_of(3) == std::vector<int>({0, 1, 2, 0, 1, 2, 0, 1}));
  CHECK(taken_of(64) == std::vector<int>({0, 1, 2, 3, 4, 5, 6, 7}));
  CHECK(taken_of(0) == std::vector<int>({0, 0, 0, 0, 0, 0, 0, 0}));  // a device that does not tell
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
