// What this project does with sockets.
#pragma once
#include <cstdint>
#include <string>
#include <sys/socket.h>

#include "fabric/descriptor.h"

namespace nbc::tcp {

using Socket = Descriptor;

// Where a rank listens.
struct Address {
  sockaddr_storage storage{};
  socklen_t bytes = 0;
};

// From a numeric host and a port. Throws FabricError, naming the text.
Address parse_address(const std::string& host, uint16_t port);
// "127.0.0.1:4711", "[::1]:4711"
std::string text_of(const Address& address);
uint16_t port_of(const Address& address);

// Listens there; port 0 takes a free one. Throws FabricError.
Socket listen_on(const Address& address);
Address address_of(const Socket& socket);
// How long a machine that owes an acknowledgement may be silent.
constexpr int kSilenceMilliseconds = 10'000;
// Begins to connect; writable when it is decided. Empty with errno if it failed at once. `own`: the address of this
// machine that it is to come from, whatever its port; null: the system chooses.
Socket begin_connect(const Address& address, int silence_milliseconds = kSilenceMilliseconds,
                     const Address* own = nullptr);
// Whether this errno of a connection says that its peer has gone.
bool ended(int error);
// What became of it: 0, or an errno.
int outcome(const Socket& socket);
// Small frames leave at once. Little is in the kernel that is not sent yet, so that no control message waits behind it.
// The system notices that the peer's machine is gone: after the given time if it owes an acknowledgement, and otherwise
// after about as long, in whole seconds.
void prepare(const Socket& socket, int silence_milliseconds);
// From here on the peer may be slow. The system's time-out takes a peer that does not read for one whose machine is
// gone, so is_silent() takes its place.
void allow_slow_reader(const Socket& socket);
// Bytes that the peer's machine has not acknowledged.
int unacknowledged(const Socket& socket);
// The peer's machine was asked several times, and has not answered for that long.
bool is_silent(const Socket& socket, int milliseconds);
// The socket becomes readable when so many bytes are there, or at its end.
void wake_at(const Socket& socket, size_t bytes);
// The peer waits for the acknowledgement of what came last; otherwise the kernel takes up to 40 ms.
void acknowledge_now(const Socket& socket);

}  // namespace nbc::tcp
