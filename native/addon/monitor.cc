#include "addon/monitor.h"

#include <cstdio>
#include <cstring>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

namespace nbc::addon {
namespace {

// Connections that wait for their turn; the kernel refuses, or holds back, those that come then.
constexpr int kWaiting = 16;

}  // namespace

Monitor::Monitor(const std::string& path) {
  // Renamed once it listens: a file where nobody listens is what a dead process has left, and anybody may remove it.
  const std::string made = path + ".new";
  sockaddr_un address{};
  if (path.empty() || made.size() >= sizeof address.sun_path) return;
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, made.c_str(), made.size() + 1);
  Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  unlink(made.c_str());
  if (!socket || bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) return;
  if (chmod(made.c_str(), 0600) != 0 || listen(socket.get(), kWaiting) != 0 ||
      std::rename(made.c_str(), path.c_str()) != 0) {
    unlink(made.c_str());
    return;
  }
  socket_ = std::move(socket);
  path_ = path;
}

Monitor::~Monitor() {
  if (socket_) unlink(path_.c_str());
}

void Monitor::answer(const std::function<std::string()>& line) {
  const Descriptor client(accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  ucred peer{};
  socklen_t length = sizeof peer;
  if (!client || getsockopt(client.get(), SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0 || peer.uid != geteuid())
    return;
  const std::string text = line();
  // What its buffer does not take is lost, and the client sees a line without an end.
  [[maybe_unused]] const ssize_t sent = send(client.get(), text.data(), text.size(), MSG_NOSIGNAL);
}

}  // namespace nbc::addon
