#include "fabric/tcp/acceptor.h"

#include <algorithm>
#include <cerrno>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "fabric/clock.h"

namespace nbc::tcp {
namespace {

constexpr int64_t kRestMilliseconds = 100;  // until it is tried again to accept, if there was no descriptor

}  // namespace

Door::Door(Socket listener, const Identity& identity, const DoorOptions& options, Parking& parking, Host& host,
           uint64_t listener_name, uint64_t stranger_name)
    : listener_(std::move(listener)),
      identity_(identity),
      options_(options),
      parking_(parking),
      host_(host),
      listener_name_(listener_name),
      stranger_name_(stranger_name) {
  parking_.add(listener_, EPOLLIN, listener_name_);
  parking_.add_call(listener_, EPOLLIN);
}

void Door::accept_all() {
  while (has_place()) {
    Socket socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      if (errno == EAGAIN) return;
      // No descriptor, or no memory.
      break;
    }
    const size_t index = place();
    prepare(socket, options_.silence_milliseconds);
    Stranger& stranger = strangers_[index];
    ++waiting_;
    try {
      stranger.handshake = std::make_unique<Handshake>(std::move(socket), identity_);
      parking_.add(stranger.handshake->socket(), EPOLLIN, stranger_name_ + index);
      parking_.add_call(stranger.handshake->socket(), EPOLLIN);
    } catch (const FabricError&) {
      ++refused_;
      drop(index);
      break;
    }
    stranger.deadline = now_milliseconds() + options_.handshake_milliseconds;
    host_.set_timer();
    advance(index);
  }
  rest();
}

// There is a free one, or one whose stranger has had time enough to answer.
bool Door::has_place() const {
  if (waiting_ < options_.places) return true;
  const int64_t young = now_milliseconds() + options_.handshake_milliseconds - youth();
  return std::any_of(strangers_.begin(), strangers_.end(),
                     [&](const Stranger& stranger) { return stranger.deadline <= young; });
}

size_t Door::place() {
  const auto is_free = [](const Stranger& stranger) { return stranger.handshake == nullptr; };
  auto place = std::find_if(strangers_.begin(), strangers_.end(), is_free);
  if (place == strangers_.end() && strangers_.size() == options_.places) {
    // Full: the one that has been silent for longest goes.
    place = std::min_element(strangers_.begin(), strangers_.end(),
                             [](const Stranger& a, const Stranger& b) { return a.deadline < b.deadline; });
    ++refused_;
    drop(static_cast<size_t>(place - strangers_.begin()));
  }
  if (place == strangers_.end()) place = strangers_.emplace(place);
  return static_cast<size_t>(place - strangers_.begin());
}

void Door::drop(size_t place) {
  strangers_[place].handshake.reset();
  --waiting_;
  accept_again();
}

void Door::rest() {
  rests_until_ = now_milliseconds() + std::min(kRestMilliseconds, youth());
  parking_.change(listener_, 0, listener_name_);
  parking_.change_call(listener_, 0);
  host_.set_timer();
}

void Door::accept_again() {
  if (rests_until_ == 0) return;
  rests_until_ = 0;
  parking_.change(listener_, EPOLLIN, listener_name_);
  // Whoever has called already makes it a call now.
  parking_.change_call(listener_, EPOLLIN);
}

void Door::advance(size_t place) {
  Stranger& stranger = strangers_[place];
  if (stranger.handshake == nullptr) return;
  Handshake& handshake = *stranger.handshake;
  Handshake::State state = handshake.advance();
  if (state == Handshake::State::asked) state = handshake.decide(host_.judge(handshake));
  switch (state) {
    case Handshake::State::going_on:
    case Handshake::State::asked:
      parking_.change(handshake.socket(), events_of(handshake), stranger_name_ + place);
      break;
    case Handshake::State::failed:
      ++refused_;
      drop(place);
      break;
    case Handshake::State::settled:
      if (handshake.verdict() == Verdict::welcome) {
        ++accepted_;
        parking_.remove_call(handshake.socket());
        host_.welcome(handshake.peer(), handshake.take_socket());
      }
      drop(place);
      break;
  }
}

int64_t Door::next() const {
  int64_t first = rests_until_;
  for (const Stranger& stranger : strangers_) {
    if (stranger.handshake != nullptr && (first == 0 || stranger.deadline < first)) first = stranger.deadline;
  }
  return first;
}

void Door::on_time(int64_t now) {
  for (size_t i = 0; i < strangers_.size(); ++i) {
    if (strangers_[i].handshake == nullptr || strangers_[i].deadline > now) continue;
    // This rank may not have looked for long: what it has said meanwhile counts.
    advance(i);
    if (strangers_[i].handshake == nullptr) continue;
    ++refused_;
    drop(i);
  }
  if (rests_until_ != 0 && rests_until_ <= now) accept_again();
}

}  // namespace nbc::tcp
