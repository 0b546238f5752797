// What a peer tells about its port before the first message: a card, and the offer by which ranks choose a network.
//
//   byte 0    bit 0: the rest are two cards, each with its own length; else two ports, as they lie in memory
//   then      for cards: a length of two bytes, and the card; twice
//
// Whatever comes, what counts as a port can be described and compared, and both ends choose the same pair of addresses.
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include "fabric/verbs/card.h"
#include "fabric/verbs/offer.h"

using namespace nbc::verbs;

namespace {

void require(bool holds) {
  if (!holds) abort();
}

bool equal(const Gid& one, const Gid& other) {
  return std::memcmp(one.raw, other.raw, sizeof one.raw) == 0 && one.kind == other.kind && one.prefix == other.prefix;
}

void compare(const Port& one, const Port& other) {
  const auto way = choose_way(one, other);
  const auto back = choose_way(other, one);
  require(way.has_value() == back.has_value());
  if (way) {
    require(way->mine < one.count && way->theirs < other.count);
    require(equal(one.gids[way->mine], one.gids[back->theirs]) &&
            equal(other.gids[way->theirs], other.gids[back->mine]));
    require(needs_global_header(one, other, *way) == needs_global_header(other, one, *back));
  }
  require(share_subnet(one, other) == share_subnet(other, one));
  require(!why_no_way(one, other, "rank 1", "device").empty());
  require(why_not_by_verbs(offer_of(one), offer_of(other), "rank 1", "device").empty() == way.has_value());
}

// Exactly what the card holds, so that a read behind its end is found.
bool read(std::string_view& rest, Card& card) {
  uint16_t length = 0;
  if (rest.size() < sizeof length) return false;
  std::memcpy(&length, rest.data(), sizeof length);
  rest.remove_prefix(sizeof length);
  const std::string bytes(rest.substr(0, length));
  rest.remove_prefix(bytes.size());
  nbc::cards::version_of(bytes);
  return read_card(bytes, card);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  // Text that may be an offer, or not.
  why_not_by_verbs(std::string(rest), std::string(rest), "rank 1", "device");
  if ((data[0] & 1) != 0) {
    Card one{}, other{};
    if (read(rest, one) && read(rest, other)) compare(one.port, other.port);
    return 0;
  }
  Port one{}, other{};
  if (rest.size() < sizeof one + sizeof other) return 0;
  std::memcpy(static_cast<void*>(&one), rest.data(), sizeof one);
  std::memcpy(static_cast<void*>(&other), rest.data() + sizeof one, sizeof other);
  if (makes_sense(one) && makes_sense(other)) compare(one, other);
  return 0;
}
