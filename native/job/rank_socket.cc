#include "job/rank_socket.h"

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace nbc::shm {
namespace {

socklen_t name_of(const Segment& segment, Rank rank, Call what, sockaddr_un& address) {
  address = {};
  address.sun_family = AF_UNIX;
  const int length = std::snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "node-nbc-%llx-%u-%c",
                                   static_cast<unsigned long long>(segment.identity()), rank, static_cast<char>(what));
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + static_cast<size_t>(length));
}

int make_socket() { return ::socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0); }

}  // namespace

RankSocket::~RankSocket() {
  if (socket_ >= 0) ::close(socket_);
}

bool RankSocket::open(const Segment& segment, Rank rank, Call what) {
  const int made = make_socket();
  if (made < 0) return false;
  sockaddr_un address;
  const socklen_t length = name_of(segment, rank, what, address);
  if (::bind(made, reinterpret_cast<sockaddr*>(&address), length) != 0) {
    const int error = errno;
    ::close(made);
    errno = error;
    return false;
  }
  socket_ = made;
  return true;
}

void RankSocket::drain() {
  char some[64];
  while (::recv(socket_, some, sizeof some, MSG_DONTWAIT) > 0) {
  }
}

RankCaller::~RankCaller() {
  if (socket_ >= 0) ::close(socket_);
}

bool RankCaller::prepare() {
  if (socket_ < 0) socket_ = make_socket();
  return socket_ >= 0;
}

bool RankCaller::call(const Segment& segment, Rank rank, Call what) {
  if (!prepare()) return false;
  sockaddr_un address;
  const socklen_t length = name_of(segment, rank, what, address);
  const char nothing = 0;
  const ssize_t sent =
      ::sendto(socket_, &nothing, 1, MSG_DONTWAIT | MSG_NOSIGNAL, reinterpret_cast<sockaddr*>(&address), length);
  return sent > 0 || errno == EAGAIN || errno == EWOULDBLOCK;  // a full socket has something to read already
}

}  // namespace nbc::shm
