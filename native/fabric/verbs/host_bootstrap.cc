#include "fabric/verbs/host_bootstrap.h"

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "fabric/shm/presence.h"

namespace nbc::verbs {
namespace {

// In the abstract namespace: no file is left behind, and the inode of the job's file is nobody else's while the job lives.
socklen_t name_of(const shm::Segment& segment, Rank rank, sockaddr_un& address) {
  address = {};
  address.sun_family = AF_UNIX;
  const int length = std::snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "node-nbc-%llx-%u",
                                   static_cast<unsigned long long>(segment.identity()), rank);
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + static_cast<size_t>(length));
}

}  // namespace

HostBootstrap::HostBootstrap(std::shared_ptr<shm::Segment> segment, Rank rank, uint32_t eager_limit)
    : segment_(std::move(segment)), rank_(rank) {
  shm::describe_self(*segment_, rank_, eager_limit);
  socket_ = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  sockaddr_un address;
  const socklen_t length = name_of(*segment_, rank_, address);
  if (socket_ >= 0 && ::bind(socket_, reinterpret_cast<sockaddr*>(&address), length) != 0) {
    ::close(socket_);
    socket_ = -1;  // then calls are noticed when somebody polls
  }
  shm::announce_open(*segment_, rank_);
}

HostBootstrap::~HostBootstrap() {
  close();
  if (socket_ >= 0) ::close(socket_);
}

void HostBootstrap::call(Rank peer) {
  // release: what was published before; pairs with the acquire in called()
  segment_->line(peer).calls.fetch_add(1, std::memory_order_release);
  sockaddr_un address;
  const socklen_t length = name_of(*segment_, peer, address);
  // A full socket has something to read already; a missing one belongs to a rank that looks when it opens.
  const char nothing = 0;
  static_cast<void>(
      ::sendto(socket_, &nothing, 1, MSG_DONTWAIT | MSG_NOSIGNAL, reinterpret_cast<sockaddr*>(&address), length));
}

void HostBootstrap::publish(Rank peer, const Card& card, CardState state) {
  CardSlot& mine = slot(rank_, peer);
  if (state == CardState::offered) mine.card = card;
  mine.state.store(state, std::memory_order_release);  // the card before its state; pairs with look()
  call(peer);
}

CardState HostBootstrap::look(Rank peer, Card& card) {
  const CardSlot& theirs = slot(peer, rank_);
  const CardState state = theirs.state.load(std::memory_order_acquire);  // pairs with publish()
  if (state != CardState::none) card = theirs.card;
  return state;
}

Standing HostBootstrap::standing(Rank peer) {
  const shm::RankLine& line = segment_->line(peer);
  switch (line.state.load(std::memory_order_acquire)) {
    case shm::RankState::absent:
      return Standing::absent;
    case shm::RankState::closed:
      return Standing::gone;
    case shm::RankState::open:
      break;
  }
  return ::kill(line.pid, 0) != 0 && errno == ESRCH ? Standing::gone : Standing::open;
}

Crowd HostBootstrap::crowd() const { return shm::crowd_of(*segment_); }

// Before what was called for is looked at: whatever comes later counts again.
void HostBootstrap::forget_calls() {
  answered_.store(segment_->line(rank_).calls.load(std::memory_order_acquire), std::memory_order_relaxed);
}

void HostBootstrap::drain() {
  char some[64];
  while (::recv(socket_, some, sizeof some, MSG_DONTWAIT) > 0) {
  }
}

void HostBootstrap::close() {
  shm::RankLine& line = segment_->line(rank_);
  if (line.state.load(std::memory_order_relaxed) == shm::RankState::closed) return;
  line.state.store(shm::RankState::closed, std::memory_order_release);
  for (Rank peer = 0; peer < size(); ++peer) {
    if (peer != rank_) call(peer);
  }
}

}  // namespace nbc::verbs
