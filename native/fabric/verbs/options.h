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
  std::string name;    // empty: the best that works (device_choice.h)
  uint8_t port = 0;    // 0: the best
  int gid_index = -1;  // −1: the one that leads to the peer (reach.h)
  uint32_t turn = 0;   // of the ranks of this machine: which of several equal devices it takes
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
  uint8_t retries = 6;                    // not 7: Soft-RoCE takes that for "for ever"
  // Times that a write or SEND is tried again for which the peer has no receive. Without limit: a peer that computes
  // and does not look is slow, not dead. A dead one does not even say that it has no receive.
  uint8_t receiver_retries = 7;

  // Sets `timeout` so that a peer that does not answer is given up about so many milliseconds after it was needed. The
  // first second passes before it is probed, and the device may take four times as long as it was told, each time.
  void give_up_after(int64_t milliseconds) {
    const int64_t left = std::max(milliseconds - 2000, milliseconds / 2);
    const auto units = static_cast<uint64_t>(left * 1'000'000 / (4 * (retries + 1)) / 4096);  // of 4.096 µs, each time
    timeout = static_cast<uint8_t>(std::clamp<int>(std::bit_width(units) - 1, 8, 31));
  }

  template <typename Reader>
  void read_options(Reader& from) {
    from("verbs.device", device.name);
    from("verbs.port", device.port);
    from("verbs.gidIndex", device.gid_index);
    from.choice("verbs.eager", eager, {{"write", Eager::write}, {"send", Eager::send}});
    from("verbs.cacheEntries", cache_entries);
    from("verbs.cacheBytes", cache_bytes);
  }
};

}  // namespace nbc::verbs
