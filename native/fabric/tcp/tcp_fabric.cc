#include "fabric/tcp/tcp_fabric.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <poll.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "fabric/clock.h"
#include "fabric/tcp/timer.h"

namespace nbc::tcp {
namespace {

constexpr int64_t kCloseMilliseconds = 3000;  // how long a closing rank waits until what it wrote has arrived
constexpr int kQuickLooks = 100;              // of those, before it leaves the processor in between
constexpr int kEvents = 32;

// Bytes that one look at a connection moves in each direction. A caller that waits has nothing better to do. Others
// want to go on with their computation, or hold the lock: with 512 KiB, 99 of 100 calls of test() beside 16 messages of
// 8 MiB took less than 310 to 580 us, and take less than 90 to 105 us with 32 KiB. The messages take as long.
size_t budget_of(Effort effort) { return effort >= Effort::waiting ? 1024 * 1024 : 32 * 1024; }

}  // namespace

Crowd crowd_of(const JobDescription& job) {
  Crowd crowd;
  crowd.ranks = static_cast<uint32_t>(std::count(job.hosts.begin(), job.hosts.end(), job.hosts[job.rank]));
  crowd.processors = job.processors;
  crowd.complete = true;
  return crowd;
}

TcpFabric::TcpFabric(JobDescription job, const TcpOptions& options, std::shared_ptr<ExposedMemory> exposed)
    : identity_{job.key, job.rank, static_cast<Rank>(job.addresses.size()), options.eager_limit},
      options_(options),
      crowd_(crowd_of(job)),
      memory_(exposed != nullptr ? std::move(exposed) : std::make_shared<PlainMemory>()),
      timer_(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC)),
      connector_(
          std::move(job.listener), std::move(job.addresses), identity_,
          {options.connect_milliseconds,
           {options.handshake_milliseconds, options.grace_milliseconds, options.pending, options.silence_milliseconds}},
          parking_, *this),
      connections_(identity_.size),
      patience_(options.peer_timeout) {
  if (!timer_) throw system_failure("transport 'tcp': no timer");
  parking_.add(timer_, EPOLLIN, name_of(kTimer));
  parking_.add_call(timer_, EPOLLIN);
}

TcpFabric::~TcpFabric() { announce_closed(); }

// --- connecting ------------------------------------------------------------------------------------------------------

Connect TcpFabric::connect(Rank peer) {
  if (peer != rank()) return connector_.connect(peer);
  if (self_ == nullptr) self_ = std::make_unique<Box>(options_.eager_limit);
  return Connect::ready;
}

std::string TcpFabric::why(Rank peer) const {
  return peer == rank() ? "too much memory is exposed at a time" : connector_.why(peer);
}

void TcpFabric::take(Rank peer, Socket socket) {
  auto connection = std::make_unique<Connection>(peer, options_.eager_limit, std::move(socket), counters_);
  allow_slow_reader(connection->socket());
  connection->watched = EPOLLIN;
  parking_.change(connection->socket(), EPOLLIN, name_of(kConnection, peer));
  connections_[peer] = std::move(connection);
  begin_to_beat(*connections_[peer]);
}

// The rank that asked for the connection may be about to sleep, so poll() tells it.
void TcpFabric::answered(Rank peer) { arrived_.push({Completion::Kind::answered, Error::none, peer, 0, 0, nullptr}); }

// --- what is limited in time -----------------------------------------------------------------------------------------

// The timer fires when the first of all limits has passed.
void TcpFabric::set_timer() {
  int64_t first = connector_.next();
  for (const int64_t moment : {silence_check_, next_beat_}) {
    if (moment != 0 && (first == 0 || moment < first)) first = moment;
  }
  fire_at(timer_.get(), first);
}

void TcpFabric::on_timer() {
  take_firing(timer_.get());
  connector_.on_time(now_milliseconds());
  if (silence_check_ != 0 && silence_check_ <= now_milliseconds()) look_for_silence();
  if (next_beat_ != 0 && next_beat_ <= now_milliseconds()) beat();
  set_timer();
}

// The system notices that a machine is gone only while nothing is on its way to it.
void TcpFabric::look_for_silence() {
  bool owed = false;
  for (const auto& connection : connections_) {
    if (connection == nullptr || connection->state != Connection::State::open) continue;
    if (unacknowledged(connection->socket()) == 0) continue;
    owed = true;
    if (is_silent(connection->socket(), options_.silence_milliseconds))
      break_off(*connection, Error::unreachable, "its machine does not answer");
  }
  silence_check_ = owed ? now_milliseconds() + options_.silence_milliseconds / 4 : 0;
}

// At once, so that the peer knows from the beginning that beats are to be expected.
void TcpFabric::begin_to_beat(Connection& connection) {
  if (options_.peer_timeout == 0) return;
  if (options_.beats) {
    connection.queue_beat(static_cast<uint32_t>(patience_.interval()));
    list(connection);
  }
  if (next_beat_ != 0) return;
  next_beat_ = now_milliseconds() + patience_.interval();
  set_timer();
}

// What is to be sent is a sign of life, too, as soon as the peer reads it.
void TcpFabric::beat() {
  const int64_t now = now_milliseconds();
  next_beat_ = 0;
  for (const auto& each : connections_) {
    if (each == nullptr || each->state != Connection::State::open) continue;
    Connection& connection = *each;
    next_beat_ = now + patience_.interval();
    if (options_.beats && !connection.has_to_send()) {
      connection.queue_beat(static_cast<uint32_t>(patience_.interval()));
      list(connection);
    }
    // Nobody reads for a rank that expects nothing.
    if (!connection.heard) receive(connection, budget_of(Effort::look));
    if (connection.state != Connection::State::open) continue;
    const bool silent = !connection.heard && connection.beat != 0 && !connection.peer_closed;
    connection.silent = silent ? connection.silent + 1 : 0;
    connection.heard = false;
    if (connection.silent < patience_.looks(connection.beat)) continue;
    connection.queue_lost();
    connection.send(0);
    break_off(connection, Error::unreachable,
              "it did not answer for as long as option peerTimeout says; its process may be stopped");
  }
}

// --- connections -----------------------------------------------------------------------------------------------------

Connection* TcpFabric::open(Rank peer) const {
  Connection* connection = connections_[peer].get();
  return connection != nullptr && connection->state == Connection::State::open ? connection : nullptr;
}

Mailbox TcpFabric::outbox(Rank peer) { return peer == rank() ? self_->mailbox() : connections_[peer]->outbox(); }

Mailbox TcpFabric::inbox(Rank peer) { return peer == rank() ? self_->mailbox() : connections_[peer]->inbox(); }

bool TcpFabric::has_closed(Rank peer) {
  if (peer == rank()) return closed_;
  const Connection* connection = open(peer);
  return connection != nullptr ? connection->peer_closed : connector_.verdict(peer) == Connect::closed;
}

void TcpFabric::abandon(Rank peer) {
  if (open(peer) != nullptr) break_off(*open(peer), Error::peer_closed, "the peer has closed its world");
}

void TcpFabric::reject(Rank peer, const std::string& why) {
  if (open(peer) != nullptr) break_off(*open(peer), Error::unreachable, why);
}

void TcpFabric::break_off(Connection& connection, Error error, const std::string& why) {
  if (connection.state == Connection::State::broken) return;
  if (connection.peer_closed) error = Error::peer_closed;
  connector_.lost(connection.peer, error == Error::peer_closed ? Connect::closed : Connect::broken,
                  "the connection to rank " + std::to_string(connection.peer) + " of the world broke: " + why);
  connection.state = Connection::State::broken;
  finish_puts(connection, Error::none);
  connection.give_up();
  finish_puts(connection, error);
  unlist(connection);
  // Its socket goes with it, and out of every set; its mailboxes stay for LibOF to look into.
  connection.hang_up();
  arrived_.push({Completion::Kind::broken, error, connection.peer, 0, 0, nullptr});
}

// It broke while it was being used.
void TcpFabric::lost(Connection& connection) {
  const Error error = connection.counted_lost     ? Error::counted_lost
                      : ended(connection.error()) ? Error::peer_closed
                                                  : Error::unreachable;
  given_up_ |= connection.counted_lost;
  break_off(connection, error, connection.why());
}

void TcpFabric::finish_puts(Connection& connection, Error error) {
  void* cookie;
  while (connection.take_done(cookie))
    arrived_.push({Completion::Kind::put_done, error, connection.peer, 0, 0, cookie});
}

// --- moving bytes ----------------------------------------------------------------------------------------------------

void TcpFabric::list(Connection& connection) {
  if (connection.listed) return;
  connection.listed = true;
  listed_.push_back(&connection);
}

void TcpFabric::unlist(Connection& connection) {
  if (!connection.listed) return;
  connection.listed = false;
  listed_.erase(std::find(listed_.begin(), listed_.end(), &connection));
}

// Tells epoll what is waited for.
void TcpFabric::watch(Connection& connection) {
  const uint32_t wanted = EPOLLIN | (connection.blocked() && connection.has_to_send() ? EPOLLOUT : 0u);
  if (wanted == connection.watched) return;
  connection.watched = wanted;
  parking_.change(connection.socket(), wanted, name_of(kConnection, connection.peer));
}

void TcpFabric::send(Connection& connection, size_t budget) {
  if (!connection.send(budget)) {
    // What came before counts.
    connection.receive(regions_, SIZE_MAX, arrived_);
    return lost(connection);
  }
  finish_puts(connection, Error::none);
  watch(connection);
  if (silence_check_ == 0) {
    silence_check_ = now_milliseconds() + options_.silence_milliseconds / 4;
    set_timer();
  }
}

void TcpFabric::receive(Connection& connection, size_t budget) {
  if (!connection.receive(regions_, budget, arrived_)) return lost(connection);
  if (connection.has_more()) list(connection);
}

void TcpFabric::look(Effort effort) {
  const size_t budget = budget_of(effort);
  epoll_event events[kEvents];
  const int count = epoll_wait(parking_.sockets(), events, kEvents, 0);
  // There may be others, of which nothing will tell again.
  if (count == kEvents) parking_.note_call();
  for (int i = 0; i < count; ++i) {
    const auto name = static_cast<Name>(events[i].data.u64 >> 32);
    const auto index = static_cast<uint32_t>(events[i].data.u64);
    if (name == kConnection) {
      Connection* connection = open(index);
      if (connection == nullptr) continue;
      if (events[i].events & EPOLLOUT) connection->unblock();
      if (events[i].events & ~EPOLLOUT) receive(*connection, budget);
    } else if (name == kTimer) {
      on_timer();
    } else {
      connector_.advance(name, index);
    }
  }
  move_listed(effort == Effort::look ? 0 : budget);
}

// Sends what is queued and can leave, and goes on where a budget ended.
void TcpFabric::move_listed(size_t budget) {
  for (size_t i = 0; i < listed_.size();) {
    Connection& connection = *listed_[i];
    if (connection.has_more() && budget > 0) receive(connection, budget);
    if (connection.state == Connection::State::open && connection.has_to_send() && !connection.blocked())
      send(connection, budget);
    // One that broke has taken itself from the list.
    if (connection.state != Connection::State::open) continue;
    if (connection.has_to_send() || connection.has_more()) {
      ++i;
    } else {
      connection.listed = false;
      listed_[i] = listed_.back();
      listed_.pop_back();
    }
  }
}

void TcpFabric::flush() {
  if (!listed_.empty()) move_listed(0);
}

bool TcpFabric::flushed() const {
  return std::all_of(listed_.begin(), listed_.end(), [](const Connection* c) { return c->flushed(); });
}

unsigned TcpFabric::poll(Completion* out, unsigned max, Effort effort) {
  parking_.answer_calls();
  if (arrived_.size() < max) look(effort);
  const auto count = static_cast<unsigned>(std::min<size_t>(max, arrived_.size()));
  for (unsigned i = 0; i < count; ++i) out[i] = arrived_[i];
  if (count > 0) arrived_.pop(count);
  return count;
}

uint64_t TcpFabric::work(uint64_t enough) const {
  uint64_t work = arrived_.size();
  for (const Connection* connection : listed_) {
    if (work >= enough) break;
    // Nobody knows how much: it is not short.
    if (connection->has_more()) work += short_work() + 1;
    if (!connection->blocked()) work += connection->bytes_to_send();
  }
  return work;
}

bool TcpFabric::holds_back() const {
  return std::any_of(listed_.begin(), listed_.end(), [](const Connection* c) { return c->has_to_send(); });
}

bool TcpFabric::expose(Rank peer, const LocalBuffer& buffer, ExposedBuffer& out) {
  out = {0, 0, nullptr};
  if (buffer.bytes == 0) return true;
  out.key = regions_.open(peer, buffer.data, buffer.bytes);
  return out.key != 0;
}

void TcpFabric::conceal(Rank peer, const ExposedBuffer& buffer) {
  regions_.close(buffer.key);
  if (peer != rank() && connections_[peer] != nullptr) connections_[peer]->conceal(buffer.key);
}

void TcpFabric::commit(Rank peer, const void* written, size_t bytes, uint32_t note, void* cookie) {
  if (peer == rank()) {
    arrived_.push({Completion::Kind::message, Error::none, peer, note, 0, nullptr});
  } else if (Connection* connection = open(peer); connection != nullptr) {
    connection->queue_message(written, bytes, note);
    list(*connection);
  }
  if (cookie != nullptr) arrived_.push({Completion::Kind::write_done, Error::none, peer, 0, 0, cookie});
}

void TcpFabric::put(Rank peer, const ExposedBuffer& to, const LocalBuffer& from, uint32_t immediate, Error error,
                    void* cookie) {
  Connection* connection = peer == rank() ? nullptr : open(peer);
  if (peer == rank()) {
    put_to_self(to, from, immediate, error, cookie);
  } else if (connection == nullptr) {
    const Error why = connector_.verdict(peer) == Connect::closed ? Error::peer_closed : Error::unreachable;
    arrived_.push({Completion::Kind::put_done, why, peer, 0, 0, cookie});
  } else if (error != Error::none) {
    connection->queue_failure(immediate, error, from.bytes);
    list(*connection);
    arrived_.push({Completion::Kind::put_done, Error::none, peer, 0, 0, cookie});
  } else {
    connection->queue_put({from.data, from.bytes, 0, to.key, immediate, cookie});
    list(*connection);
  }
}

void TcpFabric::retract(Rank peer, void* cookie, Error error, uint64_t told) {
  Connection* connection = peer == rank() ? nullptr : open(peer);
  if (connection == nullptr) return;
  connection->retract(cookie, error, told);
  finish_puts(*connection, Error::none);
}

void TcpFabric::put_to_self(const ExposedBuffer& to, const LocalBuffer& from, uint32_t immediate, Error error,
                            void* cookie) {
  if (error == Error::none && from.bytes > 0) {
    const Region* region = regions_.find(to.key, rank());
    if (region != nullptr && from.bytes <= region->bytes) std::memmove(region->data, from.data, from.bytes);
  }
  arrived_.push({Completion::Kind::put_done, Error::none, rank(), 0, 0, cookie});
  arrived_.push({Completion::Kind::immediate, error, rank(), immediate, from.bytes, nullptr});
}

// --- sleeping --------------------------------------------------------------------------------------------------------

void TcpFabric::sleep(Sleeper who, uint32_t /*ticket*/, int64_t nanoseconds) {
  if (who == Sleeper::caller) ++parks_;
  // A ring of another fabric is a datagram, which can be lost where its sender has too many on their way.
  constexpr int64_t kLongest = 1'000'000'000;
  if (parking_.shared() && (nanoseconds < 0 || nanoseconds > kLongest)) nanoseconds = kLongest;
  parking_.sleep(who, nanoseconds);
}

// --- the end ---------------------------------------------------------------------------------------------------------

// What we wrote must have arrived before the sockets close: one that closes with something unread takes back what it
// sent.
void TcpFabric::announce_closed() {
  if (closed_) return;
  closed_ = true;
  for (const auto& connection : connections_) {
    if (connection == nullptr || connection->state != Connection::State::open) continue;
    connection->queue_closed();
    list(*connection);
  }
  const auto pending = [&] {
    return std::any_of(connections_.begin(), connections_.end(), [](const auto& c) {
      return c != nullptr && c->state == Connection::State::open && !c->peer_closed &&
             (c->has_to_send() || unacknowledged(c->socket()) > 0);
    });
  };
  const int64_t limit = now_milliseconds() + kCloseMilliseconds;
  // An acknowledgement is no event. It comes within microseconds, or may take long.
  for (int looks = 0; pending() && now_milliseconds() < limit; ++looks) {
    look(Effort::pass);
    arrived_.clear();
    if (looks < kQuickLooks) {
      sched_yield();
    } else {
      pollfd sockets{parking_.sockets(), POLLIN, 0};
      ::poll(&sockets, 1, 1);
    }
  }
}

void TcpFabric::visit_counters(const CounterVisitor& visit) const {
  const auto add = [&](Counter counter, uint64_t value) { visit(counter, static_cast<double>(value)); };
  add(Counter::frames_sent, counters_.frames_sent);
  add(Counter::frames_received, counters_.frames_received);
  add(Counter::socket_writes, counters_.writes);
  add(Counter::socket_reads, counters_.reads);
  add(Counter::bytes_sent, counters_.bytes_sent);
  add(Counter::bytes_received, counters_.bytes_received);
  add(Counter::bytes_copied, counters_.copied);
  add(Counter::peers_by_tcp, size() - 1);
  add(Counter::connections_accepted, connector_.acceptor().accepted());
  add(Counter::connections_refused, connector_.acceptor().refused());
  add(Counter::events, parking_.events());
  add(Counter::parks, parks_);
}

}  // namespace nbc::tcp
