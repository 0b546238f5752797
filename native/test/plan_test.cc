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
  bool local;
};

// Every block of one side of a local element.
std::vector<Access> blocks_of(const Plan& plan, const Local& local, bool target) {
  const auto role = static_cast<uint32_t>(target ? local.to : local.from);
  std::vector<Access> blocks = {
      {role, target ? local.to_offset : local.from_offset, local.strided() ? local.block : local.bytes, target, true}};
  for (uint32_t d = local.dimension_first; d < local.dimension_last; ++d) {
    const Dimension& dimension = plan.dimensions[d];
    std::vector<Access> all;
    for (const Access& block : blocks) {
      for (uint64_t i = 0; i < dimension.count; ++i) {
        all.push_back(block);
        all.back().offset += i * (target ? dimension.to_stride : dimension.from_stride);
      }
    }
    blocks = std::move(all);
  }
  return blocks;
}

void apart(const Access& a, const Access& b) {
  CHECK(a.role != b.role || a.offset + a.bytes <= b.offset || b.offset + b.bytes <= a.offset);
}

// Checks by other means what the compiler promises. Schedules of few bytes: it looks at every block.
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
    CHECK_EQ(round.local_first, end.local_last);
    CHECK(round.receive_last >= round.receive_first && round.receive_last <= plan.receives.size());
    CHECK(round.send_last >= round.send_first && round.send_last <= plan.sends.size());
    CHECK(round.local_last >= round.local_first && round.local_last <= plan.locals.size());
    end = round;
    std::vector<Access> accesses;
    for (uint32_t i = round.receive_first; i < round.receive_last; ++i) {
      const Transfer& t = plan.receives[i];
      accesses.push_back({static_cast<uint32_t>(t.role), t.offset, t.bytes, true, false});
    }
    for (uint32_t i = round.send_first; i < round.send_last; ++i) {
      const Transfer& t = plan.sends[i];
      accesses.push_back({static_cast<uint32_t>(t.role), t.offset, t.bytes, false, false});
    }
    for (uint32_t i = round.local_first; i < round.local_last; ++i) {
      const Local& local = plan.locals[i];
      uint64_t written = 0;
      for (const bool target : {false, true}) {
        for (const Access& block : blocks_of(plan, local, target)) {
          inside(target ? local.to : local.from, block.offset, block.bytes);
          accesses.push_back(block);
          if (target) written += block.bytes;
        }
      }
      CHECK(local.bytes > 0);
      CHECK_EQ(local.bytes, written);
      CHECK_EQ(local.bytes % local.unit, 0u);
      CHECK_EQ(local.reduce != nullptr && local.strided(), false);
    }
    for (size_t a = 0; a < accesses.size(); ++a) {
      CHECK(!(accesses[a].writes && accesses[a].role == 0));
      for (size_t b = a + 1; b < accesses.size(); ++b) {
        if (accesses[a].bytes == 0 || accesses[b].bytes == 0) continue;
        if (accesses[a].role != accesses[b].role || !(accesses[a].writes || accesses[b].writes)) continue;
        if (accesses[a].local && accesses[b].local) continue;  // they run one after another
        CHECK(accesses[a].offset + accesses[a].bytes <= accesses[b].offset ||
              accesses[b].offset + accesses[b].bytes <= accesses[a].offset);
      }
    }
  }
  CHECK_EQ(end.receive_last, plan.receives.size());
  CHECK_EQ(end.send_last, plan.sends.size());
  CHECK_EQ(end.local_last, plan.locals.size());
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
  for (const Local& local : plan.locals) {
    const auto from = blocks_of(plan, local, false);
    const auto to = blocks_of(plan, local, true);
    for (size_t a = 0; a < to.size(); ++a) {
      for (size_t b = a + 1; b < to.size(); ++b) apart(to[a], to[b]);
      for (const Access& read : from) apart(to[a], read);
    }
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
  CHECK_EQ(plan.locals.size(), 1u);
  CHECK_EQ(plan.receives[0].peer, 3u);  // rank 1 of the communicator
  CHECK_EQ(plan.sends[0].peer, 5u);
  CHECK_EQ(plan.sends[1].peer, 7u);
  CHECK_EQ(plan.sends[1].offset, 500u);
  CHECK_EQ(plan.sends[1].sequence, 0u);
  CHECK_EQ(plan.sends[2].sequence, 1u);
  CHECK_EQ(plan.locals[0].bytes, 1000u);
  CHECK(plan.locals[0].to == kTemporary);
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
  CHECK_EQ(plan.locals.size(), 0u);
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
  for (const uint32_t op : {0u, 6u, 7u, 0x80000001u, UINT32_MAX}) {
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
    CHECK_EQ(refused_at(Schedule(8, 8).round().send(peer, kSend, 0, 8)), 10);
    CHECK_EQ(refused_at(Schedule(8, 8).round().receive(peer, kReceive, 0, 8)), 10);
  }
}

TEST(messages_to_oneself_are_refused) {
  CHECK_EQ(refused_at(Schedule(8, 8).round().send(kRank, kSend, 0, 8)), 10);
  CHECK_EQ(refused_at(Schedule(8, 8).round().receive(kRank, kReceive, 0, 8)), 10);
  CHECK_EQ(refused_at(Schedule(8, 8).round().send(kRank, kSend, 0, 0)), 10);
}

TEST(messages_may_go_to_oneself_but_there_is_one_each_way) {
  const auto compiles = [](const Schedule& schedule) {
    try {
      compile_schedule(schedule.words.data(), schedule.words.size(), kMembers, kRank, true);
      return true;
    } catch (const ScheduleError&) {
      return false;
    }
  };
  CHECK(compiles(Schedule(8, 8).round().send(kRank, kSend, 0, 8).receive(kRank, kReceive, 0, 8)));
  CHECK(!compiles(Schedule(8, 8).round().send(0, kSend, 0, 4).send(0, kSend, 4, 4)));
  CHECK(!compiles(Schedule(8, 8).round().receive(0, kReceive, 0, 4).round().receive(0, kReceive, 4, 4)));
  CHECK(!compiles(Schedule(8, 8).round().send(99, kSend, 0, 8)));
}

TEST(the_send_buffer_is_not_written) {
  CHECK_EQ(refused_at(Schedule(8, 8).round().receive(0, kSend, 0, 8)), 11);
  CHECK_EQ(refused_at(Schedule(8, 8).round().copy(kReceive, 0, kSend, 0, 8)), 13);
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
  // local elements run one after another
  CHECK(!refused(base().copy(kTemporary, 0, kReceive, 0, 10).copy(kReceive, 5, kTemporary, 50, 10)));
}

// --- reductions and strided copies -----------------------------------------------------------------------------------

constexpr Operator kEveryOperator[] = {Operator::sum,  Operator::prod, Operator::min,    Operator::max,
                                       Operator::land, Operator::lor,  Operator::lxor,   Operator::band,
                                       Operator::bor,  Operator::bxor, Operator::minloc, Operator::maxloc};

TEST(a_reduction_has_an_operator_that_its_type_has) {
  for (const Operator op : kEveryOperator) {
    for (uint32_t type = 0; type < kElementTypes; ++type) {
      const bool integer = type < static_cast<uint32_t>(ElementType::float16);
      const bool logic = op >= Operator::land && op <= Operator::bxor;
      Schedule schedule(160, 160);
      schedule.round().reduce(op, static_cast<ElementType>(type), kSend, 0, kReceive, 0, 160);
      CHECK_EQ(refused(schedule), !integer && logic);
      if (refused(schedule)) continue;
      const Plan plan = compile(schedule.words);
      check_plan(plan);
      CHECK(plan.locals[0].reduce == reduce_kernel(op, static_cast<ElementType>(type)));
      CHECK_EQ(plan.locals[0].unit, kTypeBytes[type] * (op >= Operator::minloc ? 2u : 1u));
    }
  }
  const auto sum = [](uint32_t op, uint32_t type) {
    return Schedule(8, 8).round().reduce(static_cast<Operator>(op), static_cast<ElementType>(type), kSend, 0, kReceive,
                                         0, 8);
  };
  CHECK_EQ(refused_at(sum(kOperators, 0)), 10);
  CHECK_EQ(refused_at(sum(UINT32_MAX, 0)), 10);
  CHECK_EQ(refused_at(sum(0, kElementTypes)), 11);
  Schedule order = sum(0, 0);
  order.words[12] = kOrders;
  CHECK_EQ(refused_at(order), 12);
}

TEST(rounds_know_their_longest_message) {
  const Plan plan = compile(valid().words);
  CHECK_EQ(plan.rounds.size(), 3u);
  CHECK_EQ(plan.rounds[0].longest, 4096u);
  CHECK_EQ(plan.rounds[1].longest, 0u);
  CHECK_EQ(plan.rounds[2].longest, 4096u);
}

TEST(a_function_reduces_only_where_one_is_given) {
  Schedule schedule(16, 16);
  schedule.round().reduce(Operator::user, ElementType::float64, kSend, 0, kReceive, 0, 16);
  CHECK_EQ(refused_at(schedule), 9);
  const Plan plan = compile_schedule(schedule.words.data(), schedule.words.size(), kMembers, kRank, false, true);
  CHECK(plan.locals[0].by_function);
  CHECK(plan.locals[0].type == ElementType::float64);
  CHECK_EQ(plan.rounds[0].local_cost, 0);
}

TEST(a_reduction_is_of_whole_elements_and_pairs) {
  const auto of = [](Operator op, ElementType type, uint64_t bytes) {
    return Schedule(64, 64).round().reduce(op, type, kSend, 0, kReceive, 1, bytes);
  };
  CHECK(!refused(of(Operator::sum, ElementType::int8, 7)));
  CHECK_EQ(refused_at(of(Operator::sum, ElementType::float16, 7)), 9);
  CHECK_EQ(refused_at(of(Operator::sum, ElementType::float64, 12)), 9);
  CHECK_EQ(refused_at(of(Operator::minloc, ElementType::int32, 12)), 9);
  CHECK(!refused(of(Operator::minloc, ElementType::int32, 16)));
}

TEST(a_reduction_does_not_read_what_it_writes) {
  const auto of = [](uint64_t from, uint64_t to) {
    return Schedule(0, 64).round().reduce(Operator::sum, ElementType::int8, kReceive, from, kReceive, to, 8);
  };
  CHECK_EQ(refused_at(of(0, 0)), 9);
  CHECK_EQ(refused_at(of(0, 7)), 9);
  CHECK_EQ(refused_at(of(7, 0)), 9);
  CHECK(!refused(of(0, 8)));
  CHECK_EQ(refused_at(of(0, 57)), 9);  // outside
  const auto beside = [](uint64_t received) {
    return Schedule(8, 64)
        .round()
        .reduce(Operator::sum, ElementType::int8, kSend, 0, kReceive, 8, 8)
        .receive(0, kReceive, received, 8);
  };
  CHECK_EQ(refused_at(beside(1)), 9);
  CHECK_EQ(refused_at(beside(15)), 9);
  CHECK(!refused(beside(0)));
  CHECK(!refused(beside(16)));
}

TEST(strided_copies_stay_inside) {
  const auto rows = [](uint64_t offset, uint64_t count, uint64_t stride, uint64_t block) {
    return Schedule(100, 100).round().strided(kSend, 0, kReceive, offset, block, {{count, 0, stride}});
  };
  CHECK(!refused(rows(0, 10, 10, 10)));
  CHECK(!refused(rows(2, 4, 30, 8)));
  CHECK_EQ(refused_at(rows(3, 4, 30, 8)), 9);
  CHECK_EQ(refused_at(rows(0, 5, 30, 8)), 9);
  CHECK_EQ(refused_at(rows(0, uint64_t{1} << 53, uint64_t{1} << 53, 8)), 9);
  CHECK_EQ(refused_at(rows(0, uint64_t{1} << 32, uint64_t{1} << 32, 1)), 9);
  CHECK_EQ(refused_at(rows(0, 3, 7, 8)), 9);  // blocks overlap
  CHECK_EQ(refused_at(rows(0, 3, 0, 8)), 9);
  CHECK(!refused(rows(0, 1, 0, 8)));
  CHECK(!refused(rows(0, 0, 1000, 8)));  // nothing
  CHECK(refused(rows(101, 0, 0, 8)));
  Schedule many(100, 100);
  many.round().strided(kSend, 0, kReceive, 0, 1, std::vector<Dimension>(kMaxDimensions + 1, {1, 1, 1}));
  CHECK_EQ(refused_at(many), 18);
  CHECK(!refused(
      Schedule(100, 100).round().strided(kSend, 0, kReceive, 0, 1, std::vector<Dimension>(kMaxDimensions, {1, 1, 1}))));
}

// The reduction that may be joined with the first receive of the schedule; kNobody: none.
uint32_t joined(const Schedule& schedule) { return compile(schedule.words).receives[0].combined_by; }

Schedule sum(Schedule schedule, Role from, Role to, uint64_t bytes = 1000) {
  return schedule.reduce(Operator::sum, ElementType::uint64, from, 0, to, 0, bytes);
}

// Received in one round, combined in the next one.
TEST(a_reduction_is_joined_with_its_receive_where_nothing_else_minds) {
  const auto received = [](Role role) { return Schedule(1000, 2000, 2000).round().receive(1, role, 0, 1000); };
  CHECK_EQ(joined(sum(received(kReceive).round(), kSend, kReceive)), 0u);
  CHECK_EQ(joined(sum(received(kTemporary).round(), kTemporary, kReceive)), 0u);
  // Not all of it, not alone, or not in the next round.
  CHECK_EQ(joined(sum(received(kReceive).round(), kSend, kReceive, 992)), kNobody);
  CHECK_EQ(joined(sum(received(kReceive).round(), kSend, kReceive).copy(kSend, 0, kReceive, 1000, 8)), kNobody);
  CHECK_EQ(joined(sum(received(kReceive).round().round(), kSend, kReceive)), kNobody);
  // The place of the result is still sent, or the other operand still comes.
  CHECK_EQ(joined(sum(received(kTemporary).send(3, kReceive, 992, 8).round(), kTemporary, kReceive)), kNobody);
  CHECK_EQ(joined(sum(received(kTemporary).send(3, kReceive, 1000, 8).round(), kTemporary, kReceive)), 0u);
  CHECK_EQ(joined(sum(received(kReceive).receive(3, kTemporary, 992, 8).round(), kTemporary, kReceive)), kNobody);
  CHECK_EQ(joined(sum(received(kReceive).send(3, kTemporary, 992, 8).round(), kTemporary, kReceive)), 0u);
  // What is received into the buffer of the user is what the user finds there.
  CHECK_EQ(joined(sum(received(kReceive).round(), kReceive, kTemporary)), kNobody);
}

// A message that is combined as it comes is not in temporary memory afterwards.
TEST(a_reduction_is_not_joined_where_the_message_is_read_again) {
  const auto combined = [] {
    return sum(Schedule(1000, 2000, 2000).round().receive(1, kTemporary, 0, 1000).round(), kTemporary, kReceive);
  };
  CHECK_EQ(joined(combined().round().copy(kTemporary, 992, kReceive, 1000, 8)), kNobody);
  CHECK_EQ(joined(combined().round().copy(kTemporary, 1000, kReceive, 1000, 8)), 0u);
  CHECK_EQ(joined(combined().send(3, kTemporary, 992, 8)), kNobody);
  CHECK_EQ(joined(combined().round().round().send(3, kTemporary, 0, 8)), kNobody);
  CHECK_EQ(joined(combined().round().reduce(Operator::sum, ElementType::uint64, kReceive, 0, kTemporary, 0, 8)),
           kNobody);
  const auto overwritten = [&](uint64_t offset, uint64_t bytes) {
    return combined().round().receive(1, kTemporary, offset, bytes).round().copy(kTemporary, 0, kReceive, 1000, 1000);
  };
  CHECK_EQ(joined(overwritten(0, 1000)), 0u);
  CHECK_EQ(joined(overwritten(0, 992)), kNobody);
  CHECK_EQ(joined(overwritten(8, 992)), kNobody);
  CHECK_EQ(joined(overwritten(8, 984)), kNobody);
}

TEST(blocks_that_are_neighbours_become_one) {
  const Plan plan = compile(
      Schedule(600, 600).round().strided(kSend, 0, kReceive, 0, 4, {{5, 100, 60}, {1, 7, 7}, {15, 4, 4}}).words);
  CHECK_EQ(plan.dimensions.size(), 1u);
  CHECK_EQ(plan.locals[0].block, 60u);
  CHECK_EQ(plan.locals[0].bytes, 300u);
  const Plan whole =
      compile(Schedule(600, 600).round().strided(kSend, 0, kReceive, 0, 4, {{5, 60, 60}, {15, 4, 4}}).words);
  CHECK_EQ(whole.dimensions.size(), 0u);
  CHECK_EQ(whole.locals[0].bytes, 300u);
}

// A column that is received between the columns that a strided copy writes.
TEST(transfers_fit_between_the_blocks_of_a_strided_copy) {
  const auto column = [](uint64_t first, uint64_t bytes) {
    return Schedule(100, 100)
        .round()
        .strided(kSend, 0, kReceive, 10, 4, {{3, 0, 30}, {2, 0, 8}})
        .receive(0, kReceive, first, bytes);
  };
  // Blocks begin at 10, 18, 40, 48, 70, 78.
  for (uint64_t first = 0; first < 100; ++first) {
    for (uint64_t bytes = 1; bytes <= std::min<uint64_t>(40, 100 - first); ++bytes) {
      bool meets = false;
      for (const uint64_t block : {10, 18, 40, 48, 70, 78}) meets |= first < block + 4 && block < first + bytes;
      CHECK_EQ(refused(column(first, bytes)), meets);
    }
  }
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
      const auto to_offset = wild ? interesting(random, limit) : random.below(200);
      switch (random.below(5)) {
        case 3:
          schedule.reduce(static_cast<Operator>(random.below(kOperators + wild)),
                          static_cast<ElementType>(random.below(kElementTypes + wild)), role, offset, to, to_offset,
                          bytes);
          break;
        case 4: {
          std::vector<Dimension> dimensions;
          for (uint32_t d = random.below(3); d > 0; --d) {
            const uint64_t count = wild && random.one_in(3) ? interesting(random, limit) : random.below(5);
            dimensions.push_back({count, random.below(80), wild ? interesting(random, 80) : random.below(80)});
          }
          schedule.strided(role, offset, to, to_offset, wild ? bytes : random.below(12), dimensions);
          break;
        }
        case 0:
          schedule.send(peer, role, offset, bytes);
          break;
        case 1:
          schedule.receive(peer, role, offset, bytes);
          break;
        default:
          schedule.copy(role, offset, to, to_offset, bytes);
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
