// How verbs ranks on several machines exchange cards: over sockets, so no device is needed. Fabrics over them are in
// verbs_test.
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "fabric/cards/socket_bootstrap.h"
#include "test/check.h"
#include "test/tcp_job.h"

namespace {

using namespace nbc;
using namespace nbc::check;
using cards::CardState;
using cards::SocketBootstrap;
using cards::Standing;

std::unique_ptr<SocketBootstrap> bootstrap(TcpJob& job, Rank rank, uint32_t eager_limit = 255) {
  TcpOptions options;
  options.eager_limit = eager_limit;
  return std::make_unique<SocketBootstrap>(job.description(rank), options, "verbs");
}

std::string card_of(Rank rank) { return "card of rank " + std::to_string(rank); }

// All ranks look, as their fabrics do when they are called, until `done`.
template <typename Done>
void look_until(const std::vector<SocketBootstrap*>& ranks, Done&& done) {
  while (!done()) {
    for (SocketBootstrap* rank : ranks) {
      if (rank->called()) rank->forget_calls();
    }
    std::this_thread::yield();
  }
}

CardState state_of(SocketBootstrap& at, Rank peer) {
  std::string_view card;
  return at.look(peer, card);
}

TEST(cards_travel_both_ways_whoever_begins) {
  for (const int who : {0, 1, 2}) {
    TcpJob job(2);
    const auto zero = bootstrap(job, 0);
    const auto one = bootstrap(job, 1);
    CHECK(zero->standing(1) == Standing::absent);
    // 2: both at once.
    if (who != 1) zero->publish(1, card_of(0), CardState::offered);
    if (who != 0) one->publish(0, card_of(1), CardState::offered);
    if (who == 0) {
      look_until({zero.get(), one.get()}, [&] { return state_of(*one, 0) == CardState::offered; });
      one->publish(0, card_of(1), CardState::offered);
    } else if (who == 1) {
      look_until({zero.get(), one.get()}, [&] { return state_of(*zero, 1) == CardState::offered; });
      zero->publish(1, card_of(0), CardState::offered);
    }
    zero->publish(1, card_of(0), CardState::ready);
    one->publish(0, card_of(1), CardState::ready);
    look_until({zero.get(), one.get()},
               [&] { return state_of(*zero, 1) == CardState::ready && state_of(*one, 0) == CardState::ready; });
    std::string_view card;
    zero->look(1, card);
    CHECK_EQ(card, card_of(1));
    CHECK(zero->standing(1) == Standing::open);
    CHECK(!zero->called());
  }
}

TEST(a_card_makes_the_descriptor_readable_until_it_is_drained) {
  TcpJob job(2);
  const auto zero = bootstrap(job, 0);
  const auto one = bootstrap(job, 1);
  const auto readable = [&](int milliseconds) {
    pollfd set{one->descriptor(), POLLIN, 0};
    return ::poll(&set, 1, milliseconds) > 0;
  };
  zero->publish(1, card_of(0), CardState::offered);
  // Nobody calls called(): it looks at the sockets itself now and then.
  while (state_of(*one, 0) != CardState::offered) {
    if (zero->called()) zero->forget_calls();
    if (!readable(1)) continue;
    one->drain();
    CHECK(one->called());
    one->forget_calls();
  }
  one->drain();
  CHECK(!readable(0));
  CHECK(!one->called());
}

TEST(the_end_of_a_process_is_seen_and_a_closed_rank_too) {
  TcpJob job(3);
  const auto zero = bootstrap(job, 0);
  const pid_t child = fork();
  if (child == 0) {
    const auto one = bootstrap(job, 1);
    one->publish(0, card_of(1), CardState::offered);
    for (;;) {
      if (one->called()) one->forget_calls();
    }
  }
  job.listeners[1] = {};  // the child's only
  look_until({zero.get()}, [&] { return state_of(*zero, 1) == CardState::offered; });
  CHECK(!zero->is_ending(1));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  look_until({zero.get()}, [&] { return zero->standing(1) == Standing::gone; });
  CHECK(zero->is_ending(1));
  CHECK(zero->refusal(1).empty());
  // One that has closed before this rank asks.
  bootstrap(job, 2)->close();
  zero->publish(2, card_of(0), CardState::offered);
  look_until({zero.get()}, [&] { return zero->standing(2) == Standing::gone; });
}

TEST(another_eager_limit_is_told) {
  TcpJob job(3);
  const auto zero = bootstrap(job, 0);
  const auto two = bootstrap(job, 2, 500);
  two->publish(0, card_of(2), CardState::offered);
  look_until({zero.get(), two.get()}, [&] { return !two->refusal(0).empty(); });
  CHECK(two->refusal(0).find("eagerLimit") != std::string::npos);
  CHECK(two->verdict(0) == Connect::refused);
}

TEST(what_is_no_card_ends_the_connection) {
  const std::string too_long(cards::kMostCard + 1, 'x');
  for (const bool of_state : {false, true}) {
    TcpJob job(2);
    const auto zero = bootstrap(job, 0);
    const auto one = bootstrap(job, 1);
    if (of_state) {
      one->publish(0, card_of(1), static_cast<CardState>(9));
    } else {
      one->publish(0, too_long, CardState::offered);
    }
    look_until({zero.get(), one.get()}, [&] { return !zero->refusal(1).empty(); });
    CHECK(zero->verdict(1) == Connect::broken);
    CHECK(state_of(*zero, 1) == CardState::none);
  }
}

// What the first one names may be in use.
TEST(the_first_card_of_a_rank_holds) {
  TcpJob job(2);
  const auto zero = bootstrap(job, 0);
  const auto one = bootstrap(job, 1);
  one->publish(0, "first", CardState::offered);
  one->publish(0, "another", CardState::ready);
  look_until({zero.get(), one.get()}, [&] { return state_of(*zero, 1) == CardState::ready; });
  std::string_view card;
  zero->look(1, card);
  CHECK_EQ(card, "first");
}

}  // namespace

TEST_MAIN(60)
