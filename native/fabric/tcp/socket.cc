#include "fabric/tcp/socket.h"

#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <cstring>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "fabric/fabric.h"

namespace nbc::tcp {
namespace {

// What the system takes: seconds, and how often.
constexpr int kLongestKeepAlive = 32767;
constexpr int kMostKeepAlives = 127;
// Of data, or of the question whether the peer has room; one that lives answers each.
constexpr int kUnansweredRepetitions = 3;
// Bytes that the kernel takes beyond what the connection can carry now.
constexpr int kNotSentBytes = 128 * 1024;

void set(const Socket& socket, int level, int option, int value) {
  setsockopt(socket.get(), level, option, &value, sizeof value);
}

// The port is chosen by connect(), which knows which are free for the two addresses.
bool come_from(const Socket& socket, Address own) {
  set(socket, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1);
  if (own.storage.ss_family == AF_INET6) {
    reinterpret_cast<sockaddr_in6&>(own.storage).sin6_port = 0;
  } else {
    reinterpret_cast<sockaddr_in&>(own.storage).sin_port = 0;
  }
  return ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&own.storage), own.bytes) == 0;
}

[[noreturn]] void fail(const std::string& what) { throw system_failure("transport 'tcp': " + what); }

}  // namespace

Address parse_address(const std::string& host, uint16_t port) {
  Address address;
  auto& v4 = reinterpret_cast<sockaddr_in&>(address.storage);
  auto& v6 = reinterpret_cast<sockaddr_in6&>(address.storage);
  if (inet_pton(AF_INET, host.c_str(), &v4.sin_addr) == 1) {
    v4.sin_family = AF_INET;
    v4.sin_port = htons(port);
    address.bytes = sizeof v4;
  } else if (inet_pton(AF_INET6, host.c_str(), &v6.sin6_addr) == 1) {
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(port);
    address.bytes = sizeof v6;
  } else {
    throw FabricError{"transport 'tcp': '" + host + "' is not a numeric address"};
  }
  return address;
}

std::string text_of(const Address& address) {
  char host[INET6_ADDRSTRLEN] = "?";
  if (address.storage.ss_family == AF_INET6) {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address.storage);
    inet_ntop(AF_INET6, &v6.sin6_addr, host, sizeof host);
    return std::string("[") + host + "]:" + std::to_string(ntohs(v6.sin6_port));
  }
  const auto& v4 = reinterpret_cast<const sockaddr_in&>(address.storage);
  inet_ntop(AF_INET, &v4.sin_addr, host, sizeof host);
  return std::string(host) + ":" + std::to_string(ntohs(v4.sin_port));
}

uint16_t port_of(const Address& address) {
  return ntohs(address.storage.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(address.storage).sin6_port
                                                     : reinterpret_cast<const sockaddr_in&>(address.storage).sin_port);
}

Socket listen_on(const Address& address) {
  Socket socket(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket) fail("no socket");
  set(socket, SOL_SOCKET, SO_REUSEADDR, 1);
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address.storage), address.bytes) != 0 ||
      ::listen(socket.get(), SOMAXCONN) != 0)
    fail("listening on " + text_of(address));
  return socket;
}

Address address_of(const Socket& socket) {
  Address address;
  address.bytes = sizeof address.storage;
  if (::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address.storage), &address.bytes) != 0)
    fail("the address of a socket");
  return address;
}

Socket begin_connect(const Address& address, int silence_milliseconds, const Address* own) {
  Socket socket(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket) return socket;
  prepare(socket, silence_milliseconds);
  if ((own != nullptr && !come_from(socket, *own)) ||
      (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address.storage), address.bytes) != 0 &&
       errno != EINPROGRESS)) {
    const int error = errno;
    socket.reset();
    errno = error;
  }
  return socket;
}

bool ended(int error) { return error == 0 || error == ECONNRESET || error == EPIPE || error == ECONNREFUSED; }

int outcome(const Socket& socket) {
  int error = 0;
  socklen_t bytes = sizeof error;
  return ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &bytes) != 0 ? errno : error;
}

void prepare(const Socket& socket, int silence_milliseconds) {
  set(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  set(socket, IPPROTO_TCP, TCP_NOTSENT_LOWAT, kNotSentBytes);
  set(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, silence_milliseconds);
  const int seconds = std::max(silence_milliseconds / 1000, 1);
  const int idle = std::max(seconds / 2, 1);
  const int interval = std::max(seconds / 10, 1);
  set(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(socket, IPPROTO_TCP, TCP_KEEPIDLE, std::min(idle, kLongestKeepAlive));
  set(socket, IPPROTO_TCP, TCP_KEEPINTVL, std::min(interval, kLongestKeepAlive));
  set(socket, IPPROTO_TCP, TCP_KEEPCNT, std::clamp((seconds - idle) / interval, 1, kMostKeepAlives));
}

void wake_at(const Socket& socket, size_t bytes) { set(socket, SOL_SOCKET, SO_RCVLOWAT, static_cast<int>(bytes)); }
void allow_slow_reader(const Socket& socket) { set(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, 0); }

int unacknowledged(const Socket& socket) {
  int bytes = 0;
  return ::ioctl(socket.get(), SIOCOUTQ, &bytes) == 0 ? bytes : 0;
}

bool is_silent(const Socket& socket, int milliseconds) {
  tcp_info info{};
  socklen_t bytes = sizeof info;
  if (::getsockopt(socket.get(), IPPROTO_TCP, TCP_INFO, &info, &bytes) != 0) return false;
  return (info.tcpi_retransmits >= kUnansweredRepetitions || info.tcpi_probes >= kUnansweredRepetitions) &&
         info.tcpi_last_ack_recv >= static_cast<uint32_t>(milliseconds);
}

void acknowledge_now(const Socket& socket) { set(socket, IPPROTO_TCP, TCP_QUICKACK, 1); }

}  // namespace nbc::tcp
