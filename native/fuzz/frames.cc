// Hostile bytes on a connection that was accepted: whatever comes, nothing outside the exposed memory and the inbox is
// written.
//
//   input    byte 0: how the rest is cut into pieces that arrive one by one; bit 0: the first region is closed, and its
//            memory freed, when half of them have come. Then what the peer sends
//
// Exposed to the peer: 1000 bytes under key 1 << 20, and 300 000 under the next; to another peer: 64 under the one
// after. Each lies in memory that ends where it ends, so that AddressSanitizer sees every step outside.
#include <cstdlib>
#include <memory>
#include <sys/socket.h>

#include "fabric/tcp/connection.h"

using namespace nbc;
using namespace nbc::tcp;

namespace {

struct Exposed {
  Exposed(Regions& regions, Rank peer, size_t bytes)
      : memory(new std::byte[bytes]()), key(regions.open(peer, memory.get(), bytes)) {}
  std::unique_ptr<std::byte[]> memory;
  const uint32_t key;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) != 0) abort();
  const Socket peer(ends[0]);
  Counters counters;
  Connection connection(1, (data[0] & 2) != 0 ? 32 * 1024 : 255, Socket(ends[1]), counters);
  Regions regions;
  Exposed exposed[] = {{regions, 1, 1000}, {regions, 1, 300'000}, {regions, 2, 64}};
  Ring<Completion> events;
  const size_t piece = size_t{1} + data[0] * size_t{37};
  bool good = true;
  for (size_t at = 1; at < size && good; at += piece) {
    if ((data[0] & 1) != 0 && at > size / 2 && exposed[0].memory != nullptr) {
      regions.close(exposed[0].key);
      connection.conceal(exposed[0].key);
      exposed[0].memory.reset();
    }
    if (::send(peer.get(), data + at, std::min(piece, size - at), MSG_NOSIGNAL) < 0) break;
    do {
      good = connection.receive(regions, 4096, events);
    } while (good && connection.has_more());
  }
  // What LibOF would be told must make sense.
  for (size_t i = 0; i < events.size(); ++i) {
    if (events[i].peer != 1 || events[i].immediate >> kImmediateBits != 0) abort();
  }
  return 0;
}
