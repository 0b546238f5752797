// The TCP fabric among peers that are hostile, half-broken, late or too many. Where a peer has to misbehave this test
// plays it by hand: with Handshake, which knows the secret, and bytes of its own behind that.
#include <cerrno>
#include <chrono>
#include <functional>
#include <linux/filter.h>
#include <netinet/in.h>
#include <sys/resource.h>

#include "fabric/tcp/frame.h"
#include "fabric/tcp/handshake.h"
#include "test/check.h"
#include "test/fabrics.h"
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
struct Resident {
  explicit Resident(std::unique_ptr<TcpFabric> made) : fabric(std::move(made)) {}
  void pass() { pass_once(*fabric, seen); }
  const Completion* find(Completion::Kind kind) const { return find_first(seen, kind); }
  std::unique_ptr<TcpFabric> fabric;
  std::vector<Completion> seen;
};

// The next that calls the rank, which this test plays.
Socket answer_at(const Town& town, Rank rank) {
  Socket accepted;
  until([&] { return static_cast<bool>(accepted); },
        [&] { accepted = Socket(::accept4(town.listeners[rank].get(), nullptr, nullptr, SOCK_CLOEXEC)); });
  return accepted;
}

// Somebody who knows the secret of a town, and calls one of its ranks.
struct Caller {
  Caller(const Town& town, Rank rank, Rank callee)
      : identity{town.secret, rank, static_cast<Rank>(town.addresses.size()), 255},
        handshake(tcp::begin_connect(town.addresses[callee]), identity, callee) {}
  bool settled() { return handshake.advance() == Handshake::State::settled; }
  Identity identity;
  Handshake handshake;
};

// Rank 0 of a town, and rank 1 played by hand, connected.
struct Stage {
  explicit Stage(const TcpOptions& options = {}) : town(2), rank(town.fabric(0, options)) {
    Caller caller(town, 1, 0);
    until([&] { return caller.settled(); }, [&] { rank.pass(); });
    peer = caller.handshake.take_socket();
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
  Town town;
  Resident rank;
  Socket peer;
};

std::string bytes_of(const FrameHeader& header, const std::string& payload = "") {
  return std::string(reinterpret_cast<const char*>(&header), sizeof header) + payload;
}

// Whoever asked may have looked for the last time before it sleeps; what it waits for then comes from poll() or not at
// all.
TEST(who_asks_for_a_connection_is_told_when_there_is_an_answer) {
  for (const bool equal : {true, false}) {
    Town town(2);
    TcpOptions other;
    other.eager_limit = equal ? 255 : 256;
    Resident ranks[2] = {Resident(town.fabric(0)), Resident(town.fabric(1, other))};
    int answers = 0;
    const auto look = [&](Rank rank) {
      Resident& resident = ranks[rank];
      if (resident.fabric->connect(1 - rank) != Connect::later) return;
      resident.pass();
      if (resident.fabric->connect(1 - rank) == Connect::later) return;
      const Completion* told = resident.find(Completion::Kind::answered);
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
TEST(a_rank_calls_from_the_address_at_which_it_listens) {
  Town town(2);
  town.listeners[1] = tcp::listen_on(tcp::parse_address("127.0.0.2", 0));
  town.addresses[1] = tcp::address_of(town.listeners[1]);
  Resident rank(town.fabric(1));
  CHECK(rank.fabric->connect(0) == Connect::later);
  Socket accepted = answer_at(town, 0);
  tcp::Address from;
  from.bytes = sizeof from.storage;
  CHECK(::getpeername(accepted.get(), reinterpret_cast<sockaddr*>(&from.storage), &from.bytes) == 0);
  CHECK_EQ(tcp::text_of(from).substr(0, 10), std::string("127.0.0.2:"));
}

// --- many, and late --------------------------------------------------------------------------------------------------

// As many as a large job has, all at once, before the one they call has looked.
TEST(a_crowd_of_ranks_is_let_in) {
  const Rank size = 400;
  Town town(1);
  town.addresses.resize(size, town.addresses[0]);
  std::vector<std::unique_ptr<Caller>> callers;
  for (Rank rank = 1; rank < size; ++rank) callers.push_back(std::make_unique<Caller>(town, rank, 0));
  Resident rank(town.fabric(0));
  const auto all = [&] {
    size_t settled = 0;
    for (const auto& caller : callers) {
      const Handshake::State state = caller->handshake.advance();
      CHECK(state != Handshake::State::failed);
      settled += state == Handshake::State::settled;
    }
    return settled == callers.size();
  };
  until(all, [&] { rank.pass(); });
  CHECK_EQ(counter(*rank.fabric, "connectionsAccepted"), size - 1.0);
  CHECK_EQ(counter(*rank.fabric, "connectionsRefused"), 0.0);
}

// Many more than there are places for, and none of them says anything.
TEST(strangers_do_not_push_a_rank_out) {
  Town town(2);
  TcpOptions options;
  options.handshake_milliseconds = 200;
  options.strangers = 8;
  const tcp::Address address = town.addresses[0];
  Resident ranks[2] = {Resident(town.fabric(0, options)), Resident(town.fabric(1, options))};
  std::vector<Socket> strangers;
  const auto call = [&](int count) {
    for (int i = 0; i < count; ++i) strangers.push_back(tcp::begin_connect(address));
  };
  call(50);
  CHECK(ranks[1].fabric->connect(0) == Connect::later);
  call(50);
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
  until([&] { return counter(*ranks[0].fabric, "connectionsRefused") == 100; }, [&] { ranks[0].pass(); });
}

// One look takes so many events, of which none may be a message. Nobody is called a second time for the others, so
// whoever looked must know of them.
TEST(more_at_once_than_a_look_takes_are_not_forgotten) {
  Town town(2);
  const tcp::Address address = town.addresses[0];
  Resident rank(town.fabric(0));
  std::vector<Socket> strangers;
  for (int i = 0; i < 50; ++i) strangers.push_back(tcp::begin_connect(address));
  tcp::Challenge challenge;
  for (const Socket& stranger : strangers) {
    until([&] { return ::recv(stranger.get(), &challenge, sizeof challenge, MSG_DONTWAIT) == sizeof challenge; },
          [&] { rank.pass(); });
  }
  until([&] { return !rank.fabric->called(); }, [&] { rank.pass(); });
  strangers.clear();
  rank.pass();
  while (counter(*rank.fabric, "connectionsRefused") < 50) {
    CHECK(rank.fabric->called());
    rank.pass();
  }
}

// A rank that computes for longer than strangers may be silent.
TEST(a_rank_that_answers_late_is_let_in) {
  Town town(2);
  TcpOptions options;
  options.handshake_milliseconds = 50;
  Resident ranks[2] = {Resident(town.fabric(0, options)), Resident(town.fabric(1, options))};
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
  Town town(2);
  TcpOptions options;
  options.handshake_milliseconds = 50;
  Caller caller(town, 1, 0);
  Resident rank(town.fabric(0, options));
  rank.pass();
  const auto late = Clock::now() + milliseconds(100);
  until([&] { return Clock::now() > late; }, [] {});
  caller.handshake.advance();
  CHECK(!caller.handshake.blocked() && caller.handshake.state() == Handshake::State::going_on);
  until([&] { return caller.settled(); }, [&] { rank.pass(); });
  CHECK(caller.handshake.verdict() == tcp::Verdict::welcome);
}

// It runs out of descriptors for a while: who calls meanwhile is let in afterwards, and nobody spins.
TEST(without_descriptors_callers_wait) {
  Town town(2);
  Resident rank(town.fabric(0));
  Caller caller(town, 1, 0);
  rlimit before;
  CHECK(getrlimit(RLIMIT_NOFILE, &before) == 0);
  const int next = ::dup(0);
  ::close(next);
  const rlimit none{static_cast<rlim_t>(next), before.rlim_max};
  CHECK(setrlimit(RLIMIT_NOFILE, &none) == 0);
  for (int i = 0; i < 10; ++i) rank.pass();
  rank.fabric->arm(Sleeper::caller, 0);
  rank.fabric->sleep(Sleeper::caller, 0, 1'000'000);
  const bool spins = !rank.fabric->is_armed();
  rank.fabric->disarm();
  CHECK(setrlimit(RLIMIT_NOFILE, &before) == 0);
  CHECK(!spins);
  until([&] { return caller.settled(); }, [&] { rank.pass(); });
  CHECK(caller.handshake.verdict() == tcp::Verdict::welcome);
}

// The same for who wants to call: it is no error, and it calls when there is a descriptor again.
TEST(without_descriptors_a_rank_connects_later) {
  Town town(2);
  Resident ranks[2] = {Resident(town.fabric(0)), Resident(town.fabric(1))};
  rlimit before;
  CHECK(getrlimit(RLIMIT_NOFILE, &before) == 0);
  const int next = ::dup(0);
  ::close(next);
  const rlimit none{static_cast<rlim_t>(next), before.rlim_max};
  CHECK(setrlimit(RLIMIT_NOFILE, &none) == 0);
  Connect verdict = ranks[1].fabric->connect(0);
  for (int i = 0; i < 10; ++i) {
    ranks[1].pass();
    if (verdict == Connect::later) verdict = ranks[1].fabric->connect(0);
  }
  ranks[1].fabric->arm(Sleeper::caller, 0);
  ranks[1].fabric->sleep(Sleeper::caller, 0, 1'000'000);
  const bool spins = !ranks[1].fabric->is_armed();
  ranks[1].fabric->disarm();
  CHECK(setrlimit(RLIMIT_NOFILE, &before) == 0);
  CHECK(verdict == Connect::later);
  CHECK(!spins);
  until([&] { return ranks[1].fabric->connect(0) == Connect::ready; },
        [&] {
          ranks[0].pass();
          ranks[1].pass();
        });
}

// --- peers that vanish -----------------------------------------------------------------------------------------------

// It said that its own connection comes, and died.
TEST(a_peer_that_promised_to_connect_and_died_is_closed) {
  Town town(2);
  TcpOptions options;
  options.handshake_milliseconds = 50;
  Resident rank(town.fabric(1, options));
  CHECK(rank.fabric->connect(0) == Connect::later);
  const Identity identity{town.secret, 0, 2, 255};
  {
    Socket accepted = answer_at(town, 0);
    Handshake handshake(std::move(accepted), identity);
    until([&] { return handshake.advance() == Handshake::State::asked; }, [&] { rank.pass(); });
    CHECK(handshake.decide(tcp::Verdict::mine_comes) == Handshake::State::settled);
  }
  rank.pass();
  town.listeners[0].reset();
  until([&] { return rank.fabric->connect(0) != Connect::later; }, [&] { rank.pass(); });
  CHECK(rank.fabric->connect(0) == Connect::closed);
}

// It was closing its world while we were connecting, which looks like one that does not know us.
TEST(a_peer_that_closes_amid_a_handshake_is_closed) {
  Town town(2);
  Resident rank(town.fabric(1));
  CHECK(rank.fabric->connect(0) == Connect::later);
  const Identity identity{town.secret, 0, 2, 255};
  Socket accepted = answer_at(town, 0);
  {
    Handshake handshake(std::move(accepted), identity);
    until([&] { return handshake.advance() == Handshake::State::asked; }, [&] { rank.pass(); });
  }
  town.listeners[0].reset();
  until([&] { return rank.fabric->connect(0) != Connect::later; }, [&] { rank.pass(); });
  CHECK(rank.fabric->connect(0) == Connect::closed);
}

// A forwarder whose rank is gone, say: it lets everybody in, and cuts them off when it has found nobody.
TEST(what_cuts_off_every_attempt_after_a_while_is_no_rank) {
  Town town(2);
  const Socket forwarder = std::move(town.listeners[1]);
  TcpOptions options;
  options.handshake_milliseconds = 200;
  Resident rank(town.fabric(0, options));
  std::vector<std::pair<Socket, Clock::time_point>> let_in;
  int attempts = 0;
  until([&] { return rank.fabric->connect(1) != Connect::later; },
        [&] {
          rank.pass();
          Socket accepted(::accept4(forwarder.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
          if (accepted) {
            ++attempts;
            let_in.emplace_back(std::move(accepted), Clock::now() + milliseconds(30));
          }
          while (!let_in.empty() && let_in.front().second < Clock::now()) let_in.erase(let_in.begin());
        });
  CHECK(rank.fabric->connect(1) == Connect::broken || rank.fabric->connect(1) == Connect::closed);
  CHECK(!rank.fabric->why(1).empty());
  CHECK_EQ(attempts, 11);
}

// It answered, and its connection broke before it was told that it is welcome. It was to take the place of our own.
TEST(a_peer_that_vanished_while_it_was_welcomed_is_closed) {
  Town town(2);
  TcpOptions options;
  options.handshake_milliseconds = 50;
  Resident rank(town.fabric(1, options));
  Caller caller(town, 0, 1);
  rank.pass();
  CHECK(rank.fabric->connect(0) == Connect::later);
  until([&] { return caller.handshake.advance() == Handshake::State::going_on && !caller.handshake.connecting(); },
        [&] { rank.pass(); });
  // The answer is on its way, unread.
  const linger at_once{1, 0};
  CHECK(setsockopt(caller.handshake.socket().get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once) == 0);
  caller.handshake.take_socket().reset();
  town.listeners[0].reset();
  until([&] { return rank.fabric->connect(0) != Connect::later; }, [&] { rank.pass(); });
  if (rank.fabric->connect(0) == Connect::ready)
    until([&] { return rank.find(Completion::Kind::broken) != nullptr; }, [&] { rank.pass(); });
  CHECK(rank.fabric->connect(0) == Connect::closed);
}

// It had tried before us, and failed: that is not what somebody hears who plays a rank that is there already.
TEST(a_rank_that_has_given_up_says_so) {
  Town town(2);
  town.listeners[1].reset();
  Resident ranks[2] = {Resident(town.fabric(0)), Resident(nullptr)};
  until([&] { return ranks[0].fabric->connect(1) != Connect::later; }, [&] { ranks[0].pass(); });
  town.listeners[1] = tcp::listen_on(tcp::parse_address("127.0.0.1", 0));
  ranks[1].fabric = town.fabric(1);
  until([&] { return ranks[1].fabric->connect(0) != Connect::later; },
        [&] {
          ranks[0].pass();
          ranks[1].pass();
        });
  CHECK(ranks[1].fabric->connect(0) == Connect::broken);
  CHECK(ranks[1].fabric->why(0).find("tried to connect to this rank itself") != std::string::npos);
  Caller again(town, 1, 0);
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
  Stage stage(options);
  std::vector<std::byte> from(size_t{32} << 20);
  int cookie = 0;
  stage.rank.fabric->put(1, {0, 1 << 20, nullptr}, {from.data(), from.size(), nullptr}, 1, Error::none, &cookie);
  const auto end = Clock::now() + milliseconds(3000);
  until([&] { return Clock::now() > end; }, [&] { stage.rank.pass(); });
  CHECK(stage.rank.seen.empty());
  std::vector<std::byte> into(size_t{1} << 20);
  const auto read = [&] { static_cast<void>(!::recv(stage.peer.get(), into.data(), into.size(), MSG_DONTWAIT)); };
  until([&] { return !stage.rank.seen.empty(); },
        [&] {
          read();
          stage.rank.pass();
        });
  CHECK(stage.rank.seen[0].cookie == &cookie && stage.rank.seen[0].error == Error::none);
}

// A peer whose machine acknowledges nothing any more: a filter drops what comes to it.
TEST(a_peer_whose_machine_is_gone_is_unreachable) {
  for (const size_t bytes : {size_t{100}, size_t{32} << 20}) {
    TcpOptions options;
    options.silence_milliseconds = 200;
    Stage stage(options);
    sock_filter nothing{BPF_RET | BPF_K, 0, 0, 0};
    const sock_fprog program{1, &nothing};
    CHECK(setsockopt(stage.peer.get(), SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) == 0);
    std::vector<std::byte> from(bytes);
    stage.rank.fabric->put(1, {0, 1 << 20, nullptr}, {from.data(), from.size(), nullptr}, 1, Error::none, nullptr);
    until([&] { return stage.rank.find(Completion::Kind::broken) != nullptr; }, [&] { stage.rank.pass(); });
    CHECK(stage.rank.find(Completion::Kind::broken)->error == Error::unreachable);
    CHECK(stage.rank.fabric->why(1).find("does not answer") != std::string::npos);
  }
}

// --- hostile bytes ---------------------------------------------------------------------------------------------------

TEST(frames_may_be_split_anywhere) {
  Stage stage;
  std::vector<std::byte> to(40);
  std::string data(40, 'd');
  ExposedBuffer exposed;
  const auto talk = [&] {
    return bytes_of({FrameKind::message, 8, 7, 0, tcp::kInboxBytes - 8}, "messages") +
           bytes_of({FrameKind::data, 16, 0, exposed.key, 0}, data.substr(0, 16)) +
           bytes_of({FrameKind::message, 4, 8, 0, 0}, "more") +
           bytes_of({FrameKind::data, 24, 0, exposed.key, 16}, data.substr(16)) +
           bytes_of({FrameKind::done, 0, 9, exposed.key, 40}) +
           bytes_of({FrameKind::failed, 0, 10, static_cast<uint32_t>(Error::truncated), 5});
  };
  const size_t length = talk().size();
  for (size_t split = 0; split <= length; ++split) {
    CHECK(stage.rank.fabric->expose(1, {to.data(), to.size(), nullptr}, exposed));
    std::fill(to.begin(), to.end(), std::byte{0});
    stage.rank.seen.clear();
    const std::string text = talk();
    const double before = counter(*stage.rank.fabric, "bytesReceived");
    stage.say(text.data(), split);
    until([&] { return counter(*stage.rank.fabric, "bytesReceived") == before + static_cast<double>(split); },
          [&] { stage.rank.pass(); });
    stage.say(text.data() + split, length - split);
    until([&] { return stage.rank.seen.size() >= 4; }, [&] { stage.rank.pass(); });
    for (uint32_t i = 0; i < 4; ++i) CHECK_EQ(stage.rank.seen[i].immediate, 7 + i);
    CHECK_EQ(std::memcmp(to.data(), data.data(), data.size()), 0);
    CHECK_EQ(std::memcmp(stage.rank.fabric->inbox(1).control, "more", 4), 0);
    stage.rank.fabric->conceal(1, exposed);
  }
}

// Memory that is withdrawn in the middle of a frame is not written any more, and the connection goes on.
TEST(memory_that_is_concealed_amid_a_frame_stays_as_it_is) {
  Stage stage;
  std::vector<std::byte> to(100'000, std::byte{0});
  ExposedBuffer exposed;
  CHECK(stage.rank.fabric->expose(1, {to.data(), to.size(), nullptr}, exposed));
  const std::string text = bytes_of({FrameKind::data, 100'000, 0, exposed.key, 0}, std::string(100'000, 'x'));
  stage.say(text.data(), 50'000);
  until([&] { return to[100] == std::byte{'x'}; }, [&] { stage.rank.pass(); });
  stage.rank.fabric->conceal(1, exposed);
  std::fill(to.begin(), to.end(), std::byte{0});
  stage.say(text.data() + 50'000, text.size() - 50'000);
  const std::string message = bytes_of({FrameKind::message, 4, 7, 0, 0}, "more");
  stage.say(message.data(), message.size());
  until([&] { return stage.rank.find(Completion::Kind::message) != nullptr; }, [&] { stage.rank.pass(); });
  for (const std::byte byte : to) CHECK(byte == std::byte{0});
  // A new exposure of the same memory has another key; the old one is dead.
  const uint32_t old = exposed.key;
  CHECK(stage.rank.fabric->expose(1, {to.data(), to.size(), nullptr}, exposed));
  CHECK(exposed.key != old);
  const std::string late = bytes_of({FrameKind::data, 4, 0, old, 0}, "late");
  stage.say(late.data(), late.size());
  until([&] { return stage.rank.find(Completion::Kind::broken) != nullptr; }, [&] { stage.rank.pass(); });
  for (const std::byte byte : to) CHECK(byte == std::byte{0});
}

// Each ends the connection before anything behind it is believed.
TEST(frames_that_make_no_sense_end_the_connection) {
  const uint32_t slots = tcp::kInboxBytes;
  for (const FrameHeader& wrong : std::vector<FrameHeader>{
           {static_cast<FrameKind>(0), 0, 0, 0, 0},
           {static_cast<FrameKind>(6), 0, 0, 0, 0},
           {FrameKind::message, UINT32_MAX, 0, 0, 0},
           {FrameKind::message, tcp::kLargestMessage + 1, 0, 0, kControlBytes},
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
           {FrameKind::done, 0, 0, 1 << 20, 0},
           {FrameKind::done, 0, 0, 0, 100},
           {FrameKind::failed, 0, 0, 0, 0},
           {FrameKind::failed, 0, 0, UINT32_MAX, 0},
           {FrameKind::closed, 1, 0, 0, 0},
       }) {
    Stage stage;
    std::vector<std::byte> to(100, std::byte{2});
    ExposedBuffer exposed;
    CHECK(stage.rank.fabric->expose(1, {to.data(), to.size(), nullptr}, exposed));
    CHECK_EQ(exposed.key, 1u << 20);
    const std::string text = bytes_of(wrong, std::string(200, 'x'));
    stage.say(text.data(), text.size());
    until([&] { return stage.rank.find(Completion::Kind::broken) != nullptr; }, [&] { stage.rank.pass(); });
    CHECK_EQ(stage.rank.seen.size(), 1u);
    CHECK(stage.rank.find(Completion::Kind::broken)->error == Error::unreachable);
    for (const std::byte byte : to) CHECK(byte == std::byte{2});
    CHECK(stage.rank.fabric->connect(1) == Connect::broken);
  }
}

// Whoever waits for data must not be told that they are there.
TEST(the_end_of_data_of_which_a_part_is_missing_ends_the_connection) {
  Stage stage;
  std::vector<std::byte> to(100);
  ExposedBuffer exposed;
  CHECK(stage.rank.fabric->expose(1, {to.data(), to.size(), nullptr}, exposed));
  const std::string text = bytes_of({FrameKind::data, 60, 0, exposed.key, 0}, std::string(60, 'x')) +
                           bytes_of({FrameKind::done, 0, 9, exposed.key, 60});
  stage.say(text.data(), text.size());
  until([&] { return stage.rank.find(Completion::Kind::broken) != nullptr; }, [&] { stage.rank.pass(); });
  CHECK(stage.rank.find(Completion::Kind::immediate) == nullptr);
}

// A key is good for the rank that it was given to, and for no other.
TEST(memory_exposed_to_another_rank_is_not_written) {
  Stage stage;
  std::vector<std::byte> to(100, std::byte{2});
  ExposedBuffer exposed;
  CHECK(stage.rank.fabric->expose(0, {to.data(), to.size(), nullptr}, exposed));
  const std::string text = bytes_of({FrameKind::data, 100, 0, exposed.key, 0}, std::string(100, 'x'));
  stage.say(text.data(), text.size());
  until([&] { return stage.rank.find(Completion::Kind::broken) != nullptr; }, [&] { stage.rank.pass(); });
  for (const std::byte byte : to) CHECK(byte == std::byte{2});
}

TEST(a_reset_amid_a_frame_ends_what_was_under_way) {
  Stage stage;
  std::vector<std::byte> from(size_t{32} << 20);
  std::vector<std::byte> to(1000);
  ExposedBuffer exposed;
  CHECK(stage.rank.fabric->expose(1, {to.data(), to.size(), nullptr}, exposed));
  int cookie = 0;
  stage.rank.fabric->put(1, {0, 1 << 20, nullptr}, {from.data(), from.size(), nullptr}, 1, Error::none, &cookie);
  const std::string text = bytes_of({FrameKind::message, 4, 7, 0, 0}, "more") +
                           bytes_of({FrameKind::data, 1000, 0, exposed.key, 0}, std::string(10, 'x'));
  stage.say(text.data(), text.size());
  stage.rank.pass();
  const linger at_once{1, 0};
  CHECK(setsockopt(stage.peer.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once) == 0);
  stage.peer.reset();
  until([&] { return stage.rank.find(Completion::Kind::broken) != nullptr; }, [&] { stage.rank.pass(); });
  // What arrived, the put, the end: in this order.
  CHECK_EQ(stage.rank.seen.size(), 3u);
  CHECK(stage.rank.seen[0].kind == Completion::Kind::message);
  CHECK(stage.rank.seen[1].kind == Completion::Kind::put_done && stage.rank.seen[1].error == Error::peer_closed);
  CHECK(stage.rank.seen[1].cookie == &cookie);
  CHECK(stage.rank.seen[2].error == Error::peer_closed);
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

// Somebody without the secret plays what a rank says back at it, and again.
TEST(proofs_hold_for_one_connection_and_one_side) {
  Town town(2);
  const tcp::Address address = town.addresses[0];
  const Socket pretender = std::move(town.listeners[1]);
  Resident rank(town.fabric(0));
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
  tcp::Reply reply{tcp::Verdict::welcome, 255, answer.proof};
  CHECK(::send(ours.get(), &reply, sizeof reply, MSG_NOSIGNAL) == sizeof reply);
  until([&] { return rank.fabric->connect(1) != Connect::later; }, pass);
  CHECK(rank.fabric->connect(1) == Connect::broken);
  CHECK(rank.fabric->why(1).find("secret") != std::string::npos);
  CHECK_EQ(counter(*rank.fabric, "connectionsAccepted"), 0.0);
}

// A good answer, recorded and sent once more on another connection.
TEST(an_answer_cannot_be_replayed) {
  Town town(2);
  const tcp::Address address = town.addresses[0];
  Resident rank(town.fabric(0));
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
  answer.proof = tcp::hmac_sha256(town.secret, said);
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

TEST_MAIN(120)
