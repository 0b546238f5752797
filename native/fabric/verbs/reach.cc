#include "fabric/verbs/reach.h"

#include <algorithm>
#include <arpa/inet.h>
#include <cstdio>
#include <cstring>
#include <tuple>

namespace nbc::verbs {
namespace {

constexpr uint8_t kMostMtu = 5;  // IBV_MTU_4096

enum class Family : uint8_t { link_local, ipv6, ipv4 };  // in ascending order of preference

Family family_of(const Gid& gid) {
  if (std::memcmp(gid.raw, kMappedV4, sizeof kMappedV4) == 0) return Family::ipv4;
  return is_link_local(gid) ? Family::link_local : Family::ipv6;
}

bool same_bits(const Gid& one, const Gid& other, uint8_t bits) {
  const size_t bytes = bits / 8;
  if (std::memcmp(one.raw, other.raw, bytes) != 0) return false;
  const int rest = bits % 8;
  return rest == 0 || (one.raw[bytes] ^ other.raw[bytes]) >> (8 - rest) == 0;
}

// The subnet prefix of InfiniBand may look like a link-local address, and says all the same where the port is.
bool in_one_subnet(const Gid& one, const Gid& other) {
  const bool tells = one.kind == GidKind::infiniband || family_of(one) != Family::link_local;
  return tells && same_bits(one, other, std::max(one.prefix, other.prefix));
}

bool may_pair(const Gid& one, const Gid& other) { return one.kind == other.kind && family_of(one) == family_of(other); }

// Equal from both sides; the larger one is the better pair. The last part only makes the choice definite.
using Rating = std::tuple<GidKind, bool, Family, std::string>;
Rating rate(const Gid& one, const Gid& other) {
  std::string bytes[2];
  const Gid* both[] = {&one, &other};
  for (int side = 0; side < 2; ++side) {
    for (const uint8_t byte : both[side]->raw) bytes[side].push_back(static_cast<char>(~byte));
  }
  if (bytes[0] < bytes[1]) std::swap(bytes[0], bytes[1]);
  return {one.kind, in_one_subnet(one, other), family_of(one), bytes[0] + bytes[1]};
}

const char* name_of(GidKind kind) {
  return kind == GidKind::roce_v2 ? "RoCE v2 " : kind == GidKind::roce_v1 ? "RoCE v1 " : "InfiniBand ";
}

std::string text_of(const Gid& gid) {
  char text[INET6_ADDRSTRLEN] = {};
  const bool v4 = family_of(gid) == Family::ipv4;
  inet_ntop(v4 ? AF_INET : AF_INET6, v4 ? gid.raw + sizeof kMappedV4 : gid.raw, text, sizeof text);
  return name_of(gid.kind) + std::string(text) + "/" + std::to_string(v4 ? gid.prefix - 96 : gid.prefix);
}

}  // namespace

bool makes_sense(const Port& port) {
  if (port.link > LinkLayer::ethernet || port.mtu < 1 || port.mtu > kMostMtu || port.count > kMostGids) return false;
  return std::all_of(port.gids, port.gids + port.count, [](const Gid& gid) {
    return gid.kind <= GidKind::roce_v2 && gid.prefix <= 128 && (family_of(gid) != Family::ipv4 || gid.prefix >= 96);
  });
}

std::optional<Way> choose_way(const Port& mine, const Port& theirs) {
  if (mine.link != theirs.link || mine.partition != theirs.partition) return std::nullopt;
  std::optional<Way> best;
  Rating rating;
  for (uint8_t i = 0; i < mine.count; ++i) {
    for (uint8_t j = 0; j < theirs.count; ++j) {
      if (!may_pair(mine.gids[i], theirs.gids[j])) continue;
      Rating found = rate(mine.gids[i], theirs.gids[j]);
      if (best && found <= rating) continue;
      rating = std::move(found);
      best = Way{i, j};
    }
  }
  return best;
}

bool needs_global_header(const Port& mine, const Port& theirs, const Way& way) {
  if (mine.link == LinkLayer::ethernet || mine.has_router != 0 || theirs.has_router != 0) return true;
  return !in_one_subnet(mine.gids[way.mine], theirs.gids[way.theirs]);
}

std::string in_hexadecimal(uint16_t partition) {
  char text[8];
  std::snprintf(text, sizeof text, "0x%04x", partition);
  return text;
}

bool share_subnet(const Port& one, const Port& other) {
  if (one.link != other.link) return false;
  for (size_t i = 0; i < one.count; ++i) {
    for (size_t j = 0; j < other.count; ++j) {
      if (may_pair(one.gids[i], other.gids[j]) && in_one_subnet(one.gids[i], other.gids[j])) return true;
    }
  }
  return false;
}

bool is_link_local(const Gid& gid) { return gid.raw[0] == 0xfe && (gid.raw[1] & 0xc0) == 0x80; }

int quality_of(const Gid& gid) {
  const uint8_t* interface = gid.raw + 8;
  if (std::all_of(interface, interface + 8, [](uint8_t byte) { return byte == 0; })) return -1;
  return (gid.kind == GidKind::roce_v2 ? 4 : 0) + static_cast<int>(family_of(gid));
}

std::string list_of(const Port& port) {
  std::string list;
  for (size_t i = 0; i < port.count; ++i) list += (i > 0 ? ", " : "") + text_of(port.gids[i]);
  return list.empty() ? "none" : list;
}

std::string why_no_way(const Port& mine, const Port& theirs, const std::string& peer, const std::string& device) {
  if (mine.link != theirs.link)
    return peer + " is attached to " + verbs::name_of(theirs.link) + ", and this rank, by " + device + ", to " +
           verbs::name_of(mine.link) +
           ": these do not reach each other. Choose devices of one kind (verbs.device, NBC_VERBS_DEVICE)";
  if (mine.partition != theirs.partition)
    return peer + " is in partition " + in_hexadecimal(theirs.partition) + ", and this rank, by " + device +
           ", in partition " + in_hexadecimal(mine.partition) +
           ". Choose one of which both ports are full members (verbs.partitionKey, NBC_VERBS_PARTITION_KEY)";
  return peer + " has no address (GID) of the kind of any of this rank's: it has " + list_of(theirs) +
         ", and this rank, by " + device + ", has " + list_of(mine) +
         ". Give their interfaces addresses of one family (ip address), or choose others (verbs.gidIndex, "
         "NBC_VERBS_GID_INDEX)";
}

}  // namespace nbc::verbs
