// Whether two ports reach each other, and by which of their addresses (GIDs). Both sides tell all their addresses that
// may serve, and both choose the same pair by the rule in choose_way(). So no side has to guess what the other one has,
// and an index into a table, which differs from host to host, never travels.
//
// Pure functions of what was told: nothing here asks a device.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "fabric/verbs/options.h"

namespace nbc::verbs {

enum class GidKind : uint8_t { infiniband, roce_v1, roce_v2 };  // in ascending order of preference

struct Gid {
  uint8_t raw[16];
  GidKind kind;
  uint8_t prefix;  // leading bits that all addresses of its subnet share
};

constexpr size_t kMostGids = 8;

// One port, as the card of a rank tells it. Travels as it lies in memory.
struct Port {
  LinkLayer link;
  uint8_t mtu;         // enum ibv_mtu
  uint8_t has_router;  // InfiniBand: packets need a global route header in any case (1) or only to other subnets (0)
  uint8_t count;       // of `gids`
  uint16_t lid;
  uint16_t partition;  // the lower 15 bits of its key
  Gid gids[kMostGids];
};

// An index into the addresses of either side.
struct Way {
  uint8_t mine;
  uint8_t theirs;
};

// What a peer sent is a port.
bool makes_sense(const Port& port);

// The pair of addresses by which the two talk; the peer finds the same one, the other way round. Addresses of a pair
// are of one kind and of one family. First counts the kind, then a subnet that both share, then IPv4 before
// IPv6 before link-local addresses, and at last their bytes. Nothing: no pair fits, or one port is InfiniBand and the
// other Ethernet.
std::optional<Way> choose_way(const Port& mine, const Port& theirs);

// Packets of this way need a global route header.
bool needs_global_header(const Port& mine, const Port& theirs, const Way& way);

// As partitions are written.
std::string in_hexadecimal(uint16_t partition);

// Two ports are attached to one subnet, by addresses that are not link-local.
bool share_subnet(const Port& one, const Port& other);

// Good on one link only.
bool is_link_local(const Gid& gid);

// The first bytes of an IPv4 address among those of IPv6.
constexpr uint8_t kMappedV4[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

// How good an address is by itself: where there are more than kMostGids, the best are told. Negative: it is no address.
int quality_of(const Gid& gid);

// 'RoCE v2 10.1.0.1/24, RoCE v1 fe80::1'
std::string list_of(const Port& port);

// Why there is no way, with the addresses of both. `peer` and `device`: what the text calls them.
std::string why_no_way(const Port& mine, const Port& theirs, const std::string& peer, const std::string& device);

}  // namespace nbc::verbs
