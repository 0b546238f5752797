// The TCP fabric on loopback: ranks are threads, or processes where one has to die.
#include <cerrno>
#include <chrono>
#include <csignal>
#include <netinet/in.h>
#include <sys/wait.h>
#include <thread>

#include "test/check.h"
#include "test/fabrics.h"
#include "test/mix.h"
#include "test/ranks.h"
#include "test/town.h"

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
  explicit Pair(Town town = Town(2), const TcpOptions& options = {}) : Fabrics(both(town, options)) {}
  static std::vector<std::unique_ptr<TcpFabric>> both(Town& town, const TcpOptions& options) {
    std::vector<std::unique_ptr<TcpFabric>> made;
    for (Rank rank = 0; rank < 2; ++rank) made.push_back(town.fabric(rank, options));
    return made;
  }
};

void run_tcp(Rank count, const RankOptions& options, const std::function<void(TestRank&, Meeting&)>& body) {
  Town town(count);
  const auto make = [&](Rank rank) {
    TcpOptions tcp;
    tcp.eager_limit = options.eager_limit;
    return town.fabric(rank, tcp);
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
  Pair pair;
  pair.connect();
  const Mailbox out = pair.fabric[0]->outbox(1);
  for (const size_t bytes : {size_t{4}, size_t{64}, size_t{65}, size_t{4096}, size_t{15'000}}) {
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

// Both send much more than sockets hold before either reads.
TEST(both_ends_send_at_once_without_reading) {
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
  Town town(3);
  std::unique_ptr<TcpFabric> fabric[3];
  for (Rank rank = 0; rank < 3; ++rank) fabric[rank] = town.fabric(rank);
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
  constexpr size_t kBytes = size_t{64} << 20;
  std::vector<std::byte> from(kBytes);
  std::vector<std::byte> to[3];
  ExposedBuffer exposed[3];
  int cookies[3];
  for (const Rank rank : {1u, 2u}) {
    to[rank].resize(kBytes);
    CHECK(fabric[rank]->expose(0, {to[rank].data(), kBytes, nullptr}, exposed[rank]));
    fabric[0]->put(rank, exposed[rank], {from.data(), kBytes, nullptr}, 1, Error::none, &cookies[rank]);
  }
  const auto done = [&](Rank rank) {
    return std::any_of(seen[0].begin(), seen[0].end(), [&](const Completion& c) { return c.cookie == &cookies[rank]; });
  };
  // Rank 1 never looks.
  while (!done(2)) {
    pass(0);
    pass(2);
  }
  for (int i = 0; i < 100; ++i) pass(0);
  CHECK(!done(1));
  while (!done(1)) {
    pass(0);
    pass(1);
  }
}

// --- who is let in ---------------------------------------------------------------------------------------------------

TEST(two_that_connect_at_once_make_one_connection_and_keep_the_order) {
  const uint32_t rounds = repetitions(1000, 100);
  for (uint32_t round = 0; round < rounds; ++round) {
    Town town(2);
    Meeting meeting(2);
    run_threads(2, [&](Rank rank) {
      const auto fabric = town.fabric(rank);
      meeting.meet();
      if (round % 3 == rank) sched_yield();
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
    });
  }
}

TEST(a_rank_with_another_secret_gets_an_error_and_does_no_harm) {
  Town town(2);
  std::unique_ptr<TcpFabric> fabric[2];
  fabric[0] = town.fabric(0);
  town.secret = "of another job";
  fabric[1] = town.fabric(1);
  const auto end = Clock::now() + milliseconds(20'000);
  Connect verdict;
  Completion completions[16];
  while ((verdict = fabric[1]->connect(0)) == Connect::later && Clock::now() < end) {
    fabric[0]->poll(completions, 16, Effort::pass);
    fabric[1]->poll(completions, 16, Effort::pass);
  }
  CHECK(verdict == Connect::broken);
  CHECK(fabric[1]->why(0).find("secret") != std::string::npos);
  // It calls a second time, since the first may have been cut off by one that closes.
  CHECK_EQ(counter(*fabric[0], "connectionsRefused"), 2.0);
}

TEST(other_settings_are_refused_on_both_sides) {
  Town town(2);
  TcpOptions options[2];
  options[0].eager_limit = 255;
  options[1].eager_limit = 4096;
  std::unique_ptr<TcpFabric> fabric[2];
  for (Rank rank = 0; rank < 2; ++rank) fabric[rank] = town.fabric(rank, options[rank]);
  const auto end = Clock::now() + milliseconds(20'000);
  Completion completions[16];
  while (fabric[1]->connect(0) == Connect::later || fabric[0]->connect(1) == Connect::later) {
    for (const auto& each : fabric) each->poll(completions, 16, Effort::pass);
    CHECK(Clock::now() < end);
  }
  for (Rank rank = 0; rank < 2; ++rank) {
    CHECK(fabric[rank]->connect(1 - rank) == Connect::refused);
    CHECK(fabric[rank]->why(1 - rank).find(rank == 0 ? "eagerLimit 4096" : "eagerLimit 255") != std::string::npos);
  }
}

// Somebody else's bytes, too many callers, and callers who say nothing: closed, counted, and ranks still find each other.
TEST(strangers_are_closed_and_counted) {
  Town town(2);
  TcpOptions options;
  options.handshake_milliseconds = 50;
  options.strangers = 8;
  const tcp::Address address = town.addresses[0];
  std::unique_ptr<TcpFabric> fabric[2];
  for (Rank rank = 0; rank < 2; ++rank) fabric[rank] = town.fabric(rank, options);
  std::vector<tcp::Socket> strangers;
  Random random(1);
  for (int i = 0; i < 50; ++i) {
    strangers.push_back(tcp::begin_connect(address));
    CHECK(static_cast<bool>(strangers.back()));
  }
  Completion completions[16];
  const auto end = Clock::now() + milliseconds(20'000);
  for (size_t i = 0; i < strangers.size(); i += 2) {
    fabric[0]->poll(completions, 16, Effort::pass);
    std::byte noise[100];
    for (std::byte& byte : noise) byte = static_cast<std::byte>(random.below(256));
    static_cast<void>(!::send(strangers[i].get(), noise, sizeof noise, MSG_NOSIGNAL));
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

TEST(messages_of_every_size) {
  for (const bool progress_thread : {true, false}) {
    run_tcp(2, mode(progress_thread), [](TestRank& me, Meeting&) {
      exchange(me, {0, 1, 255, 256, 4096, 65'535, 65'536, 300'001, size_t{4} << 20});
    });
  }
}

TEST(everything_at_once_on_four_ranks) {
  for (const bool progress_thread : {true, false}) {
    run_tcp(4, mode(progress_thread), [](TestRank& me, Meeting&) { random_mix(me, 7, repetitions(300, 60)); });
  }
}

// Nobody tests: the progress thread does it all, and the first look finds it done.
TEST(goes_on_by_itself) {
  run_tcp(2, mode(true), [](TestRank& me, Meeting& meeting) {
    constexpr size_t kBlock = size_t{4} << 20;
    const Pinned out = me.plain(2 * kBlock);
    fill(out.data + (1 - me.rank) * kBlock, kBlock, me.rank);
    const Pinned in = me.plain(2 * kBlock);
    const auto plan = me.load(alltoall(me.rank, 2, kBlock));
    me.wait(me.start(plan, out, in));
    meeting.meet();
    const uint32_t request = me.start(plan, out, in);
    const auto end = Clock::now() + milliseconds(20'000);
    while (!me.done(request)) CHECK(Clock::now() < end);
    me.finish(request);
    CHECK_EQ(first_difference(in.data + (1 - me.rank) * kBlock, kBlock, 1 - me.rank), kBlock);
  });
}

TEST(a_sleeping_rank_is_called_by_one_that_connects) {
  run_tcp(2, mode(true), [](TestRank& me, Meeting& meeting) {
    if (me.rank == 0) {
      // Sleeps, and has named nobody.
      meeting.meet();
      std::this_thread::sleep_for(milliseconds(20));
      meeting.meet();
      const Pinned in = me.plain(8);
      me.receive(in, 1, 1);
      check_data(in, 3);
    } else {
      meeting.meet();
      // Done without rank 0's doing anything: its progress thread answers.
      me.send(me.filled(8, false, 3), 0, 1);
      meeting.meet();
    }
  });
}

TEST(a_rank_that_closes_fails_what_needs_it) {
  run_tcp(3, mode(true), [](TestRank& me, Meeting& meeting) {
    const Pinned block = me.plain(100'000);
    if (me.rank == 0) {
      me.send(me.filled(8, false, 1), 1, 1);
      me.send(me.filled(8, false, 1), 2, 1);
      meeting.meet();
      me.close();
    } else {
      const Pinned in = me.plain(8);
      me.receive(in, 0, 1);
      const uint32_t never = me.irecv(block, 0, 2);
      const uint32_t other = me.irecv(in, 3 - me.rank, 3);
      meeting.meet();
      CHECK_EQ(me.failure(never), Error::peer_closed);
      me.send(me.filled(8, false, me.rank), 3 - me.rank, 3);
      me.wait(other);
      check_data(in, 3 - me.rank);
    }
  });
}

// A process that is killed in the middle of a large message.
TEST(a_rank_that_dies_fails_what_needs_it) {
  for (const bool sender_dies : {true, false}) {
    Town town(2);
    int ready[2];
    CHECK(pipe(ready) == 0);
    const pid_t child = fork();
    CHECK(child >= 0);
    constexpr size_t kBytes = size_t{256} << 20;
    if (child == 0) {
      TcpOptions options;
      options.eager_limit = 255;
      town.listeners[0].reset();
      TestRank me(town.fabric(1, options), mode(true));
      const Pinned block = me.plain(kBytes);
      const uint32_t request = sender_dies ? me.isend(block, 0, 1) : me.irecv(block, 0, 1);
      while (me.counter(sender_dies ? "bytesSent" : "bytesReceived") < (8 << 20)) me.test(request);
      const char byte = 1;
      static_cast<void>(!::write(ready[1], &byte, 1));
      for (;;) pause();
    }
    town.listeners[1].reset();
    TestRank me(town.fabric(0), mode(true));
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

}  // namespace

TEST_MAIN(120)
