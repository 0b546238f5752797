// The TCP fabric among peers that are hostile, half-broken, late or too many. Where a peer has to misbehave this test
// plays it by hand: with Handshake, which knows the key, and with bytes of its own behind that.
#include <cerrno>
#include <chrono>
#include <functional>
#include <linux/filter.h>
#include <netinet/in.h>
#include <optional>

#include "fabric/tcp/frame.h"
#include "fabric/tcp/handshake.h"
#include "test/check.h"
#include "test/fabrics.h"
#include "test/no_descriptors.h"
#include "test/random.h"
#include "test/tcp_job.h"

namespace {

using namespace nbc;
using namespace nbc::check;
using std::chrono::milliseconds;
using tcp::FrameHeader;
using tcp::FrameKind;
using tcp::Handshake;
using tcp::Identity;
using tcp::Socket;
using Clock = std::chrono::steady_clock;

// A rank that this thread drives.
struct DrivenRank {
  explicit DrivenRank(std::unique_ptr<TcpFabric> made) : fabric(std::move(made)) {}
  void pass() { pass_once(*fabric, seen); }
  const Completion* find(Completion::Kind kind) const { return find_first(seen, kind); }
  std::unique_ptr<TcpFabric> fabric;
  std::vector<Completion> seen;
};

// The next connection to the rank that this test plays.
Socket answer_at(const TcpJob& job, Rank rank) {
  Socket accepted;
  until([&] { return static_cast<bool>(accepted); },
        [&] { accepted = Socket(::accept4(job.listeners[rank].get(), nullptr, nullptr, SOCK_CLOEXEC)); });
  return accepted;
}

// A process that knows the key of a job, and connects to one of its ranks.
struct Attempt {
  Attempt(const TcpJob& job, Rank rank, Rank acceptor, const tcp::Address* from = nullptr, uint32_t eager_limit = 255)
      : identity{job.key, rank, static_cast<Rank>(job.addresses.size()), eager_limit},
        handshake(tcp::begin_connect(job.addresses[acceptor], tcp::kSilenceMilliseconds, from), identity, acceptor) {}
  bool settled() { return handshake.advance() == Handshake::State::settled; }
  Identity identity;
  Handshake handshake;
};

// Rank 0 of a job, and rank 1 played by hand, connected.
struct ScriptedPeer {
  explicit ScriptedPeer(const TcpOptions& options = {}) : job(2), rank(job.fabric(0, options)) {
    Attempt attempt(job, 1, 0, nullptr, options.eager_limit);
    until([&] { return attempt.settled(); }, [&] { rank.pass(); });
    peer = attempt.handshake.take_socket();
    until([&] { return rank.find(Completion::Kind::answered) != nullptr; }, [&] { rank.pass(); });
    CHECK(rank.fabric->connect(1) == Connect::ready);
    rank.seen.clear();
  }
  void say(const void* bytes, size_t count) {
    const auto* from = static_cast<const std::byte*>(bytes);
    while (count > 0) {
      const ssize_t sent = ::send(peer.get(), from, count, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent < 0) {
        CHECK(errno == EAGAIN);
        rank.pass();
        continue;
      }
      from += sent;
      count -= static_cast<size_t>(sent);
    }
  }
  TcpJob job;
  DrivenRank rank;
  Socket peer;
};

std::string bytes_of(const FrameHeader& header, const std::string& payload = "") {
  return std::string(reinterpret_cast<const char*>(&header), sizeof header) + payload;
}

// The rank that asked may have looked for the last time before it sleeps. So poll() has to tell it of the answer.
TEST(a_rank_that_asks_for_a_connection_is_told_of_the_answer) {
  for (const bool equal : {true, false}) {
    TcpJob job(2);
    TcpOptions other;
    other.eager_limit = equal ? 255 : 256;
    DrivenRank ranks[2] = {DrivenRank(job.fabric(0)), DrivenRank(job.fabric(1, other))};
    int answers = 0;
    const auto look = [&](Rank rank) {
      DrivenRank& one = ranks[rank];
      if (one.fabric->connect(1 - rank) != Connect::later) return;
      one.pass();
      if (one.fabric->connect(1 - rank) == Connect::later) return;
      const Completion* told = one.find(Completion::Kind::answered);
      CHECK(told != nullptr && told->peer == 1 - rank);
      ++answers;
    };
    until([&] { return answers == 2; },
          [&] {
            look(0);
            look(1);
          });
  }
}

// The interface that was asked for is used in both directions.
TEST(a_rank_connects_from_the_address_at_which_it_listens) {
  TcpJob job(2);
  job.listeners[1] = tcp::listen_on(tcp::parse_address("127.0.0.2", 0));
  job.addresses[1] = tcp::address_of(job.listeners[1]);
  DrivenRank rank(job.fabric(1));
  CHECK(rank.fabric->connect(0) == Connect::later);
  Socket accepted = answer_at(job, 0);
  tcp::Address from;
  from.bytes = sizeof from.storage;
  CHECK(::getpeername(accepted.get(), reinterpret_cast<sockaddr*>(&from.storage), &from.bytes) == 0);
  CHECK_EQ(tcp::text_of(from).substr(0, 10), std::string("127.0.0.2:"));
}

// --- many, and late --------------------------------------------------------------------------------------------------

// As many as a large job has, all at once, before the rank to which they connect has looked.
TEST(a_crowd_of_ranks_is_accepted) {
  const Rank size = 400;
  TcpJob job(1);
  job.addresses.resize(size, job.addresses[0]);
  std::vector<std::unique_ptr<Attempt>> attempts;
  for (Rank rank = 1; rank < size; ++rank) attempts.push_back(std::make_unique<Attempt>(job, rank, 0));
  DrivenRank rank(job.fabric(0));
  const auto all = [&] {
    size_t settled = 0;
    for (const auto& attempt : attempts) {
      const Handshake::State state = attempt->handshake.advance();
      CHECK(state != Handshake::State::failed);
      settled += state == Handshake::State::settled;
    }
    return settled == attempts.size();
  };
  until(all, [&] { rank.pass(); });
  CHECK_EQ(counter(*rank.fabric, "connectionsAccepted"), size - 1.0);
  CHECK_EQ(counter(*rank.fabric, "connectionsRefused"), 0.0);
}

std::vector<Socket> silent_connections(const tcp::Address& to, size_t count, const tcp::Address* from = nullptr) {
  std::vector<Socket> made;
  for (size_t i = 0; i < count; ++i) made.push_back(tcp::begin_connect(to, tcp::kSilenceMilliseconds, from));
  return made;
}

tcp::Address loopback(const std::string& host) { return tcp::parse_address(host, 0); }

// Many more silent connections than there are places for, from the rank's own address.
TEST(silent_connections_do_not_keep_a_rank_out) {
  TcpJob job(2);
  TcpOptions options;
  options.handshake_milliseconds = 200;
  options.pending = 8;
  const tcp::Address address = job.addresses[0];
  DrivenRank ranks[2] = {DrivenRank(job.fabric(0, options)), DrivenRank(job.fabric(1, options))};
  const std::vector<Socket> before = silent_connections(address, 50);
  CHECK(ranks[1].fabric->connect(0) == Connect::later);
  const std::vector<Socket> after = silent_connections(address, 50);
  until(
      [&] {
        const Connect verdict = ranks[1].fabric->connect(0);
        CHECK(verdict == Connect::later || verdict == Connect::ready);
        return verdict == Connect::ready;
      },
      [&] {
        ranks[0].pass();
        ranks[1].pass();
      });
  until([&] { return counter(*ranks[0].fabric, "connectionsRefused") >= 100; }, [&] { ranks[0].pass(); });
}

// So many that the system's queue of both ranks is full before they look, and drops what comes.
TEST(a_full_queue_delays_the_first_contact_and_does_not_prevent_it) {
  TcpJob job(2);
  for (const Socket& listener : job.listeners) CHECK(::listen(listener.get(), 4) == 0);
  const tcp::Address addresses[2] = {job.addresses[0], job.addresses[1]};
  TcpOptions options;
  options.silence_milliseconds = 300;
  DrivenRank ranks[2] = {DrivenRank(job.fabric(0, options)), DrivenRank(job.fabric(1, options))};
  std::vector<Socket> silent[2];
  for (Rank rank = 0; rank < 2; ++rank) silent[rank] = silent_connections(addresses[rank], 100);
  // Rank 0 does not look until the first attempt has failed: the system gives it up when it repeats it after a second.
  CHECK(ranks[1].fabric->connect(0) == Connect::later);
  const auto late = Clock::now() + milliseconds(2500);
  until([&] { return Clock::now() > late; },
        [&] {
          ranks[1].pass();
          CHECK(ranks[1].fabric->connect(0) == Connect::later);
        });
  until(
      [&] {
        const Connect verdict = ranks[1].fabric->connect(0);
        CHECK(verdict == Connect::later || verdict == Connect::ready);
        return verdict == Connect::ready;
      },
      [&] {
        ranks[0].pass();
        ranks[1].pass();
      });
}

// A connection from there says nothing that this rank would listen to, and takes no place.
TEST(a_connection_from_no_address_of_a_rank_is_closed_at_once) {
  TcpJob job(2);
  const tcp::Address address = job.addresses[0];
  DrivenRank rank(job.fabric(0));
  const tcp::Address elsewhere = loopback("127.0.0.9");
  const std::vector<Socket> other = silent_connections(address, 1, &elsewhere);
  until([&] { return counter(*rank.fabric, "connectionsRefused") == 1; }, [&] { rank.pass(); });
  tcp::Challenge challenge;
  ssize_t got = -1;
  until([&] { return (got = ::recv(other[0].get(), &challenge, sizeof challenge, 0)) >= 0 || errno != EAGAIN; }, [] {});
  CHECK(got <= 0);
}

// Where ranks have addresses of both families nobody knows from which address some of them connect.
TEST(a_rank_of_the_other_family_is_accepted_from_any_address) {
  TcpJob job(2);
  job.addresses[1] = tcp::parse_address("::1", 4711);
  DrivenRank rank(job.fabric(0));
  const tcp::Address elsewhere = loopback("127.0.0.9");
  Attempt attempt(job, 1, 0, &elsewhere);
  until([&] { return attempt.settled(); }, [&] { rank.pass(); });
  CHECK(attempt.handshake.verdict() == tcp::Verdict::accepted);
}

// All places of one address are taken for long, and a rank of another address connects at once.
TEST(each_address_has_places_of_its_own) {
  TcpJob job(3);
  job.listeners[1] = tcp::listen_on(loopback("127.0.0.2"));
  job.addresses[1] = tcp::address_of(job.listeners[1]);
  TcpOptions options;
  options.pending = 2;
  options.grace_milliseconds = options.handshake_milliseconds = 3'600'000;
  const tcp::Address address = job.addresses[0];
  DrivenRank ranks[2] = {DrivenRank(job.fabric(0, options)), DrivenRank(job.fabric(1, options))};
  const std::vector<Socket> silent = silent_connections(address, 50);
  // One place of those that are shared, and two for each of the ranks 0 and 2.
  until([&] { return counter(*ranks[0].fabric, "connectionsRefused") == 45; }, [&] { ranks[0].pass(); });
  until([&] { return ranks[1].fabric->connect(0) == Connect::ready; },
        [&] {
          ranks[0].pass();
          ranks[1].pass();
        });
  CHECK_EQ(counter(*ranks[0].fabric, "connectionsRefused"), 45.0);
}

// Something listens at the address of a rank that has died, and says nothing.
TEST(a_silent_listener_is_given_up_and_the_error_counts_refused_connections) {
  TcpJob job(2);
  TcpOptions options;
  options.connect_milliseconds = 200;
  const tcp::Address address = job.addresses[0];
  DrivenRank rank(job.fabric(0, options));
  const tcp::Address elsewhere = loopback("127.0.0.9");
  const std::vector<Socket> other = silent_connections(address, 2, &elsewhere);
  until([&] { return counter(*rank.fabric, "connectionsRefused") == 2; }, [&] { rank.pass(); });
  CHECK(rank.fabric->connect(1) == Connect::later);
  until([&] { return rank.fabric->connect(1) != Connect::later; }, [&] { rank.pass(); });
  CHECK(rank.fabric->connect(1) == Connect::broken);
  const std::string why = rank.fabric->why(1);
  CHECK(why.find("did not answer within 200 ms") != std::string::npos);
  CHECK(why.find("refused 2 connections") != std::string::npos);
  CHECK(why.find("the last from 127.0.0.9:") != std::string::npos);
}

// The time of a peer passes while this rank does not look: that is not the peer's fault.
TEST(a_rank_that_did_not_look_gives_its_peer_more_time) {
  TcpJob job(2);
  TcpOptions options;
  options.connect_milliseconds = 50;
  DrivenRank ranks[2] = {DrivenRank(job.fabric(0, options)), DrivenRank(job.fabric(1, options))};
  CHECK(ranks[1].fabric->connect(0) == Connect::later);
  const auto late = Clock::now() + milliseconds(1500);
  until([&] { return Clock::now() > late; }, [] {});
  ranks[1].pass();
  CHECK(ranks[1].fabric->connect(0) == Connect::later);
  until([&] { return ranks[1].fabric->connect(0) == Connect::ready; },
        [&] {
          ranks[0].pass();
          ranks[1].pass();
        });
}

// One look takes so many events, of which none may be a message. The others are not announced a second time, so the
// thread that looked must know of them.
TEST(more_at_once_than_a_look_takes_are_not_forgotten) {
  TcpJob job(2);
  const tcp::Address address = job.addresses[0];
  DrivenRank rank(job.fabric(0));
  std::vector<Socket> silent = silent_connections(address, 50);
  tcp::Challenge challenge;
  for (const Socket& each : silent) {
    until([&] { return ::recv(each.get(), &challenge, sizeof challenge, MSG_DONTWAIT) == sizeof challenge; },
          [&] { rank.pass(); });
  }
  until([&] { return !rank.fabric->called(); }, [&] { rank.pass(); });
  silent.clear();
  rank.pass();
  while (counter(*rank.fabric, "connectionsRefused") < 50) {
    CHECK(rank.fabric->called());
    rank.pass();
  }
}

// A rank that computes for longer than a pending connection may be silent.
TEST(a_rank_that_answers_late_is_accepted) {
  TcpJob job(2);
  TcpOptions options;
  options.handshake_milliseconds = 50;
  DrivenRank ranks[2] = {DrivenRank(job.fabric(0, options)), DrivenRank(job.fabric(1, options))};
  CHECK(ranks[1].fabric->connect(0) == Connect::later);
  until([&] { return counter(*ranks[0].fabric, "connectionsRefused") == 1; }, [&] { ranks[0].pass(); });
  until([&] { return ranks[1].fabric->connect(0) != Connect::later; },
        [&] {
          ranks[1].pass();
          ranks[0].pass();
        });
  CHECK(ranks[1].fabric->connect(0) == Connect::ready);
}

// A rank that computes does not look at who has answered meanwhile.
TEST(an_answer_that_is_there_counts_however_late_it_is_read) {
  TcpJob job(2);
  TcpOptions options;
  options.handshake_milliseconds = 50;
  Attempt attempt(job, 1, 0);
  DrivenRank rank(job.fabric(0, options));
  rank.pass();
  const auto late = Clock::now() + milliseconds(100);
  until([&] { return Clock::now() > late; }, [] {});
  attempt.handshake.advance();
  CHECK(!attempt.handshake.blocked() && attempt.handshake.state() == Handshake::State::in_progress);
  until([&] { return attempt.settled(); }, [&] { rank.pass(); });
  CHECK(attempt.handshake.verdict() == tcp::Verdict::accepted);
}

// It runs out of descriptors for a while: ranks that connect meanwhile are accepted afterwards, and no thread spins.
TEST(without_descriptors_connections_wait) {
  TcpJob job(2);
  DrivenRank rank(job.fabric(0));
  Attempt attempt(job, 1, 0);
  std::optional<NoDescriptors> none(next_descriptor());
  for (int i = 0; i < 10; ++i) rank.pass();
  rank.fabric->arm(Sleeper::caller, 0);
  rank.fabric->sleep(Sleeper::caller, 0, 1'000'000);
  const bool spins = !rank.fabric->is_armed();
  rank.fabric->disarm();
  none.reset();
  CHECK(!spins);
  until([&] { return attempt.settled(); }, [&] { rank.pass(); });
  CHECK(attempt.handshake.verdict() == tcp::Verdict::accepted);
}

// The same for a rank that connects: it is no error, and it connects when there is a descriptor again.
TEST(without_descriptors_a_rank_connects_later) {
  TcpJob job(2);
  DrivenRank ranks[2] = {DrivenRank(job.fabric(0)), DrivenRank(job.fabric(1))};
  std::optional<NoDescriptors> none(next_descriptor());
  Connect verdict = ranks[1].fabric->connect(0);
  for (int i = 0; i < 10; ++i) {
    ranks[1].pass();
    if (verdict == Connect::later) verdict = ranks[1].fabric->connect(0);
  }
  ranks[1].fabric->arm(Sleeper::caller, 0);
  ranks[1].fabric->sleep(Sleeper::caller, 0, 1'000'000);
  const bool spins = !ranks[1].fabric->is_armed();
  ranks[1].fabric->disarm();
  none.reset();
  CHECK(verdict == Connect::later);
  CHECK(!spins);
  until([&] { return ranks[1].fabric->connect(0) == Connect::ready; },
        [&] {
          ranks[0].pass();
          ranks[1].pass();
        });
}

// A shortage that does not pass is told apart from a peer that cannot be reached.
TEST(without_descriptors_for_long_a_rank_says_so) {
  TcpJob job(2);
  TcpOptions options;
  options.connect_milliseconds = 500;
  DrivenRank rank(job.fabric(1, options));
  std::optional<NoDescriptors> none(next_descriptor());
  Connect verdict = Connect::later;
  until([&] { return (verdict = rank.fabric->connect(0)) != Connect::later; }, [&] { rank.pass(); });
  none.reset();
  CHECK(verdict == Connect::exhausted);
  CHECK(rank.fabric->why(0).find("again and again for 500 ms") != std::string::npos);
}

// --- peers that vanish -----------------------------------------------------------------------------------------------

// The peer said that its own connection comes, and died.
TEST(a_peer_that_promised_to_connect_and_died_is_closed) {
  TcpJob job(2);
  TcpOptions options;
  options.handshake_milliseconds = 50;
  DrivenRank rank(job.fabric(1, options));
  CHECK(rank.fabric->connect(0) == Connect::later);
  const Identity identity{job.key, 0, 2, 255};
  {
    Socket accepted = answer_at(job, 0);
    Handshake handshake(std::move(accepted), identity);
    until([&] { return handshake.advance() == Handshake::State::proven; }, [&] { rank.pass(); });
    CHECK(handshake.decide(tcp::Verdict::simultaneous_open) == Handshake::State::settled);
  }
  rank.pass();
  job.listeners[0].reset();
  until([&] { return rank.fabric->connect(0) != Connect::later; }, [&] { rank.pass(); });
  CHECK(rank.fabric->connect(0) == Connect::closed);
}

// It was closing its world while this rank connected.
TEST(a_peer_that_closes_amid_a_handshake_is_closed) {
  TcpJob job(2);
  DrivenRank rank(job.fabric(1));
  CHECK(rank.fabric->connect(0) == Connect::later);
  const Identity identity{job.key, 0, 2, 255};
  Socket accepted = answer_at(job, 0);
  {
    Handshake handshake(std::move(accepted), identity);
    until([&] { return handshake.advance() == Handshake::State::proven; }, [&] { rank.pass(); });
  }
  job.listeners[0].reset();
  until([&] { return rank.fabric->connect(0) != Connect::later; }, [&] { rank.pass(); });
  CHECK(rank.fabric->connect(0) == Connect::closed);
}

// A forwarder whose rank is gone, for example: it accepts each connection, and closes it when it has found no rank.
TEST(what_cuts_off_every_attempt_is_no_rank) {
  TcpJob job(2);
  const Socket forwarder = std::move(job.listeners[1]);
  TcpOptions options;
  options.connect_milliseconds = 500;
  DrivenRank rank(job.fabric(0, options));
  std::vector<std::pair<Socket, Clock::time_point>> accepted_ones;
  int attempts = 0;
  until([&] { return rank.fabric->connect(1) != Connect::later; },
        [&] {
          rank.pass();
          Socket accepted(::accept4(forwarder.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
          if (accepted) {
            ++attempts;
            accepted_ones.emplace_back(std::move(accepted), Clock::now() + milliseconds(30));
          }
          while (!accepted_ones.empty() && accepted_ones.front().second < Clock::now())
            accepted_ones.erase(accepted_ones.begin());
        });
  CHECK(rank.fabric->connect(1) == Connect::broken);
  CHECK(rank.fabric->why(1).find("again and again for 500 ms") != std::string::npos ||
        rank.fabric->why(1).find("did not answer within 500 ms") != std::string::npos);
  CHECK(attempts > 1);
}

// It answered, and its connection broke before it was told that it is accepted. It was to take the place of our own.
TEST(a_peer_that_vanished_while_it_was_accepted_is_closed) {
  TcpJob job(2);
  TcpOptions options;
  options.handshake_milliseconds = 50;
  DrivenRank rank(job.fabric(1, options));
  Attempt attempt(job, 0, 1);
  rank.pass();
  CHECK(rank.fabric->connect(0) == Connect::later);
  until([&] { return attempt.handshake.advance() == Handshake::State::in_progress && !attempt.handshake.connecting(); },
        [&] { rank.pass(); });
  // The answer is on its way, unread.
  const linger at_once{1, 0};
  CHECK(setsockopt(attempt.handshake.socket().get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once) == 0);
  attempt.handshake.take_socket().reset();
  job.listeners[0].reset();
  until([&] { return rank.fabric->connect(0) != Connect::later; }, [&] { rank.pass(); });
  if (rank.fabric->connect(0) == Connect::ready)
    until([&] { return rank.find(Completion::Kind::broken) != nullptr; }, [&] { rank.pass(); });
  CHECK(rank.fabric->connect(0) == Connect::closed);
}

// It had tried before us, and failed. A process that claims the number of a connected rank gets another answer.
TEST(a_rank_that_has_given_up_says_so) {
  TcpJob job(2);
  job.listeners[1].reset();
  DrivenRank ranks[2] = {DrivenRank(job.fabric(0)), DrivenRank(nullptr)};
  until([&] { return ranks[0].fabric->connect(1) != Connect::later; }, [&] { ranks[0].pass(); });
  job.listeners[1] = tcp::listen_on(tcp::parse_address("127.0.0.1", 0));
  ranks[1].fabric = job.fabric(1);
  until([&] { return ranks[1].fabric->connect(0) != Connect::later; },
        [&] {
          ranks[0].pass();
          ranks[1].pass();
        });
  CHECK(ranks[1].fabric->connect(0) == Connect::broken);
  CHECK(ranks[1].fabric->why(0).find("tried to connect to this rank itself") != std::string::npos);
  Attempt again(job, 1, 0);
  until([&] { return again.settled(); }, [&] { ranks[0].pass(); });
  CHECK(again.handshake.verdict() == tcp::Verdict::gave_up);
}

// Nobody listens at a port of the range that the system takes ports for connections from, and the system took that one:
// we are connected to ourselves.
TEST(a_connection_to_oneself_is_none) {
  const Identity identity{"of this test", 0, 2, 255};
  Socket socket(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const tcp::Address any = tcp::parse_address("127.0.0.1", 0);
  CHECK(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&any.storage), any.bytes) == 0);
  const tcp::Address own = tcp::address_of(socket);
  CHECK(::connect(socket.get(), reinterpret_cast<const sockaddr*>(&own.storage), own.bytes) == 0 ||
        errno == EINPROGRESS);
  Handshake handshake(std::move(socket), identity, 1);
  until([&] { return handshake.advance() == Handshake::State::failed; }, [] {});
  CHECK_EQ(handshake.error(), ECONNREFUSED);
}

// A peer that does not read for long is slow, and not gone.
TEST(a_peer_that_does_not_read_is_waited_for) {
  TcpOptions options;
  options.silence_milliseconds = 200;
  ScriptedPeer scene(options);
  std::vector<std::byte> from(size_t{32} << 20);
  int cookie = 0;
  scene.rank.fabric->put(1, {0, 1 << 20, nullptr}, {from.data(), from.size(), nullptr}, 1, Error::none, &cookie);
  const auto end = Clock::now() + milliseconds(3000);
  until([&] { return Clock::now() > end; }, [&] { scene.rank.pass(); });
  CHECK(scene.rank.seen.empty());
  std::vector<std::byte> into(size_t{1} << 20);
  const auto read = [&] { static_cast<void>(!::recv(scene.peer.get(), into.data(), into.size(), MSG_DONTWAIT)); };
  until([&] { return !scene.rank.seen.empty(); },
        [&] {
          read();
          scene.rank.pass();
        });
  CHECK(scene.rank.seen[0].cookie == &cookie && scene.rank.seen[0].error == Error::none);
}

// A peer whose machine acknowledges nothing any more: a filter drops what comes to it.
TEST(a_peer_whose_machine_is_gone_is_unreachable) {
  for (const size_t bytes : {size_t{100}, size_t{32} << 20}) {
    TcpOptions options;
    options.silence_milliseconds = 200;
    ScriptedPeer scene(options);
    sock_filter nothing{BPF_RET | BPF_K, 0, 0, 0};
    const sock_fprog program{1, &nothing};
    CHECK(setsockopt(scene.peer.get(), SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) == 0);
    std::vector<std::byte> from(bytes);
    scene.rank.fabric->put(1, {0, 1 << 20, nullptr}, {from.data(), from.size(), nullptr}, 1, Error::none, nullptr);
    until([&] { return scene.rank.find(Completion::Kind::broken) != nullptr; }, [&] { scene.rank.pass(); });
    CHECK(scene.rank.find(Completion::Kind::broken)->error == Error::unreachable);
    CHECK(scene.rank.fabric->why(1).find("does not answer") != std::string::npos);
  }
}

// --- hostile bytes ---------------------------------------------------------------------------------------------------

TEST(frames_may_be_split_anywhere) {
  ScriptedPeer scene;
  std::vector<std::byte> to(40);
  std::string data(40, 'd');
  ExposedBuffer exposed;
  const auto talk = [&] {
    return bytes_of({FrameKind::message, 8, 7, 0, tcp::inbox_bytes(255) - 8}, "messages") +
           bytes_of({FrameKind::data, 16, 0, exposed.key, 0}, data.substr(0, 16)) +
           bytes_of({FrameKind::message, 4, 8, 0, 0}, "more") +
           bytes_of({FrameKind::data, 24, 0, exposed.key, 16}, data.substr(16)) +
           bytes_of({FrameKind::done, 0, 9, exposed.key, 40}) +
           bytes_of({FrameKind::failed, 0, 10, static_cast<uint32_t>(Error::truncated), 5});
  };
  const size_t length = talk().size();
  for (size_t split = 0; split <= length; ++split) {
    CHECK(scene.rank.fabric->expose(1, {to.data(), to.size(), nullptr}, exposed));
    std::fill(to.begin(), to.end(), std::byte{0});
    scene.rank.seen.clear();
    const std::string text = talk();
    const double before = counter(*scene.rank.fabric, "bytesReceived");
    scene.say(text.data(), split);
    until([&] { return counter(*scene.rank.fabric, "bytesReceived") == before + static_cast<double>(split); },
          [&] { scene.rank.pass(); });
    scene.say(text.data() + split, length - split);
    until([&] { return scene.rank.seen.size() >= 4; }, [&] { scene.rank.pass(); });
    for (uint32_t i = 0; i < 4; ++i) CHECK_EQ(scene.rank.seen[i].immediate, 7 + i);
    CHECK_EQ(std::memcmp(to.data(), data.data(), data.size()), 0);
    std::byte* const inbox = scene.rank.fabric->inbox(1).control;
    CHECK_EQ(std::memcmp(inbox, "more", 4), 0);
    CHECK_EQ(std::memcmp(inbox + tcp::inbox_bytes(255) - 8, "messages", 8), 0);
    std::memset(inbox + tcp::inbox_bytes(255) - 8, 0, 8);
    scene.rank.fabric->conceal(1, exposed);
  }
}

// What has no room in the buffer of the connection is read straight into its slot. Nobody hears of it before all is
// there.
TEST(a_long_message_may_come_in_pieces) {
  TcpOptions options;
  options.eager_limit = 32 * 1024;
  ScriptedPeer scene(options);
  Random random(1);
  std::string payload(options.eager_limit + 40, ' ');
  for (char& byte : payload) byte = static_cast<char>(random.below(256));
  const std::byte* const slots = scene.rank.fabric->inbox(1).slots;
  for (const size_t piece : {size_t{1000}, size_t{16 * 1024}, size_t{30'000}, size_t{40'000}}) {
    for (uint32_t slot = 0; slot < 8; ++slot) {
      const size_t at = slot * (payload.size() + 24);
      const std::string text =
          bytes_of({FrameKind::message, static_cast<uint32_t>(payload.size()), 7, 0, kControlBytes + at}, payload) +
          bytes_of({FrameKind::message, 4, 8, 0, 0}, "more");
      scene.rank.seen.clear();
      for (size_t begin = 0; begin < text.size(); begin += piece) {
        if (begin < payload.size()) CHECK(scene.rank.seen.empty());
        scene.say(text.data() + begin, std::min(piece, text.size() - begin));
        scene.rank.pass();
      }
      until([&] { return scene.rank.seen.size() == 2; }, [&] { scene.rank.pass(); });
      for (uint32_t i = 0; i < 2; ++i) CHECK_EQ(scene.rank.seen[i].immediate, 7 + i);
      CHECK_EQ(std::memcmp(slots + at, payload.data(), payload.size()), 0);
    }
  }
}

// Memory that is withdrawn in the middle of a frame is not written any more, and the connection goes on.
TEST(memory_that_is_concealed_amid_a_frame_stays_as_it_is) {
  ScriptedPeer scene;
  std::vector<std::byte> to(100'000, std::byte{0});
  ExposedBuffer exposed;
  CHECK(scene.rank.fabric->expose(1, {to.data(), to.size(), nullptr}, exposed));
  const std::string text = bytes_of({FrameKind::data, 100'000, 0, exposed.key, 0}, std::string(100'000, 'x'));
  scene.say(text.data(), 50'000);
  until([&] { return to[100] == std::byte{'x'}; }, [&] { scene.rank.pass(); });
  scene.rank.fabric->conceal(1, exposed);
  std::fill(to.begin(), to.end(), std::byte{0});
  scene.say(text.data() + 50'000, text.size() - 50'000);
  const std::string message = bytes_of({FrameKind::message, 4, 7, 0, 0}, "more");
  scene.say(message.data(), message.size());
  until([&] { return scene.rank.find(Completion::Kind::message) != nullptr; }, [&] { scene.rank.pass(); });
  for (const std::byte byte : to) CHECK(byte == std::byte{0});
  // A new exposure of the same memory has another key. Data for the old one are dropped, and the connection goes on.
  const uint32_t old = exposed.key;
  CHECK(scene.rank.fabric->expose(1, {to.data(), to.size(), nullptr}, exposed));
  CHECK(exposed.key != old);
  scene.rank.seen.clear();
  const std::string late =
      bytes_of({FrameKind::data, 4, 0, old, 0}, "late") + bytes_of({FrameKind::done, 0, 9, old, 4}) + message;
  scene.say(late.data(), late.size());
  until([&] { return scene.rank.find(Completion::Kind::message) != nullptr; }, [&] { scene.rank.pass(); });
  for (const std::byte byte : to) CHECK(byte == std::byte{0});
  // The immediate value is told: the operation that it names has ended, and LibOF knows that.
  CHECK(scene.rank.find(Completion::Kind::immediate) != nullptr);
  CHECK(scene.rank.find(Completion::Kind::broken) == nullptr);
}

// The peer stops in the middle of a frame, and meanwhile the key of its region comes again for a smaller one.
TEST(the_rest_of_a_frame_does_not_belong_to_a_later_region_with_the_same_key) {
  ScriptedPeer scene;
  constexpr size_t kSmall = 100;
  std::vector<std::byte> to(100'000, std::byte{0});
  ExposedBuffer first;
  CHECK(scene.rank.fabric->expose(1, {to.data(), to.size(), nullptr}, first));
  const std::string text = bytes_of({FrameKind::data, 100'000, 0, first.key, 0}, std::string(100'000, 'x'));
  scene.say(text.data(), 50'000);
  until([&] { return to[100] == std::byte{'x'}; }, [&] { scene.rank.pass(); });
  until([&] { return counter(*scene.rank.fabric, "bytesReceived") == 50'000; }, [&] { scene.rank.pass(); });
  scene.rank.fabric->conceal(1, first);
  std::fill(to.begin(), to.end(), std::byte{0});
  ExposedBuffer again;
  for (uint32_t exposures = 0;; ++exposures) {
    CHECK(exposures < 1u << 22);
    CHECK(scene.rank.fabric->expose(1, {to.data(), kSmall, nullptr}, again));
    if (again.key == first.key) break;
    scene.rank.fabric->conceal(1, again);
  }
  const std::string message = bytes_of({FrameKind::message, 4, 7, 0, 0}, "more");
  scene.say(text.data() + 50'000, text.size() - 50'000);
  scene.say(message.data(), message.size());
  until([&] { return scene.rank.find(Completion::Kind::message) != nullptr; }, [&] { scene.rank.pass(); });
  for (const std::byte byte : to) CHECK(byte == std::byte{0});
}

// Each ends the connection before anything behind it is believed.
TEST(frames_that_make_no_sense_end_the_connection) {
  const uint32_t slots = tcp::inbox_bytes(255);
  for (const FrameHeader& wrong : std::vector<FrameHeader>{
           {static_cast<FrameKind>(0), 0, 0, 0, 0},
           {static_cast<FrameKind>(6), 0, 0, 0, 0},
           {FrameKind::message, UINT32_MAX, 0, 0, 0},
           {FrameKind::message, 255 + kCommitHead + 1, 0, 0, kControlBytes},
           {FrameKind::message, 1, 0, 0, slots},
           {FrameKind::message, 2, 0, 0, slots - 1},
           {FrameKind::message, 1, 0, 0, UINT64_MAX},
           {FrameKind::message, 2, 0, 0, UINT64_MAX},
           {FrameKind::message, 2, 0, 0, kControlBytes - 1},
           {FrameKind::message, 0, 1u << kImmediateBits, 0, 0},
           {FrameKind::data, 0, 0, 1 << 20, 0},
           {FrameKind::data, 101, 0, 1 << 20, 0},
           {FrameKind::data, 1, 0, 1 << 20, 1},
           {FrameKind::data, 1, 0, 1 << 20, UINT64_MAX},
           {FrameKind::data, tcp::kLargestData + 1, 0, 1 << 20, 0},
           {FrameKind::data, 1, 0, 0, 0},
           {FrameKind::data, 1, 0, 2 << 20, 0},
           {FrameKind::data, 1, 0, (1 << 20) + 1, 0},
           {FrameKind::done, 1, 0, 0, 0},
           {FrameKind::done, 0, 1u << kImmediateBits, 0, 0},
           {FrameKind::done, 0, 0, 1 << 20, 100},
           {FrameKind::done, 0, 0, 1 << 20, 1},
           {FrameKind::done, 0, 0, 0, 100},
           {FrameKind::failed, 0, 0, 0, 0},
           {FrameKind::failed, 0, 0, UINT32_MAX, 0},
           {FrameKind::closed, 1, 0, 0, 0},
       }) {
    ScriptedPeer scene;
    std::vector<std::byte> to(100, std::byte{2});
    ExposedBuffer exposed;
    CHECK(scene.rank.fabric->expose(1, {to.data(), to.size(), nullptr}, exposed));
    CHECK_EQ(exposed.key, 1u << 20);
    const std::string text = bytes_of(wrong, std::string(200, 'x'));
    scene.say(text.data(), text.size());
    until([&] { return scene.rank.find(Completion::Kind::broken) != nullptr; }, [&] { scene.rank.pass(); });
    CHECK_EQ(scene.rank.seen.size(), 1u);
    CHECK(scene.rank.find(Completion::Kind::broken)->error == Error::unreachable);
    for (const std::byte byte : to) CHECK(byte == std::byte{2});
    CHECK(scene.rank.fabric->connect(1) == Connect::broken);
  }
}

// The receiver must not take the data for complete.
TEST(the_end_of_data_of_which_a_part_is_missing_ends_the_connection) {
  ScriptedPeer scene;
  std::vector<std::byte> to(100);
  ExposedBuffer exposed;
  CHECK(scene.rank.fabric->expose(1, {to.data(), to.size(), nullptr}, exposed));
  const std::string text = bytes_of({FrameKind::data, 60, 0, exposed.key, 0}, std::string(60, 'x')) +
                           bytes_of({FrameKind::done, 0, 9, exposed.key, 100});
  scene.say(text.data(), text.size());
  until([&] { return scene.rank.find(Completion::Kind::broken) != nullptr; }, [&] { scene.rank.pass(); });
  CHECK(scene.rank.find(Completion::Kind::immediate) == nullptr);
}

// A key is good for the rank that it was given to, and for no other.
TEST(memory_exposed_to_another_rank_is_not_written) {
  ScriptedPeer scene;
  std::vector<std::byte> to(100, std::byte{2});
  ExposedBuffer exposed;
  CHECK(scene.rank.fabric->expose(0, {to.data(), to.size(), nullptr}, exposed));
  const std::string text = bytes_of({FrameKind::data, 100, 0, exposed.key, 0}, std::string(100, 'x'));
  scene.say(text.data(), text.size());
  until([&] { return scene.rank.find(Completion::Kind::broken) != nullptr; }, [&] { scene.rank.pass(); });
  for (const std::byte byte : to) CHECK(byte == std::byte{2});
}

TEST(a_reset_amid_a_frame_ends_what_was_under_way) {
  ScriptedPeer scene;
  std::vector<std::byte> from(size_t{32} << 20);
  std::vector<std::byte> to(1000);
  ExposedBuffer exposed;
  CHECK(scene.rank.fabric->expose(1, {to.data(), to.size(), nullptr}, exposed));
  int cookie = 0;
  scene.rank.fabric->put(1, {0, 1 << 20, nullptr}, {from.data(), from.size(), nullptr}, 1, Error::none, &cookie);
  const std::string text = bytes_of({FrameKind::message, 4, 7, 0, 0}, "more") +
                           bytes_of({FrameKind::data, 1000, 0, exposed.key, 0}, std::string(10, 'x'));
  scene.say(text.data(), text.size());
  scene.rank.pass();
  const linger at_once{1, 0};
  CHECK(setsockopt(scene.peer.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once) == 0);
  scene.peer.reset();
  until([&] { return scene.rank.find(Completion::Kind::broken) != nullptr; }, [&] { scene.rank.pass(); });
  // What arrived, the put, the end: in this order.
  CHECK_EQ(scene.rank.seen.size(), 3u);
  CHECK(scene.rank.seen[0].kind == Completion::Kind::message);
  CHECK(scene.rank.seen[1].kind == Completion::Kind::put_done && scene.rank.seen[1].error == Error::peer_closed);
  CHECK(scene.rank.seen[1].cookie == &cookie);
  CHECK(scene.rank.seen[2].error == Error::peer_closed);
}

// --- proofs ----------------------------------------------------------------------------------------------------------

void exactly(const Socket& from, void* into, size_t bytes, const std::function<void()>& pass) {
  size_t have = 0;
  until([&] { return have == bytes; },
        [&] {
          pass();
          const ssize_t got = ::recv(from.get(), static_cast<std::byte*>(into) + have, bytes - have, MSG_DONTWAIT);
          if (got > 0) have += static_cast<size_t>(got);
        });
}

// A process without the key sends to a rank what the rank itself has said.
TEST(proofs_hold_for_one_connection_and_one_side) {
  TcpJob job(2);
  const tcp::Address address = job.addresses[0];
  const Socket pretender = std::move(job.listeners[1]);
  DrivenRank rank(job.fabric(0));
  const auto pass = [&] { rank.pass(); };
  // It calls us; we call it, at its own number.
  CHECK(rank.fabric->connect(1) == Connect::later);
  Socket ours;
  until([&] { return static_cast<bool>(ours); },
        [&] { ours = Socket(::accept4(pretender.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC)); });
  const Socket theirs = tcp::begin_connect(address);
  tcp::Challenge challenge;
  exactly(theirs, &challenge, sizeof challenge, pass);
  CHECK(::send(ours.get(), &challenge, sizeof challenge, MSG_NOSIGNAL) == sizeof challenge);
  tcp::Answer answer;
  exactly(ours, &answer, sizeof answer, pass);
  // The rank's own answer to the rank's own challenge, as it is and with the ranks exchanged.
  CHECK(::send(theirs.get(), &answer, sizeof answer, MSG_NOSIGNAL) == sizeof answer);
  until([&] { return counter(*rank.fabric, "connectionsRefused") == 1; }, pass);
  std::swap(answer.from, answer.to);
  const Socket again = tcp::begin_connect(address);
  exactly(again, &challenge, sizeof challenge, pass);
  CHECK(::send(again.get(), &answer, sizeof answer, MSG_NOSIGNAL) == sizeof answer);
  until([&] { return counter(*rank.fabric, "connectionsRefused") == 2; }, pass);
  // Its proof as our verdict.
  tcp::Reply reply{tcp::Verdict::accepted, 255, answer.proof};
  CHECK(::send(ours.get(), &reply, sizeof reply, MSG_NOSIGNAL) == sizeof reply);
  until([&] { return rank.fabric->connect(1) != Connect::later; }, pass);
  CHECK(rank.fabric->connect(1) == Connect::broken);
  CHECK(rank.fabric->why(1).find("does not know the key") != std::string::npos);
  CHECK_EQ(counter(*rank.fabric, "connectionsAccepted"), 0.0);
}

// A good answer, recorded and sent once more on another connection.
TEST(an_answer_cannot_be_replayed) {
  TcpJob job(2);
  const tcp::Address address = job.addresses[0];
  DrivenRank rank(job.fabric(0));
  const auto pass = [&] { rank.pass(); };
  tcp::Challenge challenge;
  tcp::Answer answer{1, 0, 2, 255, {}, {}};
  const auto answered = [&](const Socket& socket) {
    CHECK(::send(socket.get(), &answer, sizeof answer, MSG_NOSIGNAL) == sizeof answer);
  };
  const Socket first = tcp::begin_connect(address);
  exactly(first, &challenge, sizeof challenge, pass);
  std::string said = "node-nbc connector";
  said.append(reinterpret_cast<const char*>(&challenge), sizeof challenge);
  said.append(reinterpret_cast<const char*>(&answer), offsetof(tcp::Answer, proof));
  answer.proof = tcp::hmac_sha256(job.key, said);
  const Socket second = tcp::begin_connect(address);
  tcp::Challenge other;
  exactly(second, &other, sizeof other, pass);
  CHECK(challenge.nonce != other.nonce);
  answered(second);
  until([&] { return counter(*rank.fabric, "connectionsRefused") == 1; }, pass);
  CHECK_EQ(counter(*rank.fabric, "connectionsAccepted"), 0.0);
  answered(first);
  until([&] { return counter(*rank.fabric, "connectionsAccepted") == 1; }, pass);
}

}  // namespace

TEST_MAIN(300)
