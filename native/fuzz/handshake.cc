// Hostile bytes before a connection is let in. Nobody who does not know the secret gets further than being asked for it.
//
//   input    byte 0, bit 0: we accept or connect; the rest of it: how the following is cut into pieces; then what the peer sends
#include <cstdlib>
#include <sys/socket.h>

#include "fabric/tcp/handshake.h"

using namespace nbc;
using namespace nbc::tcp;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) != 0) abort();
  const Socket peer(ends[0]);
  const Identity self{"a secret that the input does not know", 0, 4, 255};
  const bool accepts = (data[0] & 1) != 0;
  Handshake handshake = accepts ? Handshake(Socket(ends[1]), self) : Handshake(Socket(ends[1]), self, 2);
  const size_t piece = size_t{1} + (data[0] >> 1);
  handshake.advance();
  for (size_t at = 1; at < size; at += piece) {
    if (::send(peer.get(), data + at, std::min(piece, size - at), MSG_NOSIGNAL) < 0) break;
    const Handshake::State state = handshake.advance();
    if (state == Handshake::State::asked || state == Handshake::State::settled) abort();
    if (state == Handshake::State::failed && handshake.why().empty()) abort();
  }
  return 0;
}
