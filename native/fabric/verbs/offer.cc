#include "fabric/verbs/offer.h"

#include <cstring>
#include <optional>

#include "fabric/verbs/card.h"

namespace nbc::verbs {
namespace {

// As it lies in memory, in hexadecimal digits.
struct Offer {
  uint32_t version;  // of cards, as in them
  Port port;
};

constexpr char kDigits[] = "0123456789abcdef";

std::optional<Offer> parse(const std::string& text) {
  if (text.size() != 2 * sizeof(Offer)) return std::nullopt;
  unsigned char bytes[sizeof(Offer)];
  for (size_t i = 0; i < text.size(); ++i) {
    const char* digit = std::strchr(kDigits, text[i]);
    if (digit == nullptr || *digit == 0) return std::nullopt;
    const auto value = static_cast<unsigned char>(digit - kDigits);
    bytes[i / 2] = static_cast<unsigned char>(i % 2 == 0 ? value << 4 : bytes[i / 2] | value);
  }
  Offer offer;
  std::memcpy(&offer, bytes, sizeof offer);
  return offer.version == kCardVersion && makes_sense(offer.port) ? std::optional(offer) : std::nullopt;
}

}  // namespace

std::string offer_of(const Port& port) {
  Offer offer;
  std::memset(static_cast<void*>(&offer), 0, sizeof offer);
  offer.version = kCardVersion;
  offer.port = port;
  unsigned char bytes[sizeof offer];
  std::memcpy(bytes, &offer, sizeof offer);
  std::string text;
  for (const unsigned char byte : bytes) text += {kDigits[byte >> 4], kDigits[byte & 15]};
  return text;
}

std::string why_not_by_verbs(const std::string& mine, const std::string& theirs, const std::string& peer,
                             const std::string& device) {
  const std::optional<Offer> here = parse(mine);
  const std::optional<Offer> there = parse(theirs);
  if (!here || !there) return peer + " has another version of node-nbc, whose addresses are not understood";
  if (choose_way(here->port, there->port)) return {};
  return why_no_way(here->port, there->port, peer, device);
}

}  // namespace nbc::verbs
