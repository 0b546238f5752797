// What a rank tells a peer about its queue pair and its inbox; how it travels: fabric/cards.
#pragma once
#include <cstdint>
#include <cstring>
#include <string_view>

#include "fabric/cards/bootstrap.h"
#include "fabric/verbs/options.h"
#include "fabric/verbs/reach.h"

namespace nbc::verbs {

// Of the structure below. A peer with another one is refused.
constexpr uint32_t kCardVersion = 3;

struct Card {
  uint32_t version;  // first in every version
  Port port;
  uint64_t inbox;  // virtual address of the mailbox that the reader of this card may write
  uint32_t inbox_key;
  uint32_t queue_pair;
  uint32_t first_packet;  // sequence number that the writer of this card starts to send with
  uint32_t eager_limit;
  uint32_t credits;  // eager 'send': how many messages the writer of this card can take (credits.h)
  Eager eager;
};
static_assert(sizeof(Card) <= cards::kMostCard);

inline std::string_view bytes_of(const Card& card) { return {reinterpret_cast<const char*>(&card), sizeof card}; }

// False: this is no card.
inline bool read_card(std::string_view bytes, Card& card) {
  if (bytes.size() != sizeof card) return false;
  std::memcpy(&card, bytes.data(), sizeof card);
  return card.eager <= Eager::send && makes_sense(card.port);
}

}  // namespace nbc::verbs
