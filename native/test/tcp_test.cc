// The TCP fabric on loopback: ranks are threads, or processes where one has to die.
#include <cerrno>
#include <chrono>
#include <csignal>
#include <fstream>
#include <netinet/in.h>
#include <sys/wait.h>
#include <thread>

#include "test/failing.h"
#include "test/check.h"
#include "test/fabrics.h"
#include "test/mix.h"
#include "test/ranks.h"
#include "test/tcp_job.h"
#include "test/two_networks.h"

namespace {

using namespace nbc;
using namespace nbc::check;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

std::string hex(const tcp::Digest& digest) {
  std::string text;
  char two[3];
  for (const uint8_t byte : digest) {
    std::snprintf(two, sizeof two, "%02x", byte);
    text += two;
  }
  return text;
}

// Two fabrics that this thread drives.
struct Pair : Fabrics<TcpFabric> {
  explicit Pair(TcpJob job = TcpJob(2), const TcpOptions& options = {}) : Fabrics(both(job, options)) {}
  static std::vector<std::unique_ptr<TcpFabric>> both(TcpJob& job, const TcpOptions& options) {
    std::vector<std::unique_ptr<TcpFabric>> made;
    for (Rank rank = 0; rank < 2; ++rank) made.push_back(job.fabric(rank, options));
    return made;
  }
};

void run_tcp(Rank count, const RankOptions& options, const std::function<void(TestRank&, Meeting&)>& body) {
  TcpJob job(count);
  const auto make = [&](Rank rank) {
    TcpOptions tcp;
    tcp.eager_limit = options.eager_limit;
    return job.fabric(rank, tcp);
  };
  run_ranks_over(count, options, make, body);
}

// --- proofs ----------------------------------------------------------------------------------------------------------

// FIPS 180-4's examples.
TEST(sha256_is_the_standards) {
  CHECK_EQ(hex(tcp::sha256("")), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK_EQ(hex(tcp::sha256("abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK_EQ(hex(tcp::sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")),
           "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  CHECK_EQ(hex(tcp::sha256(std::string(1'000'000, 'a'))),
           "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

// RFC 4231, test cases 1, 2 and 6.
TEST(hmac_is_the_standards) {
  CHECK_EQ(hex(tcp::hmac_sha256(std::string(20, '\x0b'), "Hi There")),
           "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  CHECK_EQ(hex(tcp::hmac_sha256("Jefe", "what do ya want for nothing?")),
           "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  CHECK_EQ(hex(tcp::hmac_sha256(std::string(131, '\xaa'), "Test Using Larger Than Block-Size Key - Hash Key First")),
           "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

// --- the fabric alone ------------------------------------------------------------------------------------------------

TEST(a_commit_arrives_whole_and_announced) {
  TcpOptions options;
  options.eager_limit = 60'000;
  Pair pair(TcpJob(2), options);
  pair.connect();
  const Mailbox out = pair.fabric[0]->outbox(1);
  for (const size_t bytes : {size_t{4}, size_t{64}, size_t{65}, size_t{4096}, size_t{15'000}, size_t{60'064}}) {
    fill(out.slots, bytes, bytes);
    pair.fabric[0]->commit(1, out.slots, bytes, 7, nullptr);
    pair.seen[1].clear();
    pair.until([&] { return pair.find(1, Completion::Kind::message) != nullptr; });
    CHECK_EQ(pair.find(1, Completion::Kind::message)->immediate, 7u);
    CHECK_EQ(first_difference(pair.fabric[1]->inbox(0).slots, bytes, bytes), bytes);
  }
}

TEST(a_put_lands_where_it_was_exposed) {
  Pair pair;
  pair.connect();
  for (const size_t bytes : {size_t{1}, size_t{100}, size_t{128 * 1024}, size_t{128 * 1024 + 1}, size_t{20} << 20}) {
    std::vector<std::byte> from(bytes);
    std::vector<std::byte> to(bytes);
    fill(from.data(), bytes, bytes);
    ExposedBuffer exposed;
    CHECK(pair.fabric[1]->expose(0, {to.data(), bytes, nullptr}, exposed));
    pair.seen[0].clear();
    pair.seen[1].clear();
    int cookie = 0;
    pair.fabric[0]->put(1, exposed, {from.data(), bytes, nullptr}, 5, Error::none, &cookie);
    pair.until([&] {
      return pair.find(1, Completion::Kind::immediate) != nullptr &&
             pair.find(0, Completion::Kind::put_done) != nullptr;
    });
    CHECK_EQ(pair.find(1, Completion::Kind::immediate)->immediate, 5u);
    CHECK_EQ(pair.find(1, Completion::Kind::immediate)->bytes, bytes);
    CHECK(pair.find(0, Completion::Kind::put_done)->cookie == &cookie);
    CHECK_EQ(first_difference(to.data(), bytes, bytes), bytes);
    pair.fabric[1]->conceal(0, exposed);
  }
  // Straight into place: only what came in one read with the first header was copied.
  CHECK(counter(*pair.fabric[1], "bytesCopied") < 5 * 16 * 1024);
}

// What the kernel has is ahead of every message. A peer that does not read yet has a window of tcp_rmem's default;
// beyond it nothing can be sent.
TEST(the_kernel_takes_little_that_it_cannot_send) {
  std::vector<std::byte> from(size_t{16} << 20);
  std::vector<std::byte> to(from.size());
  Pair pair;
  pair.connect();
  size_t least = 0;
  size_t usual = 0;
  std::ifstream("/proc/sys/net/ipv4/tcp_rmem") >> least >> usual;
  ExposedBuffer exposed;
  CHECK(pair.fabric[1]->expose(0, {to.data(), to.size(), nullptr}, exposed));
  pair.fabric[0]->put(1, exposed, {from.data(), from.size(), nullptr}, 5, Error::none, nullptr);
  double sent = 0;
  for (int quiet = 0; quiet < 1000;) {
    pair.pass(0);
    quiet = pair.counter(0, "bytesSent") == sent ? quiet + 1 : 0;
    sent = pair.counter(0, "bytesSent");
  }
  CHECK(sent > 0 && sent <= static_cast<double>(usual + 384 * 1024));
  pair.until([&] { return pair.find(1, Completion::Kind::immediate) != nullptr; });
}

// What a start does itself is what is short. Where a look has left data, nobody knows how many, or how many are still
// to come.
TEST(data_that_a_look_has_left_are_not_short_work) {
  // Two, so that a look ends with the first of them, and not with what is there. Together they are what the kernel
  // takes.
  std::vector<std::byte> from(90'000);
  std::vector<std::byte> to(2 * from.size());
  Pair pair;
  pair.connect();
  for (size_t at = 0; at < to.size(); at += from.size()) {
    ExposedBuffer exposed;
    CHECK(pair.fabric[1]->expose(0, {to.data() + at, from.size(), nullptr}, exposed));
    pair.fabric[0]->put(1, exposed, {from.data(), from.size(), nullptr}, 5, Error::none, nullptr);
  }
  until([&] { return pair.counter(0, "bytesSent") > 2 * 90'000; }, [&] { pair.pass(0); });
  Completion completions[16];
  until([&] { return pair.fabric[1]->has_work(); },
        [&] { CHECK(pair.fabric[1]->poll(completions, 16, Effort::look) < 2); });
  CHECK(!pair.fabric[1]->has_short_work());
  pair.until([&] { return pair.counter(1, "bytesReceived") == pair.counter(0, "bytesSent"); });
  // A look that ended with the last of them does not know that it was the last.
  pair.until([&] { return !pair.fabric[1]->has_work(); });
}

TEST(a_put_into_the_wrong_memory_writes_nothing_and_ends_the_connection) {
  Pair pair;
  pair.connect();
  std::vector<std::byte> from(8192, std::byte{1});
  std::vector<std::byte> to(8192, std::byte{2});
  ExposedBuffer exposed;
  CHECK(pair.fabric[1]->expose(0, {to.data(), to.size(), nullptr}, exposed));
  ExposedBuffer wrong = exposed;
  wrong.key ^= 0x5a00000;
  pair.fabric[0]->put(1, wrong, {from.data(), from.size(), nullptr}, 5, Error::none, nullptr);
  pair.until([&] {
    return pair.find(0, Completion::Kind::broken) != nullptr && pair.find(1, Completion::Kind::broken) != nullptr;
  });
  for (const std::byte byte : to) CHECK(byte == std::byte{2});
  CHECK(pair.find(1, Completion::Kind::immediate) == nullptr);
  CHECK(pair.fabric[1]->why(0).find("not exposed") != std::string::npos);
  CHECK(pair.fabric[0]->connect(1) != Connect::ready);
}

TEST(more_than_was_asked_for_is_not_written) {
  Pair pair;
  pair.connect();
  std::vector<std::byte> from(8192, std::byte{1});
  std::vector<std::byte> to(8192, std::byte{2});
  ExposedBuffer exposed;
  CHECK(pair.fabric[1]->expose(0, {to.data(), 4096, nullptr}, exposed));
  pair.fabric[0]->put(1, exposed, {from.data(), from.size(), nullptr}, 5, Error::none, nullptr);
  pair.until([&] { return pair.find(1, Completion::Kind::broken) != nullptr; });
  for (const std::byte byte : to) CHECK(byte == std::byte{2});
}

// --- one connection --------------------------------------------------------------------------------------------------

// Two ends of a connection on loopback whose sockets hold little.
struct Line {
  explicit Line(int socket_bytes) {
    const tcp::Socket listener = tcp::listen_on(tcp::parse_address("127.0.0.1", 0));
    for (const int option : {SO_SNDBUF, SO_RCVBUF})
      CHECK(setsockopt(listener.get(), SOL_SOCKET, option, &socket_bytes, sizeof socket_bytes) == 0);
    end[0] = tcp::begin_connect(tcp::address_of(listener));
    for (const int option : {SO_SNDBUF, SO_RCVBUF})
      CHECK(setsockopt(end[0].get(), SOL_SOCKET, option, &socket_bytes, sizeof socket_bytes) == 0);
    until([&] { return static_cast<bool>(end[1]); },
          [&] { end[1] = tcp::Socket(::accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC)); });
  }
  tcp::Socket end[2];
};

// What it has to send, as far as the sockets of both ends take it.
void send_until_full(tcp::Connection& connection, const tcp::Counters& counters) {
  for (uint64_t before = UINT64_MAX; before != counters.bytes_sent;) {
    before = counters.bytes_sent;
    connection.unblock();
    CHECK(connection.send(SIZE_MAX));
    CHECK(connection.blocked());
  }
}

// Nobody reads until neither can send any more, and nobody waits for the other; then everything arrives, in pieces cut
// anywhere.
TEST(both_ends_send_at_once_without_reading) {
  constexpr size_t kBytes = size_t{16} << 20;
  Line line(64 * 1024);
  tcp::Counters counters[2];
  Regions regions[2];
  Ring<Completion> events[2];
  std::vector<std::byte> from[2];
  std::vector<std::byte> to[2];
  std::unique_ptr<tcp::Connection> end[2];
  for (Rank rank = 0; rank < 2; ++rank) {
    end[rank] = std::make_unique<tcp::Connection>(1 - rank, 255, std::move(line.end[rank]), counters[rank]);
    from[rank].resize(kBytes);
    to[rank].resize(kBytes);
    fill(from[rank].data(), kBytes, rank);
  }
  for (Rank rank = 0; rank < 2; ++rank) {
    const uint32_t key = regions[1 - rank].open(rank, to[1 - rank].data(), kBytes);
    CHECK_EQ(end[rank]->bytes_to_send(), 0u);
    end[rank]->queue_put({from[rank].data(), kBytes, 0, key, 1, nullptr});
    CHECK_EQ(end[rank]->bytes_to_send(), kBytes + sizeof(tcp::FrameHeader));
  }
  for (Rank rank = 0; rank < 2; ++rank) send_until_full(*end[rank], counters[rank]);
  for (Rank rank = 0; rank < 2; ++rank) {
    CHECK(end[rank]->blocked() && end[rank]->has_to_send());
    CHECK(counters[rank].bytes_sent > 0 && counters[rank].bytes_sent < kBytes / 2);
    CHECK_EQ(counters[rank].bytes_received, 0u);
  }
  until([&] { return !events[0].empty() && !events[1].empty(); },
        [&] {
          for (Rank rank = 0; rank < 2; ++rank) {
            CHECK(end[rank]->receive(regions[rank], 50'000, events[rank]));
            end[rank]->unblock();
            CHECK(end[rank]->send(50'000));
          }
        });
  for (Rank rank = 0; rank < 2; ++rank) {
    CHECK(events[rank].front().kind == Completion::Kind::immediate);
    CHECK_EQ(end[rank]->bytes_to_send(), 0u);
    CHECK(!end[rank]->has_to_send());
    CHECK_EQ(first_difference(to[rank].data(), kBytes, 1 - rank), kBytes);
  }
}

// What is queued while data are being sent comes right behind the frame that has begun, in one large put or among many.
TEST(a_message_waits_for_one_frame_of_data_at_most) {
  constexpr size_t kBytes = size_t{16} << 20;
  const std::vector<std::byte> data(kBytes, std::byte{0xff});
  for (const auto& [socket_bytes, put_bytes] : std::initializer_list<std::pair<int, size_t>>{
           {20'000, kBytes}, {64'000, kBytes}, {200'000, kBytes}, {20'000, 100'000}, {64'000, 100'000}}) {
    Line line(socket_bytes);
    tcp::Counters counters;
    tcp::Connection connection(1, 255, std::move(line.end[0]), counters);
    for (size_t queued = 0; queued < kBytes; queued += put_bytes)
      connection.queue_put({data.data(), put_bytes, 0, 1, 1, nullptr});
    send_until_full(connection, counters);
    const size_t before = counters.bytes_sent;
    const uint64_t rest = connection.bytes_to_send();
    connection.queue_message(connection.outbox().slots, 40, 9);
    CHECK_EQ(connection.bytes_to_send(), rest + sizeof(tcp::FrameHeader) + 40);
    // The stream as it arrives, frame by frame, up to the message.
    std::vector<std::byte> stream;
    size_t at = 0;
    tcp::FrameHeader header{};
    const auto found = [&] {
      while (stream.size() >= at + sizeof header) {
        std::memcpy(&header, stream.data() + at, sizeof header);
        if (header.kind == tcp::FrameKind::message) return true;
        at += sizeof header + header.bytes;
      }
      return false;
    };
    until(found, [&] {
      std::byte some[16 * 1024];
      const ssize_t got = ::recv(line.end[1].get(), some, sizeof some, MSG_DONTWAIT);
      if (got > 0) stream.insert(stream.end(), some, some + got);
      connection.unblock();
      CHECK(connection.send(SIZE_MAX));
    });
    CHECK_EQ(header.value, 9u);
    CHECK(at - before <= tcp::kLargestData + 2 * sizeof header);
  }
}

// --- the fabric alone, with much to do -------------------------------------------------------------------------------

TEST(both_ends_put_at_once) {
  Pair pair;
  pair.connect();
  constexpr size_t kBytes = size_t{64} << 20;
  std::vector<std::byte> from[2];
  std::vector<std::byte> to[2];
  ExposedBuffer exposed[2];
  for (Rank rank = 0; rank < 2; ++rank) {
    from[rank].resize(kBytes);
    to[rank].resize(kBytes);
    fill(from[rank].data(), kBytes, rank);
    CHECK(pair.fabric[rank]->expose(1 - rank, {to[rank].data(), kBytes, nullptr}, exposed[rank]));
  }
  for (Rank rank = 0; rank < 2; ++rank)
    pair.fabric[rank]->put(1 - rank, exposed[1 - rank], {from[rank].data(), kBytes, nullptr}, 1, Error::none, nullptr);
  pair.until([&] {
    return pair.find(0, Completion::Kind::immediate) != nullptr && pair.find(1, Completion::Kind::immediate) != nullptr;
  });
  for (Rank rank = 0; rank < 2; ++rank) CHECK_EQ(first_difference(to[rank].data(), kBytes, 1 - rank), kBytes);
}

// A message that is committed while 64 MiB are on their way comes before their end, and soon.
TEST(a_message_does_not_wait_behind_data) {
  Pair pair;
  pair.connect();
  constexpr size_t kBytes = size_t{64} << 20;
  std::vector<std::byte> from(kBytes);
  std::vector<std::byte> to(kBytes);
  ExposedBuffer exposed;
  CHECK(pair.fabric[1]->expose(0, {to.data(), kBytes, nullptr}, exposed));
  pair.fabric[0]->put(1, exposed, {from.data(), kBytes, nullptr}, 1, Error::none, nullptr);
  pair.until([&] { return counter(*pair.fabric[1], "bytesReceived") > 1 << 20; });
  const double before = counter(*pair.fabric[0], "bytesSent");
  pair.fabric[0]->commit(1, pair.fabric[0]->outbox(1).slots, 40, 9, nullptr);
  pair.until([&] { return pair.find(1, Completion::Kind::message) != nullptr; });
  CHECK(pair.find(1, Completion::Kind::immediate) == nullptr);
  // What was in the kernel, and what went out while we looked; far from all.
  CHECK(counter(*pair.fabric[1], "bytesReceived") - before < 16 << 20);
}

// A peer that does not read stops what is sent to it, and nothing else.
TEST(a_slow_receiver_slows_its_own_senders_only) {
  // Before the fabrics, whose ends still send.
  constexpr size_t kBytes = size_t{64} << 20;
  std::vector<std::byte> from(kBytes);
  std::vector<std::byte> to[3];
  TcpJob job(3);
  std::unique_ptr<TcpFabric> fabric[3];
  for (Rank rank = 0; rank < 3; ++rank) fabric[rank] = job.fabric(rank);
  std::vector<Completion> seen[3];
  const auto pass = [&](Rank rank) {
    Completion completions[16];
    fabric[rank]->flush();
    const unsigned count = fabric[rank]->poll(completions, 16, Effort::pass);
    for (unsigned i = 0; i < count; ++i) seen[rank].push_back(completions[i]);
  };
  while (fabric[0]->connect(1) != Connect::ready || fabric[0]->connect(2) != Connect::ready) {
    for (Rank rank = 0; rank < 3; ++rank) pass(rank);
  }
  for (int i = 0; i < 100; ++i) {
    pass(1);
    pass(2);
  }
  ExposedBuffer exposed[3];
  int cookies[3];
  const auto begin = [&](Rank rank) {
    seen[0].clear();
    to[rank].resize(kBytes);
    CHECK(fabric[rank]->expose(0, {to[rank].data(), kBytes, nullptr}, exposed[rank]));
    fabric[0]->put(rank, exposed[rank], {from.data(), kBytes, nullptr}, 1, Error::none, &cookies[rank]);
  };
  const auto done = [&](Rank rank) {
    return std::any_of(seen[0].begin(), seen[0].end(), [&](const Completion& c) { return c.cookie == &cookies[rank]; });
  };
  // The fastest of some, as the machine may be busy with something else.
  const auto time_of_rank_2 = [&] {
    auto fastest = Clock::duration::max();
    for (int i = 0; i < 5; ++i) {
      const auto start = Clock::now();
      begin(2);
      while (!done(2)) {
        pass(0);
        pass(2);
      }
      fastest = std::min(fastest, Clock::now() - start);
    }
    return fastest;
  };
  const auto alone = time_of_rank_2();
  // Rank 1 never looks.
  begin(1);
  const auto beside = time_of_rank_2();
  if (repetitions(1, 0) == 1) CHECK(beside < 3 * alone);
  for (int i = 0; i < 100; ++i) pass(0);
  CHECK(!done(1));
  while (!done(1)) {
    pass(0);
    pass(1);
  }
}

// --- what is accepted ------------------------------------------------------------------------------------------------

// In half of the rounds both have begun before either looks; in the others one of them looks first.
TEST(two_that_connect_at_once_make_one_connection_and_keep_the_order) {
  const uint32_t rounds = repetitions(1000, 100);
  uint32_t both_begun = 0;
  for (uint32_t round = 0; round < rounds; ++round) {
    TcpJob job(2);
    Meeting meeting(2);
    std::atomic<uint32_t> begun{0};
    std::atomic<uint32_t> accepted{0};
    std::atomic<uint32_t> refused{0};
    run_threads(2, [&](Rank rank) {
      const auto fabric = job.fabric(rank);
      meeting.meet();
      if (round % 4 == rank) {
        for (int i = 0; i < 3; ++i) CHECK_EQ(fabric->poll(nullptr, 0, Effort::pass), 0u);
      }
      if (fabric->connect(1 - rank) == Connect::later) ++begun;
      if (round % 4 >= 2) meeting.meet();
      uint32_t next = 0;
      uint32_t sent = 0;
      const auto end = Clock::now() + milliseconds(20'000);
      while (next < 3 || sent < 3) {
        Completion completions[16];
        if (fabric->connect(1 - rank) == Connect::ready) {
          for (; sent < 3; ++sent) fabric->commit(1 - rank, fabric->outbox(1 - rank).slots, 8, sent, nullptr);
        }
        fabric->flush();
        const unsigned count = fabric->poll(completions, 16, Effort::pass);
        for (unsigned i = 0; i < count; ++i) {
          if (completions[i].kind == Completion::Kind::answered) continue;
          CHECK(completions[i].kind == Completion::Kind::message);
          CHECK_EQ(completions[i].immediate, next++);
        }
        CHECK(Clock::now() < end);
      }
      meeting.meet();
      accepted += static_cast<uint32_t>(counter(*fabric, "connectionsAccepted"));
      refused += static_cast<uint32_t>(counter(*fabric, "connectionsRefused"));
    });
    CHECK_EQ(accepted.load(), 1u);
    CHECK_EQ(refused.load(), 0u);
    both_begun += begun == 2;
  }
  CHECK(both_begun >= rounds / 2);
}

// Another secret, or an earlier attempt at the same job.
TEST(a_rank_of_another_job_gets_an_error_that_says_so_and_does_no_harm) {
  TcpJob job(2);
  std::unique_ptr<TcpFabric> fabric[2];
  fabric[0] = job.fabric(0);
  job.key = "of another job";
  fabric[1] = job.fabric(1);
  const auto end = Clock::now() + milliseconds(20'000);
  Connect verdict;
  Completion completions[16];
  while ((verdict = fabric[1]->connect(0)) == Connect::later && Clock::now() < end) {
    fabric[0]->poll(completions, 16, Effort::pass);
    fabric[1]->poll(completions, 16, Effort::pass);
  }
  CHECK(verdict == Connect::broken);
  CHECK(fabric[1]->why(0).find("belongs to another job") != std::string::npos);
  until([&] { return counter(*fabric[0], "connectionsRefused") == 1.0; },
        [&] { fabric[0]->poll(completions, 16, Effort::pass); });
  CHECK_EQ(counter(*fabric[0], "connectionsAccepted"), 0.0);
}

TEST(other_settings_are_refused_on_both_sides) {
  TcpJob job(2);
  TcpOptions options[2];
  options[0].eager_limit = 255;
  options[1].eager_limit = 4096;
  std::unique_ptr<TcpFabric> fabric[2];
  for (Rank rank = 0; rank < 2; ++rank) fabric[rank] = job.fabric(rank, options[rank]);
  const auto end = Clock::now() + milliseconds(20'000);
  Completion completions[16];
  while (fabric[1]->connect(0) == Connect::later || fabric[0]->connect(1) == Connect::later) {
    for (const auto& each : fabric) each->poll(completions, 16, Effort::pass);
    CHECK(Clock::now() < end);
  }
  for (Rank rank = 0; rank < 2; ++rank) {
    CHECK(fabric[rank]->connect(1 - rank) == Connect::refused);
    CHECK(fabric[rank]->why(1 - rank).find(rank == 0 ? "tcp.eagerLimit 4096" : "tcp.eagerLimit 255") !=
          std::string::npos);
  }
}

// Connections that say something else, or nothing, and too many of them are closed and counted. Ranks still connect.
TEST(connections_that_prove_nothing_are_closed_and_counted) {
  TcpJob job(2);
  TcpOptions options;
  options.handshake_milliseconds = 50;
  options.pending = 8;
  const tcp::Address address = job.addresses[0];
  std::unique_ptr<TcpFabric> fabric[2];
  for (Rank rank = 0; rank < 2; ++rank) fabric[rank] = job.fabric(rank, options);
  std::vector<tcp::Socket> others;
  Random random(1);
  for (int i = 0; i < 50; ++i) {
    others.push_back(tcp::begin_connect(address));
    CHECK(static_cast<bool>(others.back()));
  }
  Completion completions[16];
  const auto end = Clock::now() + milliseconds(20'000);
  for (size_t i = 0; i < others.size(); i += 2) {
    fabric[0]->poll(completions, 16, Effort::pass);
    std::byte noise[100];
    for (std::byte& byte : noise) byte = static_cast<std::byte>(random.below(256));
    static_cast<void>(!::send(others[i].get(), noise, sizeof noise, MSG_NOSIGNAL));
  }
  while (counter(*fabric[0], "connectionsRefused") < 50) {
    fabric[0]->poll(completions, 16, Effort::pass);
    CHECK(Clock::now() < end);
  }
  while (fabric[1]->connect(0) != Connect::ready) {
    fabric[0]->poll(completions, 16, Effort::pass);
    fabric[1]->poll(completions, 16, Effort::pass);
    CHECK(Clock::now() < end);
  }
  CHECK_EQ(counter(*fabric[0], "connectionsAccepted"), 1.0);
}

// --- ranks -----------------------------------------------------------------------------------------------------------

// What a round sends to one peer leaves by few system calls.
TEST(many_sends_of_one_round_are_gathered) {
  constexpr uint32_t kSends = 64;
  constexpr uint64_t kBytes = 100;
  run_tcp(2, mode(false), [](TestRank& me, Meeting& meeting) {
    // Connected before.
    me.rank == 0 ? me.send(me.filled(8, false, 1), 1, 1) : me.receive(me.plain(8), 0, 1);
    Schedule schedule(kSends * kBytes, kSends * kBytes);
    schedule.round();
    for (uint32_t i = 0; i < kSends; ++i) {
      if (me.rank == 0) schedule.send(1, Role::send, i * kBytes, kBytes);
      if (me.rank == 1) schedule.receive(0, Role::receive, i * kBytes, kBytes);
    }
    const auto plan = me.load(schedule);
    const Pinned in = me.plain(kSends * kBytes);
    const double frames = me.counter("framesSent");
    const double writes = me.counter("socketWrites");
    me.wait(me.start(plan, me.filled(kSends * kBytes, false, 5), in));
    if (me.rank == 1) check_data(in, 5);
    if (me.rank == 0) {
      CHECK(me.counter("framesSent") - frames >= kSends);
      CHECK((me.counter("framesSent") - frames) / (me.counter("socketWrites") - writes) >= 4);
    }
    meeting.meet();
  });
}

// LibOF is told 255 bytes for all. Twenty messages are more than a mailbox has room for.
TEST(a_message_up_to_the_limit_of_the_fabric_waits_for_nobody) {
  constexpr uint32_t kMessages = 20;
  for (const uint32_t limit : {0u, 100u, 15'320u, 15'321u, 32u * 1024, 65'535u}) {
    TcpJob job(2);
    TcpOptions tcp;
    tcp.eager_limit = limit;
    const auto make = [&](Rank rank) { return job.fabric(rank, tcp); };
    run_ranks_over(2, RankOptions{}, make, [&](TestRank& me, Meeting& meeting) {
      for (const size_t bytes : {size_t{limit}, size_t{limit} + 1}) {
        const double eager = me.counter("eagerSent");
        const double large = me.counter("dataSent");
        std::vector<Pinned> in(kMessages);
        std::vector<uint32_t> requests;
        if (me.rank == 0) {
          for (uint32_t i = 0; i < kMessages; ++i) requests.push_back(me.isend(me.filled(bytes, false, i), 1, i));
          // The others wait for room.
          if (bytes == limit) me.wait(std::exchange(requests[0], kNoRequest));
        }
        if (bytes == limit) meeting.meet();
        for (uint32_t i = kMessages; me.rank == 1 && i-- > 0;) {
          in[i] = me.plain(bytes);
          requests.push_back(me.irecv(in[i], 0, i));
        }
        for (const uint32_t request : requests) me.wait(request);
        for (uint32_t i = 0; me.rank == 1 && i < kMessages; ++i) check_data(in[i], i);
        const double sent = me.rank == 0 ? kMessages : 0;
        CHECK_EQ(me.counter("eagerSent") - eager, bytes == limit ? sent : 0);
        CHECK_EQ(me.counter("dataSent") - large, bytes == limit ? 0 : sent);
        meeting.meet();
      }
    });
  }
}

// Ranks that reach some peers with one limit and others with another.
TEST(peers_with_different_eager_limits) {
  TcpJob short_job(4);
  TcpJob long_job(4);
  const auto make = [&](Rank rank) { return beside_tcp(short_job.fabric(rank), long_job, rank, 65'535); };
  run_ranks_over(4, RankOptions{}, make, [&](TestRank& me, Meeting& meeting) {
    for (Rank distance = 0; distance < 4; ++distance) {
      const Rank peer = me.rank ^ distance;
      const bool eager = (me.rank + peer) % 2 == 0;
      const Pinned in = me.plain(20'000);
      const double before = me.counter("eagerSent");
      const uint32_t receive = me.irecv(in, peer, 1);
      me.send(me.filled(20'000, false, me.rank), peer, 1);
      me.wait(receive);
      check_data(in, peer);
      CHECK_EQ(me.counter("eagerSent") - before, eager ? 1 : 0);
      meeting.meet();
    }
    random_mix(me, 7, repetitions(300, 60));
  });
}

// A process that is killed in the middle of a large message.
TEST(a_rank_that_dies_fails_what_needs_it) {
  for (const bool sender_dies : {true, false}) {
    TcpJob job(2);
    int ready[2];
    CHECK(pipe(ready) == 0);
    const pid_t child = fork();
    CHECK(child >= 0);
    constexpr size_t kBytes = size_t{256} << 20;
    if (child == 0) {
      TcpOptions options;
      options.eager_limit = 255;
      job.listeners[0].reset();
      TestRank me(job.fabric(1, options), mode(true));
      const Pinned block = me.plain(kBytes);
      const uint32_t request = sender_dies ? me.isend(block, 0, 1) : me.irecv(block, 0, 1);
      while (me.counter(sender_dies ? "bytesSent" : "bytesReceived") < (8 << 20)) me.test(request);
      const char byte = 1;
      static_cast<void>(!::write(ready[1], &byte, 1));
      for (;;) pause();
    }
    job.listeners[1].reset();
    TestRank me(job.fabric(0), mode(true));
    const Pinned block = me.plain(kBytes);
    const uint32_t request = sender_dies ? me.irecv(block, 1, 1) : me.isend(block, 1, 1);
    char byte;
    CHECK(::read(ready[0], &byte, 1) == 1);
    ::kill(child, SIGKILL);
    if (!me.done(request)) CHECK_EQ(me.failure(request), Error::peer_closed);
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFSIGNALED(status));
    ::close(ready[0]);
    ::close(ready[1]);
  }
}

// Without a progress thread the sender does nothing, and the receiver takes the buffer back by itself.
TEST(a_buffer_is_taken_back_from_a_sender_that_does_nothing) {
  run_tcp(3, mode(false), [&](TestRank& me, Meeting& meeting) {
    for (const size_t block : {8, 5000, 3'000'000}) late_block(me, meeting, block, false, false);
  });
}

}  // namespace

TEST_MAIN(300)
