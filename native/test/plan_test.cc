// The validator of encoded schedules. Whatever words come in: it ends with a plan or a ScheduleError, and no plan that
// it lets through can touch memory outside its three buffers, write the send buffer, name a rank that is not there, or
// let two elements of a round collide.
#include <algorithm>
#include <memory>

#include "engine/plan.h"
#include "test/check.h"
#include "test/random.h"
#include "test/schedule.h"

namespace {

using namespace nbc;
using namespace nbc::check;

const std::vector<Rank> kMembers = {7, 3, 11, 5};  // world ranks of the communicator
constexpr Rank kRank = 2;                          // ours in it

constexpr Role kSend = Role::send;
constexpr Role kReceive = Role::receive;
constexpr Role kTemporary = Role::temporary;

// From memory that ends where the words end, so that reading on is an error that AddressSanitizer sees.
Plan compile(const std::vector<uint32_t>& words) {
  const std::unique_ptr<uint32_t[]> exact(new uint32_t[words.size()]);
  std::copy(words.begin(), words.end(), exact.get());
  return compile_schedule(exact.get(), words.size(), kMembers, kRank);
}

// The word that is complained about, or -1 if the schedule is accepted.
int64_t refused_at(const std::vector<uint32_t>& words) {
  try {
    compile(words);
    return -1;
  } catch (const ScheduleError& error) {
    CHECK(!error.reason.empty());
    CHECK(error.word <= words.size());
    return static_cast<int64_t>(error.word);
  }
}
int64_t refused_at(const Schedule& schedule) { return refused_at(schedule.words); }

bool refused(const Schedule& schedule) { return refused_at(schedule) >= 0; }

// A ring exchange with a copy and a temporary buffer: every kind of element.
Schedule valid() {
  Schedule schedule(4096, 8192, 1000);
  schedule.round().copy(kSend, 0, kTemporary, 0, 1000).receive(1, kReceive, 0, 4096).send(3, kSend, 0, 4096);
  schedule.round();
  schedule.round().send(0, kTemporary, 500, 500).send(0, kTemporary, 0, 600).receive(0, kReceive, 4096, 4096);
  return schedule;
}

struct Access {
  uint32_t role;
  uint64_t offset;
  uint64_t bytes;
  bool writes;
};

// Checks by other means what the compiler promises.
void check_plan(const Plan& plan) {
  using Wide = unsigned __int128;
  const auto inside = [&](Role role, uint64_t offset, uint64_t bytes) {
    CHECK(static_cast<uint32_t>(role) < kRoles);
    CHECK(static_cast<Wide>(offset) + bytes <= plan.role_bytes[static_cast<uint32_t>(role)]);
  };
  Round end{};
  for (const Round& round : plan.rounds) {
    CHECK_EQ(round.receive_first, end.receive_last);
    CHECK_EQ(round.send_first, end.send_last);
    CHECK_EQ(round.copy_first, end.copy_last);
    CHECK(round.receive_last >= round.receive_first && round.receive_last <= plan.receives.size());
    CHECK(round.send_last >= round.send_first && round.send_last <= plan.sends.size());
    CHECK(round.copy_last >= round.copy_first && round.copy_last <= plan.copies.size());
    end = round;
    std::vector<Access> accesses;
    for (uint32_t i = round.receive_first; i < round.receive_last; ++i) {
      const Transfer& t = plan.receives[i];
      accesses.push_back({static_cast<uint32_t>(t.role), t.offset, t.bytes, true});
    }
    for (uint32_t i = round.send_first; i < round.send_last; ++i) {
      const Transfer& t = plan.sends[i];
      accesses.push_back({static_cast<uint32_t>(t.role), t.offset, t.bytes, false});
    }
    for (uint32_t i = round.copy_first; i < round.copy_last; ++i) {
      const Copy& c = plan.copies[i];
      accesses.push_back({static_cast<uint32_t>(c.from), c.from_offset, c.bytes, false});
      accesses.push_back({static_cast<uint32_t>(c.to), c.to_offset, c.bytes, true});
    }
    for (size_t a = 0; a < accesses.size(); ++a) {
      CHECK(!(accesses[a].writes && accesses[a].role == 0));
      for (size_t b = a + 1; b < accesses.size(); ++b) {
        if (accesses[a].bytes == 0 || accesses[b].bytes == 0) continue;
        if (accesses[a].role != accesses[b].role || !(accesses[a].writes || accesses[b].writes)) continue;
        CHECK(accesses[a].offset + accesses[a].bytes <= accesses[b].offset ||
              accesses[b].offset + accesses[b].bytes <= accesses[a].offset);
      }
    }
  }
  CHECK_EQ(end.receive_last, plan.receives.size());
  CHECK_EQ(end.send_last, plan.sends.size());
  CHECK_EQ(end.copy_last, plan.copies.size());
  for (const auto* transfers : {&plan.receives, &plan.sends}) {
    std::vector<std::pair<Rank, uint32_t>> next;
    for (const Transfer& t : *transfers) {
      inside(t.role, t.offset, t.bytes);
      CHECK(std::find(kMembers.begin(), kMembers.end(), t.peer) != kMembers.end());
      CHECK(t.peer != kMembers[kRank]);
      const auto known =
          std::find_if(next.begin(), next.end(), [&](const auto& entry) { return entry.first == t.peer; });
      CHECK_EQ(t.sequence, known == next.end() ? 0u : known->second);
      if (known == next.end()) {
        next.emplace_back(t.peer, 1);
      } else {
        ++known->second;
      }
    }
  }
  for (const Copy& c : plan.copies) {
    inside(c.from, c.from_offset, c.bytes);
    inside(c.to, c.to_offset, c.bytes);
  }
}

TEST(valid_schedule_compiles_as_written) {
  const Plan plan = compile(valid().words);
  check_plan(plan);
  CHECK_EQ(plan.rounds.size(), 3u);
  CHECK_EQ(plan.role_bytes[0], 4096u);
  CHECK_EQ(plan.role_bytes[1], 8192u);
  CHECK_EQ(plan.role_bytes[2], 1000u);
  CHECK_EQ(plan.receives.size(), 2u);
  CHECK_EQ(plan.sends.size(), 3u);
  CHECK_EQ(plan.copies.size(), 1u);
  CHECK_EQ(plan.receives[0].peer, 3u);  // rank 1 of the communicator
  CHECK_EQ(plan.sends[0].peer, 5u);
  CHECK_EQ(plan.sends[1].peer, 7u);
  CHECK_EQ(plan.sends[1].offset, 500u);
  CHECK_EQ(plan.sends[1].sequence, 0u);
  CHECK_EQ(plan.sends[2].sequence, 1u);
  CHECK_EQ(plan.copies[0].bytes, 1000u);
  CHECK(plan.copies[0].to == kTemporary);
}

TEST(nothing_at_all_is_valid) {
  CHECK_EQ(compile(Schedule(0, 0).words).rounds.size(), 0u);
  CHECK_EQ(compile(Schedule(0, 0).round().words).rounds.size(), 1u);
}

// Only so do both ranks learn that one of them expects something else. A copy of nothing is left out.
TEST(zero_bytes_are_a_message_and_take_a_sequence_number) {
  Schedule schedule(10, 10);
  schedule.round()
      .send(0, kSend, 10, 0)
      .send(0, kSend, 0, 10)
      .receive(1, kReceive, 10, 0)
      .copy(kSend, 10, kReceive, 10, 0);
  const Plan plan = compile(schedule.words);
  check_plan(plan);
  CHECK_EQ(plan.sends.size(), 2u);
  CHECK_EQ(plan.sends[0].bytes, 0u);
  CHECK_EQ(plan.sends[1].sequence, 1u);
  CHECK_EQ(plan.receives.size(), 1u);
  CHECK_EQ(plan.copies.size(), 0u);
}

TEST(truncation_at_every_word_is_refused) {
  const std::vector<uint32_t> words = valid().words;
  CHECK_EQ(refused_at(words), -1);
  for (size_t count = 0; count < words.size(); ++count) {
    const std::vector<uint32_t> part(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(count));
    CHECK_EQ(refused_at(part), static_cast<int64_t>(count));
  }
}

TEST(words_left_over_are_refused) {
  std::vector<uint32_t> words = valid().words;
  words.push_back(0);
  CHECK_EQ(refused_at(words), static_cast<int64_t>(words.size()) - 1);
}

TEST(wrong_magic_is_refused) {
  std::vector<uint32_t> words = valid().words;
  words[0] ^= 1u << 24;
  CHECK_EQ(refused_at(words), 0);
}

TEST(more_rounds_than_words_are_refused) {
  std::vector<uint32_t> words = valid().words;
  words[1] = UINT32_MAX;
  CHECK_EQ(refused_at(words), static_cast<int64_t>(words.size()));
}

TEST(more_elements_than_words_are_refused) {
  Schedule schedule(8, 8);
  schedule.round().send(0, kSend, 0, 8);
  schedule.words[8] = UINT32_MAX;
  CHECK_EQ(refused_at(schedule), static_cast<int64_t>(schedule.words.size()));
}

TEST(unknown_elements_are_refused) {
  for (const uint32_t op : {0u, 4u, 5u, 0x80000001u, UINT32_MAX}) {
    Schedule schedule(8, 8);
    schedule.round().send(0, kSend, 0, 8);
    schedule.words[9] = op;
    CHECK_EQ(refused_at(schedule), 9);
  }
}

TEST(unknown_roles_are_refused) {
  for (const uint32_t role : {kRoles, kRoles + 1, UINT32_MAX}) {
    CHECK_EQ(refused_at(Schedule(8, 8).round().send(0, static_cast<Role>(role), 0, 8)), 11);
    CHECK_EQ(refused_at(Schedule(8, 8).round().receive(0, static_cast<Role>(role), 0, 8)), 11);
    CHECK_EQ(refused_at(Schedule(8, 8).round().copy(static_cast<Role>(role), 0, kReceive, 0, 8)), 10);
    CHECK_EQ(refused_at(Schedule(8, 8).round().copy(kSend, 0, static_cast<Role>(role), 0, 8)), 13);
  }
}

TEST(ranks_outside_the_communicator_are_refused) {
  for (const uint32_t peer : {4u, 11u, UINT32_MAX}) {
    CHECK_EQ(refused_at(Schedule(8, 8).round().send(peer, kSend, 0, 8)), 9);
    CHECK_EQ(refused_at(Schedule(8, 8).round().receive(peer, kReceive, 0, 8)), 9);
  }
}

TEST(messages_to_oneself_are_refused) {
  CHECK_EQ(refused_at(Schedule(8, 8).round().send(kRank, kSend, 0, 8)), 9);
  CHECK_EQ(refused_at(Schedule(8, 8).round().receive(kRank, kReceive, 0, 8)), 9);
  CHECK_EQ(refused_at(Schedule(8, 8).round().send(kRank, kSend, 0, 0)), 9);
}

TEST(the_send_buffer_is_not_written) {
  CHECK_EQ(refused_at(Schedule(8, 8).round().receive(0, kSend, 0, 8)), 9);
  CHECK_EQ(refused_at(Schedule(8, 8).round().copy(kReceive, 0, kSend, 0, 8)), 9);
  CHECK(!refused(Schedule(8, 8).round().send(0, kReceive, 0, 8)));  // sending what was received is what relaying is
}

TEST(ranges_outside_a_buffer_are_refused) {
  const uint64_t big = uint64_t{1} << 53;
  const struct {
    uint64_t offset, bytes;
  } ranges[] = {{0, 101},
                {1, 100},
                {100, 1},
                {101, 0},
                {big, big},
                {big, 1},
                {0, big},
                {UINT64_MAX, 1},
                {UINT64_MAX, 2},
                {1, UINT64_MAX},
                {UINT64_MAX, 0},
                {50, UINT64_MAX - 49},
                {UINT64_MAX - 49, 50},
                {0, UINT64_MAX},
                {uint64_t{1} << 63, uint64_t{1} << 63}};
  for (const auto& range : ranges) {
    for (const Role role : {kSend, kReceive, kTemporary}) {
      CHECK(refused(Schedule(100, 100, 100).round().send(0, role, range.offset, range.bytes)));
      CHECK(refused(Schedule(100, 100, 100).round().copy(role, range.offset, kReceive, 0, range.bytes)));
      if (role == kSend) continue;
      CHECK(refused(Schedule(100, 100, 100).round().receive(0, role, range.offset, range.bytes)));
      CHECK(refused(Schedule(100, 100, 100).round().copy(kSend, 0, role, range.offset, range.bytes)));
    }
  }
  CHECK(!refused(Schedule(100, 100, 100).round().send(0, kTemporary, 100, 0).receive(0, kReceive, 99, 1)));
  CHECK(refused(Schedule(0, 0, 0).round().send(0, kSend, 0, 1)));
}

TEST(buffers_above_2_to_the_53_bytes_are_refused) {
  const uint64_t big = uint64_t{1} << 53;
  CHECK(!refused(Schedule(big, big, big)));
  CHECK_EQ(refused_at(Schedule(big + 1, 0, 0)), 2);
  CHECK_EQ(refused_at(Schedule(0, UINT64_MAX, 0)), 4);
  CHECK_EQ(refused_at(Schedule(0, 0, uint64_t{1} << 63)), 6);
}

TEST(elements_of_a_round_must_not_collide) {
  const auto base = [] { return Schedule(100, 100, 100).round(); };
  // write and write, write and read, in both orders, nested, touching at one byte, the same element twice
  CHECK(refused(base().receive(0, kReceive, 0, 10).receive(1, kReceive, 9, 10)));
  CHECK(refused(base().receive(0, kReceive, 9, 10).receive(1, kReceive, 0, 10)));
  CHECK(refused(base().receive(0, kReceive, 0, 100).send(1, kReceive, 50, 1)));
  CHECK(refused(base().send(1, kReceive, 0, 100).receive(0, kReceive, 50, 1)));
  CHECK(refused(base().send(1, kReceive, 99, 1).send(1, kReceive, 0, 10).receive(0, kReceive, 5, 95)));
  CHECK(refused(base().receive(0, kReceive, 0, 10).receive(0, kReceive, 0, 10)));
  CHECK(refused(base().copy(kSend, 0, kReceive, 0, 10).receive(0, kReceive, 9, 1)));
  CHECK(refused(base().copy(kReceive, 0, kTemporary, 0, 10).receive(0, kReceive, 9, 1)));
  CHECK(refused(base().copy(kReceive, 0, kReceive, 5, 10)));  // memcpy onto itself
  CHECK(refused(base().copy(kTemporary, 0, kReceive, 0, 10).copy(kReceive, 5, kTemporary, 50, 10)));
  // a wide read before many small ones must not be forgotten
  CHECK(refused(base()
                    .send(0, kTemporary, 0, 100)
                    .send(0, kTemporary, 1, 1)
                    .send(0, kTemporary, 2, 1)
                    .receive(0, kTemporary, 60, 1)));
  // the same bytes in the next round, the same offsets in another buffer, reads of the same bytes, neighbours: all fine
  CHECK(!refused(base().receive(0, kReceive, 0, 10).round().receive(0, kReceive, 0, 10)));
  CHECK(!refused(base().receive(0, kReceive, 0, 10).receive(0, kTemporary, 0, 10)));
  CHECK(!refused(base().send(0, kSend, 0, 10).send(1, kSend, 0, 10).copy(kSend, 5, kReceive, 0, 10)));
  CHECK(!refused(base().receive(0, kReceive, 0, 10).receive(1, kReceive, 10, 10).send(1, kReceive, 20, 10)));
  CHECK(!refused(base().copy(kReceive, 0, kReceive, 10, 10)));
}

// --- fuzz ------------------------------------------------------------------------------------------------------------

uint64_t interesting(Random& random, uint64_t limit) {
  switch (random.below(8)) {
    case 0:
      return 0;
    case 1:
      return limit;
    case 2:
      return limit + 1;
    case 3:
      return UINT64_MAX - random.below(4);
    case 4:
      return uint64_t{1} << random.below(64);
    default:
      return limit == 0 ? 0 : random.next() % limit;
  }
}

Schedule random_schedule(Random& random, bool wild) {
  const uint64_t sizes[kRoles] = {random.below(300), random.below(300), random.below(300)};
  Schedule schedule(sizes[0], sizes[1], sizes[2]);
  for (uint32_t rounds = random.below(4); rounds > 0; --rounds) {
    schedule.round();
    for (uint32_t elements = random.below(5); elements > 0; --elements) {
      const auto role = static_cast<Role>(random.below(kRoles));
      const auto to = static_cast<Role>(1 + random.below(kRoles - 1));
      const uint64_t limit = sizes[static_cast<uint32_t>(role)];
      const uint64_t offset = wild ? interesting(random, limit) : random.below(static_cast<uint32_t>(limit) + 1);
      const uint64_t bytes =
          wild ? interesting(random, limit) : random.below(static_cast<uint32_t>(limit - offset) / 8 + 1);
      const uint32_t peer = wild ? random.below(5) : "\0\1\3"[random.below(3)];
      switch (random.below(3)) {
        case 0:
          schedule.send(peer, role, offset, bytes);
          break;
        case 1:
          schedule.receive(peer, role, offset, bytes);
          break;
        default:
          schedule.copy(role, offset, to, wild ? interesting(random, limit) : random.below(200), bytes);
      }
    }
  }
  return schedule;
}

void mutate(Random& random, std::vector<uint32_t>& words) {
  for (uint32_t n = 1 + random.below(3); n > 0 && !words.empty(); --n) {
    const size_t at = random.below(static_cast<uint32_t>(words.size()));
    switch (random.below(7)) {
      case 0:
        words[at] = static_cast<uint32_t>(random.next());
        break;
      case 1:
        words[at] ^= 1u << random.below(32);
        break;
      case 2:
        words[at] += random.below(3) - 1;
        break;
      case 3:
        words[at] = UINT32_MAX - random.below(2);
        break;
      case 4:
        words.resize(at);
        break;
      case 5:
        words.insert(words.begin() + static_cast<std::ptrdiff_t>(at), random.below(4));
        break;
      default:
        words.erase(words.begin() + static_cast<std::ptrdiff_t>(at));
    }
  }
}

TEST(fuzz_mutations_of_schedules) {
  Random random(1);
  uint32_t accepted = 0;
  const uint32_t total = repetitions(400'000, 60'000);
  for (uint32_t i = 0; i < total; ++i) {
    std::vector<uint32_t> words = random_schedule(random, random.one_in(3)).words;
    if (!random.one_in(4)) mutate(random, words);
    try {
      const Plan plan = compile(words);
      ++accepted;
      check_plan(plan);
    } catch (const ScheduleError& error) {
      CHECK(error.word <= words.size());
    }
  }
  // Otherwise this test would test nothing.
  CHECK(accepted > total / 50 && accepted < total - total / 4);
}

TEST(fuzz_random_words) {
  Random random(2);
  for (uint32_t i = 0; i < repetitions(200'000, 40'000); ++i) {
    std::vector<uint32_t> words = Schedule(64, 64, 64).words;
    words[1] = 1 + random.below(3);
    for (uint32_t n = random.below(30); n > 0; --n)
      words.push_back(random.one_in(8) ? static_cast<uint32_t>(random.next()) : random.below(5));
    try {
      check_plan(compile(words));
    } catch (const ScheduleError& error) {
      CHECK(error.word <= words.size());
    }
  }
}

}  // namespace

TEST_MAIN(60)
