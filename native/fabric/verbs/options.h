// Options of the verbs fabric. Also in builds without the headers of libibverbs, which check the same options.
#pragma once
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>

namespace nbc::verbs {

// How what is committed travels. Equal on both sides of a connection.
enum class Eager : uint8_t {
  write,  // as a write with an immediate value, into the mailbox
  send,   // as a SEND into the shared receives of the peer, which copies it into the mailbox
};
constexpr const char* name_of(Eager eager) { return eager == Eager::send ? "send" : "write"; }

// What the port is attached to. Only equal ones reach each other.
enum class LinkLayer : uint8_t { infiniband, ethernet };
constexpr const char* name_of(LinkLayer link) { return link == LinkLayer::ethernet ? "Ethernet (RoCE)" : "InfiniBand"; }

struct DeviceOptions {
  std::string name;        // empty: the best that works (device_choice.h)
  uint8_t port = 0;        // 0: the best
  int gid_index = -1;      // −1: the one that leads to the peer (reach.h)
  uint16_t partition = 0;  // key of InfiniBand; 0: the first one of which the port is a full member
  uint32_t turn = 0;       // of the ranks of this machine: which of several equal devices it takes
};

struct VerbsOptions {
  DeviceOptions device;
  uint32_t eager_limit = 0;    // in the card, so that peers can refuse a rank with another one
  Eager eager = Eager::write;  // this, too
  uint32_t most_inline = 512;  // bytes; the device may take less
  uint32_t send_depth = 128;
  uint32_t receive_depth = 256;
  uint32_t share = 64;  // eager 'send': what a connection adds to the shared receives; each has a buffer
  size_t cache_entries = 1024;
  size_t cache_bytes = size_t{1} << 30;
  int64_t connect_milliseconds = 30'000;  // that the network is given to find the peer, as transport 'tcp' gives it
  uint8_t timeout = 16;                   // 4.096 µs × 2^16 = 0.27 s until a write is sent again; see give_up_after()
  uint64_t resend_milliseconds = 0;       // the same, as somebody has asked for it; 0: nobody has
  uint8_t service_level = 0;              // of InfiniBand; of RoCE, where VLANs have priorities, that
  uint8_t traffic_class = 0;              // of the global route header; of RoCE v2, DSCP and ECN of IP
  uint8_t retries = 6;                    // not 7: Soft-RoCE takes that for "for ever"
  // Times that a write or SEND is tried again for which the peer has no receive. Without limit: a peer that computes
  // and does not look is slow, not dead. A dead one does not even say that it has no receive.
  uint8_t receiver_retries = 7;

  // How long a rank that closes waits until what it wrote has arrived, or the device has given it up.
  int64_t close_milliseconds = 3000;

  // How many seconds in a row a peer may not answer a probe before it is given up, whatever the device says.
  uint32_t silence = 8;

  // A peer that does not answer is given up about so many milliseconds after it was needed. Silence is counted from the
  // second second on. A device takes between one and four times as long as it is told; it is told so much that it does
  // not fail a connection sooner than after three fifths of the time, since a network may come back: a subnet manager
  // that sweeps, or a link that is away for some seconds. With the default of 10 s an attempt takes 1.1 s.
  // A time that somebody has asked for is taken as the next longer one that a device knows.
  void give_up_after(int64_t milliseconds) {
    silence = static_cast<uint32_t>(std::max<int64_t>(milliseconds / 1000 - 2, 2));
    close_milliseconds = milliseconds;
    // Of an attempt, in 4.096 µs.
    const auto each = static_cast<uint64_t>(milliseconds * 600'000 / (retries + 1) / 4096);
    const uint64_t asked = resend_milliseconds * 1'000'000 / 4096;
    timeout = static_cast<uint8_t>(std::clamp<int>(std::bit_width(asked > 0 ? asked : each), 8, 31));
  }

  // A receive for each message that may be on its way to this rank: as many as the mailbox has slots, and RTRs, reports
  // and puts beside them. With fewer the device has to send again what finds none.
  void make_receives_for(uint32_t slots) { receive_depth = std::max(receive_depth, slots + 64); }

  template <typename Reader>
  void read_options(Reader& from) {
    from("verbs.device", device.name);
    from("verbs.port", device.port);
    from("verbs.gidIndex", device.gid_index);
    from("verbs.partitionKey", device.partition);
    from("verbs.serviceLevel", service_level);
    from("verbs.trafficClass", traffic_class);
    from("verbs.timeout", resend_milliseconds);
    from("verbs.retries", retries);
    from.choice("verbs.eager", eager, {{"write", Eager::write}, {"send", Eager::send}});
    from("verbs.cacheEntries", cache_entries);
    from("verbs.cacheBytes", cache_bytes);
  }
};

}  // namespace nbc::verbs
