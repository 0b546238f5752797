// Machines with RDMA devices that are only played: every function of libibverbs is replaced.
#pragma once
#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <cstring>
#include <sys/eventfd.h>
#include <unistd.h>
#include <vector>

#include "fabric/verbs/ibverbs.h"
#include "test/check.h"

namespace nbc::check {

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
  int vectors = 1;             // of completions
};

// The devices of this machine. They are InfiniBand ones: their addresses need no interface of IP.
struct Machine {
  static inline std::vector<Played> played;
  static inline std::vector<ibv_device> devices;
  static inline std::vector<ibv_context> contexts;
  static inline int open = 0;              // devices, domains, channels, queues and pairs that were not given back
  static inline std::vector<int> vectors;  // that queues with a channel were made for

  static const Played& of(const ibv_context* context) { return played[static_cast<size_t>(context - contexts.data())]; }

  explicit Machine(std::vector<Played> all) {
    played = std::move(all);
    devices.assign(played.size(), {});
    contexts.assign(played.size(), {});
    for (size_t i = 0; i < played.size(); ++i) {
      std::strcpy(devices[i].name, played[i].name);
      devices[i].transport_type = played[i].transport;
      contexts[i].async_fd = eventfd(0, EFD_CLOEXEC);
      contexts[i].num_comp_vectors = played[i].vectors;
      // Requests are taken, and nothing comes of them.
      contexts[i].ops.post_send = [](ibv_qp*, ibv_send_wr*, ibv_send_wr**) { return 0; };
      contexts[i].ops.post_recv = [](ibv_qp*, ibv_recv_wr*, ibv_recv_wr**) { return 0; };
      contexts[i].ops.poll_cq = [](ibv_cq*, int, ibv_wc*) { return 0; };
      contexts[i].ops.req_notify_cq = [](ibv_cq*, int) { return 0; };
    }
    open = 0;
    vectors.clear();
    play();
  }
  ~Machine() {
    for (const ibv_context& each : contexts) ::close(each.async_fd);
  }
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

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
    lib.create_comp_channel = [](ibv_context* context) {
      return ++open, new ibv_comp_channel{context, eventfd(0, EFD_CLOEXEC), 0};
    };
    lib.destroy_comp_channel = [](ibv_comp_channel* channel) {
      ::close(channel->fd);
      delete channel;
      return --open, 0;
    };
    lib.get_cq_event = [](ibv_comp_channel*, ibv_cq**, void**) { return -1; };
    lib.ack_cq_events = [](ibv_cq*, unsigned) {};
    lib.create_cq = [](ibv_context* context, int entries, void*, ibv_comp_channel* channel, int vector) {
      if (channel != nullptr) vectors.push_back(vector);
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
      pair.context = of_pair->context;
      return ++open, &pair;
    };
    lib.modify_qp = [](ibv_qp*, ibv_qp_attr*, int) { return 0; };
    lib.destroy_qp = [](ibv_qp*) { return --open, 0; };
  }
};

}  // namespace nbc::check
