#include "fabric/cards/socket_bootstrap.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "fabric/clock.h"
#include "fabric/tcp/timer.h"

namespace nbc::cards {
namespace {

constexpr int kEvents = 16;
// A process that ends gives up its connections of the network first and its sockets a moment later.
constexpr int kEndingMilliseconds = 200;
// Looks of a caller that polls between two at the sockets, which cost a system call.
constexpr uint32_t kLooks = 64;

bool readable(int descriptor, int milliseconds) {
  pollfd set{descriptor, POLLIN, 0};
  return ::poll(&set, 1, milliseconds) > 0;
}

}  // namespace

SocketBootstrap::SocketBootstrap(tcp::JobDescription job, const tcp::TcpOptions& options, const std::string& transport)
    : identity_{job.key, job.rank, static_cast<Rank>(job.addresses.size()), options.eager_limit},
      crowd_(tcp::crowd_of(job)),
      timer_(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC)),
      edges_(epoll_create1(EPOLL_CLOEXEC)),
      peers_(identity_.size) {
  epoll_event event{};
  event.events = EPOLLIN | EPOLLET;
  if (!timer_ || !edges_ || epoll_ctl(edges_.get(), EPOLL_CTL_ADD, parking_.sockets(), &event) != 0)
    throw system_failure("transport '" + transport + "': no descriptors to meet peers");
  parking_.add(timer_, EPOLLIN, tcp::name_of(tcp::kTimer));
  tcp::ConnectionOwner& owner = *this;
  connector_ = std::make_unique<tcp::Connector>(
      std::move(job.listener), std::move(job.addresses), identity_,
      tcp::ConnectorOptions{
          options.connect_milliseconds,
          {options.handshake_milliseconds, options.grace_milliseconds, options.pending, options.silence_milliseconds}},
      parking_, owner);
}

SocketBootstrap::~SocketBootstrap() { close(); }

// --- cards -----------------------------------------------------------------------------------------------------------

void SocketBootstrap::publish(Rank rank, std::string_view card, CardState state) {
  if (connector_ == nullptr) return;
  Peer& peer = peers_[rank];
  if (peer.told) card = {};
  peer.told = true;
  const Head head{state, static_cast<uint32_t>(card.size())};
  peer.to_send.append(reinterpret_cast<const char*>(&head), sizeof head).append(card);
  if (!peer.asked && peer.state != CardState::ready) {
    peer.asked = true;
    asked_.fetch_add(1, std::memory_order_relaxed);
  }
  if (peer.socket) {
    send(rank);
  } else if (!peer.gone) {
    connector_->connect(rank);
  }
}

CardState SocketBootstrap::look(Rank rank, std::string_view& card) {
  const Peer& peer = peers_[rank];
  if (peer.state != CardState::none) card = peer.card;
  return peer.state;
}

std::string SocketBootstrap::refusal(Rank rank) const {
  if (connector_ == nullptr) return "this rank has closed";
  const Connect verdict = connector_->verdict(rank);
  const bool has_reason = verdict == Connect::refused || verdict == Connect::broken || verdict == Connect::exhausted;
  return has_reason ? connector_->why(rank) : std::string();
}

Connect SocketBootstrap::verdict(Rank rank) const {
  return connector_ == nullptr ? Connect::refused : connector_->verdict(rank);
}

Standing SocketBootstrap::standing(Rank rank) {
  const Peer& peer = peers_[rank];
  // Nothing listens any more where the peer did.
  if (peer.gone || (connector_ != nullptr && connector_->verdict(rank) == Connect::closed)) return Standing::gone;
  return peer.socket ? Standing::open : Standing::absent;
}

bool SocketBootstrap::is_ending(Rank rank) {
  if (const Peer& peer = peers_[rank]; peer.socket) {
    readable(peer.socket.get(), kEndingMilliseconds);
    receive(rank);
  }
  return standing(rank) == Standing::gone;
}

// --- connections -----------------------------------------------------------------------------------------------------

void SocketBootstrap::take(Rank rank, tcp::Socket socket) {
  Peer& peer = peers_[rank];
  peer.socket = std::move(socket);
  tcp::allow_slow_reader(peer.socket);
  parking_.change(peer.socket, EPOLLIN, tcp::name_of(tcp::kConnection, rank));
  send(rank);
}

void SocketBootstrap::send(Rank rank) {
  Peer& peer = peers_[rank];
  while (!peer.to_send.empty()) {
    const ssize_t count =
        ::send(peer.socket.get(), peer.to_send.data(), peer.to_send.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (count >= 0) {
      peer.to_send.erase(0, static_cast<size_t>(count));
    } else if (errno == EAGAIN) {
      break;
    } else if (errno != EINTR) {
      // What the peer wrote before its end is still to be read, and then the end.
      peer.to_send.clear();
    }
  }
  parking_.change(peer.socket, peer.to_send.empty() ? EPOLLIN : EPOLLIN | EPOLLOUT,
                  tcp::name_of(tcp::kConnection, rank));
}

void SocketBootstrap::receive(Rank rank) {
  Peer& peer = peers_[rank];
  char piece[sizeof(Head) + kMostCard];
  while (peer.socket) {
    const ssize_t count = ::recv(peer.socket.get(), piece, sizeof piece, MSG_DONTWAIT);
    if (count > 0) {
      peer.received.append(piece, static_cast<size_t>(count));
      if (!open_letters(rank)) return end(rank, EPROTO);
    } else if (count == 0) {
      return end(rank, 0);
    } else if (errno == EAGAIN) {
      return;
    } else if (errno != EINTR) {
      return end(rank, errno);
    }
  }
}

// Those of which all is here. False: one makes no sense.
bool SocketBootstrap::open_letters(Rank rank) {
  Peer& peer = peers_[rank];
  Head head;
  while (peer.received.size() >= sizeof head) {
    std::memcpy(&head, peer.received.data(), sizeof head);
    if ((head.state != CardState::offered && head.state != CardState::ready) || head.bytes > kMostCard) return false;
    // The first one has a card, and no other has.
    if ((head.bytes == 0) != (peer.state != CardState::none)) return false;
    if (peer.received.size() < sizeof head + head.bytes) return true;
    if (head.bytes > 0) peer.card = peer.received.substr(sizeof head, head.bytes);
    peer.received.erase(0, sizeof head + head.bytes);
    peer.state = std::max(peer.state, head.state);
    if (peer.state == CardState::ready) settle(peer);
  }
  return true;
}

void SocketBootstrap::settle(Peer& peer) {
  if (peer.asked) asked_.fetch_sub(1, std::memory_order_relaxed);
  peer.asked = false;
}

// `error`: 0 is the end of what the peer wrote.
void SocketBootstrap::end(Rank rank, int error) {
  Peer& peer = peers_[rank];
  peer.socket = {};
  settle(peer);
  peer.gone = error == 0 || tcp::ended(error);
  connector_->lost(rank, peer.gone ? Connect::closed : Connect::broken,
                   "the connection by which rank " + std::to_string(rank) +
                       " of the world sends its address ended: " + (error == 0 ? "it closed" : std::strerror(error)));
}

// --- calls -----------------------------------------------------------------------------------------------------------

// A rank that waits for a card looks each time, others now and then: the descriptor wakes a thread that sleeps.
bool SocketBootstrap::called() const {
  if (called_.load(std::memory_order_acquire)) return true;
  if (asked_.load(std::memory_order_relaxed) == 0 && looks_.fetch_add(1, std::memory_order_relaxed) % kLooks != 0)
    return false;
  return readable(parking_.sockets(), 0);
}

// Any thread. The edge is taken; what made it stays for the owner.
void SocketBootstrap::drain() {
  epoll_event event;
  if (epoll_wait(edges_.get(), &event, 1, 0) > 0) called_.store(true, std::memory_order_release);
}

void SocketBootstrap::forget_calls() {
  called_.exchange(false, std::memory_order_acquire);  // before the look: what comes later counts again
  if (connector_ != nullptr) look_at_sockets();
}

void SocketBootstrap::look_at_sockets() {
  epoll_event events[kEvents];
  const int count = epoll_wait(parking_.sockets(), events, kEvents, 0);
  // There may be others.
  if (count == kEvents) called_.store(true, std::memory_order_release);
  for (int i = 0; i < count; ++i) {
    const auto name = static_cast<tcp::Name>(events[i].data.u64 >> 32);
    const auto index = static_cast<uint32_t>(events[i].data.u64);
    if (name == tcp::kTimer) {
      on_timer();
    } else if (name != tcp::kConnection) {
      connector_->advance(name, index);
    } else if (peers_[index].socket) {
      if (events[i].events & EPOLLOUT) send(index);
      receive(index);
    }
  }
  // The acceptor leaves connections to the next look.
  if (parking_.answer_calls()) called_.store(true, std::memory_order_release);
}

void SocketBootstrap::set_timer() {
  if (connector_ == nullptr) return;  // its constructor asks
  tcp::fire_at(timer_.get(), connector_->next());
}

void SocketBootstrap::on_timer() {
  tcp::take_firing(timer_.get());
  connector_->on_time(now_milliseconds());
  set_timer();
}

void SocketBootstrap::close() {
  connector_.reset();  // nothing listens any more
  for (Peer& peer : peers_) peer.socket = {};
}

}  // namespace nbc::cards
