// SHA-256 (FIPS 180-4) and HMAC (RFC 2104) with it: how a connection proves that it belongs to the job, see
// handshake.h.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace nbc::tcp {

using Digest = std::array<uint8_t, 32>;

Digest sha256(std::string_view bytes);
Digest hmac_sha256(std::string_view key, std::string_view bytes);
// In a time that does not depend on where they differ.
bool same(const Digest& a, const Digest& b);

}  // namespace nbc::tcp
