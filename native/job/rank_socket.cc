#include "job/rank_socket.h"

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "job/presence.h"

namespace nbc::job {
namespace {

// A zero, "node-nbc-", the key in hexadecimal, "-" and what for.
socklen_t name_of(const Segment& segment, Rank rank, Call what, sockaddr_un& address) {
  static constexpr char kPrefix[] = "node-nbc-";
  static constexpr char kDigits[] = "0123456789abcdef";
  address = {};
  address.sun_family = AF_UNIX;
  char* at = address.sun_path + 1;
  at = static_cast<char*>(std::memcpy(at, kPrefix, sizeof kPrefix - 1)) + sizeof kPrefix - 1;
  for (const uint8_t byte : segment.line(rank).key) {
    *at++ = kDigits[byte >> 4];
    *at++ = kDigits[byte & 15];
  }
  *at++ = '-';
  *at++ = static_cast<char>(what);
  return static_cast<socklen_t>(at - reinterpret_cast<char*>(&address));
}

int make_socket() { return ::socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0); }

}  // namespace

bool RankSocket::open(const Segment& segment, Rank rank, Call what) {
  Descriptor made(make_socket());
  if (!made) return false;
  sockaddr_un address;
  const socklen_t length = name_of(segment, rank, what, address);
  if (::bind(made.get(), reinterpret_cast<sockaddr*>(&address), length) != 0) {
    const int error = errno;
    made.reset();
    errno = error;
    return false;
  }
  socket_ = std::move(made);
  return true;
}

void RankSocket::drain() {
  char some[64];
  while (::recv(socket_.get(), some, sizeof some, MSG_DONTWAIT) > 0) {
  }
}

bool RankCaller::prepare() {
  if (!socket_) socket_ = Descriptor(make_socket());
  return static_cast<bool>(socket_);
}

bool RankCaller::call_loop(const Segment& segment, Rank rank) {
  return has_opened(segment, rank) && pipes_.call(segment, rank);
}

bool RankCaller::call(const Segment& segment, Rank rank, Call what) {
  if (!has_opened(segment, rank) || !prepare()) return false;
  sockaddr_un address;
  const socklen_t length = name_of(segment, rank, what, address);
  const char nothing = 0;
  const ssize_t sent =
      ::sendto(socket_.get(), &nothing, 1, MSG_DONTWAIT | MSG_NOSIGNAL, reinterpret_cast<sockaddr*>(&address), length);
  return sent > 0 || errno == EAGAIN || errno == EWOULDBLOCK;  // a full socket has something to read already
}

}  // namespace nbc::job
